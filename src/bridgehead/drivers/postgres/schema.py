"""The tables of the journal, in a schema of their own. Times are the server's: the clocks of controllers decide nothing."""

from __future__ import annotations

from typing import Any, Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

VERSION: Final = 1
_TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS bridgehead;
CREATE TABLE bridgehead.format (version integer NOT NULL);
CREATE TABLE bridgehead.runs (run text PRIMARY KEY, number bigint GENERATED ALWAYS AS IDENTITY UNIQUE);
CREATE TABLE bridgehead.events (
    run text NOT NULL REFERENCES bridgehead.runs, seq bigint NOT NULL, payload bytea NOT NULL,
    previous text NOT NULL, hash text NOT NULL, signature text NOT NULL, key_id text NOT NULL,
    PRIMARY KEY (run, seq)
);
CREATE TABLE bridgehead.leases (
    run text PRIMARY KEY REFERENCES bridgehead.runs, epoch bigint NOT NULL,
    host text, pid bigint, started text, seen timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE FUNCTION bridgehead.append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$;
CREATE TRIGGER events_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON bridgehead.events
    EXECUTE FUNCTION bridgehead.append_only();
INSERT INTO bridgehead.format VALUES (1);
"""
_MAKING: Final = 0x6272_6964
"""Key of the lock under which one of several controllers makes the tables."""


def make_tables(db: Any, *, subject: str) -> None:
    """Make them when they are not there. Raises JOURNAL_DAMAGED for those of a newer version, and what psycopg raises."""
    version = _version(db)
    if version is None:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            if _version(db) is None:  # nobody was quicker
                db.execute(_TABLES)
        version = _version(db)
    if version != VERSION:
        raise BridgeheadError(
            ErrorCode.JOURNAL_DAMAGED,
            tried="open the journal",
            subject=subject,
            happened=f"it was written by a newer Bridgehead (format {version}, this one knows {VERSION})",
            remedy="Use that version.",
        )


def _version(db: Any) -> int | None:
    if db.execute("SELECT to_regclass('bridgehead.format')").fetchone()[0] is None:
        return None
    row = db.execute("SELECT version FROM bridgehead.format").fetchone()
    return None if row is None else int(row[0])
