"""PostgresQuiesce: the quiesce port on PostgreSQL.

Two connections: one locks all tables in SHARE mode, so that who writes has committed before and who wants to write waits; the other one
opens a REPEATABLE READ transaction meanwhile and exports its snapshot. Then the lock goes, and pg_dump copies the snapshot.

The hold ends by itself because its transaction is idle: the server ends it (``idle_in_transaction_session_timeout``), whatever became of
this process. A process that dies closes its connections, which ends it at once.

Why pg_dump and not a base backup (``pg_backup_start``): a base backup is of the whole server, wants the rights and the files of it, and is
right only at its end, together with its log: it cannot be made to agree with other stores at one moment by a pause of milliseconds.

What it does not give: a database that is held says nothing of a write that an application splits into two transactions; only the
application can finish that (a hook). Tables that are made while it is held may be written. Sequences may be ahead of the rows. Roles,
tablespaces and settings of the server are not in a dump (``pg_dumpall --globals-only`` in a hook), nor is the log of changes after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridgehead.drivers.postgres_backup.connection import connect, errors, limit_idle
from bridgehead.drivers.postgres_backup.dump import Dump
from bridgehead.drivers.postgres_backup.programs import program
from bridgehead.host.scratch import remove_scratch, scratch_folder
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.model.recovery import Database
from bridgehead.ports.quiesce import Copied, Held, HoldKey, Released

if TYPE_CHECKING:
    import psycopg

EXPORT_LIMIT_S: Final = 600.0
"""So long, an exported snapshot waits for its pg_dump; the server ends it then."""
_TABLES: Final = """
SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1
"""
_STATE: Final = "SELECT pg_export_snapshot(), pg_current_wal_lsn()::text, current_setting('server_version'), current_database()"
_RIGHTS: Final = """
SELECT t FROM unnest(%s::text[]) AS t WHERE NOT has_table_privilege(t, 'SELECT') OR NOT has_table_privilege(t, 'UPDATE, DELETE, TRUNCATE')
"""
_TRIES: Final = 5


class _Pair:
    """The two connections, made before anybody is made to wait: ``locker`` keeps writers waiting, ``keeper`` exports the snapshot."""

    def __init__(self, database: Database, password: str) -> None:
        self.locker = connect(database, password=password)
        try:
            self.keeper = connect(database, password=password)
        except BaseException:
            self.locker.close()
            raise

    @property
    def is_open(self) -> bool:
        """Neither is known to be lost."""
        return not (self.locker.closed or self.keeper.closed)

    def close(self) -> None:
        """End both."""
        for connection in (self.locker, self.keeper):
            with suppress(Exception):
                connection.close()


class _Hold:
    """One hold. ``locker`` None: it was released; ``keeper`` None: the copy is made."""

    def __init__(self, pair: _Pair, held: Held, folder: Path, began_s: float) -> None:
        self.locker: psycopg.Connection[Any] | None = pair.locker
        self.keeper: psycopg.Connection[Any] | None = pair.keeper
        self.held, self.folder, self.began_s = held, folder, began_s
        self.dump: Dump | None = None

    def close(self) -> None:
        for connection in (self.locker, self.keeper):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
        if self.dump is not None:
            self.dump.end()
            remove_scratch(self.dump.file.parent)


class PostgresQuiesce:
    """Implements :class:`bridgehead.ports.quiesce.Quiesce`.

    Args:
        secret: fetches what a ``secret://`` reference names.
    """

    def __init__(self, *, secret: Callable[[str], str]) -> None:
        self._secret = secret
        self._holds: dict[tuple[str, HoldKey], _Hold] = {}
        self._warm: dict[str, _Pair] = {}
        self._lock = threading.Lock()

    def check(self, database: Database) -> dict[str, str]:
        """See the port."""
        tried = "see whether a database can be held"
        for name in ("pg_dump", "pg_restore"):
            program(name)
        with errors(tried, database):
            pair = self._pair(database)
            db = pair.locker
            tables = _tables(db)
            row = db.execute("SELECT current_setting('server_version'), pg_database_size(current_database())").fetchone()
            assert row is not None
            refused = [str(one[0]) for one in db.execute(_RIGHTS, (tables,))]
            self._keep_warm(database, pair)
            if refused:
                happened = f"this user may not lock and read {', '.join(refused[:3])}{' and others' if len(refused) > 3 else ''}"
                remedy = "Grant SELECT and UPDATE on all tables to this user, or let their owner do it."
                raise Permanent(happened, tried=tried, subject=database.id, remedy=remedy)
        return {"engine": f"PostgreSQL {row[0]}", "tables": str(len(tables)), "size_bytes": str(row[1])}

    def hold(self, database: Database, *, key: HoldKey, folder: str, wait_s: float, lasts_s: float) -> Held:
        """See the port."""
        with self._lock:
            known = self._holds.get((database.id, key))
        if known is not None and known.locker is not None:
            return known.held
        if known is not None:
            self.drop(database, key=key)
        with errors("hold a database", database):
            pair = self._pair(database)
            try:
                limit_idle(pair.locker, lasts_s)
                limit_idle(pair.keeper, EXPORT_LIMIT_S)
                began_s = time.monotonic()
                tables = _locked(pair.locker, until_s=began_s + wait_s)
                held = Held(pinned=True, evidence=_exported(pair.keeper, tables))
            except BaseException:
                self._give_up(database, pair)
                raise
        with self._lock:
            self._holds[database.id, key] = _Hold(pair, held, Path(folder), began_s)
        return held

    def release(self, database: Database, *, key: HoldKey) -> Released:
        """See the port: whether the lock was there all the time, the server itself says."""
        with self._lock:
            hold = self._holds.get((database.id, key))
        if hold is None or hold.locker is None:
            return Released(intact=False, held_s=0.0)
        locker, hold.locker = hold.locker, None
        try:
            locker.execute("ROLLBACK")  # an error when the server has ended the transaction: somebody may have written since
            intact = True
        except Exception:
            intact = False
        held_s = time.monotonic() - hold.began_s
        with suppress(Exception):
            locker.close()
        return Released(intact, held_s)

    def copy(self, database: Database, *, key: HoldKey) -> Copied:
        """See the port; evidence: ``entries`` of the archive's table of contents."""
        with self._lock:
            hold = self._holds.get((database.id, key))
        if hold is None:
            raise NotFound("its state is not pinned in this process", tried="copy a database", subject=database.id, remedy="Hold it again.")
        if hold.dump is None:
            hold.dump = self._dump(database, hold)
        done = hold.dump.is_done()
        if done and hold.keeper is not None:
            hold.keeper.close()
            hold.keeper = None
        evidence = {"entries": str(hold.dump.entries)} if done else {}
        return Copied(done, str(hold.dump.file), hold.dump.size_bytes, evidence)

    def drop(self, database: Database, *, key: HoldKey) -> None:
        """See the port."""
        with self._lock:
            hold = self._holds.pop((database.id, key), None)
        if hold is not None:
            hold.close()

    def _dump(self, database: Database, hold: _Hold) -> Dump:
        """Into a folder of its own: the pg_dump of a controller that was killed may still write into another one."""
        tried, password = "copy a database", self._password(database)
        programs, snapshot = [program(name) for name in ("pg_dump", "pg_restore")], hold.held.evidence["snapshot"]
        try:
            file = scratch_folder(hold.folder) / f"{database.id}.dump"
            return Dump(database, dump=programs[0], restore=programs[1], snapshot=snapshot, file=file, password=password)
        except OSError as error:
            raise Transient(f"pg_dump cannot be started: {error}", tried=tried, subject=database.id) from error

    def _pair(self, database: Database) -> _Pair:
        """The one that a check has made, else a new one: to connect while others wait makes them wait longer."""
        with self._lock:
            pair = self._warm.pop(database.id, None)
        return pair if pair is not None and pair.is_open else _Pair(database, self._password(database))

    def _keep_warm(self, database: Database, pair: _Pair) -> None:
        with self._lock:
            before = self._warm.pop(database.id, None)
            self._warm[database.id] = pair
        if before is not None:
            before.close()

    def _give_up(self, database: Database, pair: _Pair) -> None:
        """Nothing is held any more; connections that still work are for the next try."""
        try:
            for connection in (pair.locker, pair.keeper):
                connection.execute("ROLLBACK")
        except Exception:
            pair.close()
        else:
            self._keep_warm(database, pair)

    def _password(self, database: Database) -> str:
        return self._secret(database.password) if database.password else ""


