"""A journal in memory, for virtual time: durable up to the planned death of a driver, chained and signed like any other."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.hashing import ZERO_HASH
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.event import Event
from bridgehead.ports.journal import DriverIdentity, Entry
from bridgehead.runbook.ledger import seal
from bridgehead.simulate import faults as ft
from bridgehead.simulate.fault_book import DriverDied, FaultBook


class WorldSigner:
    """Signs and verifies with one secret: quick, and as strict as a real signature inside of one process."""

    key_id = "world"

    def __init__(self, secret: bytes = b"virtual") -> None:
        self._secret = secret

    def sign(self, data: bytes) -> bytes:
        """See ``runbook.ledger.Signer``."""
        return hmac.digest(self._secret, data, hashlib.sha256)

    def verify(self, key_id: str, data: bytes, signature: bytes) -> bool:
        """See ``runbook.ledger.Verifier``."""
        return self.knows(key_id) and hmac.compare_digest(signature, self.sign(data))

    def knows(self, key_id: str) -> bool:
        """See ``runbook.ledger.Verifier``."""
        return key_id == self.key_id


class WorldJournal:
    """Implements ``ports.journal.Journal``.

    Args:
        alive: tells whether a driver still lives; by default nobody who did not say goodbye is dead.
        no_space: while it says so, nothing can be written.
    """

    def __init__(
        self,
        *,
        alive: Callable[[DriverIdentity], bool] = lambda driver: True,
        no_space: Callable[[], bool] = lambda: False,
        signer: WorldSigner | None = None,
    ) -> None:
        self.book: FaultBook | None = None
        self._alive = alive
        self._no_space = no_space
        self._signer = signer or WorldSigner()
        self._entries: dict[RunId, list[Entry]] = {}
        self._leases: dict[RunId, tuple[Epoch, DriverIdentity | None]] = {}

    def create(self, run: RunId, first: Event) -> Entry:
        """See the port."""
        if run in self._entries:
            raise Conflict("a run of that name exists", tried="open a run", subject=run)
        self._check_space(run)
        self._entries[run] = [seal(first, seq=1, previous=ZERO_HASH, signer=self._signer)]
        self._leases[run] = (Epoch(0), None)
        return self._entries[run][0]

    def append(self, run: RunId, events: Sequence[Event], *, after_seq: int, holder: DriverIdentity | None) -> list[Entry]:
        """See the port. Planned faults strike the writes of drivers; a word of an operator is written as it is."""
        entries = self._known(run)
        if holder is not None and self._leases[run][1] != holder:
            raise Conflict("another process took the run over", tried="write to the journal", subject=run)
        if entries[-1].seq != after_seq:
            raise Conflict(f"others wrote up to entry {entries[-1].seq}", tried="write to the journal", subject=run)
        self._check_space(run)
        fault = self.book.on_append() if self.book is not None and holder is not None else None
        match fault:
            case ft.DieAtAppend(side=ft.Side.BEFORE):
                raise DriverDied(fault.resume_after_s, zombie_s=fault.zombie_s)
            case ft.JournalFull():
                raise Permanent("no space (planned)", tried="write to the journal", subject=run)
            case _:
                pass
        fresh: list[Entry] = []
        for event in events:
            last = fresh[-1] if fresh else entries[-1]
            fresh.append(seal(event, seq=last.seq + 1, previous=last.hash, signer=self._signer))
        entries += fresh
        match fault:
            case ft.DieAtAppend():
                raise DriverDied(fault.resume_after_s, zombie_s=fault.zombie_s)
            case ft.LostAppend():
                raise Transient("the answer was lost (planned)", tried="write to the journal", subject=run)
            case _:
                return fresh

    def read(self, run: RunId, *, after_seq: int = 0) -> list[Entry]:
        """See the port."""
        return self._known(run)[after_seq:]

    def head_seq(self, run: RunId) -> int:
        """See the port."""
        return self._known(run)[-1].seq

    def runs(self) -> list[RunId]:
        """See the port."""
        return list(reversed(self._entries))

    def acquire(self, run: RunId, driver: DriverIdentity) -> Epoch:
        """See the port."""
        self._known(run)
        epoch, holder = self._leases[run]
        if holder is not None and self._alive(holder):
            raise Conflict(f"process {holder.pid} on {holder.host} drives it (epoch {epoch})", tried="take over the run", subject=run)
        self._leases[run] = (Epoch(epoch + 1), driver)
        return Epoch(epoch + 1)

    def release(self, run: RunId, driver: DriverIdentity) -> None:
        """See the port."""
        epoch, holder = self._leases.get(run, (Epoch(0), None))
        if holder == driver:
            self._leases[run] = (epoch, None)

    def holder(self, run: RunId) -> DriverIdentity | None:
        """See the port."""
        self._known(run)
        holder = self._leases[run][1]
        return holder if holder is not None and self._alive(holder) else None

    def _known(self, run: RunId) -> list[Entry]:
        entries = self._entries.get(run)
        if entries is None:
            raise NotFound("there is no such run", tried="find the run", subject=run)
        return entries

    def _check_space(self, run: RunId) -> None:
        if self._no_space():
            raise Permanent("no space", tried="write to the journal", subject=run)
