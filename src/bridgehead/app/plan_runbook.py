"""PlanRunbook: a plan as a runbook (M7.1 to M7.5, M10.4): phases, swings, waves, approvals, tasks, holds and points of return.

The order is that of ``simulate.plan_network``; the plan's moments become holds (a wave leaves and a swing begins not before its time)
and due moments of tasks. Nothing is decided here.
"""

from __future__ import annotations

from typing import assert_never

from bridgehead.app.plan_checklists import transfer_checklist, wave_checklist
from bridgehead.kernel.ids import Person, ServiceId, StepId
from bridgehead.kernel.moment import format_moment
from bridgehead.model.estate import Estate, Workload
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.plan import PhaseId, Plan, Swing, SwingMode, TaskKind, Wave
from bridgehead.model.policy import Approval, Policy
from bridgehead.model.runbook import ApprovalStep, HoldStep, Runbook, Step, TaskStep
from bridgehead.recovery.swings import SwingFrame, canary_swing, requeue_swing, training_swing
from bridgehead.simulate.plan_network import (
    BRIDGEHEAD,
    DECOMMISSION,
    SERVICES,
    SERVICES_DONE,
    Activity,
    Kind,
    network_of,
)

LEAD = Person("move-lead")
"""Who answers for what is no crew's: a policy names crews and approvers, but nobody who leads."""
CUT_OVER = "cut-over"
GRACE_S = 14 * DAY_S
"""A task fails only so long after it was due: a crew that is late for some days is no reason to roll a move back."""
LONGEST_S = 90 * DAY_S
PAUSE_S = 7 * DAY_S
GAP_S = 7 * DAY_S
"""An activity that could begin so long before its time waits for it."""

Needs = tuple[StepId, ...]


def plan_runbook(plan: Plan, *, estate: Estate, policy: Policy) -> Runbook:
    """Compile. The plan must be one for this estate and policy; it is not judged here (that is ``plan check``)."""
    book = _Book(plan, estate, policy)
    for activity in network_of(plan, estate=estate, policy=policy):
        book.add(activity)
    book.keep_link()
    description = f"{plan.name}: move from {plan.source} to {plan.target}, {format_moment(plan.begins_s)} to {format_moment(plan.ends_s)}"
    return Runbook(name=plan.name, steps=tuple(book.steps), description=description, pause_expires_s=PAUSE_S)


