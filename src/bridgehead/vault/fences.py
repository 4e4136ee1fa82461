"""Fences: which snapshots count (design rule 8; J05, J06).

A fence of epoch e names exactly the snapshots of older epochs that count. Snapshots of the epoch in force count. All others are kept as
evidence: those that an older epoch wrote and the fence does not name, whenever they were written, and those of an epoch that nobody opened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.vault.layout import MAX_EPOCH, SnapshotName, epoch_of_fence_key, fence_key, fences_prefix, snapshot_name
from bridgehead.vault.objects import Objects, refuse
from bridgehead.vault.records import damaged


def counting(fence: Fence | None) -> Callable[[SnapshotName], bool]:
    """The rule that tells whether a snapshot counts while ``fence`` is the newest one (None: epoch 0 is open)."""
    in_force = fence.epoch if fence else Epoch(0)
    named = frozenset(fence.counts) if fence else frozenset()
    return lambda name: name.epoch == in_force or (name.epoch < in_force and name.id in named)


class Fences:
    """The fences of one vault. A fence that cannot be read is an error: falling back on the older one would let a dead writer count."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._read: dict[WorkloadId, Fence] = {}
        self._lock = threading.Lock()

    def newest(self, workload: WorkloadId) -> Fence | None:
        """The fence in force. One listing, and one read when it is new. Raises Damaged."""
        epochs = [epoch_of_fence_key(workload, key) for key in self._objects.blobs.list(fences_prefix(workload))]
        newest = max((epoch for epoch in epochs if epoch is not None), default=None)
        if newest is None:
            return None
        with self._lock:
            cached = self._read.get(workload)
        if cached is not None and cached.epoch == newest:
            return cached
        fence = read_fence(self._objects, workload, newest)
        with self._lock:
            self._read[workload] = fence
        return fence

    def all(self, workload: WorkloadId) -> tuple[Fence, ...]:
        """Every fence, oldest first. One listing, and one read each. Raises Damaged."""
        epochs = [epoch_of_fence_key(workload, key) for key in self._objects.blobs.list(fences_prefix(workload))]
        return tuple(read_fence(self._objects, workload, epoch) for epoch in sorted(e for e in epochs if e is not None))

    def open(self, fence: Fence) -> Fence:
        """Record ``fence``; see ports.vaults.Vaults.fence. Raises Conflict, Damaged, Permanent."""
        _check(fence)
        newest = self.newest(fence.workload)
        in_force = newest.epoch if newest else Epoch(0)
        if fence.epoch <= in_force:
            return self._same(fence, read_fence(self._objects, fence.workload, fence.epoch))
        if fence.epoch != in_force + 1:
            raise _conflict(fence, f"epoch {in_force} is in force, so that the next one is {in_force + 1}")
        if self._objects.add(fence_key(fence.workload, fence.epoch), fence):
            return fence
        return self._same(fence, read_fence(self._objects, fence.workload, fence.epoch))

    def _same(self, asked: Fence, recorded: Fence) -> Fence:
        if recorded.opened_by != asked.opened_by:
            raise _conflict(asked, f"it was opened by {recorded.opened_by} for {recorded.holder}")
        return recorded


def read_fence(objects: Objects, workload: WorkloadId, epoch: Epoch) -> Fence:
    """The fence that opens ``epoch``. Raises NotFound, Damaged."""
    key = fence_key(workload, epoch)
    fence = objects.record(key, Fence)
    if (fence.workload, fence.epoch) != (workload, epoch):
        raise damaged(key, f"the record opens epoch {fence.epoch} of {fence.workload}")
    return fence


def _check(fence: Fence) -> None:
    remedy = "This is a fault of the caller."
    subject = f"epoch {fence.epoch} of {fence.workload}"
    if not 1 <= fence.epoch <= MAX_EPOCH:
        raise refuse(f"an epoch is a number from 1 to {MAX_EPOCH}", tried="fence", subject=subject, remedy=remedy)
    for snapshot in fence.counts:
        name = snapshot_name(snapshot)
        if name.workload != fence.workload or name.epoch >= fence.epoch:
            raise refuse(
                f"it names {snapshot}, which is not of an older epoch of this workload", tried="fence", subject=subject, remedy=remedy
            )


def _conflict(fence: Fence, happened: str) -> Conflict:
    return Conflict(
        happened,
        tried="open an epoch",
        subject=f"epoch {fence.epoch} of {fence.workload} for {fence.holder}",
        remedy="Read the newest fence and decide again.",
    )
