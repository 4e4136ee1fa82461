"""The runbook of a drill: open a bubble, recover each workload in it as a failover would, with planned faults, and leave nothing (R13)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import JobName, Person, ServiceId, SnapshotId, StepId, WorkloadId
from bridgehead.model.bubble import Bubble, DeadNode, KillRestore, SiteDown, fault_name
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
    ProveThis,
    ProveThisParams,
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
OPEN, APPROVE, FAULTS, CLOSE = StepId("open"), StepId("approve"), StepId("faults"), StepId("close")
BEFORE = "-before"
"""Ends the names of the steps that go before the loss of the whole bubble, where one is planned."""


class Target(msgspec.Struct, frozen=True):
    """An objective, and who says it: ``objectives.chat.rpo``, ``class inference``."""

    value_s: float
    set_by: str = ""


class DrillCase(msgspec.Struct, frozen=True):
    """One workload that is recovered.

    Attributes:
        job: how it is started in the bubble, in standby where it is a training.
        stored: the vault's name of what is restored; None when nothing is.
        snapshot: this very one, which a service is known to serve; None for the newest usable one.
        service: whose health says that it answers.
        needs: workloads that must answer before.
        rpo, rto: its objective; None when nobody said.
        again: the job under another name, for a second recovery: a trainer must not recall its first release.
    """

    workload: WorkloadId
    kind: WorkloadKind
    job: JobSpec
    stored: WorkloadId | None = None
    snapshot: SnapshotId | None = None
    service: ServiceId | None = None
    needs: tuple[WorkloadId, ...] = ()
    priority: int = 0
    gpus: int = 0
    rpo: Target | None = None
    rto: Target | None = None
    settle_s: float = 1.0
    again: JobSpec | None = None


class DrillPlan(msgspec.Struct, frozen=True):
    """What is drilled.

    Attributes:
        cases: those of higher priority are proved first.
        approvers: who may say that it begins; nobody is asked when there are none.
        quorum: how many of them must.
        approval_expires_s: no answer by then is a no.
    """

    name: str
    bubble: Bubble
    cases: tuple[DrillCase, ...]
    approvers: tuple[Person, ...] = ()
    quorum: int = 1
    approval_expires_s: float = 3600.0
    step_deadline_s: float = 600.0
    retry: Retry = Retry(attempts=3, backoff_s=0.5)

    @property
    def goes_down(self) -> bool:
        """Whether the whole bubble is lost in between."""
        return any(isinstance(fault, SiteDown) for fault in self.bubble.faults)


def drill_runbook(plan: DrillPlan) -> Runbook:
    """Every case ends with a step ``ready-<workload>``: the moment at which it counts as recovered."""
    steps: list[Step] = []
    first: list[str] = []
    if plan.approvers:
        text = f"Drill {', '.join(case.workload for case in plan.cases)} in a bubble beside {plan.bubble.of}."
        asks = ApprovalStep(APPROVE, plan.approvers, plan.approval_expires_s, quorum=plan.quorum, text=text, title="approve the drill")
        steps, first = [asks], [APPROVE]
    steps.append(_step(plan, OPEN, OpenBubble.name, BubbleParams(plan.bubble), needs=first, title="open the bubble", keep=False))
    cases = sorted(plan.cases, key=lambda case: -case.priority)
    if plan.goes_down:
        for case in cases:
            steps += _Round(plan, case, BEFORE, case.job, struck_by(plan, case.workload)).steps([OPEN])
        up = [f"ready-{case.workload}{BEFORE}" for case in cases]
        for case in cases:
            strike = StrikeParams(plan.bubble.site, case.job)
            steps.append(
                _step(plan, down(case.workload), StrikeJob.name, strike, needs=up, title=f"{case.workload} goes down with its site")
            )
        lost: list[str] = [down(case.workload) for case in cases]
        for case in cases:
            steps += _Round(plan, case, "", case.again or case.job, None).steps([OPEN, *lost])
    else:
        for case in cases:
            steps += _Round(plan, case, "", case.job, struck_by(plan, case.workload)).steps([OPEN])
    before = [f"ready-{case.workload}" for case in plan.cases]
    if plan.bubble.faults:
        kills = kills_of(plan)
        needs = [*before, *(step for strikes in kills.values() for step in strikes)]
        hit = FaultsHitParams(plan.bubble, kills)
        steps.append(_step(plan, FAULTS, FaultsHit.name, hit, needs=needs, title="each planned fault struck"))
        before = [FAULTS]
    steps.append(_step(plan, CLOSE, CloseBubble.name, BubbleParams(plan.bubble), needs=[OPEN, *before], title="leave nothing"))
    return Runbook(name=plan.name, steps=tuple(steps), description=f"Drill of {plan.bubble.of} in bubble {plan.bubble.id}")


def kills_of(plan: DrillPlan) -> dict[str, tuple[StepId, ...]]:
    """For each planned fault that ends jobs, the steps that do it."""
    found: dict[str, tuple[StepId, ...]] = {}
    ending = BEFORE if plan.goes_down else ""
    for fault in plan.bubble.faults:
        match fault:
            case DeadNode(workload=workload) | KillRestore(workload=workload):
                found[fault_name(fault)] = (StepId(f"strike-{workload}{ending}"),)
            case SiteDown():
                found[fault_name(fault)] = tuple(StepId(down(case.workload)) for case in plan.cases)
            case _:
                pass
    return found


def down(workload: WorkloadId) -> str:
    """The step that ends a workload's job when the whole bubble is lost."""
    return f"down-{workload}"