class _Book:
    """The runbook as it grows: ``exits`` names the last steps of each activity, and ``ends_s`` when they are planned to be over."""

    def __init__(self, plan: Plan, estate: Estate, policy: Policy) -> None:
        self.plan, self.estate, self.policy = plan, estate, policy
        self.steps: list[Step] = []
        self.exits: dict[StepId, Needs] = {}
        self.ends_s: dict[StepId, float] = {}
        self._heads: dict[PhaseId, StepId] = {}
        self._workloads = {one.id: one for one in estate.workloads}
        self._swings: dict[str, Swing] = {one.id: one for one in plan.swings}
        self._transfers = {one.id: one for one in plan.transfers}
        self._waves: dict[str, Wave] = {one.id: one for one in plan.waves}
        self._phases = {one.id: one for one in plan.phases}
        self._approvals = {one.id: one for one in policy.approvals}
        self._liquid: dict[RackId, bool] = {}
        for site in estate.sites:
            for node in site.nodes:
                if site.id == plan.source and node.rack is not None and node.liquid_share:
                    self._liquid[node.rack] = True
        self._points = sorted(plan.rollback, key=lambda point: (point.until_s, point.id))

    def add(self, activity: Activity) -> None:
        """The steps of one activity."""
        while self._points and self._points[0].until_s <= activity.begins_s and self._points[0].until_s < activity.ends_s:
            self._rollback_point()
        needs = tuple(dict.fromkeys(step for need in activity.needs for step in self.exits[need]))
        needs = self._behind_points(activity, needs or self._opening(activity))
        match activity.kind:
            case Kind.PHASE:
                self._phase(activity, needs)
            case Kind.SERVICE:
                self._service(activity, self._head(PhaseId.SERVICES, needs))
            case Kind.TRANSFER:
                checklist = transfer_checklist(self._transfers[activity.of], self.plan)
                self._task(activity, self._not_before(activity, needs), checklist.title, checklist.items, owner=activity.owner)
            case Kind.SWING:
                self._swing(activity, self._head(PhaseId.SWING, needs))
            case Kind.SHRINK | Kind.GROW:
                self._resize(activity, self._until(activity, needs))
            case Kind.HANDLING:
                self._handling(activity, needs)
            case Kind.RETURN:
                self._hold(activity.id, activity.lasts_s, needs, f"vehicles of {activity.of} drive back", ends_s=activity.ends_s)
                self.exits[activity.id] = (activity.id,)
            case _:
                assert_never(activity.kind)

    def keep_link(self) -> None:
        """The lines stay for a while after the end (M7.5), and what is left of points of return comes last."""
        while self._points:
            self._rollback_point()
        phase = self._phases.get(PhaseId.LINK_KEPT)
        if phase is not None:
            last = self.exits.get(DECOMMISSION, ())
            self._hold(StepId("phase-link-kept"), 0.0, last, "phase link-kept: the lines between the sites stay", until_s=phase.ends_s)
            step = StepId("cancel-link")
            items = ("nobody needs the lines any more (traffic of the last week)", "lines cancelled (confirmation)")
            self._person(
                step, LEAD, (StepId("phase-link-kept"),), "cancel the lines", items, begins_s=phase.ends_s, due_s=phase.ends_s + DAY_S
            )

    # phases

    def _opening(self, activity: Activity) -> Needs:
        """What needs nothing else begins with the first phase."""
        return self._head(PhaseId.PREPARE, ()) if activity.kind is Kind.PHASE else self._head(PhaseId.BRIDGEHEAD, ())

    def _head(self, phase: PhaseId, needs: Needs) -> Needs:
        """The step that opens a phase: nothing of it begins earlier than planned, nor without its approval."""
        if phase not in self._phases:
            return needs
        if phase not in self._heads:
            step, planned = StepId(f"phase-{phase.value}"), self._phases[phase]
            before: Needs = ()
            match phase:
                case PhaseId.SERVICES:
                    before = self.exits.get(BRIDGEHEAD, ())
                case PhaseId.SWING | PhaseId.HARDWARE:
                    before = self.exits.get(SERVICES_DONE, ())
                case PhaseId.DECOMMISSION:
                    before = needs
                case _:
                    before = ()
            title = f"phase {phase.value}, from {format_moment(planned.begins_s)} to {format_moment(planned.ends_s)}"
            self._hold(step, 0.0, before, title, until_s=planned.begins_s)
            self._heads[phase] = self._approved(phase.value, step)
            if phase is PhaseId.SWING:
                for approval in self.policy.approvals:
                    if approval.id not in {CUT_OVER, *(one.value for one in PhaseId), *(point.id for point in self.plan.rollback)}:
                        self._heads[phase] = self._approved(approval.id, self._heads[phase])
        head = self._heads[phase]
        return tuple(dict.fromkeys((*needs, head)))

    def _approved(self, name: str, before: StepId) -> StepId:
        approval = self._approvals.get(name)
        if approval is None:
            return before
        step = StepId(f"approve-{name}")
        self.steps.append(_approval(approval, step, (before,), f"Go on with {name}?"))
        self.ends_s[step] = self.ends_s.get(before, self.plan.begins_s)
        return step

    def _phase(self, activity: Activity, needs: Needs) -> None:
        source, target = self.plan.source, self.plan.target
        items: tuple[str, ...]
        match activity.id:
            case name if name == BRIDGEHEAD:
                items = (
                    f"core network of {target} in service, both lines up (report)", "storage, management and identity in service (report)",
                    "first capacity accepted (report)", "failover of the lines tested: seconds until traffic flowed again",
                )  # fmt: skip
                undo = (f"take the bridgehead at {target} out of service",)
                self._task(activity, self._head(PhaseId.BRIDGEHEAD, needs), f"bridgehead at {target}", items, owner=LEAD, undo=undo)
            case name if name == SERVICES:
                items = ("every critical service has an owner, a mode and a test", f"both sites are told apart in monitoring of {target}")
                self._task(activity, self._head(PhaseId.SERVICES, needs), "critical services: lead the phase", items, owner=LEAD)
            case name if name == SERVICES_DONE:
                items = (f"all critical services validated from {source} and from {target} (report)",)
                self._task(activity, needs, "critical services are there", items, owner=LEAD)
            case _:
                items = (f"capacity of {source} is let go step by step", "drives erased, with certificates", "contracts and power ended")
                self._task(activity, self._head(PhaseId.DECOMMISSION, needs), f"decommission {source}", items, owner=LEAD)

    def _service(self, activity: Activity, needs: Needs) -> None:
        copy = next(one for one in self.plan.services if one.id == activity.of)
        items = (f"{copy.id}: replicated to {self.plan.target}, {copy.mode.value} (lag)", f"{copy.id}: validated from both sites (report)")
        undo = (f"{copy.id}: end its replication, {self.plan.source} alone serves",)
        self._task(activity, needs, f"replicate {copy.id}, {copy.mode.value}", items, owner=copy.id, undo=undo)

    # workloads

    def _swing(self, activity: Activity, needs: Needs) -> None:
        swing = self._swings[activity.of]
        workload = self._workloads.get(swing.id)
        before = len(self.steps)
        needs = self._until(activity, needs)
        self.steps += self._swing_steps(swing, workload, needs)
        added = [step.id for step in self.steps[before:]]
        needed = {need for step in self.steps[before:] for need in step.needs}
        self.exits[activity.id] = tuple(step for step in added if step not in needed)
        self.ends_s |= dict.fromkeys(added, activity.ends_s)

    def _swing_steps(self, swing: Swing, workload: Workload | None, needs: Needs) -> list[Step]:
        approval = self._approvals.get(CUT_OVER)
        frame = SwingFrame(
            prefix=f"swing-{swing.id}", workload=swing.id, source=self.plan.source, target=self.plan.target, needs=needs,
            command=(f"start-{swing.id}",), copy_deadline_s=max(DAY_S, 4 * (swing.ends_s - swing.begins_s)),
            approvers=approval.approvers if approval is not None else (), quorum=approval.quorum if approval is not None else 1,
            answer_s=approval.expires_s if approval is not None else 4 * HOUR_S,
        )  # fmt: skip
        save_s = workload.save_s if workload is not None and workload.save_s is not None else 60.0
        match swing.mode:
            case SwingMode.CANARY:
                services = tuple(one.id for one in self.estate.services if one.workload == swing.id) or (ServiceId(swing.id),)
                percents = tuple(max(1, round(100 * step)) for step in self.policy.canary.steps)
                return canary_swing(frame, services, percents=percents, soak_s=self.policy.canary.soak_s)
            case SwingMode.PRECOPY | SwingMode.RESTART:
                return training_swing(frame, precopied=swing.mode is SwingMode.PRECOPY, patience_s=max(60.0, 3 * save_s))
            case SwingMode.REQUEUE:
                return requeue_swing(frame)
            case _:
                assert_never(swing.mode)

    def _resize(self, activity: Activity, needs: Needs) -> None:
        shrink = self.plan.shrinks[int(activity.id.rsplit("-", 1)[1])]
        workload = self._workloads.get(shrink.workload)
        full = workload.gpus if workload is not None else None
        number = shrink.gpus if activity.kind is Kind.SHRINK else full
        undo = (f"{shrink.workload}: back to {full if full is not None else 'all'} GPUs",) if activity.kind is Kind.SHRINK else ()
        items = (
            f"{shrink.workload} runs on {number if number is not None else 'all its'} GPUs at {shrink.site}, steps go on (step counter)",
        )
        self._task(activity, needs, f"{activity.kind.value} {shrink.workload} to {number} GPUs", items, owner=shrink.workload, undo=undo)

    # waves

    def _handling(self, activity: Activity, needs: Needs) -> None:
        wave = self._waves[activity.of]
        task = next(one for one in wave.tasks if one.id is activity.task)
        if task is wave.tasks[0]:
            needs = self._wave_opens(activity, self._head(PhaseId.BRIDGEHEAD if wave.bridgehead else PhaseId.HARDWARE, needs))
        if task.id in (TaskKind.ACCLIMATISE, TaskKind.BURN_IN):
            self._hold(activity.id, activity.lasts_s, needs, f"{wave.id}: {task.id.value}", ends_s=activity.ends_s)
            self.exits[activity.id] = (activity.id,)
            return
        checklist = wave_checklist(wave, task, self.plan, liquid=self._liquid, policy=self.policy)
        self._task(activity, needs, checklist.title, checklist.items, owner=activity.owner or LEAD, undo=checklist.undo)

    def _wave_opens(self, activity: Activity, needs: Needs) -> Needs:
        """Preparation, three hours for each of execution (M6), and the moment from which the source does not have the racks."""
        wave = self._waves[activity.of]
        begins = [task.prepared_from_s for task in wave.tasks if task.prepared_from_s is not None]
        ready = StepId(f"{wave.id}-out")
        self._hold(ready, 0.0, needs, f"{wave.id}: its racks leave service", until_s=wave.out_s)
        if not begins:
            return (ready,)
        waits, step = StepId(f"{wave.id}-prepare-from"), StepId(f"{wave.id}-prepare")
        self._hold(waits, 0.0, self._opening(activity), f"{wave.id}: preparation begins", until_s=min(begins))
        items = (
            f"runsheet of {wave.id} walked through with every crew (names)", "vehicles, packing, spares and permits are booked (numbers)",
            "backups and exports of the racks' configuration are verified (report)",
        )  # fmt: skip
        self._person(step, LEAD, (waits,), f"prepare {wave.id}", items, begins_s=min(begins), due_s=wave.out_s)
        return (ready, step)

    # points of return

    def _rollback_point(self) -> None:
        """Everything that was over by then is looked at together; what begins later waits for the word."""
        point = self._points.pop(0)
        known = {step.id for step in self.steps}
        needed = {need for step in self.steps for need in step.needs}
        needs = tuple(step for step in known - needed if self.ends_s.get(step, 0.0) <= point.until_s)
        needs = tuple(sorted(needs, key=[step.id for step in self.steps].index)) or self._head(PhaseId.PREPARE, ())
        step = StepId(f"point-{point.id}")
        until = format_moment(point.until_s)
        text = f"Until {until} going back is cheap. Afterwards it means: {point.back}. What makes you go back: {point.trigger}."
        if point.id in self._approvals:
            self.steps.append(_approval(self._approvals[point.id], step, needs, text))
            self.ends_s[step] = point.until_s
        else:
            items = (f"none of this is seen: {point.trigger}", f"decided to go on; from here back means: {point.back}")
            self._person(step, LEAD, needs, f"point of return {point.id}", items, begins_s=point.until_s, due_s=point.until_s)
        self._passed = step

    _passed: StepId | None = None

    def _behind_points(self, activity: Activity, needs: Needs) -> Needs:
        return needs if self._passed is None else tuple(dict.fromkeys((*needs, self._passed)))

    # steps

    def _until(self, activity: Activity, needs: Needs) -> Needs:
        step = StepId(f"{activity.id}-from")
        self._hold(step, 0.0, needs, f"{activity.id}: not before its time", until_s=activity.begins_s)
        return (step,)

    def _not_before(self, activity: Activity, needs: Needs) -> Needs:
        free_s = max((self.ends_s.get(need, self.plan.begins_s) for need in needs), default=self.plan.begins_s)
        return self._until(activity, needs) if activity.begins_s - free_s > GAP_S else needs

    def _hold(
        self, step: StepId, hold_s: float, needs: Needs, title: str, *, until_s: float | None = None, ends_s: float | None = None
    ) -> None:
        self.steps.append(HoldStep(step, hold_s, needs, title, until_s))
        self.ends_s[step] = until_s if until_s is not None else ends_s if ends_s is not None else self.plan.begins_s

    def _task(
        self, activity: Activity, needs: Needs, title: str, items: tuple[str, ...], *, owner: str, undo: tuple[str, ...] = ()
    ) -> None:
        self._person(
            activity.id, Person(owner), needs, title, items, begins_s=activity.begins_s, due_s=activity.ends_s, undo=undo
        )  # fmt: skip
        self.exits[activity.id] = (activity.id,)

    def _person(
        self, step: StepId, owner: Person, needs: Needs, title: str, items: tuple[str, ...], *, begins_s: float, due_s: float,
        undo: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        free_s = min(begins_s, max((self.ends_s.get(need, self.plan.begins_s) for need in needs), default=self.plan.begins_s))
        deadline_s = min(LONGEST_S, due_s - free_s + GRACE_S)
        self.steps.append(TaskStep(step, owner, items, deadline_s, needs, undo, title, due_s))
        self.ends_s[step] = due_s


def _approval(approval: Approval, step: StepId, needs: Needs, text: str) -> ApprovalStep:
    return ApprovalStep(step, approval.approvers, approval.expires_s, needs, approval.quorum, text, title=f"approve {approval.id}")
