"""Journal: the durable, hash-chained list of events of each run (J02, J15; design rule 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.event import Event


class Entry(msgspec.Struct, frozen=True):
    """One journalled event. ``hash`` covers ``previous`` and ``payload`` (the event's bytes as written, so that an old ledger still
    verifies after the encoding of events has grown); ``signature`` (hex) covers ``hash``."""

    seq: int
    event: Event
    payload: bytes
    previous: str
    hash: str
    signature: str
    key_id: str


class DriverIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process that drives a run: pid alone is not enough, pids are reused."""

    host: str
    pid: int
    started: str


class Journal(Protocol):
    """Append-only. What ``append`` returned from is on stable storage."""

    def create(self, run: RunId, first: Event) -> Entry:
        """Open a run with its first event. Raises Conflict when the run exists."""
        ...

    def append(self, run: RunId, events: Sequence[Event], *, after_seq: int, holder: DriverIdentity | None) -> list[Entry]:
        """Append all or nothing behind ``after_seq``.

        Args:
            holder: the driving process, which must hold the run's lease; None for an operator's word (approve, pause, abort ...).

        Raises:
            Conflict: others appended since (read and decide again), or ``holder`` no longer holds the lease.
            NotFound: no such run.
            Permanent: "no space": nothing was written.
            Transient: the journal cannot be reached now: nothing was written.
            Unknown: the answer was lost: the same call again, on the same instance, gives what was written, or writes it.
        """
        ...

    def read(self, run: RunId, *, after_seq: int = 0) -> list[Entry]:
        """Entries behind ``after_seq``, in order. Raises NotFound."""
        ...

    def head_seq(self, run: RunId) -> int:
        """Number of the newest entry; cheap."""
        ...

    def runs(self) -> list[RunId]:
        """All runs, newest first."""
        ...

    def acquire(self, run: RunId, driver: DriverIdentity) -> Epoch:
        """Take the run's lease and return the new driving epoch (one more than any before).

        Raises Conflict, naming the holder, while another live process holds it.
        """
        ...

    def release(self, run: RunId, driver: DriverIdentity) -> None:
        """Give the lease back; no effect when it is not held."""
        ...

    def holder(self, run: RunId) -> DriverIdentity | None:
        """The live process that drives the run, or None."""
        ...
