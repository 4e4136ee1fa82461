"""Drills: backups are proved by restoring them (R13): which to try next, and what came of it.

drills/<snapshot id>/<milliseconds>.json    one restore test, signed off with its result
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import Person, SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged, damaged

DRILLS_PREFIX: Final = "drills/"
NEVER_TESTED_S: Final = 7 * 86_400.0
"""What was never tested counts as untested for at least so long: tests are weekly (R13)."""
NEWEST_WEIGHT: Final = 2.0
"""The newest of a workload is the one that a disaster would ask for."""


class Drill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One restore test.

    Attributes:
        at_s: when it began, seconds since 1970-01-01 UTC.
        took_s: from the first read to all files verified and on disk; of a failed one, until it failed.
        verified_s: how long reading the restored files back took, beside that.
        restored_bytes: 0 when it failed.
        passed: every byte was restored, and read back from the restored files with the right hash.
        happened: what went wrong, with the files and tensors that are hurt.
        by: who signs it off.
    """

    snapshot: SnapshotId
    at_s: float
    took_s: float
    verified_s: float
    restored_bytes: int
    passed: bool
    happened: str
    by: Person

    @property
    def bytes_per_s(self) -> float | None:
        """Measured throughput; None when there is none to speak of."""
        return self.restored_bytes / self.took_s if self.passed and self.took_s > 0 else None


class Scored(msgspec.Struct, frozen=True):
    """A snapshot and how much it wants to be tested: weight of its workload × seconds untested, twice for the newest."""

    info: SnapshotInfo
    score: float
    untested_s: float
    last: Drill | None


def score(
    usable: Sequence[SnapshotInfo], last: Mapping[SnapshotId, Drill], weights: Mapping[WorkloadId, float], *, now_s: float
) -> tuple[Scored, ...]:
    """The most critical and longest untested first; of equals the newest. ``usable``: newest first in each workload."""
    newest: dict[WorkloadId, SnapshotId] = {}
    for info in usable:
        newest.setdefault(info.workload, info.id)
    found = []
    for info in usable:
        drill = last.get(info.id)
        untested_s = max(0.0, now_s - drill.at_s) if drill is not None else max(NEVER_TESTED_S, now_s - info.created_s)
        weight = weights.get(info.workload, 1.0) * (NEWEST_WEIGHT if newest[info.workload] == info.id else 1.0)
        if drill is not None and not drill.passed:  # it failed: whether it was mended is the first question
            untested_s = max(NEVER_TESTED_S, untested_s)
        found.append(Scored(info, weight * untested_s, untested_s, drill))
    return tuple(sorted(found, key=lambda one: (-one.score, -one.info.created_s, one.info.id)))


def record_drill(objects: Objects, drill: Drill) -> str:
    """Sign it off. Returns the key. Raises port errors."""
    key = _key(drill)
    objects.add(key, drill)
    return key


def read_drill(objects: Objects, key: str) -> Drill:
    """The drill at a listed key. Raises NotFound, Damaged."""
    drill = objects.record(key, Drill)
    if _key(drill) != key:
        raise damaged(key, f"the record is about {drill.snapshot} at another time")
    return drill


def last_drills(objects: Objects) -> dict[SnapshotId, Drill]:
    """The last drill of each snapshot that had one, by the time in its name; records that cannot be read are left out (`verify` tells)."""
    newest: dict[str, str] = {}
    for key in objects.blobs.list(DRILLS_PREFIX):  # sorted: the last one of a folder is the newest
        parts = key.split("/")
        if len(parts) == 3:
            newest[parts[1]] = key
    found = {}
    for name, key in newest.items():
        with contextlib.suppress(Damaged, NotFound):
            found[SnapshotId(name)] = read_drill(objects, key)
    return found


def _key(drill: Drill) -> str:
    return f"{DRILLS_PREFIX}{snapshot_name(drill.snapshot).id}/{round(drill.at_s * 1000):015d}.json"
