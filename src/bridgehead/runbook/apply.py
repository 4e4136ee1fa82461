"""``apply``: fold one event into the state of a run. Pure, and total: an event that no longer fits changes nothing.

It never decides; whatever depends on time or policy is decided by ``decide`` and reaches the state as an event of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import immutables
import msgspec

from bridgehead.kernel.ids import Epoch, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, Step, TaskStep
from bridgehead.runbook import state as st
from bridgehead.runbook.phases import phase_event
from bridgehead.runbook.turning import has_undo, resumed_after_hold, turned_back, unstuck

WORDS = (ev.Approved, ev.Rejected, ev.TaskSignedOff, ev.Paused, ev.Resumed, ev.AbortAsked)
"""What people write into a journal, whether or not a driver lives."""
WAIT_FOR_OPERATOR = "WAIT_FOR_OPERATOR"


def fold(events: Iterable[ev.Event]) -> st.RunState:
    """The state after ``events``, which begin with RunOpened.

    Raises:
        ValueError: the first event is another one.
    """
    iterator = iter(events)
    first = next(iterator)
    if not isinstance(first, ev.RunOpened):
        raise ValueError("a run's journal begins with run-opened")
    state = opened(first)
    for event in iterator:
        state = apply(state, event)
    return state


def opened(event: ev.RunOpened) -> st.RunState:
    """The state right after a run was opened."""
    plan = st.CompiledRunbook(event.runbook)
    steps: dict[StepId, st.StepState] = {step_id: st.Waiting() for step_id in plan.steps}
    mode: st.Mode = st.Forward()
    if event.undoes is not None:
        mode = st.Backward(reason=f"undo of run {event.undoes.run}")
        for step_id in plan.steps:
            done = event.undoes.steps.get(step_id) if has_undo(plan.steps[step_id]) else None
            steps[step_id] = st.Skipped() if done is None else st.ToUndo(event.at_s, done.recorded, done.applied)
    active = frozenset(step_id for step_id, step in steps.items() if isinstance(step, st.ACTIVE_STEPS))
    ready = frozenset(step.id for step in event.runbook.steps if not step.needs) if event.undoes is None else frozenset()
    return st.RunState(
        run=event.run,
        opened_s=event.at_s,
        plan=plan,
        epoch=Epoch(0),
        mode=mode,
        steps=immutables.Map(steps),
        active=active,
        ready=ready,
        unfinished=len(steps),
        paused_total_s=0.0,
        last_s=event.at_s,
        driven_s=event.at_s,
        undoes=event.undoes.run if event.undoes else None,
    )


def apply(state: st.RunState, event: ev.Event) -> st.RunState:
    """The state after ``event``."""
    if event.at_s < state.last_s:
        # Clocks of operators may be behind, and may be set back: within a run time never does.
        event = msgspec.structs.replace(event, at_s=state.last_s)
    undriven_s = max(0.0, event.at_s - state.driven_s)
    driven_s = state.driven_s if isinstance(event, WORDS) else event.at_s
    state = msgspec.structs.replace(state, last_s=event.at_s, driven_s=driven_s)
    match event:
        case ev.RunOpened():
            raise ValueError("a run is opened once")
        case ev.DriverTook():
            return _taken_over(state, event, 0.0 if isinstance(state.mode, st.OnHold) else undriven_s)
        case ev.Intent() | ev.PhaseDone() | ev.PhaseProgress() | ev.PhaseFailed():
            return phase_event(state, event)
        case ev.StepStarted() | ev.GateMeasured() | ev.Approved() | ev.Rejected() | ev.Paged():
            return _waiting_for_evidence(state, event)
        case ev.TaskSignedOff():
            return _signed_off(state, event)
        case ev.StepDone():
            return _done(state, event.step, event.at_s)
        case ev.StepFailed():
            return _failed(state, event)
        case ev.StepUndone():
            return st.with_step(state, event.step, st.Undone(kept=event.kept))
        case ev.StepStuck():
            return _stuck(state, event)
        case ev.RollbackBegan():
            return turned_back(state, event.reason, event.at_s)
        case ev.GateJudged() | ev.Noticed():
            return state
        case ev.WorldDiffers() | ev.Frozen() | ev.Paused() | ev.Resumed() | ev.AbortAsked() | ev.RunEnded():
            return _mode(state, event)
        case _:
            assert_never(event)


def _taken_over(state: st.RunState, event: ev.DriverTook, undriven_s: float) -> st.RunState:
    """A new driver cannot know whether an apply whose outcome is missing happened: it looks first.

    The time in which nobody drove the run does not count against what only a driver could have done (actions, gates, undos), or the first
    decision after a long outage would be a rollback. Approvals, tasks and holds are people's time and go on.
    """
    state = msgspec.structs.replace(state, epoch=event.epoch)
    for step_id in state.active:
        step = state.steps[step_id]
        match step:
            case st.Measuring():
                later: st.StepState = msgspec.structs.replace(step, paused_before_s=step.paused_before_s - undriven_s)
            case st.Working():
                looking = step.looking or (step.phase is ev.Phase.APPLY and step.intent_epoch is not None)
                later = msgspec.structs.replace(
                    step,
                    phase=ev.Phase.VERIFY if looking else step.phase,
                    looking=looking,
                    intent_epoch=None,
                    retry_at_s=0.0,
                    since_s=step.since_s + undriven_s,
                    paused_before_s=step.paused_before_s - undriven_s,
                )
            case st.Undoing():
                later = msgspec.structs.replace(
                    step,
                    intent_epoch=None,
                    retry_at_s=0.0,
                    since_s=step.since_s + undriven_s,
                    paused_before_s=step.paused_before_s - undriven_s,
                )
            case st.ToUndo():
                later = msgspec.structs.replace(step, since_s=step.since_s + undriven_s)
            case _:
                continue
        state = st.with_step(state, step_id, later)
    return state


def _waiting_for_evidence(
    state: st.RunState, event: ev.StepStarted | ev.GateMeasured | ev.Approved | ev.Rejected | ev.Paged
) -> st.RunState:
    before = state.steps[event.step]
    match event, before:
        case ev.StepStarted(), st.Waiting():
            return st.with_step(state, event.step, _started(state.plan.steps[event.step], state.paused_total_s, event.at_s))
        case ev.StepStarted(), st.ToUndo():
            return st.with_step(state, event.step, st.Assigned(event.at_s, state.paused_total_s, undoing=True))
        case ev.GateMeasured(), st.Measuring():
            sample = st.GateSample(event.at_s, event.target, event.baseline, event.error)
            return st.with_step(state, event.step, msgspec.structs.replace(before, samples=(*before.samples, sample)))
        case ev.Paged(), st.Measuring():
            return st.with_step(state, event.step, msgspec.structs.replace(before, paged=True))
        case ev.Paged(), st.Broken():
            return st.with_step(state, event.step, msgspec.structs.replace(before, paged=True))
        case ev.Approved(), st.Asking():
            plan_step = state.plan.steps[event.step]
            assert isinstance(plan_step, ApprovalStep)
            if event.by not in plan_step.approvers or event.by in before.approved_by:
                return state
            return st.with_step(state, event.step, msgspec.structs.replace(before, approved_by=(*before.approved_by, event.by)))
        case ev.Rejected(), st.Asking():
            return st.with_step(state, event.step, msgspec.structs.replace(before, rejected_by=event.by, why_rejected=event.comment))
        case _:
            return state


def _started(step: Step, paused_before_s: float, at_s: float) -> st.StepState:
    match step:
        case GateStep():
            return st.Measuring(at_s, paused_before_s, ())
        case ApprovalStep():
            return st.Asking(at_s, paused_before_s)
        case TaskStep():
            return st.Assigned(at_s, paused_before_s, undoing=False)
        case HoldStep():
            return st.Holding(at_s, paused_before_s)
        case ActionStep():
            raise ValueError("an action step begins with its intent")
        case _:
            assert_never(step)


def _signed_off(state: st.RunState, event: ev.TaskSignedOff) -> st.RunState:
    step = state.steps[event.step]
    if not isinstance(step, st.Assigned):
        return state
    if step.undoing:
        return st.with_step(state, event.step, st.Undone(kept=False))
    finished = st.Finished(step.started_s, event.at_s, {}, {}, {"by": event.by, "evidence": event.evidence})
    return st.unlock(st.with_step(state, event.step, finished), event.step)


def _done(state: st.RunState, step_id: StepId, at_s: float) -> st.RunState:
    step = state.steps[step_id]
    if isinstance(step, st.Measuring | st.Asking | st.Assigned | st.Holding):
        state = st.with_step(state, step_id, st.Finished(step.started_s, at_s, {}, {}, {}))
    return st.unlock(state, step_id)


def _failed(state: st.RunState, event: ev.StepFailed) -> st.RunState:
    step = state.steps[event.step]
    match step:
        case st.Working():
            broken = st.Broken(event.at_s, event.reason, event.remedy, step.may_have_changed_the_world, step.recorded, step.applied)
        case st.Assigned():
            broken = st.Broken(event.at_s, event.reason, event.remedy, True, {}, {})
        case st.Measuring() | st.Asking() | st.Holding():
            broken = st.Broken(event.at_s, event.reason, event.remedy, False, {}, {})
        case _:
            return state
    return st.with_step(state, event.step, broken)


def _stuck(state: st.RunState, event: ev.StepStuck) -> st.RunState:
    step = state.steps[event.step]
    if isinstance(step, st.Undoing | st.ToUndo | st.Stuck):
        state = st.with_step(state, event.step, st.Stuck(event.reason, event.instruction, step.recorded, step.applied))
    elif isinstance(step, st.Assigned):
        state = st.with_step(state, event.step, st.Stuck(event.reason, event.instruction, {}, {}))
    return msgspec.structs.replace(state, mode=st.NeedsPerson(event.at_s, f"{event.step}: {event.reason}"))


def _mode(state: st.RunState, event: ev.WorldDiffers | ev.Frozen | ev.Paused | ev.Resumed | ev.AbortAsked | ev.RunEnded) -> st.RunState:
    mode = state.mode
    match event, mode:
        case ev.RunEnded(), _:
            return msgspec.structs.replace(state, mode=st.Ended(event.at_s, event.verdict, event.reason))
        case _, st.Ended():
            return state
        case ev.WorldDiffers(differences=differences), st.Forward() | st.Backward() | st.OnHold():
            reason = f"{WAIT_FOR_OPERATOR}: the world is not as this journal tells: {'; '.join(differences)}"
            return msgspec.structs.replace(state, mode=st.NeedsPerson(event.at_s, reason, tuple(differences), mode))
        case ev.Frozen(), st.Forward():
            kind = "gate" if isinstance(state.plan.steps[event.step], GateStep) else "step"
            return msgspec.structs.replace(state, mode=st.OnHold(event.at_s, f"{kind} {event.step}", event.reason, True, mode))
        case ev.Paused(), st.Forward() | st.Backward():
            return msgspec.structs.replace(state, mode=st.OnHold(event.at_s, event.by, event.reason, False, mode))
        case ev.Resumed(), st.OnHold():
            return resumed_after_hold(state, mode, event.at_s)
        case ev.Resumed(), st.NeedsPerson(before=before) if before is not None:
            return msgspec.structs.replace(state, mode=before, accepted=mode.differences)
        case ev.Resumed(), st.NeedsPerson():
            return unstuck(state, mode, event.at_s)
        case ev.AbortAsked(), st.Forward() | st.OnHold(direction=st.Forward()):
            return turned_back(state, f"abort asked by {event.by}: {event.reason}", event.at_s)
        case ev.AbortAsked(), st.OnHold():
            return resumed_after_hold(state, mode, event.at_s)
        case ev.AbortAsked(), st.NeedsPerson():
            return msgspec.structs.replace(state, mode=st.Abandoning(by=event.by, reason=event.reason))
        case _:
            return state
