"""Fence registers: the voters among whom a majority decides who opens an epoch (design rules 7 to 9; J05, J06)."""

from __future__ import annotations

from typing import Protocol

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp


class FenceRegister(Protocol):
    """One voter: a site's vault, or the witness. It decides nothing; it only keeps what was written, and shows it.

    Raises Transient when the voter is out of reach, Conflict when it has seen a newer driver of the stamp's run.
    """

    def cast(self, ballot: Ballot, *, stamp: Stamp) -> tuple[Ballot, ...]:
        """Write ``ballot`` create-only, and *after that* read and return all ballots of that epoch, this one among them.

        The order is what safety rests on: of two who write and then read, at least one sees the other.
        """
        ...

    def record(self, fence: Fence, *, stamp: Stamp) -> Fence:
        """Record a fence that was decided; as ``Vaults.fence``. Raises Conflict when that epoch was opened by someone else or is not the
        next one."""
        ...

    def fences(self, workload: WorkloadId) -> tuple[Fence, ...]:
        """All fences that are recorded here, oldest first."""
        ...
