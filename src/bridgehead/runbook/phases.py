"""How the events of an action step's phases change its state."""

from __future__ import annotations

from typing import assert_never

import msgspec

from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep
from bridgehead.runbook import state as st

MAX_BACKOFF_S = 60.0


def phase_event(state: st.RunState, event: ev.Intent | ev.PhaseDone | ev.PhaseProgress | ev.PhaseFailed) -> st.RunState:
    """Fold an intent or outcome of a phase; one that no longer fits the step changes nothing."""
    before = state.steps[event.step]
    match event, before:
        case ev.Intent(phase=ev.Phase.PRECHECK), st.Waiting():
            step = st.Working(
                phase=ev.Phase.PRECHECK,
                attempt=event.attempt,
                intent_epoch=event.epoch,
                looking=False,
                started_s=event.at_s,
                paused_before_s=state.paused_total_s,
                since_s=event.at_s,
                retry_at_s=0.0,
                recorded={},
                applied={},
                progress={},
            )
            return st.with_step(state, event.step, step)
        case ev.Intent(), st.Working(phase=phase) if phase is event.phase:
            return st.with_step(state, event.step, msgspec.structs.replace(before, intent_epoch=event.epoch))
        case ev.Intent(phase=ev.Phase.UNDO), st.Undoing():
            return st.with_step(state, event.step, msgspec.structs.replace(before, intent_epoch=event.epoch))
        case ev.Intent(phase=ev.Phase.UNDO), st.ToUndo():
            undoing = st.Undoing(
                attempt=event.attempt,
                intent_epoch=event.epoch,
                started_s=event.at_s,
                since_s=event.at_s,
                paused_before_s=state.paused_total_s,
                retry_at_s=0.0,
                recorded=before.recorded,
                applied=before.applied,
            )
            return st.with_step(state, event.step, undoing)
        case ev.PhaseProgress(), st.Working():
            return st.with_step(state, event.step, msgspec.structs.replace(before, progress=event.progress))
        case ev.PhaseDone(phase=ev.Phase.UNDO), st.Undoing():
            return st.with_step(state, event.step, st.Undone(kept=False))
        case ev.PhaseDone(), st.Working(phase=phase) if phase is event.phase:
            state = st.with_step(state, event.step, _after_phase(before, event))
            return st.unlock(state, event.step) if event.phase is ev.Phase.VERIFY else state
        case ev.PhaseFailed(), st.Working(phase=phase) if phase is event.phase:
            return st.with_step(state, event.step, _after_failure(state, before, event))
        case ev.PhaseFailed(phase=ev.Phase.UNDO), st.Undoing():
            return st.with_step(state, event.step, _after_undo_failure(state, before, event))
        case _:
            return state


def _after_phase(step: st.Working, event: ev.PhaseDone) -> st.StepState:
    match event.phase:
        case ev.Phase.PRECHECK:
            return msgspec.structs.replace(
                step,
                phase=ev.Phase.APPLY,
                attempt=1,
                intent_epoch=None,
                since_s=event.at_s,
                recorded=event.evidence,
                retry_at_s=0.0,
                progress={},
                error="",
                setbacks=0,
            )
        case ev.Phase.APPLY:
            return msgspec.structs.replace(
                step,
                phase=ev.Phase.VERIFY,
                intent_epoch=None,
                since_s=event.at_s,
                applied=event.evidence,
                retry_at_s=0.0,
                progress={},
                error="",
                setbacks=0,
            )
        case ev.Phase.VERIFY:
            return st.Finished(
                started_s=step.started_s, ended_s=event.at_s, recorded=step.recorded, applied=step.applied, verified=event.evidence
            )
        case ev.Phase.UNDO:
            return step
        case _:
            assert_never(event.phase)


def _after_failure(state: st.RunState, step: st.Working, event: ev.PhaseFailed) -> st.StepState:
    plan_step = state.plan.steps[event.step]
    assert isinstance(plan_step, ActionStep)
    retry_at_s = event.at_s + _wait_s(plan_step, event, step.setbacks)
    text = f"{event.error}: {event.reason}"
    touched = step.phase in (ev.Phase.APPLY, ev.Phase.VERIFY)
    broken = st.Broken(event.at_s, event.reason, event.remedy, touched, step.recorded, step.applied)
    out_of_attempts = event.attempt >= plan_step.retry.attempts
    match event.error:
        case "transient":
            return msgspec.structs.replace(step, intent_epoch=None, retry_at_s=retry_at_s, error=text, setbacks=step.setbacks + 1)
        case "unknown":
            if out_of_attempts:
                return broken
            looking = step.looking or step.phase is ev.Phase.APPLY
            phase = ev.Phase.VERIFY if looking else step.phase
            return msgspec.structs.replace(
                step, phase=phase, looking=looking, attempt=event.attempt + 1, intent_epoch=None, retry_at_s=retry_at_s, error=text
            )
        case "failed" if step.phase is ev.Phase.VERIFY and (step.looking or not out_of_attempts):
            # The effect is not there. A look costs no attempt: it may be the first time that apply runs at all.
            attempt = event.attempt if step.looking else event.attempt + 1
            retry_at_s = event.at_s if step.looking else retry_at_s
            return msgspec.structs.replace(
                step,
                phase=ev.Phase.APPLY,
                looking=False,
                attempt=attempt,
                intent_epoch=None,
                since_s=event.at_s,
                retry_at_s=retry_at_s,
                error=text,
            )
        case _:
            return broken


def _after_undo_failure(state: st.RunState, step: st.Undoing, event: ev.PhaseFailed) -> st.StepState:
    """Tried again; definite failures use up attempts, after the last of which ``decide`` declares the step Stuck."""
    plan_step = state.plan.steps[event.step]
    assert isinstance(plan_step, ActionStep)
    definite = event.error not in ("transient", "unknown")
    return msgspec.structs.replace(
        step,
        attempt=event.attempt + 1 if definite else event.attempt,
        intent_epoch=None,
        retry_at_s=event.at_s + _wait_s(plan_step, event, step.setbacks),
        error=f"{event.error}: {event.reason}",
        setbacks=step.setbacks + (not definite),
    )


def _wait_s(plan_step: ActionStep, event: ev.PhaseFailed, setbacks: int) -> float:
    """Doubles with every try, whether it failed for good or only for now."""
    tries = min(event.attempt - 1 + setbacks, 10)
    return min(MAX_BACKOFF_S, max(event.retry_after_s, plan_step.retry.backoff_s * float(2**tries)))
