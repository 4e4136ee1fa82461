"""SQLite driver: the journal of one machine."""

from bridgehead.drivers.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
