"""SiteVault: the vault of one simulated site: snapshots with bytes, epochs, fences; torn and lost writes; a disk that may be full."""

from __future__ import annotations

import enum
import hashlib

import msgspec

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence, SnapshotInfo

BLOCK_BYTES = 4_000_000


class WriteFault(enum.StrEnum):
    """What can become of a write that was reported as done."""

    TORN = "torn"
    """The record is there, a block is damaged."""
    LOST = "lost"
    """Nothing is there after all."""


class HeldSnapshot(msgspec.Struct):
    """A snapshot as one vault holds it."""

    id: SnapshotId
    workload: WorkloadId
    step: int
    epoch: Epoch
    written_by: SiteId
    created_s: float
    raw_bytes: int
    whole: bool

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.raw_bytes // BLOCK_BYTES)


def snapshot_id(workload: WorkloadId, step: int, epoch: Epoch) -> SnapshotId:
    """Training is deterministic here, so step and epoch say what the content is."""
    digest = hashlib.sha256(f"{workload}/{step}/{epoch}".encode()).hexdigest()[:16]
    return SnapshotId(f"{workload}@{step}.{epoch}-{digest}")


class SiteVault:
    """What one site holds. ``full`` makes every write fail; ``write_faults`` strike by the number of the write."""

    def __init__(self, site: SiteId) -> None:
        self.site = site
        self.full = False
        self.refused_writes = 0
        self.writes = 0
        self.write_faults: dict[int, WriteFault] = {}
        self.held: dict[SnapshotId, HeldSnapshot] = {}
        self.partial_bytes: dict[SnapshotId, float] = {}
        self.fences: dict[WorkloadId, list[Fence]] = {}
        self.ballots: dict[tuple[WorkloadId, Epoch], list[Ballot]] = {}

    def has_space(self) -> bool:
        """False while the disk is full."""
        if self.full:
            self.refused_writes += 1
        return not self.full

    def put(self, snapshot: HeldSnapshot) -> None:
        """Commit; a repeat of a damaged one heals it. Planned write faults strike here."""
        self.writes += 1
        fault = self.write_faults.get(self.writes)
        if fault is WriteFault.LOST:
            return
        before = self.held.get(snapshot.id)
        whole = fault is None or (before is not None and before.whole)
        self.held[snapshot.id] = msgspec.structs.replace(before or snapshot, whole=whole)

    def fence_in_force(self, workload: WorkloadId) -> Fence | None:
        """The newest fence."""
        fences = self.fences.get(workload)
        return fences[-1] if fences else None

    def counts(self, workload: WorkloadId, epoch: Epoch, snapshot: SnapshotId | None = None) -> bool:
        """Would a snapshot of ``epoch`` (or just this one) count here now?"""
        fence = self.fence_in_force(workload)
        if fence is None:
            return epoch == 0
        return epoch == fence.epoch or (epoch < fence.epoch and snapshot in fence.counts)

    def info(self, held: HeldSnapshot) -> SnapshotInfo:
        """As ports describe it."""
        return SnapshotInfo(
            id=held.id,
            workload=held.workload,
            step=held.step,
            epoch=held.epoch,
            site=held.written_by,
            created_s=held.created_s,
            raw_bytes=held.raw_bytes,
            verified=held.whole,
            counts=self.counts(held.workload, held.epoch, held.id),
        )

    def newest(self, workload: WorkloadId) -> SnapshotInfo | None:
        """The newest whole snapshot that counts, by epoch and then by step."""
        best: HeldSnapshot | None = None
        for held in self.held.values():
            if held.workload != workload or not held.whole or (best is not None and (held.epoch, held.step) <= (best.epoch, best.step)):
                continue
            if self.counts(workload, held.epoch, held.id):
                best = held
        return None if best is None else self.info(best)

    def cast(self, ballot: Ballot) -> tuple[Ballot, ...]:
        """Keep the ballot; all of its epoch."""
        ballots = self.ballots.setdefault((ballot.workload, ballot.epoch), [])
        if ballot not in ballots:
            ballots.append(ballot)
        return tuple(ballots)

    def open_fence(self, fence: Fence) -> Fence:
        """Create-only; a repeat returns what was recorded. Raises Conflict."""
        fences = self.fences.setdefault(fence.workload, [])
        for recorded in fences:
            if recorded.epoch == fence.epoch:
                if recorded.opened_by != fence.opened_by:
                    raise _conflict(fence, f"it was opened by {recorded.opened_by} for {recorded.holder}")
                return recorded
        in_force = fences[-1].epoch if fences else 0
        if fence.epoch != in_force + 1:
            raise _conflict(fence, f"epoch {in_force} is in force")
        fences.append(fence)
        return fence


def _conflict(fence: Fence, happened: str) -> Conflict:
    return Conflict(
        happened,
        tried="open an epoch",
        subject=f"epoch {fence.epoch} of {fence.workload} for {fence.holder}",
        remedy="Read the newest fence and decide again.",
    )
