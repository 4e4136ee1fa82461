"""Sessions: writers and the collector keep out of each other's way, without clocks (V17, V18; design section 5).

A writer notes its session, then looks for the collector's gate; the collector notes the gate, then looks for sessions: whatever the order,
one of them sees the other. A writer that was set aside while it slept is refused at its commit: it notes that it is closing, then looks
whether it was evicted; the collector notes the eviction, then looks whether it is closing.

    state/sessions/<id>            somebody is writing
    state/closing/<id>             that writer is about to commit
    state/evicted/<id>             that writer must not commit any more
    state/collection/gate-<id>     somebody is alone with the vault: begin nothing new
    state/collection/done-<token>  a collection has removed something: when the token is news, what is known is worth nothing
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from bridgehead.host.identity import is_surely_dead, this_driver
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient
from bridgehead.ports.blobs import Blobs
from bridgehead.ports.journal import DriverIdentity
from bridgehead.vault.layout import CLOSING_PREFIX, COLLECTION_PREFIX, EVICTED_PREFIX, SESSIONS_PREFIX
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged

GATE: Final = f"{COLLECTION_PREFIX}gate-"
DONE: Final = f"{COLLECTION_PREFIX}done-"
GATE_WAIT_S: Final = 60.0
"""A writer waits so long for a collection to end."""
GATE_POLL_S: Final = 0.2


class SessionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is writing, since when, and what. ``id``: of this one of the writer's sessions."""

    id: str
    writer: DriverIdentity
    what: str
    since_s: float

    @property
    def is_over(self) -> bool:
        """Surely: its process is dead on this boot of this machine, or it is this one and knows better. Never by a host name."""
        return self.id not in _OPEN if self.writer == this_driver() else is_surely_dead(self.writer)


_OPEN: Final[set[str]] = set()
"""Sessions of this process. One whose end could not be noted in the store is over nevertheless."""


@contextmanager
def session_record(what: str) -> Iterator[SessionRecord]:
    """A record that is not over while inside."""
    record = SessionRecord(secrets.token_hex(16), this_driver(), what, time.time())
    _OPEN.add(record.id)
    try:
        yield record
    finally:
        _OPEN.discard(record.id)


@contextmanager
def open_session(objects: Objects, what: str, *, wait_s: float = GATE_WAIT_S) -> Iterator[Session]:
    """While it is open, nothing that is used inside is removed, or the commit is refused.

    Args:
        what: what is being done, in words, for whoever looks who holds up a collection.

    Raises:
        Transient: somebody is alone with the vault for longer than ``wait_s``.
    """
    with session_record(what) as record:
        session = Session(objects, record)
        try:
            session.begin(wait_s)
            yield session
        except Exception:  # not when the process is dying: then the collector finds it dead
            with suppress(PortError):  # the first error is the one to be told
                session.end()
            raise
        session.end()


class Session:
    """One writer's right to rest on what is there; made by ``open_session``."""

    def __init__(self, objects: Objects, record: SessionRecord) -> None:
        self._objects = objects
        self._record = record
        self.id = record.id
        self._evicted = False

    def begin(self, wait_s: float) -> None:
        """Raises Transient when somebody stays alone with the vault."""
        deadline_s = time.monotonic() + wait_s
        _end_what_was_left(self._objects)
        while True:
            self._objects.add(f"{SESSIONS_PREFIX}{self.id}", self._record)
            marks = set(self._objects.blobs.list(COLLECTION_PREFIX))
            alone = [who for key in marks if (who := gate_holder(self._objects, key)) is not None]
            if not alone:
                break
            self.end()
            if time.monotonic() >= deadline_s:
                raise Transient(
                    f"for more than {wait_s:.0f} s somebody has been alone with the vault: {'; '.join(alone)}",
                    tried=self._record.what,
                    subject=COLLECTION_PREFIX,
                    retry_after_s=wait_s,
                    remedy="Wait for it. When that process is surely dead, delete its gate from the vault; `bridgehead vault collect` "
                    "finishes its work.",
                )
            time.sleep(GATE_POLL_S)
        self._objects.seen_collections(removals_in(marks))

    def end(self) -> None:
        """Note that nothing is used any more."""
        self._objects.unended.add(self.id)
        for prefix in (SESSIONS_PREFIX, EVICTED_PREFIX) if self._evicted else (SESSIONS_PREFIX,):
            _drop(self._objects.blobs, f"{prefix}{self.id}")
        self._objects.unended.discard(self.id)

    def commit(self, key: str, record: bytes) -> bool:
        """Commit a record that rests on what this session has used; False when it is there already. Raises Conflict when evicted (V17).

        What is about to be committed stands in the mark that says so: a collector that cannot wait keeps what it needs.
        """
        blobs = self._objects.blobs
        blobs.put_new(f"{CLOSING_PREFIX}{self.id}", key.encode() + b"\n" + record)
        try:
            if blobs.size(f"{EVICTED_PREFIX}{self.id}") is not None:
                self._evicted = True
                raise Conflict(
                    "this writer was set aside by a collection while it stood still; nothing was committed",
                    tried=self._record.what,
                    subject=key,
                    remedy="Do it again: what is still there is not written a second time.",
                )
            return self._objects.commit(key, record)
        finally:
            _drop(blobs, f"{CLOSING_PREFIX}{self.id}")


def _end_what_was_left(objects: Objects) -> None:
    for session in tuple(objects.unended):
        _drop(objects.blobs, f"{SESSIONS_PREFIX}{session}")
        objects.unended.discard(session)


def _drop(blobs: Blobs, key: str) -> None:
    """Remove a marker that has served. One that the store retains stays: the save has succeeded all the same, and its writer ends (V26)."""
    try:
        blobs.delete(key)
    except Permanent as error:
        if "retained" not in error.happened:
            raise


def gate_holder(objects: Objects, key: str) -> str | None:
    """Who holds a gate, in words; None for another mark, and for a gate that is left over: then it is removed, for its name is its own.

    What a dead collector has not removed, nobody will miss; the next collection does.
    """
    if not key.startswith(GATE):
        return None
    try:
        record = objects.record(key, SessionRecord)
    except NotFound:
        return None
    except Damaged:
        return f"somebody whose mark {key} cannot be read"
    if record.is_over:
        objects.blobs.delete(key)
        return None
    return who(record)


def who(record: SessionRecord) -> str:
    """A writer or collector, in words."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.since_s))
    return f"process {record.writer.pid} on {record.writer.host}, since {since} ({record.what})"


def removals_in(keys: Iterable[str]) -> frozenset[str]:
    """Marks of collections that have removed something, of the keys below ``state/collection/``: never the same twice."""
    return frozenset(key for key in keys if key.startswith(DONE))
