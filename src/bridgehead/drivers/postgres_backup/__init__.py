"""PostgreSQL driver of the quiesce port: writers wait for a moment, a snapshot is exported, pg_dump copies it while they go on."""

from bridgehead.drivers.postgres_backup.quiesce import PostgresQuiesce

__all__ = ["PostgresQuiesce"]
