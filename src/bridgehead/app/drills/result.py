"""DrillResult: what a report of a drill says; the contract of ``recover drill --json`` and of the reports on disk (R1, R2, R13)."""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.ids import RunId, SiteId, WorkloadId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import WorkloadKind
from bridgehead.recovery.drills.runbook import Target
from bridgehead.recovery.loss import Loss


class DrillVerdict(enum.StrEnum):
    """How a drill came out."""

    PASSED = "passed"
    """Everything was recovered, each planned fault struck, every objective that is known was met, nothing was left."""
    MISSED = "missed"
    """Everything was recovered, but not within its objective."""
    FAILED = "failed"
    """Something was not recovered, or a planned fault did not strike, or something was left."""
    STOPPED = "stopped"
    """It was ended from outside before it came to a verdict: it says nothing of the recovery."""
    NOT_APPROVED = "not-approved"
    """Refused, or nobody answered in time."""


def seconds_text(value: float) -> str:
    """'12.4 s', '350 ms', '1 h 2 min': three digits of what is short."""
    return format_quantity(float(f"{value:.3g}") if abs(value) < 1000 else round(value), Dimension.DURATION)


def hours_text(value: float) -> str:
    """'0.00401', '12.4', '12,345': three digits of what is little."""
    return f"{float(f'{value:.3g}') if abs(value) < 1000 else round(value):,.10g}"


class Measured(msgspec.Struct, frozen=True):
    """A time beside its objective.

    Attributes:
        met: None when nobody has set one, or nothing was measured.
        set_by: who says what the objective is: ``objectives.chat.rpo``, ``class inference``, ``regulation finance``.
    """

    measured_s: float | None
    objective_s: float | None
    met: bool | None
    set_by: str

    @staticmethod
    def against(measured_s: float | None, objective: Target | None) -> Measured:
        """Hold one against the other."""
        if objective is None:
            return Measured(measured_s, None, None, "")
        met = None if measured_s is None else measured_s <= objective.value_s
        return Measured(measured_s, objective.value_s, met, objective.set_by)


class Moment(msgspec.Struct, frozen=True):
    """A milestone: when, and how long after the clock of the RTO began."""

    at_s: float
    after_s: float


class StepTime(msgspec.Struct, frozen=True):
    """One step of the drill, for its timeline.

    Attributes:
        finished: it reached its goal.
        failed: why the drill failed, of the step that it failed for.
    """

    step: str
    title: str
    workload: str
    began_s: float
    ended_s: float
    finished: bool
    failed: str = ""


class CaseResult(msgspec.Struct, frozen=True):
    """What came of one workload.

    Attributes:
        recovered: it computed a new step, or answered.
        snapshot: what it was restored from, at the moment of the loss.
        evidence: what was seen: the step, the model.
        rpo: what a loss of its home at that moment would have cost, in seconds.
        rto: from the loss until it was recovered.
        loss: the same as ``rpo`` in steps and GPU-hours, of what computes.
        passed_over: newer snapshots that could not be restored.
    """

    workload: WorkloadId
    kind: WorkloadKind
    recovered: bool
    snapshot: str
    evidence: str
    rpo: Measured
    rto: Measured
    loss: Loss | None = None
    passed_over: tuple[str, ...] = ()
    raw_bytes: int | None = None


class FaultResult(msgspec.Struct, frozen=True):
    """A planned fault, and whether it struck."""

    name: str
    hit: bool


class DrillResult(msgspec.Struct, frozen=True):
    """A whole drill. Times are seconds since 1970.

    Attributes:
        recovery, site: whose recovery was played, by the name of its file, and where.
        by, approved_by: who asked for it, and who agreed.
        reason: why it did not pass.
        rto_s: until the last workload was recovered; None when one was not.
        rpo_s, rpo_steps, rpo_gpu_hours: what a loss at that moment would have cost all workloads that compute; None: not known, or none
            computes.
        rpo_exact: whether that is the whole truth; else seconds and GPU-hours are the most and steps the least.
        milestones: ``lost`` (the clock began), ``recovered``, ``clean``; None: not reached.
        network: the bubble's network namespace; "" when it had the site's network.
        left: what could not be removed.
        ledger_head: hash of the newest entry of its run when the report was made.
        previous: SHA-256 of the report before this one in the same home; "" for the first.
    """

    drill: str
    run: RunId
    recovery: str
    site: SiteId
    by: str
    approved_by: tuple[str, ...]
    began_s: float
    ended_s: float
    verdict: DrillVerdict
    reason: str
    rto_s: float | None
    rpo_s: float | None
    rpo_steps: int | None
    rpo_gpu_hours: float | None
    rpo_exact: bool
    milestones: dict[str, Moment | None]
    cases: tuple[CaseResult, ...]
    faults: tuple[FaultResult, ...]
    steps: tuple[StepTime, ...]
    left: tuple[str, ...]
    network: str
    ledger_head: str
    entries: int
    version: str
    previous: str = ""
