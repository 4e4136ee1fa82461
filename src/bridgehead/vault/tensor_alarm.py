"""Alarms: what can be wrong with a save that reported success (V07, V14, V15)."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import Snapshot


class AlarmCode(enum.StrEnum):
    """What is wrong. The codes are stable: scripts refer to them."""

    NO_TENSOR_CHANGED = "no-tensor-changed"
    WEIGHTS_FROZEN = "weights-frozen"
    OPTIMIZER_FROZEN = "optimizer-frozen"
    SHARD_FROZEN = "shard-frozen"
    SHARD_MISSING = "shard-missing"
    FILE_MISSING = "file-missing"
    FILE_CUT_OFF = "file-cut-off"
    TENSOR_MISSING = "tensor-missing"
    TENSOR_NEW = "tensor-new"
    DTYPE_CHANGED = "dtype-changed"
    SHAPE_CHANGED = "shape-changed"
    NAN = "nan"
    INF = "inf"
    ALL_ZERO = "all-zero"
    NORM_JUMP = "norm-jump"
    CANNOT_TELL = "cannot-tell"


class Severity(enum.StrEnum):
    """How bad. ``UNKNOWN``: it could not be judged, which is not the same as fine."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"


class Alarm(msgspec.Struct, frozen=True):
    """One finding about one snapshot.

    Attributes:
        since_step: the first saved step for which it holds without a break up to ``step``.
        subjects: the tensors, as ``name`` or, where several files have that name, ``file: name``; files for codes about files. All of them.
        text: a sentence for people.
    """

    code: AlarmCode
    severity: Severity
    workload: WorkloadId
    snapshot: SnapshotId
    step: int
    since_step: int
    subjects: tuple[str, ...]
    text: str


_CRITICAL: Final = frozenset(AlarmCode) - {
    *(AlarmCode.TENSOR_NEW, AlarmCode.FILE_MISSING, AlarmCode.SHARD_FROZEN, AlarmCode.ALL_ZERO, AlarmCode.NORM_JUMP, AlarmCode.CANNOT_TELL)
}


def alarm_of(snapshot: Snapshot, code: AlarmCode, subjects: tuple[str, ...], text: str, *, since_step: int) -> Alarm:
    """An alarm with the severity of its code."""
    severity = Severity.CRITICAL if code in _CRITICAL else Severity.UNKNOWN if code is AlarmCode.CANNOT_TELL else Severity.WARNING
    return Alarm(code, severity, snapshot.workload, snapshot.id, snapshot.step, since_step, subjects, text)
