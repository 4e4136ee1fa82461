"""Protection: a site that was lost is closed and cleaned, and what runs at the other one is protected in the new direction (J06 to J08)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import SiteId, StepId, WorkloadId
from bridgehead.model.recovery import Recovery
from bridgehead.model.runbook import OnFailure, Runbook, Step
from bridgehead.recovery.actions.losing import MeasureLoss, MeasureLossParams
from bridgehead.recovery.actions.milestones import Milestone, MilestoneParams, ProbeParams, ProbeReplication, ReachMilestone
from bridgehead.recovery.actions.replication import Precopy, PrecopyParams
from bridgehead.recovery.actions.running import ClearJobs, ClearParams
from bridgehead.recovery.actions.services import DrainParams, DrainTraffic
from bridgehead.recovery.actions.takeover import CloseParams, CloseSite
from bridgehead.recovery.runbooks import COPIES_ARE_HARMLESS
from bridgehead.recovery.steps import LONG_PAUSE_S, Case, Maker

CONFIRM, CONFIRM_AGAIN = StepId("confirm"), StepId("confirm-again")
SERVING, PROTECTED = StepId("serving"), StepId("protected")
CLOSED, CLEARED = StepId("close"), StepId("clear")
DECIDED = "what a majority decided stays decided, and a zombie stays ended"


class Protection(msgspec.Struct, frozen=True):
    """What is protected again.

    Attributes:
        returned: the site that was lost and gets the copies from now on.
        cases: workloads that run at their other site; ``source`` is the returned one, ``target`` where they run.
        since_s: when the work began.
    """

    name: str
    recovery: Recovery
    returned: SiteId
    cases: tuple[Case, ...]
    since_s: float


def protect_runbook(plan: Protection) -> Runbook:
    """``recover protect``: ends with the milestone *protected*."""
    maker = Maker(plan.recovery, kept=DECIDED, on_failure=OnFailure.FREEZE)
    steps = protection(maker, plan.returned, plan.cases, after=[], confirmed=None, since_s=plan.since_s)
    names = ", ".join(case.id for case in plan.cases)
    description = f"Close and clean {plan.returned}; protect {names} in the new direction. What runs is not touched."
    return Runbook(plan.name, tuple(steps), description=description, pause_expires_s=LONG_PAUSE_S)


def protection(
    maker: Maker, returned: SiteId, cases: Sequence[Case], *, after: Sequence[StepId], confirmed: StepId | None, since_s: float = 0.0
) -> list[Step]:
    """The steps, the last of which is the milestone.

    Args:
        after: what must be done before.
        confirmed: the step that saw last what the lost site did; the runbook has a step ``prove-<workload>`` for each that computes,
            too, so that the real loss can be measured. None: there is no loss to be measured.
    """
    steps = closing(maker, returned, cases, after=after, confirmed=confirmed)
    probes: list[StepId] = []
    for case in _vaults_of(cases):
        seeded = _seeded(maker, case, returned)
        probes += [step.id for step in seeded[-1:]]
        steps += seeded
    params = MilestoneParams(Milestone.PROTECTED, returned, since_s)
    title = f"milestone: {returned} is clean, everything is protected there again"
    steps.append(maker.step(PROTECTED, ReachMilestone.name, params, needs=[CLEARED, *probes], title=title))
    return steps


def closing(maker: Maker, returned: SiteId, cases: Sequence[Case], *, after: Sequence[StepId], confirmed: StepId | None) -> list[Step]:
    """The returned site gets the fences, then its zombies are ended, then what they did is looked at."""
    writers = tuple(case.id for case in cases if case.workload.computes)
    return_s = maker.deadlines.return_s
    close = CloseParams(returned, writers, maker.recovery.voters)
    jobs = tuple(dict.fromkeys(case.workload.job(returned).name for case in cases))
    grace_s = max((case.workload.job(returned).grace_s for case in cases), default=30.0)
    # A site that was only cut off from us may still answer users: their streams come to their end before its jobs do.
    drains: list[Step] = [
        maker.step(
            case.step("leave"),
            DrainTraffic.name,
            DrainParams(case.service, returned),
            needs=[CLOSED],
            title=f"open streams of {case.service} at {returned} come to their end",
            deadline_s=return_s,
            kept=DECIDED,
        )
        for case in cases
        if case.service is not None
    ]
    steps: list[Step] = [
        maker.step(
            CLOSED, CloseSite.name, close, needs=after, title=f"{returned} returns, and is closed first", deadline_s=return_s, kept=DECIDED
        ),
        *drains,
        maker.step(
            CLEARED,
            ClearJobs.name,
            ClearParams(returned, jobs, grace_s),
            needs=[CLOSED, *(step.id for step in drains)],
            title=f"nothing of it runs at {returned} any more",
            deadline_s=return_s,
            kept=DECIDED,
        ),
    ]
    for case in cases:
        if confirmed is not None and case.trains:
            job = case.workload.job(returned).name
            prove, fence = case.step("prove"), case.step("fence")
            measure = MeasureLossParams(case.id, returned, job, prove, fence, confirmed)
            title = f"what {case.id} really lost"
            needs = [CLEARED, prove, fence, confirmed]
            steps.append(maker.step(case.step("measure"), MeasureLoss.name, measure, needs=needs, title=title, deadline_s=return_s))
    return steps


def _seeded(maker: Maker, case: Case, returned: SiteId) -> list[Step]:
    """Only the difference travels: blocks that are still there are found by their hash. Then something new must arrive."""
    workload = vaulted(case)
    if workload is None:
        return []
    seed, probe, copy_s = case.step("seed"), case.step("probe"), maker.deadlines.copy_s
    copy = PrecopyParams(workload, case.target, returned)
    fresh = ProbeParams(workload, case.target, returned, fresh=case.trains)
    return [
        maker.step(
            seed,
            Precopy.name,
            copy,
            needs=[CLEARED],
            title=f"the difference of {workload} goes to {returned}",
            deadline_s=copy_s,
            kept=COPIES_ARE_HARMLESS,
        ),
        maker.step(
            probe,
            ProbeReplication.name,
            fresh,
            needs=[seed],
            title=f"replication of {workload} to {returned} works",
            deadline_s=copy_s,
            kept=COPIES_ARE_HARMLESS,
        ),
    ]


def _vaults_of(cases: Sequence[Case]) -> list[Case]:
    """One case for each name in the vaults: what a service serves may be what is trained."""
    by_name: dict[WorkloadId, Case] = {}
    for case in sorted(cases, key=lambda case: not case.trains):
        name = vaulted(case)
        if name is not None:
            by_name.setdefault(name, case)
    return [case for case in cases if case in by_name.values()]


def vaulted(case: Case) -> WorkloadId | None:
    """What of it lies in vaults: its snapshots, or the model that it serves; None when nothing does."""
    if case.workload.computes:
        return case.id if case.trains or case.point is not None else None
    return case.workload.served if case.model is not None else None
