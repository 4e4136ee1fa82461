"""SQLite driver of the quiesce port: a child holds the write lock for a moment and copies the file by SQLite's own backup."""

from bridgehead.drivers.sqlite_backup.quiesce import SqliteQuiesce

__all__ = ["SqliteQuiesce"]
