"""Modes: every way in which a workload could go over, with what it loses by each (the table of ``docs/reference/plan-files.md``). Pure.

Counted here for itself, so that an explanation rests on the contract and not on what the planner believed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.kernel.quantity import format_duration, format_rate
from bridgehead.model.estate import Workload, WorkloadKind
from bridgehead.model.plan import SwingMode
from bridgehead.planning.course import Course

WARM_UP_S: Final = 300.0
REQUEUED_S: Final = 1800.0
HOUR_S: Final = 3600.0


class Way(msgspec.Struct, frozen=True):
    """One mode.

    Attributes:
        lost_s: how long the workload stands still; None where that is not known, or the mode is not open to it.
        lost_gpu_hours: of all its GPUs.
        fits: whether the contract allows it.
        because: how the loss comes about, or why the mode is not open.
    """

    mode: SwingMode
    lost_s: float | None
    lost_gpu_hours: float | None
    fits: bool
    because: str


def ways_of(course: Course, workload: Workload) -> tuple[Way, ...]:
    """All four modes, the ones that fit first, by what they lose."""
    found = [_canary(workload), _precopy(course, workload), _restart(course, workload), _requeue(workload)]
    ordered = sorted(found, key=lambda way: (not way.fits, way.lost_s if way.lost_s is not None else float("inf"), way.mode))
    gpus = workload.gpus
    return tuple(msgspec.structs.replace(way, lost_gpu_hours=None if way.lost_s is None else way.lost_s * gpus / HOUR_S) for way in ordered)


def _canary(workload: Workload) -> Way:
    if workload.kind is WorkloadKind.INFERENCE:
        return Way(SwingMode.CANARY, 0.0, None, True, "traffic goes over in steps while both sides serve")
    return Way(SwingMode.CANARY, None, None, False, "only inference has traffic that can be spread")


def _requeue(workload: Workload) -> Way:
    if workload.kind is not WorkloadKind.BATCH or workload.total_checkpoint_bytes is not None:
        return Way(SwingMode.REQUEUE, None, None, False, "only for batch without a checkpoint")
    every_s = workload.checkpoint_every_s
    lost_s = REQUEUED_S if every_s is None else every_s / 2
    taken = "half an hour, since nobody said how long a job is" if every_s is None else "half of checkpoint_every, on the mean"
    return Way(SwingMode.REQUEUE, lost_s, None, True, f"begun anew: {taken}")


def _precopy(course: Course, workload: Workload) -> Way:
    if workload.kind is not WorkloadKind.TRAINING:
        return Way(SwingMode.PRECOPY, None, None, False, "only training is copied while it runs")
    every_s, delta = workload.checkpoint_every_s, _delta_bits(course, workload)
    if not every_s or delta is None:
        missing = "checkpoint" if delta is None else "checkpoint_every"
        return Way(SwingMode.PRECOPY, None, None, False, f"{missing} is not given, so it is not known whether copying ever catches up")
    change, half = delta / every_s, course.lane_bps / 2
    if change >= half:
        words = f"its state changes by {format_rate(change, digits=3)}, which is not below half a lane ({format_rate(half, digits=3)})"
        return Way(SwingMode.PRECOPY, None, None, False, words)
    save_s, restore_s, send_s = _save_s(course, workload), _restore_s(course, workload), delta / course.lane_bps
    if save_s is None or restore_s is None:
        return Way(SwingMode.PRECOPY, None, None, True, "save or restore is not known")
    precopy = course.policy.precopy
    parts = (
        ("save", save_s),
        ("last difference", send_s),
        ("its restore", restore_s * precopy.delta_share),
        ("release", precopy.release_s),
    )
    return _sum(SwingMode.PRECOPY, parts)


def _restart(course: Course, workload: Workload) -> Way:
    delta = _delta_bits(course, workload)
    if workload.kind not in (WorkloadKind.TRAINING, WorkloadKind.BATCH) or delta is None:
        return Way(SwingMode.RESTART, None, None, False, "only for training and batch with a checkpoint")
    save_s, restore_s = _save_s(course, workload), _restore_s(course, workload)
    if save_s is None or restore_s is None or not course.lane_bps:
        return Way(SwingMode.RESTART, None, None, True, "save, restore or the line is not known")
    warm_s = WARM_UP_S if workload.warm_up_s is None else workload.warm_up_s
    parts = (("save", save_s), ("last difference", delta / course.lane_bps), ("restore", restore_s), ("warm-up", warm_s))
    return _sum(SwingMode.RESTART, parts)


def _sum(mode: SwingMode, parts: tuple[tuple[str, float], ...]) -> Way:
    return Way(
        mode, sum(part for _, part in parts), None, True, " + ".join(f"{name} {format_duration(part, digits=3)}" for name, part in parts)
    )


def _delta_bits(course: Course, workload: Workload) -> float | None:
    size = workload.total_checkpoint_bytes
    return None if size is None else 8 * course.policy.precopy.delta_share * size


def _save_s(course: Course, workload: Workload) -> float | None:
    size = workload.total_checkpoint_bytes
    rate = next((store.write_bps for store in course.source.stores if store.id == workload.store), None)
    if workload.save_s is not None or size is None or not rate:
        return workload.save_s
    return 8 * size / rate


def _restore_s(course: Course, workload: Workload) -> float | None:
    size = workload.total_checkpoint_bytes
    rate = max((store.read_bps for store in course.target.stores if store.read_bps), default=0.0)
    if workload.restore_s is not None or size is None or not rate:
        return workload.restore_s
    return 8 * size / rate
