"""PostgreSQL driver: the journal of controllers on several machines."""

from bridgehead.drivers.postgres.journal import PostgresJournal
from bridgehead.drivers.postgres.session import is_postgres_url

__all__ = ["PostgresJournal", "is_postgres_url"]