def struck_by(plan: DrillPlan, workload: WorkloadId) -> DeadNode | KillRestore | None:
    """The planned fault that ends the job of this workload alone."""
    found = (fault for fault in plan.bubble.faults if isinstance(fault, DeadNode | KillRestore) and fault.workload == workload)
    return next(found, None)


class _Round(msgspec.Struct, frozen=True):
    """One recovery of one workload. ``ending``: of the names of its steps."""

    plan: DrillPlan
    case: DrillCase
    ending: str
    job: JobSpec
    struck: DeadNode | KillRestore | None

    def steps(self, begins: Sequence[str]) -> list[Step]:
        """In their order. ``begins``: steps before all of them."""
        case, site = self.case, self.plan.bubble.site
        begins = [*begins, *(f"ready-{need}{self.ending}" for need in case.needs)]
        steps: list[Step] = []
        of: StepId | None = None
        if case.stored is not None:
            of = StepId(self._named("prove"))
            steps.append(self._prove(case.stored, begins))
            begins = [*begins, of]
        start = AnswersParams(site, self.job, service=case.service, of=of, settle_s=case.settle_s)
        if isinstance(self.struck, KillRestore):
            alive = msgspec.structs.replace(start, service=None, settle_s=0.0)
            title = f"begin with the restore of {case.workload}"
            steps += [self._step("begin", StartInBubble.name, alive, begins, title), self._strike("begin", "is killed while it restores")]
            begins = [*begins, self._named("strike")]
        if case.kind is WorkloadKind.TRAINING and of is not None:
            return steps + self._training(begins, of)
        if isinstance(self.struck, DeadNode):
            steps += [self._step("start", StartInBubble.name, start, begins, f"{case.workload} answers"), self._strike("start")]
            begins = [*begins, self._named("strike")]
        return [*steps, self._step("ready", StartInBubble.name, start, begins, f"{case.workload} answers{' again' if self.struck else ''}")]

    def _training(self, begins: Sequence[str], of: StepId) -> list[Step]:
        """As after the loss of its site: fence, restore, release, and the step counter advances (J14). The fence is the view's own."""
        site, name = self.plan.bubble.site, self.case.workload
        stored = self.case.stored or name
        standby = StandbyParams(stored, site, self.job)
        release = ReleaseParams(stored, site, NOBODY, site, self.job.name, hold=of)
        steps: list[Step] = [
            self._step("fence", RaiseFence.name, FenceParams(stored, site, (site,), of=of), begins, "fence, in the bubble alone"),
            self._step("standby", Standby.name, standby, [self._named("fence")], f"restore {name}, in standby"),
        ]
        last = "standby"
        if isinstance(self.struck, DeadNode):
            again = [self._named("fence"), self._named("strike")]
            steps += [self._strike("standby"), self._step("again", Standby.name, standby, again, f"restore {name} on another node")]
            last = "again"
        needs = [self._named("fence"), of, self._named(last)]
        return [*steps, self._step("ready", ReleaseTarget.name, release, needs, f"{name} computes a new step")]

    def _prove(self, stored: WorkloadId, begins: Sequence[str]) -> Step:
        site, name, given = self.plan.bubble.site, self.case.workload, self.case.snapshot
        if given is not None:
            return self._step("prove", ProveThis.name, ProveThisParams(site, given), begins, f"the snapshot that {name} serves")
        return self._step("prove", ProveNewest.name, ProveParams(stored, site), begins, f"newest usable snapshot of {name}")

    def _strike(self, after: str, what: str = "dies with its node") -> ActionStep:
        strike = StrikeParams(self.plan.bubble.site, self.job)
        return self._step("strike", StrikeJob.name, strike, [self._named(after)], f"{self.case.workload} {what}")

    def _step(self, step: str, action: str, params: msgspec.Struct, needs: Sequence[str], title: str) -> ActionStep:
        return _step(self.plan, self._named(step), action, params, needs=needs, title=title)

    def _named(self, step: str) -> str:
        return f"{step}-{self.case.workload}{self.ending}"


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