def _tables(db: psycopg.Connection[Any]) -> list[str]:
    return [str(row[0]) for row in db.execute(_TABLES)]


def _locked(db: psycopg.Connection[Any], *, until_s: float) -> list[str]:
    """Lock all tables in one statement; those that were made meanwhile, too. The locks are the last thing that this connection does."""
    for _ in range(_TRIES):
        tables = _tables(db)
        db.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        left_ms = max(1, round((until_s - time.monotonic()) * 1000))
        db.execute(f"SET LOCAL statement_timeout = {left_ms}")
        if tables:
            db.execute(f"LOCK TABLE {', '.join(tables)} IN SHARE MODE")
        if _tables(db) == tables:
            return tables
        db.execute("ROLLBACK")
    raise Transient("tables come and go all the time", tried="hold a database", subject=str(db.info.dbname))


def _exported(db: psycopg.Connection[Any], tables: list[str]) -> dict[str, str]:
    """The snapshot, taken while all tables are locked. Until the copy is done nobody may drop, rewrite or truncate them (MVCC does not
    keep what is truncated)."""
    db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    if tables:
        db.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS SHARE MODE")
    row = db.execute(_STATE).fetchone()
    assert row is not None
    snapshot, lsn, version, name = row
    return {
        "snapshot": str(snapshot),
        "lsn": str(lsn),
        "engine": f"PostgreSQL {version}",
        "database": str(name),
        "tables": str(len(tables)),
    }
