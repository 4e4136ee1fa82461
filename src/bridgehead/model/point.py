"""Point: one moment over model, data, code and databases, as ``point.json`` of its snapshot says it (R10, R16)."""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.kernel.ids import RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.recovery import DatabaseEngine

POINT_FILE: Final = "point.json"
DATABASES: Final = "databases/"
"""Folder of the copies in the snapshot."""


class PointDatabase(msgspec.Struct, frozen=True):
    """The copy of one database.

    Attributes:
        file: its path in the snapshot.
        evidence: what the database said when it was pinned, and its copy when it was read back.
    """

    id: str
    engine: DatabaseEngine
    file: str
    size_bytes: int
    evidence: dict[str, str]


class Point(msgspec.Struct, frozen=True):
    """Everything of one moment.

    Attributes:
        run: that took it; its journal and ledger tell how.
        pinned_s: the moment, seconds since the Unix epoch by the controller's clock.
        model: the snapshot that the trainer made for it, in the same vault; None for a workload that does not train.
        model_step: the step that the model is after.
        serves: the snapshot that a workload which serves a model had then, the newest of its registry; None when it serves none.
        pause_s: how long the writers of databases stood still, the longest of all.
    """

    format: int
    run: RunId
    workload: WorkloadId
    site: SiteId
    pinned_s: float
    model: SnapshotId | None
    model_step: int | None
    serves: SnapshotId | None
    pause_s: float
    databases: tuple[PointDatabase, ...]


def points_of(workload: WorkloadId) -> WorkloadId:
    """Under which name the vault keeps the points of a workload. They are numbered by the second in which they were pinned."""
    return WorkloadId(f"{workload}.point")
