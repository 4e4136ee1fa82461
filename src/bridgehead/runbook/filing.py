"""The shape of a runbook in a file, where it differs from the model: one key says what kind of step it is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from bridgehead.kernel.ids import Person, ServiceId, SiteId, StepId
from bridgehead.kernel.moment import Moment
from bridgehead.kernel.quantity import Seconds
from bridgehead.kernel.shape import ByKey
from bridgehead.model.runbook import OnBreach, OnFailure, OnNoData, Retry


class KeptEffect(msgspec.Struct, frozen=True):
    """``undo: {keep: why}``: the effect stays after a rollback.

    Attributes:
        keep: why it is safe that the effect stays.
    """

    keep: str


class CriterionBody(msgspec.Struct, frozen=True):
    """One criterion of a gate.

    Attributes:
        name: what people call it.
        ratio: the two counters; the value is the growth of the first divided by the growth of the second, at the target.
        ask: a question of a preset in place of ``ratio``, such as ``vllm/first-token``; limits are in the question's own unit.
        max: the value may not be above it.
        min: the value may not be below it; for questions of presets that have a least value.
        over_baseline: the value may not be above the baseline's value plus this.
        times_baseline: the value may not be above the baseline's value times this.
        no_data: what missing data means for this criterion.
    """

    name: str
    ratio: tuple[str, str] | None = None
    max: Annotated[float, msgspec.Meta(ge=0)] | None = None
    over_baseline: Annotated[float, msgspec.Meta(ge=0)] | None = None
    times_baseline: Annotated[float, msgspec.Meta(ge=0)] | None = None
    no_data: OnNoData | None = None
    ask: str = ""
    min: Annotated[float, msgspec.Meta(gt=0)] | None = None


class GateBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a gate judges.

    Attributes:
        target: the site that is judged.
        baseline: the site that it is compared with at the same time.
        traffic: the counter of requests.
        min_traffic: requests that must reach the target before a verdict.
        min_samples: readings needed before a verdict.
        interval_s: time between readings.
        on_breach: what happens when the evidence is bad.
    """

    service: ServiceId
    target: SiteId
    baseline: SiteId | None = None
    traffic: str
    min_traffic: int
    min_samples: int
    interval_s: Seconds
    on_breach: OnBreach = OnBreach.ROLLBACK
    criteria: tuple[CriterionBody, ...]


class ApprovalBody(msgspec.Struct, frozen=True):
    """Who must agree.

    Attributes:
        approvers: the people who may approve or reject.
        quorum: how many of them must approve.
        text: what they are asked.
    """

    approvers: tuple[Person, ...]
    quorum: int = 1
    text: str = ""


class TaskBody(msgspec.Struct, frozen=True):
    """What a person does.

    Attributes:
        owner: who does it and signs it off.
        checklist: items, each signed off with its evidence.
        undo_checklist: what the owner does when a rollback passes through.
    """

    owner: Person
    checklist: tuple[str, ...]
    undo_checklist: tuple[str, ...] = ()


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    id: StepId
    title: str = ""
    needs: tuple[StepId, ...] = ()


class ActionEntry(_Entry, frozen=True, kw_only=True):
    """A step that software does.

    Attributes:
        id: unique name of the step.
        needs: steps that must be done before.
        action: a registered action.
        params: what the action is given; the action decides which keys there are.
        deadline_s: the step fails when it is not done by then.
        retry: how often a phase is tried.
        undo: what a rollback does with it.
        undo_deadline_s: the undo is Stuck when it is not done by then.
        on_failure: whether its failure rolls the run back, or calls a person while the rest goes on.
        limit: the limit of the runbook that it counts towards.
    """

    action: str
    params: dict[str, Any] = msgspec.field(default_factory=dict, name="with")
    deadline_s: Seconds
    retry: Retry = Retry()
    undo: Literal["action"] | KeptEffect = "action"
    undo_deadline_s: Seconds = 300.0
    on_failure: OnFailure = OnFailure.ROLLBACK
    limit: str = ""


class GateEntry(_Entry, frozen=True, kw_only=True):
    """A step that judges by evidence.

    Attributes:
        deadline_s: without a verdict by then the gate fails.
    """

    gate: GateBody
    deadline_s: Seconds


class ApprovalEntry(_Entry, frozen=True, kw_only=True):
    """A step that waits for people to agree.

    Attributes:
        deadline_s: the approval expires then.
    """

    approval: ApprovalBody
    deadline_s: Seconds


class TaskEntry(_Entry, frozen=True, kw_only=True):
    """A step that a person does.

    Attributes:
        deadline_s: the task fails when it is not signed off by then.
        due_s: when it is planned to be signed off; for people, nothing happens then.
    """

    task: TaskBody
    deadline_s: Seconds
    due_s: Moment | None = None


class HoldEntry(_Entry, frozen=True, kw_only=True):
    """A step that lets time pass.

    Attributes:
        hold_s: how long.
        until_s: it is not over before this moment.
    """

    hold_s: Seconds
    until_s: Moment | None = None


Entry = Annotated[
    ActionEntry | GateEntry | ApprovalEntry | TaskEntry | HoldEntry,
    ByKey((("action", ActionEntry), ("gate", GateEntry), ("approval", ApprovalEntry), ("task", TaskEntry), ("hold", HoldEntry))),
]


class RunbookFile(msgspec.Struct, frozen=True):
    """A runbook.

    Attributes:
        runbook: its name.
        pause_expires_s: a pause or freeze that nobody ends by then rolls back.
        limits: how many steps that name one of them are under way at once; the first in the runbook go first.
        steps: in any order; ``needs`` decides.
    """

    runbook: str
    steps: tuple[Entry, ...]
    description: str = ""
    pause_expires_s: Seconds = 86_400.0
    limits: dict[str, int] = {}
