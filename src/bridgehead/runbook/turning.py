"""How a run turns: into a rollback, out of a hold, out of being stuck."""

from __future__ import annotations

from typing import assert_never

import immutables
import msgspec

from bridgehead.kernel.ids import StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Step, TaskStep
from bridgehead.runbook import state as st


def turned_back(state: st.RunState, reason: str, at_s: float) -> st.RunState:
    """The rollback begins: every step that may have changed the world is to be undone, all others are out of the way."""
    steps = {step_id: _step_turned_back(state.plan.steps[step_id], step, at_s) for step_id, step in state.steps.items()}
    hold = state.mode
    paused_s = state.paused_total_s + (at_s - hold.since_s if isinstance(hold, st.OnHold) else 0.0)
    return msgspec.structs.replace(_with_steps(state, steps), mode=st.Backward(reason), ready=frozenset(), paused_total_s=paused_s)


def resumed_after_hold(state: st.RunState, hold: st.OnHold, at_s: float) -> st.RunState:
    """Time on hold does not count against deadlines; a gate collects new evidence; a step that failed is tried again."""
    paused_s = state.paused_total_s + (at_s - hold.since_s)
    forward = isinstance(hold.direction, st.Forward)  # on the way back, what failed is undone or left, and never tried
    steps = {
        step_id: step if isinstance(step, st.Broken) and not forward else _step_resumed(step, paused_s, at_s, at_s - hold.since_s)
        for step_id, step in state.steps.items()
    }
    again = {step_id for step_id, step in state.steps.items() if forward and isinstance(step, st.Broken) and not step.touched}
    resumed = _with_steps(state, steps)
    return msgspec.structs.replace(resumed, mode=hold.direction, paused_total_s=paused_s, ready=resumed.ready | again)


def _step_resumed(step: st.StepState, paused_s: float, at_s: float, held_s: float) -> st.StepState:
    match step:
        case st.Measuring():
            return st.Measuring(at_s, paused_s, ())
        case st.Broken(touched=False):
            return st.Waiting()
        case st.Broken():
            # What it did may be there after all: it looks first, as after an answer that was lost.
            return st.Working(
                phase=ev.Phase.VERIFY,
                attempt=1,
                intent_epoch=None,
                looking=True,
                started_s=at_s,
                paused_before_s=paused_s,
                since_s=at_s,
                retry_at_s=0.0,
                recorded=step.recorded,
                applied=step.applied,
                progress={},
            )
        case st.Working() | st.Undoing():
            return msgspec.structs.replace(step, since_s=step.since_s + held_s)
        case _:
            return step


def unstuck(state: st.RunState, mode: st.NeedsPerson, at_s: float) -> st.RunState:
    """A person says that the cause is gone: the failed undo is tried again."""
    steps: dict[StepId, st.StepState] = {
        step_id: st.ToUndo(at_s, step.recorded, step.applied) if isinstance(step, st.Stuck) else step
        for step_id, step in state.steps.items()
    }
    return msgspec.structs.replace(_with_steps(state, steps), mode=st.Backward(f"resumed after {mode.reason}"))


def _with_steps(state: st.RunState, steps: dict[StepId, st.StepState]) -> st.RunState:
    active = frozenset(step_id for step_id, step in steps.items() if isinstance(step, st.ACTIVE_STEPS))
    unfinished = sum(not isinstance(step, st.Finished) for step in steps.values())
    return msgspec.structs.replace(state, steps=immutables.Map(steps), active=active, unfinished=unfinished)


def undoing_of(state: st.RunState) -> ev.Undoes:
    """What a run that rolls back the finished run ``state`` has to know of it."""
    finished = {step_id: step for step_id, step in state.steps.items() if isinstance(step, st.Finished)}
    return ev.Undoes(state.run, {step_id: ev.DoneBefore(step.recorded, step.applied) for step_id, step in finished.items()})


def has_undo(plan_step: Step) -> bool:
    """Whether a rollback has anything to do for a step: gates, approvals and holds change nothing."""
    return isinstance(plan_step, ActionStep) or (isinstance(plan_step, TaskStep) and bool(plan_step.undo_checklist))


def _step_turned_back(plan_step: Step, step: st.StepState, at_s: float) -> st.StepState:
    """What a rollback makes of a step: to be undone when it may have changed the world, else out of the way."""
    undoable = has_undo(plan_step)
    match step:
        case st.Finished():
            return st.ToUndo(at_s, step.recorded, step.applied) if undoable else step
        case st.Broken():
            return st.ToUndo(at_s, step.recorded, step.applied) if step.touched and undoable else step
        case st.Working():
            return st.ToUndo(at_s, step.recorded, step.applied) if step.may_have_changed_the_world else st.Skipped()
        case st.Assigned():
            return st.ToUndo(at_s, {}, {}) if undoable else st.Skipped()
        case st.Waiting() | st.Measuring() | st.Asking() | st.Holding():
            return st.Skipped()
        case st.ToUndo() | st.Undoing() | st.Undone() | st.Skipped() | st.Stuck():
            return step
        case _:
            assert_never(step)
