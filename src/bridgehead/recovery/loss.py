"""Loss: what a failover loses of a workload, said before anybody approves it, and measured afterwards (design rule 9; R1).

The loss is the work between the snapshot that is promoted and the last step that the source completed. How sure that is depends on what is
known of the source: a report of a trainer that has been seen to have ended is the whole truth; an older one is a lower bound; without any,
only the time since the snapshot bounds it. What is not known is said to be unknown, never taken as 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.snapshot import SnapshotInfo

HOUR_S = 3600.0


class LastSeen(msgspec.Struct, frozen=True):
    """The newest report of a trainer of the source.

    Attributes:
        step: last completed step.
        step_ended_s: when it was completed.
        reported_s: when the trainer said so.
        final: the trainer was seen to have ended, so that no later step exists.
    """

    step: int
    step_ended_s: float
    reported_s: float
    final: bool


class Loss(msgspec.Struct, frozen=True):
    """What is lost of one workload. Seconds are of computing, from the snapshot to the last step.

    Attributes:
        snapshot: what is promoted; None when there is nothing: then everything is lost.
        snapshot_step: its step.
        last_step: last step that the source is known to have completed; None: not known.
        steps: None: not known.
        seconds: None: not known.
        exact: whether ``steps`` and ``seconds`` are the whole loss; else ``steps`` is the least and ``seconds`` the most.
    """

    workload: WorkloadId
    snapshot: SnapshotId | None
    snapshot_step: int | None
    last_step: int | None
    steps: int | None
    seconds: float | None
    gpus: int
    exact: bool
    told: bool = True
    """Whether anything is known of it at all."""

    @property
    def gpu_hours(self) -> float | None:
        """Computing time of all GPUs of the workload."""
        return None if self.seconds is None else self.seconds * self.gpus / HOUR_S

    @property
    def text(self) -> str:
        """For the person who approves it."""
        if not self.told:
            return f"{self.workload}: what is lost is not known"
        if self.snapshot is None:
            return f"{self.workload}: EVERYTHING is lost: there is no verified snapshot at the recovery site"
        begin = f"{self.workload}: goes on from step {self.snapshot_step} ({self.snapshot})"
        if self.exact and not self.steps:
            return f"{begin}; nothing is lost"
        steps = "an unknown number of steps" if self.steps is None else f"{'' if self.exact else 'at least '}{self.steps} steps"
        time = "an unknown time"
        if self.seconds is not None:
            hours = self.gpu_hours or 0.0
            shown = format_quantity(round(self.seconds, 1), Dimension.DURATION)
            time = f"{'' if self.exact else 'at most '}{shown} of computing ({hours:{',.2f' if hours >= 1 else '.3g'}} GPU-hours)"
        return f"{begin}; lost: {steps}, {time}"


class Losses(msgspec.Struct, frozen=True):
    """Of all workloads that compute. None where a part is not known: a sum with an unknown part is unknown."""

    each: tuple[Loss, ...]

    @property
    def seconds(self) -> float | None:
        """The longest: they lose side by side."""
        return _all_known([one.seconds for one in self.each], most=True)

    @property
    def steps(self) -> int | None:
        """Of all together."""
        total = _all_known([None if one.steps is None else float(one.steps) for one in self.each], most=False)
        return None if total is None else int(total)

    @property
    def gpu_hours(self) -> float | None:
        """Of all together."""
        return _all_known([one.gpu_hours for one in self.each], most=False)

    @property
    def exact(self) -> bool:
        """Whether every part is the whole truth."""
        return all(one.exact for one in self.each)

    @property
    def text(self) -> str:
        """One line for each workload."""
        return "\n".join(one.text for one in self.each) or "No workload that computes is concerned: nothing is lost."


def untold(workload: WorkloadId) -> Loss:
    """Of a workload of which nobody has said anything yet."""
    return Loss(workload, None, None, None, None, None, 0, exact=False, told=False)


def loss_of(workload: WorkloadId, *, point: SnapshotInfo | None, last: LastSeen | None, lost_s: float, gpus: int) -> Loss:
    """What is lost when ``point`` is promoted.

    Args:
        lost_s: when the source was lost, or at the latest.
    """
    if point is None:
        return Loss(workload, None, None, None if last is None else last.step, None, None, gpus, exact=False)
    if last is None:
        return Loss(workload, point.id, point.step, None, None, max(0.0, lost_s - point.created_s), gpus, exact=False)
    steps = max(0, last.step - point.step)
    if not last.final or (steps and not last.step_ended_s):
        # A report without the time of its step, as of a trainer that has only restored, does not tell for how long it computed.
        return Loss(workload, point.id, point.step, last.step, steps, max(0.0, lost_s - point.created_s), gpus, exact=False)
    seconds = max(0.0, last.step_ended_s - point.created_s) if steps else 0.0
    return Loss(workload, point.id, point.step, last.step, steps, seconds, gpus, exact=True)


def _all_known(parts: Iterable[float | None], *, most: bool) -> float | None:
    known: list[float] = []
    for part in parts:
        if part is None:
            return None
        known.append(part)
    return (max(known) if most else sum(known)) if known else 0.0
