"""Failover: the runbook by which workloads of a lost site go on at the other one (design rules 7 to 10; R11, R14; J05 to J08; ADR 18).

Look once more, ask, look again (an answer may take hours), then for each workload: fence at a majority, promote the last proved point,
start, ramp its traffic. The first milestone (serving) stops the clock; then the runbook waits for the lost site, closes it, ends what
still runs there, measures the real loss, and protects in the new direction. Nothing is taken back by a rollback: the way back is a
failback, which loses nothing.
"""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, StepId
from bridgehead.model.recovery import Recovery
from bridgehead.model.runbook import OnFailure, Runbook, Step
from bridgehead.recovery import around
from bridgehead.recovery.actions.losing import ConfirmLoss, ConfirmLossParams, Watched
from bridgehead.recovery.actions.milestones import Milestone, MilestoneParams, ReachMilestone
from bridgehead.recovery.actions.promotion import PromoteParams, PromoteStandby
from bridgehead.recovery.actions.proving import ProveNewest, ProveParams
from bridgehead.recovery.actions.ramping import RampParams, RampTraffic
from bridgehead.recovery.actions.running import EnsureJob, EnsureParams
from bridgehead.recovery.actions.takeover import TakeOver, TakeOverParams
from bridgehead.recovery.actions.training import Standby, StandbyParams
from bridgehead.recovery.loss import Loss, Losses, loss_of
from bridgehead.recovery.order import needed, ordered
from bridgehead.recovery.protection import CONFIRM, CONFIRM_AGAIN, SERVING, protection
from bridgehead.recovery.quorum import majority
from bridgehead.recovery.restoring import limits_of, restores
from bridgehead.recovery.steps import LONG_PAUSE_S, Case, Maker, percent

STAYS = "what was taken over stays: the way back is a failback, which loses nothing"


class Failover(msgspec.Struct, frozen=True):
    """What is failed over.

    Attributes:
        lost: the site that was lost.
        cases: its workloads, each to its other site.
        lost_s: when it was lost, as well as is known; the RTO counts from there.
        folder: where results of hooks are kept, on the controller's machine.
        stated_s: when the loss is stated, where ``lost_s`` is not known for sure: until then the source may have computed.
        because: an operator's reason to go on although the site is seen alive.
    """

    name: str
    recovery: Recovery
    lost: SiteId
    cases: tuple[Case, ...]
    lost_s: float
    because: str = ""
    folder: str = ""
    stated_s: float | None = None

    @property
    def losses(self) -> Losses:
        """What is lost if it is done now."""
        until_s = self.lost_s if self.stated_s is None else self.stated_s
        return Losses(tuple(_loss(case, until_s) for case in self.cases if case.workload.computes))

    @property
    def radius(self) -> str:
        """What is affected if it is done, and if it fails (blast radius)."""
        moved = ", ".join(f"{case.id} to {case.target}" for case in self.cases)
        writers = ", ".join(case.id for case in self.cases if case.workload.computes) or "nothing"
        return (
            f"Goes over: {moved}. From the fence on nothing that {self.lost} writes of {writers} counts, whether it lives or not. "
            "If a step fails, a person is called, what does not need it goes on, and nothing that works is taken away."
        )


def failover_runbook(plan: Failover) -> Runbook:
    """Both milestones in one run. See the module."""
    maker = Maker(plan.recovery, kept=STAYS, on_failure=OnFailure.FREEZE)
    watched = tuple(_watched(case) for case in plan.cases)
    voters, in_sight = _in_sight(plan)
    look = ConfirmLossParams(plan.lost, watched, plan.because, voters=voters, in_sight=in_sight)
    steps: list[Step] = [
        maker.step(
            CONFIRM, ConfirmLoss.name, look, needs=[], title=f"see whether {plan.lost} is really lost", on_failure=OnFailure.ROLLBACK
        )
    ]
    text = f"Fail over from {plan.lost}. LOST if you approve:\n{plan.losses.text}\n{plan.radius}"
    asked = maker.approval(text, needs=[CONFIRM], title=f"approve the failover from {plan.lost}")
    begin = CONFIRM
    if asked:
        # Between the question and the answer the site may have come back.
        begin = CONFIRM_AGAIN
        title = f"see whether {plan.lost} is still lost"
        again = maker.step(begin, ConfirmLoss.name, look, needs=[asked[-1].id], title=title, on_failure=OnFailure.ROLLBACK)
        steps += [*asked, again]
    order = ordered(case.workload for case in plan.cases)
    by_name = {case.id: case for case in plan.cases}
    steps += restores(maker, plan.cases, begin=begin)
    for one in order:
        case = by_name[one.id]
        waits = [by_name[need].step("ready") for need in needed(one, order)]
        restored = [begin] if case.copy_from is None else [case.step("fetch")]
        made_ready = around.before(maker, case, folder=plan.folder, needs=[*restored, *waits])
        restored = [step.id for step in made_ready] or restored
        steps += [*made_ready, *_recovered(maker, plan, case, begin, restored=restored, waits=waits)]
        steps += around.after(maker, case, folder=plan.folder)
    sites = {case.target for case in plan.cases}
    for site in sorted(sites):
        steps.append(_serving(maker, plan, site, needs=[case.step("ready") for case in plan.cases], many=len(sites) > 1))
    steps += protection(
        maker, plan.lost, plan.cases, after=[step.id for step in steps[-len(sites) :]], confirmed=begin, since_s=plan.lost_s
    )
    return Runbook(plan.name, tuple(steps), description=plan.radius, pause_expires_s=LONG_PAUSE_S, limits=limits_of(maker, plan.cases))


