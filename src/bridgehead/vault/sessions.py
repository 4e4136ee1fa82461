"""Sessions: writers and the collector keep out of each other's way, without clocks (V17, V18; design section 5).

A writer notes its session, then looks for the collector's gate; the collector notes the gate, then looks for sessions: whatever the order,
one of them sees the other. A writer that was set aside while it slept is refused at its commit: it notes that it is closing, then looks
whether it was evicted; the collector notes the eviction, then looks whether it is closing.

    state/sessions/<id>            somebody is writing
    state/closing/<id>             that writer is about to commit
    state/evicted/<id>             that writer must not commit any more
    state/collection/gate          a collection is under way: begin nothing new
    state/collection/done-<n>      so many collections have removed something: what is known of older days is worth nothing
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from bridgehead.host.identity import is_alive, this_driver
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient
from bridgehead.ports.blobs import Blobs
from bridgehead.ports.journal import DriverIdentity
from bridgehead.vault.layout import CLOSING_PREFIX, COLLECTION_PREFIX, EVICTED_PREFIX, SESSIONS_PREFIX
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged

GATE_KEY: Final = f"{COLLECTION_PREFIX}gate"
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
        """On positive evidence only: its process is dead, or it is this one and knows better."""
        return self.id not in _OPEN if self.writer == this_driver() else not is_alive(self.writer)


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
        session.begin(wait_s)
        try:
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

    def begin(self, wait_s: float) -> None:
        """Raises Transient when the gate stays closed."""
        deadline_s = time.monotonic() + wait_s
        while True:
            self._objects.add(f"{SESSIONS_PREFIX}{self.id}", self._record)
            marks = set(self._objects.blobs.list(COLLECTION_PREFIX))
            if GATE_KEY not in marks:
                break
            self.end()
            if self._gate_is_left_over():
                open_gate(self._objects)
                continue
            if time.monotonic() >= deadline_s:
                raise Transient(
                    f"a collection has been under way for more than {wait_s:.0f} s",
                    tried=self._record.what,
                    subject=GATE_KEY,
                    retry_after_s=wait_s,
                    remedy="Wait for it; if the one that collects has died, `bridgehead vault collect` finishes its work.",
                )
            time.sleep(GATE_POLL_S)
        self._objects.seen_collections(collections_in(marks))

    def end(self) -> None:
        """Note that nothing is used any more."""
        _drop(self._objects.blobs, f"{SESSIONS_PREFIX}{self.id}")

    def commit(self, key: str, record: bytes) -> bool:
        """Commit a record that rests on what this session has used; False when it is there already. Raises Conflict when evicted (V17)."""
        blobs = self._objects.blobs
        blobs.put_new(f"{CLOSING_PREFIX}{self.id}", b"")
        try:
            if blobs.size(f"{EVICTED_PREFIX}{self.id}") is not None:
                blobs.delete(f"{EVICTED_PREFIX}{self.id}")
                raise Conflict(
                    "this writer was set aside by a collection while it stood still; nothing was committed",
                    tried=self._record.what,
                    subject=key,
                    remedy="Do it again: what is still there is not written a second time.",
                )
            return self._objects.commit(key, record)
        finally:
            _drop(blobs, f"{CLOSING_PREFIX}{self.id}")

    def _gate_is_left_over(self) -> bool:
        """What a dead collector has not removed, nobody will miss; the next collection does."""
        try:
            return self._objects.record(GATE_KEY, SessionRecord).is_over
        except (NotFound, Damaged):
            return False


def _drop(blobs: Blobs, key: str) -> None:
    """Remove a marker that has served. One that the store retains stays: the save has succeeded all the same, and its writer ends (V26)."""
    try:
        blobs.delete(key)
    except Permanent as error:
        if "retained" not in error.happened:
            raise


def open_gate(objects: Objects) -> None:
    """Writers may begin again."""
    objects.blobs.delete(GATE_KEY)


def collections_in(keys: set[str]) -> int:
    """How many collections have removed something, by the keys below ``state/collection/``."""
    return max((int(name) for key in keys if (name := key.removeprefix(DONE)).isdecimal()), default=0)
