"""Runbook: a DAG of steps that people review in git (R14, M10.4). Frozen values; durations in seconds.

Files are read by ``bridgehead.runbook.language``, which reports faults with file, line, column and field.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from bridgehead.kernel.ids import Person, ServiceId, SiteId, StepId
from bridgehead.kernel.moment import Moment


class OnBreach(enum.StrEnum):
    """What a gate does when the evidence is bad (G07)."""

    ROLLBACK = "rollback"
    FREEZE = "freeze"
    """Leave everything as it is and wait for a person."""
    PAGE = "page"
    """Call a person and go on measuring until the deadline."""


class OnNoData(enum.StrEnum):
    """What missing data means for one criterion (G02, G03)."""

    HOLD = "hold"
    FAIL = "fail"
    OK = "ok"
    """Passes only while the companion count proves traffic."""


class UndoPolicy(enum.StrEnum):
    """Whether a rollback passes through a step."""

    ACTION = "action"
    """The action's own undo."""
    KEEP = "keep"
    """The effect stays after a rollback; ``undo_reason`` says why that is safe."""


class OnFailure(enum.StrEnum):
    """What it means for the run that a step cannot reach its goal."""

    ROLLBACK = "rollback"
    FREEZE = "freeze"
    """A person is called; what does not need the step goes on. When nothing else is left to do, the run waits: `run resume` tries the step
    again, `run abort` rolls back. For recoveries: that one of forty services does not come up is no reason to take the others away."""


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a phase is tried and how long is waited before the next try (doubling, capped at 60 s).

    Transient errors do not use up attempts: the step's deadline bounds them, so that an outage shorter than the deadline is survived.
    """

    attempts: int = 3
    backoff_s: float = 1.0


class ActionStep(msgspec.Struct, frozen=True, tag="action", tag_field="kind"):
    """Done by a registered action: precheck, apply, verify, undo.

    Attributes:
        limit: which limit of the runbook it counts towards on the way forward; empty: none.
    """

    id: StepId
    action: str
    params: dict[str, Any]
    deadline_s: float
    needs: tuple[StepId, ...] = ()
    retry: Retry = Retry()
    undo: UndoPolicy = UndoPolicy.ACTION
    undo_reason: str = ""
    undo_deadline_s: float = 300.0
    title: str = ""
    on_failure: OnFailure = OnFailure.ROLLBACK
    limit: str = ""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question to the counters that grew since the gate began.

    The value is Δnumerator / Δdenominator at the target. At least one of the three limits is given.

    Attributes:
        limit: the value may not be above it.
        over_baseline: the value may not be above the baseline's value plus this.
        ratio_to_baseline: the value may not be above the baseline's value times this.
    """

    name: str
    numerator: str
    denominator: str
    limit: float | None = None
    over_baseline: float | None = None
    ratio_to_baseline: float | None = None
    no_data: OnNoData = OnNoData.HOLD


class GateStep(msgspec.Struct, frozen=True, tag="gate", tag_field="kind"):
    """Judges the target by evidence, beside the source at the same time (design rule 5).

    Attributes:
        traffic: the counter of requests; it must grow by ``min_traffic`` at the target within the gate.
        min_samples: readings needed before a verdict.
        interval_s: time between readings.
    """

    id: StepId
    service: ServiceId
    target: SiteId
    baseline: SiteId | None
    criteria: tuple[Criterion, ...]
    traffic: str
    min_traffic: int
    min_samples: int
    interval_s: float
    deadline_s: float
    needs: tuple[StepId, ...] = ()
    on_breach: OnBreach = OnBreach.ROLLBACK
    title: str = ""


class ApprovalStep(msgspec.Struct, frozen=True, tag="approval", tag_field="kind"):
    """Waits until ``quorum`` of the named people approved; one rejection or the expiry starts the rollback."""

    id: StepId
    approvers: tuple[Person, ...]
    deadline_s: float
    needs: tuple[StepId, ...] = ()
    quorum: int = 1
    text: str = ""
    title: str = ""


class TaskStep(msgspec.Struct, frozen=True, tag="task", tag_field="kind"):
    """Done by a person, who signs it off with evidence for each item of the checklist.

    Attributes:
        due_s: when it is planned to be signed off. Nothing happens then: people read it, and simulations sign off at that moment.
    """

    id: StepId
    owner: Person
    checklist: tuple[str, ...]
    deadline_s: float
    needs: tuple[StepId, ...] = ()
    undo_checklist: tuple[str, ...] = ()
    """What the owner does when a rollback passes through; empty means that nothing needs undoing."""
    title: str = ""
    due_s: Moment | None = None


class HoldStep(msgspec.Struct, frozen=True, tag="hold", tag_field="kind"):
    """Waits a fixed time (acclimatisation, soak), or until a moment (a window), or for both.

    Attributes:
        until_s: it is not over before this moment. A pause does not move it: windows do not wait.
    """

    id: StepId
    hold_s: float
    needs: tuple[StepId, ...] = ()
    title: str = ""
    until_s: Moment | None = None


Step = ActionStep | GateStep | ApprovalStep | TaskStep | HoldStep


class Runbook(msgspec.Struct, frozen=True):
    """A named, validated DAG of steps.

    Attributes:
        pause_expires_s: a pause or a freeze that nobody ends by then rolls back (design rule 6).
        limits: how many steps that name a limit are under way at once. Of those that could begin, the first in the runbook does. One that
            waits for its next try counts for nothing until then: what is out of reach keeps nobody else from the line (R14).
    """

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    pause_expires_s: float = 86_400.0
    limits: dict[str, int] = {}
