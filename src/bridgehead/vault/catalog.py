"""Catalog: the snapshots of a workload, which of them can be used, and why the others are passed over (V16, J05, J06, J11)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence, FileEntry, Snapshot, SnapshotInfo
from bridgehead.vault.fences import Fences, counting
from bridgehead.vault.layout import SnapshotName, is_name, snapshot_name, snapshot_name_of_key, snapshots_prefix
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.reader import Reader
from bridgehead.vault.records import Damaged
from bridgehead.vault.restore import pieces
from bridgehead.vault.snapshots import blocks_of, decode_snapshot, info_of, spoiled

_CACHED_RECORDS: Final = 4096
"""More than a survey commonly comes by: of what is not kept until the next one, all is read anew."""
_CACHED_FILES: Final = 100_000
"""Of all records together: about 50 MB."""
_AT_ONCE: Final = 64
"""So many steps at most are read ahead."""


class PassedOver(msgspec.Struct, frozen=True):
    """A snapshot that is not used. ``info`` is None when its record cannot be read; ``key`` names the record."""

    key: str
    reason: str
    info: SnapshotInfo | None = None


class Survey(msgspec.Struct, frozen=True):
    """All that the vault holds of a workload, newest first."""

    workload: WorkloadId
    fence: Fence | None
    usable: tuple[SnapshotInfo, ...]
    passed_over: tuple[PassedOver, ...]


class Catalog:
    """Reads snapshot records; keeps those that were intact, because a record never changes."""

    def __init__(self, objects: Objects, fences: Fences) -> None:
        self._objects = objects
        self._fences = fences
        self._records: OrderedDict[SnapshotId, Snapshot] = OrderedDict()
        self._files = 0
        self._lock = threading.Lock()
        self._news = objects.news

    def snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """The whole record. Raises NotFound, Damaged."""
        remembered = self.remembered(snapshot)
        if remembered is not None:
            return remembered
        name = snapshot_name(snapshot)
        found = decode_snapshot(self._objects.blobs.get(name.key), name)
        self.remember(found)
        return found

    def remembered(self, snapshot: SnapshotId) -> Snapshot | None:
        """The record, when this process has read or committed it, and nothing was removed since by a collection that is known of."""
        with self._lock:
            if self._news != self._objects.news:
                self._news = self._objects.news
                self._records.clear()
                self._files = 0
            found = self._records.get(snapshot)
            if found is not None:
                self._records.move_to_end(snapshot)
            return found

    def remember(self, snapshot: Snapshot) -> None:
        """The record is committed in this vault and intact."""
        with self._lock:
            self._drop(snapshot.id)
            self._records[snapshot.id] = snapshot
            self._files += len(snapshot.files)
            while len(self._records) > 1 and (len(self._records) > _CACHED_RECORDS or self._files > _CACHED_FILES):
                self._drop(next(iter(self._records)))

    def forget(self, snapshot: SnapshotId) -> None:
        """Its record is gone."""
        with self._lock:
            self._drop(snapshot)

    def _drop(self, snapshot: SnapshotId) -> None:
        known = self._records.pop(snapshot, None)
        self._files -= len(known.files) if known is not None else 0

    def contents(self, snapshot: Snapshot) -> Callable[[FileEntry, int, int], bytes]:
        """Reads (file, offset, size) of a snapshot, which need not be committed yet. What it returns raises Damaged."""
        reader = cache(lambda: Reader(self._objects, snapshot))  # most snapshots have no file that must be looked into
        return lambda file, offset, size: b"".join(pieces(self._objects, snapshot, file, offset, offset + size, reader=reader()))

    def find(self, snapshot: SnapshotId) -> SnapshotInfo | None:
        """The snapshot with its standing; None when the vault lacks it. Raises Damaged."""
        if not self.is_there(snapshot):
            return None
        try:
            found = self.snapshot(snapshot)
        except NotFound:
            return None
        return self._info(found, self._fences.newest(found.workload), doubting=True)

    def is_there(self, snapshot: SnapshotId) -> bool:
        """Whether the vault has the record now: another process may have forgotten it. Asks the store."""
        if self._objects.blobs.size(snapshot_name(snapshot).key) is not None:
            return True
        self.forget(snapshot)
        return False

    def newest(self, workload: WorkloadId) -> SnapshotInfo | None:
        """The newest usable snapshot. Two listings when nothing is new."""
        return next(self.usable(workload), None)

    def usable(self, workload: WorkloadId) -> Iterator[SnapshotInfo]:
        """The usable snapshots, newest first; each is judged when it is its turn."""
        fence = self._fences.newest(workload)
        for item in self._walk(workload, fence, only_counting=True):
            if isinstance(item, SnapshotInfo):
                yield item

    def survey(self, workload: WorkloadId) -> Survey:
        """Everything, with reasons."""
        fence = self._fences.newest(workload)
        usable: list[SnapshotInfo] = []
        passed: list[PassedOver] = []
        for item in self._walk(workload, fence, only_counting=False):
            match item:
                case SnapshotInfo():
                    usable.append(item)
                case PassedOver():
                    passed.append(item)
        return Survey(workload, fence, tuple(usable), tuple(passed))

    def workloads(self) -> tuple[WorkloadId, ...]:
        """All that have snapshots or fences, sorted. Two listings."""
        keys = [key.split("/") for prefix in ("snapshots/", "fences/") for key in self._objects.blobs.list(prefix)]
        return tuple(sorted({WorkloadId(segments[1]) for segments in keys if len(segments) == 3 and is_name(segments[1])}))

    def names(self, workload: WorkloadId) -> tuple[list[SnapshotName], list[str]]:
        """Listed snapshots, newest first, and keys that are no snapshot's."""
        names, strange = [], []
        for key in self._objects.blobs.list(snapshots_prefix(workload)):
            name = snapshot_name_of_key(workload, key)
            if name is None:
                strange.append(key)
            else:
                names.append(name)
        names.sort(reverse=True)
        return names, strange

    def _walk(self, workload: WorkloadId, fence: Fence | None, *, only_counting: bool) -> Iterator[SnapshotInfo | PassedOver]:
        names, strange = self.names(workload)
        if only_counting:  # the name says enough: records of fenced-off writers are not even read
            names = list(filter(counting(fence), names))
        steps = [list(group) for _, group in groupby(names, key=lambda name: (name.epoch, name.step))]
        for items in self._judged(steps, fence):
            # The same step saved twice with different content: the later save is the one that its writer went on from.
            yield from sorted(items, key=lambda item: item.created_s if isinstance(item, SnapshotInfo) else 0.0, reverse=True)
        yield from (PassedOver(key, "not the name of a snapshot record") for key in strange)

    def _judged(self, steps: Sequence[list[SnapshotName]], fence: Fence | None) -> Iterator[list[SnapshotInfo | PassedOver]]:
        """The standing of all that were saved at each step, in this order. The records of several steps are read, and their packs looked
        for, at once: one by one, each would take the whole way to the store and back. The first step comes alone: whoever wants just the
        newest does not pay for more."""
        done, many = 0, 1
        while done < len(steps):
            some = steps[done : done + many]
            read = parallel(self._read, [name for names in some for name in names])
            refs = (ref for one in read if isinstance(one, Snapshot) and not one.incomplete for ref in blocks_of(one))
            whole = not self._objects.lacking(refs)  # else each is asked for by itself
            found = iter(read)
            for names in some:
                yield [self._judge(name, next(found), fence, whole=whole) for name in names]
            done, many = done + many, min(many * 8, _AT_ONCE)

    def _read(self, name: SnapshotName) -> Snapshot | PassedOver:
        try:
            return self.snapshot(name.id)
        except (Damaged, NotFound) as error:
            return PassedOver(name.key, error.happened)

    def _judge(self, name: SnapshotName, snapshot: Snapshot | PassedOver, fence: Fence | None, *, whole: bool) -> SnapshotInfo | PassedOver:
        """``whole``: none of its blocks is lacking."""
        if isinstance(snapshot, PassedOver):
            return snapshot
        if whole and not snapshot.incomplete:
            info = info_of(snapshot, verified=True, counts=counting(fence)(name))
        else:
            info = self._info(snapshot, fence)
        if not info.counts:
            return PassedOver(name.key, _why_not(name, fence), info)
        if snapshot.incomplete:
            return PassedOver(name.key, spoiled(snapshot), info)
        if not info.verified:
            lacking = self._objects.lacking(blocks_of(snapshot))
            return PassedOver(name.key, self._objects.why_lacking(lacking), info)
        return info

    def _info(self, snapshot: Snapshot, fence: Fence | None, *, doubting: bool = False) -> SnapshotInfo:
        verified = not snapshot.incomplete and not self._objects.lacking(blocks_of(snapshot), doubting=doubting)
        return info_of(snapshot, verified=verified, counts=counting(fence)(snapshot_name(snapshot.id)))


def _why_not(name: SnapshotName, fence: Fence | None) -> str:
    in_force = fence.epoch if fence else 0
    if name.epoch > in_force:
        return f"written in epoch {name.epoch}, which nobody opened (epoch {in_force} is in force)"
    return f"written in epoch {name.epoch}; the fence of epoch {in_force} does not name it"
