"""Vaults: the checkpoint vaults of all sites, as the runbook sees them (R4, R6, R8; J05, J06)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence, Receipt, SnapshotInfo, TransferProgress
from bridgehead.model.stamp import Stamp

Kept = Mapping[str, bytes | str]
"""Path in the snapshot to the content, or to the name of the file that has it."""


class Vaults(Protocol):
    """Every method names the site whose vault is meant. Raises NotFound for an unknown site, Transient when it is out of reach."""

    def newest(self, workload: WorkloadId, *, site: SiteId) -> SnapshotInfo | None:
        """The newest snapshot that is verified and counts, or None. Torn or fenced-off ones are passed over (V16)."""
        ...

    def find(self, snapshot: SnapshotId, *, site: SiteId) -> SnapshotInfo | None:
        """The snapshot as the site's vault holds it, counted or not; None when the vault is readable and lacks it."""
        ...

    def replicate(self, snapshot: SnapshotId, *, source: SiteId, target: SiteId, budget_s: float, stamp: Stamp) -> TransferProgress:
        """Copy missing blocks for at most about ``budget_s`` seconds; call again until ``done``. Resumes where it was.

        Raises:
            NotFound: the source does not hold the snapshot.
            Permanent: a block at the source is damaged; it is named.
        """
        ...

    def receipt(self, snapshot: SnapshotId, *, site: SiteId, stamp: Stamp) -> Receipt:
        """Read every block of the snapshot back at ``site``, verify its hash, record and return the receipt.

        Raises NotFound when the snapshot is not committed there, Permanent when a block is missing or damaged.
        """
        ...

    def keep(self, files: Kept, *, workload: WorkloadId, step: int, site: SiteId, context: Mapping[str, str], stamp: Stamp) -> SnapshotInfo:
        """Commit these files as a snapshot of ``workload``, in epoch 0: for names that have one writer and no fences, such as points.

        The same content at the same step is the same snapshot. Raises Permanent when there is no space, or a file changes meanwhile.
        """
        ...

    def fence(self, fence: Fence, *, site: SiteId, stamp: Stamp) -> Fence:
        """Record ``fence`` create-only; a repeat by the same ``opened_by`` returns the fence as it was first recorded.

        Raises Conflict when that epoch was opened by someone else, or is not newer than the newest one by exactly one.
        """
        ...

    def newest_fence(self, workload: WorkloadId, *, site: SiteId) -> Fence | None:
        """The fence that is in force at this site, None before the first one (epoch 0: any writer counts)."""
        ...

    def fences(self, workload: WorkloadId, *, site: SiteId) -> tuple[Fence, ...]:
        """All fences that are recorded at this site, oldest first."""
        ...

    def newest_driver(self, run: RunId, *, site: SiteId) -> Epoch:
        """The newest driving epoch with which this site's vault was changed for a run; 0 when it never was (J09, J13)."""
        ...

    def cast(self, ballot: Ballot, *, site: SiteId, stamp: Stamp) -> tuple[Ballot, ...]:
        """Write ``ballot`` create-only, after that read and return all ballots of its epoch; see ``ports.registers``."""
        ...
