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
from types import TracebackType
from typing import Final

import msgspec

from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import Conflict, Transient
from bridgehead.ports.journal import DriverIdentity
from bridgehead.vault.layout import CLOSING_PREFIX, COLLECTION_PREFIX, EVICTED_PREFIX, SESSIONS_PREFIX
from bridgehead.vault.objects import Objects

GATE_KEY: Final = f"{COLLECTION_PREFIX}gate"
DONE: Final = f"{COLLECTION_PREFIX}done-"
GATE_WAIT_S: Final = 60.0
"""A writer waits so long for a collection to end."""
GATE_POLL_S: Final = 0.2


class SessionRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is writing, since when, and what."""

    writer: DriverIdentity
    what: str
    since_s: float


class Session:
    """A context manager: while it is open, nothing that it uses is removed, or its commit is refused.

    Args:
        what: what is being done, in words, for whoever looks who holds up a collection.
    """

    def __init__(self, objects: Objects, *, what: str, wait_s: float = GATE_WAIT_S) -> None:
        self._objects = objects
        self._what = what
        self._wait_s = wait_s
        self.id = secrets.token_hex(16)

    def __enter__(self) -> Session:
        deadline_s = time.monotonic() + self._wait_s
        while True:
            self._objects.add(f"{SESSIONS_PREFIX}{self.id}", SessionRecord(this_driver(), self._what, time.time()))
            marks = set(self._objects.blobs.list(COLLECTION_PREFIX))
            if GATE_KEY not in marks:
                break
            self._leave()
            if time.monotonic() >= deadline_s:
                raise Transient(
                    f"a collection has been under way for more than {self._wait_s:.0f} s",
                    tried=self._what,
                    subject=GATE_KEY,
                    retry_after_s=self._wait_s,
                    remedy="Wait for it; if the one that collects has died, `bridgehead vault collect` finishes its work.",
                )
            time.sleep(GATE_POLL_S)
        self._objects.seen_collections(collections_in(marks))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None or issubclass(kind, Exception):  # not when the process is dying: then the collector finds it dead
            self._leave()

    def commit(self, key: str, record: bytes) -> bool:
        """Commit a record that rests on what this session has used; False when it is there already. Raises Conflict when evicted (V17)."""
        blobs = self._objects.blobs
        blobs.put_new(f"{CLOSING_PREFIX}{self.id}", b"")
        try:
            if blobs.size(f"{EVICTED_PREFIX}{self.id}") is not None:
                blobs.delete(f"{EVICTED_PREFIX}{self.id}")
                raise Conflict(
                    "this writer was set aside by a collection while it stood still; nothing was committed",
                    tried=self._what,
                    subject=key,
                    remedy="Do it again: what is still there is not written a second time.",
                )
            return self._objects.commit(key, record)
        finally:
            blobs.delete(f"{CLOSING_PREFIX}{self.id}")

    def _leave(self) -> None:
        self._objects.blobs.delete(f"{SESSIONS_PREFIX}{self.id}")


def collections_in(keys: set[str]) -> int:
    """How many collections have removed something, by the keys below ``state/collection/``."""
    return max((int(name) for key in keys if (name := key.removeprefix(DONE)).isdecimal()), default=0)