def _loss(case: Case, lost_s: float) -> Loss:
    return loss_of(case.id, point=case.point, last=case.last, lost_s=lost_s, gpus=case.workload.gpus)


def _in_sight(plan: Failover) -> tuple[tuple[SiteId, ...], int]:
    """Who must be seen before not seeing the lost site says anything: a majority where something is to be fenced, else any other place."""
    voters = plan.recovery.voters
    if any(case.workload.computes for case in plan.cases):
        return voters, majority(len(voters))
    return tuple(site for site in voters if site != plan.lost), 1


def _watched(case: Case) -> Watched:
    return Watched(
        case.workload.job(case.source).name, trains=case.id if case.trains else None, serves=case.service, quiet_s=case.workload.quiet_s
    )


def _recovered(maker: Maker, plan: Failover, case: Case, begin: StepId, *, restored: list[StepId], waits: list[StepId]) -> list[Step]:
    """The steps of one workload; the last one is ``ready-<workload>``."""
    if case.workload.computes:
        return _computing(maker, plan, case, begin, restored=restored, waits=waits)
    job = case.spec(case.target)
    ready, title = case.step("ready"), f"{case.id} works at {case.target}"
    ensure = EnsureParams(case.target, job, service=case.service, snapshot=case.model)
    restore_s = maker.deadlines.restore_s
    if case.service is None:
        return [maker.step(ready, EnsureJob.name, ensure, needs=[*restored, *waits], title=title, deadline_s=restore_s)]
    ramp = maker.recovery.ramp
    climb = RampParams(
        case.service, case.source, case.target, percent(ramp.lost_step), ramp.every_s, ramp.most_open, ramp.errors, ramp.patience_s
    )
    start = case.step("start")
    return [
        maker.step(start, EnsureJob.name, ensure, needs=[*restored, *waits], title=title, deadline_s=restore_s),
        maker.step(
            ready, RampTraffic.name, climb, needs=[start], title=f"traffic of {case.service} goes to {case.target}", deadline_s=restore_s
        ),
    ]


def _computing(maker: Maker, plan: Failover, case: Case, begin: StepId, *, restored: list[StepId], waits: list[StepId]) -> list[Step]:
    """``begin`` is the step that saw last what the source did."""
    prove, fence, standby, ready = (case.step(name) for name in ("prove", "fence", "standby", "ready"))
    restore_s = maker.deadlines.restore_s
    proved = case.trains or case.point is not None or case.copy_from is not None
    signs = () if plan.because else (_watched(case),)
    voters = maker.recovery.voters
    take = TakeOverParams(case.id, case.target, case.source, voters, of=prove if proved else None, confirmed=begin, watched=signs)
    steps: list[Step] = []
    if proved:
        promised = case.point.step if case.point is not None and maker.recovery.approvers is not None else 0
        point = ProveParams(case.id, case.target, at_least_step=promised)
        title = f"newest usable snapshot of {case.id}, read back"
        steps.append(maker.step(prove, ProveNewest.name, point, needs=restored, title=title, deadline_s=restore_s))
    needs = [begin, *restored, *([prove] if proved else [])]
    steps.append(maker.step(fence, TakeOver.name, take, needs=needs, title=f"fence: {case.target} is the only writer of {case.id}"))
    if not case.trains:
        ensure = EnsureParams(case.target, case.spec(case.target))
        title = f"{case.id} runs at {case.target}"
        return [*steps, maker.step(ready, EnsureJob.name, ensure, needs=[fence, *waits], title=title, deadline_s=restore_s)]
    warm = StandbyParams(case.id, case.target, case.spec(case.target, standby=True))
    promote = PromoteParams(case.id, case.target, case.workload.job(case.target).name, prove, begin, case.workload.gpus)
    return [
        *steps,
        maker.step(standby, Standby.name, warm, needs=[fence, *waits], title=f"restore {case.id}, in standby", deadline_s=restore_s),
        maker.step(
            ready,
            PromoteStandby.name,
            promote,
            needs=[begin, prove, fence, standby],
            title=f"{case.id} computes a new step",
            deadline_s=restore_s,
        ),
    ]


def _serving(maker: Maker, plan: Failover, site: SiteId, *, needs: list[StepId], many: bool) -> Step:
    here = [case for case in plan.cases if case.target == site]
    params = MilestoneParams(
        Milestone.SERVING,
        site,
        plan.lost_s,
        services=tuple(case.service for case in here if case.service is not None),
        trainers=tuple(case.workload.job(site).name for case in here if case.trains),
    )
    step = StepId(f"{SERVING}-{site}") if many else SERVING
    return maker.step(step, ReachMilestone.name, params, needs=needs, title=f"milestone: serving and verified at {site}")
