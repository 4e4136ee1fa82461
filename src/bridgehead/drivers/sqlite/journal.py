"""The journal on SQLite: WAL, synchronous FULL, append-only by triggers, leases in the same database.

A lease and the append that it guards are checked in one transaction, so that a driver that was frozen and woke up after another took
over cannot write a single event (J13, J15).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound, Permanent, Transient
from bridgehead.kernel.hashing import ZERO_HASH
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.event import Event
from bridgehead.ports.journal import DriverIdentity, Entry
from bridgehead.runbook.copies import newest_epoch, news
from bridgehead.runbook.ledger import Seal, Signer, StoredEntry, sealed

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE events (
    run TEXT NOT NULL, seq INTEGER NOT NULL, payload BLOB NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT NOT NULL, key_id TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE runs (run TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE);
CREATE TABLE leases (run TEXT PRIMARY KEY, epoch INTEGER NOT NULL, host TEXT, pid INTEGER, started TEXT);
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
"""


class SqliteJournal:
    """Implements ``ports.journal.Journal``; one instance serves one thread.

    Args:
        path: database file; made when absent, readable for its owner alone.
        signer: signs entries.
        alive: tells whether a driver identity is a process that lives on this machine.
    """

    def __init__(self, path: Path, *, signer: Signer, alive: Callable[[DriverIdentity], bool]) -> None:
        self._path = path
        self._signer = signer
        self._alive = alive
        path.parent.mkdir(parents=True, exist_ok=True)
        _create_private(path)
        with self._errors("open the journal"):
            # Words of operators and outcomes of workers come from other threads of one process only through the engine's queue.
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._create_schema()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def create(self, run: RunId, first: Event) -> Entry:
        """See the port."""
        with self._transaction(f"open run {run}"):
            if self._head(run) is not None:
                raise Conflict("a run of that name exists", tried="open a run", subject=run, remedy="Choose another name.")
            number = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
            self._db.execute("INSERT INTO runs VALUES (?, ?)", (run, number))
            self._db.execute("INSERT INTO leases VALUES (?, 0, NULL, NULL, NULL)", (run,))
            return self._insert(run, [first], 0, ZERO_HASH)[0]

    def append(self, run: RunId, events: Sequence[Event], *, after_seq: int, holder: DriverIdentity | None) -> list[Entry]:
        """See the port."""
        with self._transaction(f"write to the journal of run {run}"):
            head = self._head(run)
            if head is None:
                raise _no_run(run)
            if holder is not None and self._lease(run)[1] != holder:
                raise Conflict("another process took the run over", tried="write to the journal", subject=run)
            if head[0] != after_seq:
                raise Conflict(f"others wrote up to entry {head[0]}", tried="write to the journal", subject=run)
            return self._insert(run, events, after_seq, head[1])

    def read(self, run: RunId, *, after_seq: int = 0) -> list[Entry]:
        """See the port. Raises BridgeheadError JOURNAL_DAMAGED for an entry that cannot be read."""
        with self._errors(f"read the journal of run {run}"):
            if after_seq == 0 and self._head(run) is None:
                raise _no_run(run)
            rows = self._db.execute(
                "SELECT seq, payload, previous, hash, signature, key_id FROM events WHERE run = ? AND seq > ? ORDER BY seq",
                (run, after_seq),
            )
            return [StoredEntry(*row).entry(subject=f"{self._path}, run {run}") for row in rows]

    def sealed(self, run: RunId) -> list[Seal]:
        """All entries as they lie in the file, for ``verify_chain``; whatever was done to them, they can be judged. Raises NotFound."""
        with self._errors(f"read the journal of run {run}"):
            columns = ", ".join(f"CAST({name} AS BLOB)" for name in ("payload", "previous", "hash", "signature", "key_id"))
            rows = self._db.execute(f"SELECT seq, {columns} FROM events WHERE run = ? ORDER BY seq", (run,)).fetchall()
            if not rows and self._db.execute("SELECT 1 FROM runs WHERE run = ?", (run,)).fetchone() is None:
                raise _no_run(run)
            return [Seal(seq, payload, *(text.decode(errors="replace") for text in texts)) for seq, payload, *texts in rows]

    def adopt(self, run: RunId, seals: Sequence[Seal]) -> int:
        """Take entries that were sealed elsewhere and stand behind what is here; returns how many. All or nothing.

        The driving epoch goes on from the newest that they tell of. Raises Conflict when they do not follow, or somebody drives the run.
        """
        with self._transaction(f"take entries of run {run} from a copy"):
            there = self.sealed(run) if self._head(run) is not None else []
            fresh = news(run, there, seals)
            if not there and fresh:
                number = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM runs").fetchone()[0]
                self._db.execute("INSERT INTO runs VALUES (?, ?)", (run, number))
                self._db.execute("INSERT INTO leases VALUES (?, 0, NULL, NULL, NULL)", (run,))
            if fresh:
                epoch, holder = self._lease(run)
                if holder is not None and self._alive(holder):
                    raise Conflict(f"process {holder.pid} on {holder.host} drives it", tried="take entries from a copy", subject=run)
                for seal in fresh:
                    values = (run, seal.seq, seal.payload, seal.previous, seal.hash, seal.signature, seal.key_id)
                    self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", values)
                newest = max(epoch, newest_epoch(fresh, subject=f"run {run}"))
                self._db.execute("UPDATE leases SET epoch = ?, host = NULL, pid = NULL, started = NULL WHERE run = ?", (newest, run))
            return len(fresh)

    def head_seq(self, run: RunId) -> int:
        """See the port."""
        with self._errors(f"read the journal of run {run}"):
            head = self._head(run)
        if head is None:
            raise _no_run(run)
        return head[0]

    def runs(self) -> list[RunId]:
        """See the port."""
        with self._errors("list the runs"):
            return [RunId(row[0]) for row in self._db.execute("SELECT run FROM runs ORDER BY number DESC")]

    def acquire(self, run: RunId, driver: DriverIdentity) -> Epoch:
        """See the port."""
        with self._transaction(f"take over run {run}"):
            if self._head(run) is None:
                raise _no_run(run)
            epoch, holder = self._lease(run)
            if holder is not None and self._alive(holder):
                raise Conflict(f"process {holder.pid} on {holder.host} drives it (epoch {epoch})", tried="take over the run", subject=run)
            values = (epoch + 1, driver.host, driver.pid, driver.started, run)
            self._db.execute("UPDATE leases SET epoch = ?, host = ?, pid = ?, started = ? WHERE run = ?", values)
            return Epoch(epoch + 1)

    def release(self, run: RunId, driver: DriverIdentity) -> None:
        """See the port."""
        with self._transaction(f"give back run {run}"):
            self._db.execute(
                "UPDATE leases SET host = NULL, pid = NULL, started = NULL WHERE run = ? AND host = ? AND pid = ? AND started = ?",
                (run, driver.host, driver.pid, driver.started),
            )

    def holder(self, run: RunId) -> DriverIdentity | None:
        """See the port."""
        with self._errors(f"see who drives run {run}"):
            holder = self._lease(run)[1]
        return holder if holder is not None and self._alive(holder) else None

    def _create_schema(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == SCHEMA_VERSION:
            return
        if version > SCHEMA_VERSION:
            raise BridgeheadError(
                ErrorCode.JOURNAL_DAMAGED,
                tried="open the journal",
                subject=str(self._path),
                happened=f"it was written by a newer Bridgehead (format {version}, this one knows {SCHEMA_VERSION})",
                remedy="Use that version.",
            )
        with self._transaction("create the journal"):
            if self._db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION:
                return  # another process was quicker
            for statement in _SCHEMA.split(";\nCREATE"):
                self._db.execute(statement if statement.lstrip().startswith("CREATE") else "CREATE" + statement)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _head(self, run: RunId) -> tuple[int, str] | None:
        row = self._db.execute("SELECT seq, hash FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1", (run,)).fetchone()
        return None if row is None else (row[0], row[1])

    def _lease(self, run: RunId) -> tuple[int, DriverIdentity | None]:
        row = self._db.execute("SELECT epoch, host, pid, started FROM leases WHERE run = ?", (run,)).fetchone()
        if row is None:
            raise _no_run(run)
        return row[0], None if row[1] is None else DriverIdentity(row[1], row[2], row[3])

    def _insert(self, run: RunId, events: Sequence[Event], seq: int, previous: str) -> list[Entry]:
        entries = sealed(events, after_seq=seq, previous=previous, signer=self._signer)
        for one in entries:
            values = (run, one.seq, one.payload, one.previous, one.hash, one.signature, one.key_id)
            self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return entries

    @contextmanager
    def _transaction(self, tried: str) -> Iterator[None]:
        with self._errors(tried):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self, tried: str) -> Iterator[None]:
        """Map SQLite's errors to the port's."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            # SHMSIZE: also who only reads needs room for 32 KiB of shared memory beside the database.
            if name.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")):
                raise Permanent(
                    f"no space: {error}",
                    tried=tried,
                    subject=str(self._path),
                    remedy="Free disk space there, then give the command again; nothing that was written is lost.",
                ) from error
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise Transient(f"the database is locked: {error}", tried=tried, subject=str(self._path)) from error
            raise BridgeheadError(
                ErrorCode.JOURNAL_DAMAGED,
                tried=tried,
                subject=str(self._path),
                happened=f"{name or type(error).__name__}: {error}",
                remedy="Check the file and its disk; restore it from a copy if it is damaged.",
            ) from error


def _create_private(path: Path) -> None:
    """An empty database that its owner alone may read, whatever the umask; SQLite gives its other files the same rights."""
    with suppress(OSError):  # it exists, or SQLite will say why it cannot
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)


def _no_run(run: RunId) -> NotFound:
    return NotFound("there is no such run", tried="find the run", subject=run, remedy="`bridgehead run list` shows all runs.")
