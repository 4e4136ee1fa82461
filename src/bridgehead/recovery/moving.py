"""Moving: many workloads go over while both sites work, losing nothing; and back again after a failover (design rules 8 to 11; J06, J07).

A planned move: everything is made warm at the target first, then approved, then each goes over: inference by canary or ramp, training by
a final checkpoint and a fence. Everything is undone in reverse order when a step fails. A failback is a move that closes and seeds the
returned site first, so that only the difference travels, and that begins only when replication to it is proved to work.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import SiteId, StepId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Recovery
from bridgehead.model.runbook import Criterion, GateStep, OnFailure, Runbook, Step
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.recovery import around
from bridgehead.recovery.actions.jobs import StopJob, StopJobParams
from bridgehead.recovery.actions.milestones import Milestone, MilestoneParams, ProbeParams, ProbeReplication, ReachMilestone
from bridgehead.recovery.actions.preflight import preflight_steps
from bridgehead.recovery.actions.ramping import RampParams, RampTraffic
from bridgehead.recovery.actions.replication import Precopy, PrecopyParams, Replicate, ReplicateParams
from bridgehead.recovery.actions.running import EnsureJob, EnsureParams
from bridgehead.recovery.actions.services import DrainParams, DrainTraffic, ShiftParams, ShiftTraffic, StartService, StartServiceParams
from bridgehead.recovery.actions.takeover import TakeOver, TakeOverParams
from bridgehead.recovery.actions.training import Hold, HoldParams, ReleaseParams, ReleaseTarget, Standby, StandbyParams
from bridgehead.recovery.order import needed, ordered
from bridgehead.recovery.protection import PROTECTED, SERVING, protection
from bridgehead.recovery.runbooks import COPIES_ARE_HARMLESS, CanaryRules
from bridgehead.recovery.steps import LONG_PAUSE_S, Case, Maker, percent

READY = StepId("ready")
NOTHING_CHANGED = "a proof changes nothing"


class Move(msgspec.Struct, frozen=True):
    """What is moved.

    Attributes:
        cases: all from the same source to the same target.
        since_s: when it was begun; milestones count from there.
        returned: the target was lost before: it is closed, cleaned and seeded first (failback).
        canary: how gates judge services that have counters.
        folder: where results of hooks are kept, on the controller's machine.
        needs: what must be at the target before anything is stopped; empty where no mapping says.
    """

    name: str
    recovery: Recovery
    source: SiteId
    target: SiteId
    cases: tuple[Case, ...]
    since_s: float
    returned: bool = False
    canary: CanaryRules = CanaryRules()
    folder: str = ""
    needs: tuple[SiteNeeds, ...] = ()

    @property
    def radius(self) -> str:
        """What is affected if it is done, and if it fails."""
        names = ", ".join(case.id for case in self.cases)
        again = ", ".join(case.id for case in self.cases if case.workload.kind is WorkloadKind.BATCH and not case.may_have_saved)
        begins = f" Nothing is saved of {again}: it begins from the beginning." if again else ""
        return (
            f"Goes from {self.source} to {self.target}: {names}. Nothing is lost: trainings stand still from their final checkpoint until "
            f"they are released.{begins} If a step fails, everything is put back in reverse order."
        )


def move_runbook(plan: Move) -> Runbook:
    """``recover move``, and ``recover failback`` with ``returned``."""
    maker = Maker(plan.recovery)
    steps: list[Step] = []
    begin: list[StepId] = []
    if plan.returned:
        # Waiting for a person is better than taking a proof back; nothing here changes what runs.
        careful = Maker(plan.recovery, kept=NOTHING_CHANGED, on_failure=OnFailure.FREEZE)
        before = [msgspec.structs.replace(case, source=plan.target, target=plan.source) for case in plan.cases]
        first = protection(careful, plan.target, before, after=[], confirmed=None, since_s=plan.since_s)[:-1]
        steps += first
        begin = [step.id for step in first]
    proved = preflight_steps(maker, plan.needs, after=begin)
    steps += proved
    begin += [step.id for step in proved]
    order = ordered(case.workload for case in plan.cases)
    by_name = {case.id: case for case in plan.cases}
    warm: list[StepId] = []
    for one in order:
        prepared = _prepared(maker, by_name[one.id], needs=begin)
        steps += prepared
        warm += [step.id for step in prepared[-1:]]
    text = f"Move to {plan.target}.\n{plan.radius}"
    asked = maker.approval(text, needs=[*begin, *warm], title=f"approve the move to {plan.target}")
    steps += asked
    before_all = [step.id for step in asked] or [*begin, *warm]
    for one in order:
        waits = [by_name[need].step("ready") for need in needed(one, order)]
        case = by_name[one.id]
        made_ready = around.before(maker, case, folder=plan.folder, needs=[*before_all, *waits])
        needs = [step.id for step in made_ready] or [*before_all, *waits]
        steps += [*made_ready, *_gone_over(maker, plan, case, needs=needs), *around.after(maker, case, folder=plan.folder)]
    steps += _milestones(maker, plan)
    # A move is not taken back because the people who have to look at a step that failed come on Monday.
    return Runbook(plan.name, tuple(steps), description=plan.radius, pause_expires_s=LONG_PAUSE_S)


def _prepared(maker: Maker, case: Case, *, needs: Sequence[StepId]) -> list[Step]:
    """Copied, restored, warm; nothing has changed for anybody yet. The last step is what the approval waits for."""
    source, target, deadlines = case.source, case.target, maker.deadlines
    copies: list[Step] = []
    copied = list(needs)
    if case.trains:
        params: msgspec.Struct = PrecopyParams(case.id, source, target)
        copies.append(_copy(maker, case.step("precopy"), Precopy.name, params, needs=copied, title=f"copy {case.id} while it runs"))
    elif case.model is not None:
        params = ReplicateParams(case.workload.served, source, target, snapshot=case.model)
        copies.append(_copy(maker, case.step("copy"), Replicate.name, params, needs=copied, title=f"copy what {case.id} serves"))
    copied = [step.id for step in copies] or copied
    if case.trains:
        warm = StandbyParams(case.id, target, case.spec(target, standby=True))
        title = f"restore {case.id} at {target}, in standby"
        return [
            *copies,
            maker.step(case.step("standby"), Standby.name, warm, needs=copied, title=title, deadline_s=deadlines.restore_s),
        ]
    if case.workload.kind is WorkloadKind.BATCH:
        return copies
    title = f"start {case.id} at {target}"
    if case.service is not None:
        start = StartServiceParams(case.service, target, case.spec(target), like=source)
        return [*copies, maker.step(case.step("warm"), StartService.name, start, needs=copied, title=title, deadline_s=deadlines.restore_s)]
    ensure = EnsureParams(target, case.spec(target))
    return [*copies, maker.step(case.step("warm"), EnsureJob.name, ensure, needs=copied, title=title, deadline_s=deadlines.restore_s)]


def _gone_over(maker: Maker, plan: Move, case: Case, *, needs: Sequence[StepId]) -> list[Step]:
    """From the approval to the source at rest; ``ready-<workload>`` is when it works at the target."""
    if case.trains:
        return _training(maker, case, needs=needs)
    restart = case.spec(case.source)
    stop = StopJobParams(case.source, restart.name, restart, restart.grace_s)
    ready = case.step("ready")
    if case.workload.kind is WorkloadKind.BATCH:
        return _batch(maker, case, maker.step(case.step("stop"), StopJob.name, stop, needs=needs, title=f"stop {case.id} at {case.source}"))
    if case.service is None:
        ensure = EnsureParams(case.target, case.spec(case.target))
        return [
            maker.step(ready, EnsureJob.name, ensure, needs=needs, title=f"{case.id} works at {case.target}"),
            maker.step(case.step("stop"), StopJob.name, stop, needs=[ready], title=f"stop {case.id} at {case.source}"),
        ]
    steps = _canary(maker, plan, case, needs=needs) if case.gated else _ramp(maker, case, needs=needs)
    drain = DrainParams(case.service, case.source)
    drained = case.step("drain")
    return [
        *steps,
        maker.step(drained, DrainTraffic.name, drain, needs=[ready], title=f"open streams at {case.source} come to their end"),
        maker.step(case.step("stop"), StopJob.name, stop, needs=[drained], title=f"stop {case.id} at {case.source}"),
    ]


def _training(maker: Maker, case: Case, *, needs: Sequence[StepId]) -> list[Step]:
    """It stands still from ``hold`` to ``ready``; everything that takes long is done before."""
    source, target, one = case.source, case.target, case.workload
    again, hold, last, fence, ready, stop = (case.step(name) for name in ("precopy-again", "hold", "final-copy", "fence", "ready", "stop"))
    here, there = one.job(source).name, one.job(target).name
    restart = case.spec(source, standby=True)
    holding = HoldParams(case.id, source, here, one.patience_s, successor_site=target, successor=there, restart=restart)
    take = TakeOverParams(case.id, target, source, maker.recovery.voters, of=hold)
    release = ReleaseParams(case.id, source, here, target, there, hold=hold)
    end = StopJobParams(source, here, restart, restart.grace_s)
    copy, final = PrecopyParams(case.id, source, target), ReplicateParams(case.id, source, target, of=hold)
    needed_standby = [*needs, case.step("standby")]
    return [
        _copy(maker, again, Precopy.name, copy, needs=needed_standby, title="copy what was trained meanwhile"),
        maker.step(hold, Hold.name, holding, needs=[again], title=f"final checkpoint of {case.id}, then hold"),
        _copy(maker, last, Replicate.name, final, needs=[hold], title="copy the final checkpoint"),
        maker.step(fence, TakeOver.name, take, needs=[hold, last], title=f"fence: {target} is the only writer of {case.id}"),
        maker.step(ready, ReleaseTarget.name, release, needs=[fence, hold, case.step("standby")], title=f"{case.id} goes on at {target}"),
        maker.step(stop, StopJob.name, end, needs=[ready], title=f"stop the held trainer at {source}"),
    ]


def _batch(maker: Maker, case: Case, stopped: Step) -> list[Step]:
    """It stops, what it saved last travels and goes on to count behind the fence, and it begins again at the target."""
    fence, ready, last = case.step("fence"), case.step("ready"), case.step("final-copy")
    take = TakeOverParams(case.id, case.target, case.source, maker.recovery.voters, of=last if case.may_have_saved else None)
    ensure = EnsureParams(case.target, case.spec(case.target))
    copied: list[Step] = []
    if case.may_have_saved:
        copy = PrecopyParams(case.id, case.source, case.target)
        copied = [_copy(maker, last, Precopy.name, copy, needs=[stopped.id], title=f"copy what {case.id} saved last")]
    return [
        stopped,
        *copied,
        maker.step(
            fence, TakeOver.name, take, needs=[step.id for step in (stopped, *copied)], title=f"fence: {case.id} belongs to {case.target}"
        ),
        maker.step(ready, EnsureJob.name, ensure, needs=[fence], title=f"{case.id} runs at {case.target}"),
    ]


def _ramp(maker: Maker, case: Case, *, needs: Sequence[StepId]) -> list[Step]:
    assert case.service is not None
    ramp = maker.recovery.ramp
    climb = RampParams(
        case.service, case.source, case.target, percent(ramp.step), ramp.every_s, ramp.most_open, ramp.errors, ramp.patience_s
    )
    title = f"traffic of {case.service} goes to {case.target}"
    deadline_s = maker.deadlines.restore_s
    return [maker.step(case.step("ready"), RampTraffic.name, climb, needs=[*needs, case.step("warm")], title=title, deadline_s=deadline_s)]


def _canary(maker: Maker, plan: Move, case: Case, *, needs: Sequence[StepId]) -> list[Step]:
    """Shift and gate, step by step, no faster than the ramp allows; the last gate is ``ready``."""
    assert case.service is not None
    steps: list[Step] = []
    before = [*needs, case.step("warm")]
    for share in plan.canary.percents:
        last = share == plan.canary.percents[-1]
        shift, gate = case.step(f"shift-{share}"), case.step("ready" if last else f"gate-{share}")
        weights = ShiftParams(case.service, {case.source: 100 - share, case.target: share})
        steps.append(maker.step(shift, ShiftTraffic.name, weights, needs=before, title=f"{share} % of {case.service} to {case.target}"))
        steps.append(_gate(plan.canary, case, gate, shift, share))
        before = [gate]
    return steps


def _gate(rules: CanaryRules, case: Case, gate: StepId, need: StepId, share: int) -> GateStep:
    """No wrong answer, no error; latency beside the source's while that has traffic to compare with."""
    assert case.service is not None
    compared = share < 100
    never = (
        Criterion("wrong answers", "wrong_total", "requests_total", limit=0.0),
        Criterion("errors", "errors_total", "requests_total", limit=0.0),
    )
    latency = Criterion("mean latency", "latency_seconds_sum", "latency_seconds_count", ratio_to_baseline=rules.latency_ratio)
    return GateStep(
        id=gate,
        service=case.service,
        target=case.target,
        baseline=case.source if compared else None,
        criteria=(*never, latency) if compared else never,
        traffic="requests_total",
        min_traffic=rules.min_traffic,
        min_samples=rules.min_samples,
        interval_s=rules.interval_s,
        deadline_s=rules.gate_deadline_s,
        needs=(need,),
        title=f"gate at {share} %",
    )


