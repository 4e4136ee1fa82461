"""The journal on PostgreSQL: for controllers on several machines (J02, J13, J15; ADR 17).

A run's lease is a row: who drives it, in which epoch, and when the server last heard of him. Beside it, the holder's connection holds an
advisory lock that is named by run and epoch. The holder is taken for dead

- ``GRACE_S`` after the server last heard of him, when nobody holds that lock: his process or his machine is gone;
- ``LEASE_S`` after it, whatever he holds: he is frozen, or cut off.

Every append of a driver locks that row and sees that it still names him, so that one who wakes up later writes nothing (J13).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from bridgehead.drivers.postgres.session import Session
from bridgehead.kernel.errors import Conflict, NotFound, PortError, Unknown
from bridgehead.kernel.hashing import ZERO_HASH
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.event import Event
from bridgehead.ports.journal import DriverIdentity, Entry
from bridgehead.runbook.copies import newest_epoch, news
from bridgehead.runbook.ledger import Seal, Signer, StoredEntry, sealed

GRACE_S: Final = 1.5
"""So long, a holder whose connection was lost may come back before another takes his run."""
LEASE_S: Final = 6.0
"""So long, a holder may be silent while his connection stands."""
RENEWAL_S: Final = 0.5
"""Time between two signs of life of a holder, who gives them whenever he reads or writes."""
_LIVE: Final = """
host IS NOT NULL AND (seen > clock_timestamp() - make_interval(secs => %(grace_s)s)
    OR (seen > clock_timestamp() - make_interval(secs => %(lease_s)s) AND {held}))
