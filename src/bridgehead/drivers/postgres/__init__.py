"""PostgreSQL driver: the journal of controllers on several machines."""

from bridgehead.drivers.postgres.journal import PostgresJournal
from bridgehead.drivers.postgres.session import shown

__all__ = ["PostgresJournal", "shown"]