def _copy(maker: Maker, step: StepId, action: str, params: msgspec.Struct, *, needs: Sequence[StepId], title: str) -> Step:
    return maker.step(step, action, params, needs=needs, title=title, deadline_s=maker.deadlines.copy_s, kept=COPIES_ARE_HARMLESS)


def _milestones(maker: Maker, plan: Move) -> list[Step]:
    """Serving; and protected, when the old side gets what is saved at the new one."""
    serving = MilestoneParams(
        Milestone.SERVING,
        plan.target,
        plan.since_s,
        services=tuple(case.service for case in plan.cases if case.service is not None),
        trainers=tuple(case.workload.job(plan.target).name for case in plan.cases if case.trains),
    )
    title = f"milestone: serving and verified at {plan.target}"
    steps: list[Step] = [maker.step(SERVING, ReachMilestone.name, serving, needs=[case.step("ready") for case in plan.cases], title=title)]
    # From here on a failure is no reason to go back: what was moved works.
    careful = Maker(plan.recovery, on_failure=OnFailure.FREEZE)
    back = "back" if plan.returned else "probe"
    probes = [
        careful.step(
            case.step(back),
            ProbeReplication.name,
            ProbeParams(case.id, plan.target, plan.source),
            needs=[SERVING, case.step("stop")],
            title=f"replication of {case.id} to {plan.source} works",
            deadline_s=careful.deadlines.copy_s,
            kept=COPIES_ARE_HARMLESS,
        )
        for case in plan.cases
        if case.trains
    ]
    ended = [case.step("stop") for case in plan.cases]
    params = MilestoneParams(Milestone.PROTECTED, plan.source, plan.since_s)
    title = f"milestone: {plan.source} is clean, everything is protected there"
    steps += probes
    steps.append(careful.step(PROTECTED, ReachMilestone.name, params, needs=[SERVING, *ended, *(step.id for step in probes)], title=title))
    return steps