"""
_HELD: Final = """
EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = %(lock)s AND objid::bigint = epoch)
"""
_IS: Final = "host = %s AND pid = %s AND started = %s"


class PostgresJournal:
    """Implements ``ports.journal.Journal``; one instance serves one thread and has one connection.

    Args:
        url: see ``session.Session``.
        signer: signs entries.
        surely_dead: tells, on positive evidence alone, that a process of this very machine is gone; then nobody waits for its lease.
    """

    def __init__(self, url: str, *, signer: Signer, surely_dead: Callable[[DriverIdentity], bool] = lambda driver: False) -> None:
        self._session = Session(url, opened=self._hold_again)
        self._signer = signer
        self._surely_dead = surely_dead
        self._mine: dict[RunId, tuple[DriverIdentity, Epoch]] = {}
        self._renewed_s: dict[RunId, float] = {}
        self._unsure: dict[RunId, list[Entry]] = {}

    def close(self) -> None:
        """End the connection. A lease that was not released is free for others after ``GRACE_S``."""
        self._session.close()

    def create(self, run: RunId, first: Event) -> Entry:
        """See the port."""
        with self._session.writing(f"open run {run}") as db:
            made = db.execute("INSERT INTO bridgehead.runs (run) VALUES (%s) ON CONFLICT DO NOTHING RETURNING run", (run,)).fetchone()
            if made is None:
                raise Conflict("a run of that name exists", tried="open a run", subject=run, remedy="Choose another name.")
            db.execute("INSERT INTO bridgehead.leases (run, epoch) VALUES (%s, 0)", (run,))
            return self._insert(db, run, [first], 0, ZERO_HASH)[0]

    def append(self, run: RunId, events: Sequence[Event], *, after_seq: int, holder: DriverIdentity | None) -> list[Entry]:
        """See the port. Raises also Unknown when the connection was lost at the commit: the same call again finds what was written."""
        entries: list[Entry] = []
        try:
            with self._session.writing(f"write to the journal of run {run}") as db:
                self._lease(db, run, holder=holder)  # the row stays locked: one writer of a run at a time
                seq, previous = self._head(db, run)
                written = self._written_before(db, run, events, after_seq)
                if written is not None:
                    return written
                if seq != after_seq:
                    raise Conflict(f"others wrote up to entry {seq}", tried="write to the journal", subject=run)
                entries = self._insert(db, run, events, after_seq, previous)
                if holder is not None:
                    db.execute("UPDATE bridgehead.leases SET seen = clock_timestamp() WHERE run = %s", (run,))
                    self._renewed_s[run] = time.monotonic()
        except Unknown:
            self._unsure[run] = entries
            raise
        self._unsure.pop(run, None)
        return entries

    def read(self, run: RunId, *, after_seq: int = 0) -> list[Entry]:
        """See the port. Raises BridgeheadError JOURNAL_DAMAGED for an entry that cannot be read."""
        with self._session.reading(f"read the journal of run {run}") as db:
            self._renew(db, run)
            if after_seq == 0:
                self._head(db, run)
            rows = db.execute(
                "SELECT seq, payload, previous, hash, signature, key_id FROM bridgehead.events WHERE run = %s AND seq > %s ORDER BY seq",
                (run, after_seq),
            )
            return [StoredEntry(*row).entry(subject=f"{self._session.subject}, run {run}") for row in rows]

    def sealed(self, run: RunId) -> list[Seal]:
        """All entries as they lie in the database, for ``verify_chain``. Raises NotFound."""
        with self._session.reading(f"read the journal of run {run}") as db:
            seals = self._sealed(db, run)
            if not seals and db.execute("SELECT FROM bridgehead.runs WHERE run = %s", (run,)).fetchone() is None:
                raise _no_run(run)
            return seals

    def adopt(self, run: RunId, seals: Sequence[Seal]) -> int:
        """Take entries that were sealed elsewhere and stand behind what is here; returns how many. All or nothing.

        The driving epoch goes on from the newest that they tell of. Raises Conflict when they do not follow, or somebody drives the run.
        """
        with self._session.writing(f"take entries of run {run} from a copy") as db:
            db.execute("INSERT INTO bridgehead.runs (run) VALUES (%s) ON CONFLICT DO NOTHING", (run,))
            db.execute("INSERT INTO bridgehead.leases (run, epoch) VALUES (%s, 0) ON CONFLICT DO NOTHING", (run,))
            epoch, holder, live, _ = self._lease(db, run)
            fresh = news(run, self._sealed(db, run), seals)
            if fresh and holder is not None and live:
                raise Conflict(f"process {holder.pid} on {holder.host} drives it", tried="take entries from a copy", subject=run)
            for seal in fresh:
                values = (run, seal.seq, seal.payload, seal.previous, seal.hash, seal.signature, seal.key_id)
                db.execute("INSERT INTO bridgehead.events VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
            if fresh:
                newest = max(epoch, newest_epoch(fresh, subject=f"run {run}"))
                db.execute("UPDATE bridgehead.leases SET epoch = %s, host = NULL, pid = NULL, started = NULL WHERE run = %s", (newest, run))
            return len(fresh)

    def _sealed(self, db: Any, run: RunId) -> list[Seal]:
        columns = "seq, payload, previous, hash, signature, key_id"
        rows = db.execute(f"SELECT {columns} FROM bridgehead.events WHERE run = %s ORDER BY seq", (run,))
        return [Seal(*row) for row in rows]

    def head_seq(self, run: RunId) -> int:
        """See the port."""
        with self._session.reading(f"read the journal of run {run}") as db:
            self._renew(db, run)
            return self._head(db, run)[0]

    def runs(self) -> list[RunId]:
        """See the port."""
        with self._session.reading("list the runs") as db:
            return [RunId(row[0]) for row in db.execute("SELECT run FROM bridgehead.runs ORDER BY number DESC")]

    def acquire(self, run: RunId, driver: DriverIdentity) -> Epoch:
        """See the port."""
        with self._session.writing(f"take over run {run}") as db:
            epoch, holder, live, held = self._lease(db, run)
            if holder is not None and live and not self._surely_dead(holder) and (holder != driver or held):
                raise Conflict(f"process {holder.pid} on {holder.host} drives it (epoch {epoch})", tried="take over the run", subject=run)
            taken = Epoch(epoch + 1)
            values = (taken, driver.host, driver.pid, driver.started, run)
            db.execute(
                "UPDATE bridgehead.leases SET epoch = %s, host = %s, pid = %s, started = %s, seen = clock_timestamp() WHERE run = %s",
                values,
            )
            db.execute("SELECT pg_advisory_lock(%s, %s)", (_signed(_lock(run)), taken))
        self._mine[run] = (driver, taken)
        self._renewed_s[run] = time.monotonic()
        return taken

    def release(self, run: RunId, driver: DriverIdentity) -> None:
        """See the port."""
        with self._session.writing(f"give back run {run}") as db:
            db.execute(
                f"UPDATE bridgehead.leases SET host = NULL, pid = NULL, started = NULL WHERE run = %s AND {_IS}",
                (run, driver.host, driver.pid, driver.started),
            )
        if run in self._mine and self._mine[run][0] == driver:
            _, epoch = self._mine.pop(run)
            with self._session.reading(f"give back run {run}") as db:
                db.execute("SELECT pg_advisory_unlock(%s, %s)", (_signed(_lock(run)), epoch))

    def holder(self, run: RunId) -> DriverIdentity | None:
        """See the port."""
        with self._session.reading(f"see who drives run {run}") as db:
            _, holder, live, _ = self._lease(db, run, locked=False)
        return holder if holder is not None and live and not self._surely_dead(holder) else None

    def _lease(
        self, db: Any, run: RunId, *, holder: DriverIdentity | None = None, locked: bool = True
    ) -> tuple[Epoch, DriverIdentity | None, bool, bool]:
        """Epoch, holder, whether he lives, whether his connection stands. Raises NotFound; Conflict when it is not ``holder``'s."""
        query = f"SELECT epoch, host, pid, started, {_LIVE.format(held=_HELD)}, {_HELD} FROM bridgehead.leases WHERE run = %(run)s"
        values = {"run": run, "lock": _lock(run), "grace_s": GRACE_S, "lease_s": LEASE_S}
        row = db.execute(query + (" FOR UPDATE" if locked else ""), values).fetchone()
        if row is None:
            raise _no_run(run)
        epoch, host, pid, started, live, held = row
        found = None if host is None else DriverIdentity(host, pid, started)
        if holder is not None and (found != holder or (run in self._mine and self._mine[run][1] != epoch)):
            raise Conflict("another process took the run over", tried="write to the journal", subject=run)
        return Epoch(epoch), found, bool(live), bool(held)

    def _renew(self, db: Any, run: RunId) -> None:
        """A sign of life, when it is due. One who was replaced meanwhile changes nothing: his next append tells him."""
        if run not in self._mine or time.monotonic() - self._renewed_s[run] < RENEWAL_S:
            return
        driver, epoch = self._mine[run]
        values = (run, epoch, driver.host, driver.pid, driver.started)
        db.execute(
            f"UPDATE bridgehead.leases SET seen = clock_timestamp() WHERE run = %s AND epoch = %s AND {_IS}",
            values,
        )
        self._renewed_s[run] = time.monotonic()

    def _hold_again(self, db: Any) -> None:
        """A new connection takes the locks of the leases that this process still believes to have; the rows decide whether it does."""
        for run, (_, epoch) in self._mine.items():
            db.execute("SELECT pg_try_advisory_lock(%s, %s)", (_signed(_lock(run)), epoch))
            self._renewed_s[run] = float("-inf")

    def _written_before(self, db: Any, run: RunId, events: Sequence[Event], after_seq: int) -> list[Entry] | None:
        """What an earlier, equal call wrote whose answer was lost; None when there was none, or it wrote nothing."""
        entries = self._unsure.get(run)
        if not entries or entries[0].seq != after_seq + 1 or [entry.event for entry in entries] != list(events):
            return None
        row = db.execute("SELECT hash FROM bridgehead.events WHERE run = %s AND seq = %s", (run, entries[-1].seq)).fetchone()
        return entries if row is not None and row[0] == entries[-1].hash else None

    def _head(self, db: Any, run: RunId) -> tuple[int, str]:
        row = db.execute("SELECT seq, hash FROM bridgehead.events WHERE run = %s ORDER BY seq DESC LIMIT 1", (run,)).fetchone()
        if row is None:
            raise _no_run(run)
        return row[0], row[1]

    def _insert(self, db: Any, run: RunId, events: Sequence[Event], seq: int, previous: str) -> list[Entry]:
        entries = sealed(events, after_seq=seq, previous=previous, signer=self._signer)
        for one in entries:
            values = (run, one.seq, one.payload, one.previous, one.hash, one.signature, one.key_id)
            db.execute("INSERT INTO bridgehead.events VALUES (%s, %s, %s, %s, %s, %s, %s)", values)
        return entries


def _lock(run: RunId) -> int:
    """First half of the lock's name. Of two runs with the same, in the same epoch, a dead holder may look alive until ``LEASE_S``."""
    return zlib.crc32(run.encode())


def _signed(number: int) -> int:
    """The same 32 bits as PostgreSQL's integer."""
    return number - (1 << 32) if number >= 1 << 31 else number


def _no_run(run: RunId) -> PortError:
    return NotFound("there is no such run", tried="find the run", subject=run, remedy="`bridgehead run list` shows all runs.")
