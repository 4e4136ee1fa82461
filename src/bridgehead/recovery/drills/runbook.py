"""The runbook of a drill: open a bubble, recover each workload in it as a failover would, with planned faults, and leave nothing (R13)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import JobName, Person, ServiceId, StepId, WorkloadId
from bridgehead.model.bubble import Bubble, DeadNode
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.runbook import ActionStep, ApprovalStep, Retry, Runbook, Step, UndoPolicy
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.bubble import (
    AnswersParams,
    BubbleParams,
    CloseBubble,
    FaultsHit,
    FaultsHitParams,
    OpenBubble,
    StartInBubble,
    StrikeJob,
    StrikeParams,
)
from bridgehead.recovery.actions.fencing import FenceParams, RaiseFence
from bridgehead.recovery.actions.proving import ProveNewest, ProveParams
from bridgehead.recovery.actions.training import ReleaseParams, ReleaseTarget, Standby, StandbyParams

THROWN_AWAY = "the bubble is thrown away as a whole"
NOBODY = JobName("nobody-before")
"""In a bubble no trainer ran before the one that is released."""


class DrillCase(msgspec.Struct, frozen=True):
    """One workload that is recovered.

    Attributes:
        job: how it is started in the bubble, in standby where it is a training.
        stored: the vault's name of what is restored; None when nothing is.
        service: whose health says that it answers.
        needs: workloads that must answer before.
        rpo_s, rto_s: its objective; None when nobody said.
    """

    workload: WorkloadId
    kind: WorkloadKind
    job: JobSpec
    stored: WorkloadId | None = None
    service: ServiceId | None = None
    needs: tuple[WorkloadId, ...] = ()
    priority: int = 0
    rpo_s: float | None = None
    rto_s: float | None = None
    settle_s: float = 1.0


class DrillPlan(msgspec.Struct, frozen=True):
    """What is drilled.

    Attributes:
        cases: those of higher priority are proved first.
        approvers: who may say that it begins; nobody is asked when there are none.
        approval_expires_s: no answer by then is a no.
    """

    name: str
    bubble: Bubble
    cases: tuple[DrillCase, ...]
    approvers: tuple[Person, ...] = ()
    approval_expires_s: float = 3600.0
    step_deadline_s: float = 600.0
    retry: Retry = Retry(attempts=3, backoff_s=0.5)


def drill_runbook(plan: DrillPlan) -> Runbook:
    """Every case ends with a step ``ready-<workload>``: the moment at which it counts as recovered."""
    steps: list[Step] = []
    first: list[StepId] = []
    if plan.approvers:
        text = f"Drill {', '.join(case.workload for case in plan.cases)} in a bubble beside {plan.bubble.of}."
        steps.append(ApprovalStep(StepId("approve"), plan.approvers, plan.approval_expires_s, text=text, title="approve the drill"))
        first = [StepId("approve")]
    steps.append(_step(plan, "open", OpenBubble.name, BubbleParams(plan.bubble), needs=first, title="open the bubble", keep=False))
    struck = {fault.workload for fault in plan.bubble.faults if isinstance(fault, DeadNode)}
    for case in sorted(plan.cases, key=lambda case: -case.priority):
        steps += _case(plan, case, struck=case.workload in struck)
    kills = tuple(StepId(f"strike-{fault.workload}") for fault in plan.bubble.faults if isinstance(fault, DeadNode))
    ready = [f"ready-{case.workload}" for case in plan.cases]
    before: Sequence[str] = ready
    if plan.bubble.faults:
        hit = FaultsHitParams(plan.bubble, kills)
        steps.append(_step(plan, "faults", FaultsHit.name, hit, needs=[*ready, *kills], title="each planned fault struck"))
        before = ["faults"]
    steps.append(_step(plan, "close", CloseBubble.name, BubbleParams(plan.bubble), needs=["open", *before], title="leave nothing"))
    return Runbook(name=plan.name, steps=tuple(steps), description=f"Drill of {plan.bubble.of} in bubble {plan.bubble.id}")


def _case(plan: DrillPlan, case: DrillCase, *, struck: bool) -> list[Step]:
    site, name = plan.bubble.site, case.workload
    begins = ["open", *(f"ready-{need}" for need in case.needs)]
    steps: list[Step] = []
    if case.stored is not None:
        prove = ProveParams(case.stored, site)
        steps.append(_step(plan, f"prove-{name}", ProveNewest.name, prove, needs=begins, title=f"newest usable snapshot of {name}"))
        begins.append(f"prove-{name}")
    if case.kind is WorkloadKind.TRAINING:
        return steps + _training(plan, case, begins, struck=struck)
    of = StepId(f"prove-{name}") if case.stored is not None else None
    start = AnswersParams(site, case.job, service=case.service, of=of, settle_s=case.settle_s)
    if not struck:
        return [*steps, _step(plan, f"ready-{name}", StartInBubble.name, start, needs=begins, title=f"{name} answers")]
    return [
        *steps,
        _step(plan, f"start-{name}", StartInBubble.name, start, needs=begins, title=f"{name} answers"),
        _strike(plan, case),
        _step(plan, f"ready-{name}", StartInBubble.name, start, needs=[*begins, f"strike-{name}"], title=f"{name} answers again"),
    ]


def _training(plan: DrillPlan, case: DrillCase, begins: list[str], *, struck: bool) -> list[Step]:
    """As after the loss of its site: fence, restore, release, and the step counter advances (J14). The fence is the view's own."""
    site, name, of = plan.bubble.site, case.workload, StepId(f"prove-{case.workload}")
    stored = case.stored or name
    fence, standby = FenceParams(stored, site, (site,), of=of), StandbyParams(stored, site, case.job)
    release = ReleaseParams(stored, site, NOBODY, site, case.job.name, hold=of)
    steps: list[Step] = [
        _step(plan, f"fence-{name}", RaiseFence.name, fence, needs=begins, title="fence, in the bubble alone"),
        _step(plan, f"standby-{name}", Standby.name, standby, needs=[f"fence-{name}"], title=f"restore {name}, in standby"),
    ]
    last = f"standby-{name}"
    if struck:
        steps.append(_strike(plan, case, after=last))
        last = f"again-{name}"
        again = [f"fence-{name}", f"strike-{name}"]
        steps.append(_step(plan, last, Standby.name, standby, needs=again, title=f"restore {name} on another node"))
    needs = [f"fence-{name}", of, last]
    return [*steps, _step(plan, f"ready-{name}", ReleaseTarget.name, release, needs=needs, title=f"{name} computes a new step")]


def _strike(plan: DrillPlan, case: DrillCase, *, after: str = "") -> ActionStep:
    needs = [after or f"start-{case.workload}"]
    strike = StrikeParams(plan.bubble.site, case.job)
    return _step(plan, f"strike-{case.workload}", StrikeJob.name, strike, needs=needs, title=f"the node of {case.workload} dies")


def _step(
    plan: DrillPlan, step: str, action: str, params: msgspec.Struct, *, needs: Sequence[str], title: str, keep: bool = True
) -> ActionStep:
    given = {key: value for key, value in msgspec.json.decode(msgspec.json.encode(params)).items() if value is not None}
    return ActionStep(
        id=StepId(step),
        action=action,
        params=given,
        deadline_s=plan.step_deadline_s,
        needs=tuple(StepId(need) for need in dict.fromkeys(needs)),
        retry=plan.retry,
        undo=UndoPolicy.KEEP if keep else UndoPolicy.ACTION,
        undo_reason=THROWN_AWAY if keep else "",
        undo_deadline_s=plan.step_deadline_s,
        title=title,
    )
