"""Perform one command through actions and ports, and turn what came of it into an event.

Used by the real shell (``engine``) and by the simulator alike, so that both journal the same things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.ids import Epoch
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, GateStep
from bridgehead.model.stamp import Stamp
from bridgehead.ports.metrics import Metrics
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Action, Call, Done, Failed, Json, Outcome, Pending
from bridgehead.runbook.decide import Measure, Perform


class PhaseCall(msgspec.Struct, frozen=True):
    """A phase that is ready to be called, away from the state of the run."""

    action: Action
    params: msgspec.Struct
    phase: ev.Phase
    call: Call


def prepare(state: st.RunState, command: Perform, actions: Mapping[str, Action], now_s: float) -> PhaseCall:
    """Gather what the phase is given.

    Raises:
        KeyError: the runbook names an action that is not registered (the linter refuses such a runbook).
    """
    plan_step = state.plan.steps[command.step]
    assert isinstance(plan_step, ActionStep)
    action = actions[plan_step.action]
    step = state.steps[command.step]
    recorded: Json = {}
    applied: Json = {}
    since_s = now_s
    if isinstance(step, st.Working):
        recorded, applied, since_s = step.recorded, step.applied, step.since_s
    elif isinstance(step, st.Undoing):
        recorded, applied, since_s = step.recorded, step.applied, step.started_s
    earlier: dict[str, Json] = {}
    for ancestor in state.plan.ancestors(command.step):
        done = state.steps[ancestor]
        match done:
            case st.Finished():
                earlier[ancestor] = {**done.applied, **done.verified}
            case st.ToUndo() | st.Undoing() | st.Stuck() | st.Broken():
                earlier[ancestor] = done.applied
            case _:
                pass
    stamp = Stamp(run=state.run, step=command.step, attempt=command.attempt, epoch=state.epoch)
    call = Call(stamp=stamp, recorded=recorded, applied=applied, earlier=earlier, since_s=since_s, now_s=now_s)
    return PhaseCall(action, msgspec.convert(plan_step.params, action.params_type), command.phase, call)


def call_phase(phase_call: PhaseCall) -> Outcome:
    """Call the phase. Raises only port errors; anything else in an action is a fault of ours and becomes Permanent."""
    action, params, call = phase_call.action, phase_call.params, phase_call.call
    try:
        match phase_call.phase:
            case ev.Phase.PRECHECK:
                return action.precheck(params, call)
            case ev.Phase.APPLY:
                return action.apply(params, call)
            case ev.Phase.VERIFY:
                return action.verify(params, call)
            case ev.Phase.UNDO:
                return action.undo(params, call)
            case _:
                assert_never(phase_call.phase)
    except PortError:
        raise
    except Exception as error:  # a fault in an action must end in a state with an exit, not in a dead engine
        raise Permanent(
            f"{type(error).__name__}: {error}",
            tried=f"run {phase_call.phase} of {action.name}",
            subject=call.stamp.key,
            remedy="This is a fault in the action itself; report it with the ledger.",
        ) from error


def outcome_event(command: Perform, epoch: Epoch, result: Outcome | PortError, at_s: float) -> ev.PhaseDone | ev.PhaseFailed | None:
    """The event for what came of a phase; None for Pending, which is not journalled."""
    match result:
        case Done():
            return ev.PhaseDone(at_s, command.step, command.phase, command.attempt, epoch, result.evidence)
        case Pending():
            return None
        case Failed():
            error, reason, remedy, retry_after_s = "failed", result.reason, result.remedy, 0.0
        case PortError():
            error, remedy = _word(result), result.remedy
            reason = f"could not {result.tried}: {result.subject}: {result.happened}"
            retry_after_s = result.retry_after_s if isinstance(result, Transient) else 0.0
        case _:
            assert_never(result)
    return ev.PhaseFailed(at_s, command.step, command.phase, command.attempt, epoch, error, reason, remedy, retry_after_s)


def _word(error: PortError) -> str:
    match error:
        case NotFound():
            return "not-found"
        case Conflict():
            return "conflict"
        case Transient():
            return "transient"
        case Unknown():
            return "unknown"
        case _:
            return "permanent"


def measure(state: st.RunState, command: Measure, metrics: Metrics, now_s: float) -> ev.GateMeasured:
    """Read both sides of a gate; a side that cannot be read is None, with the reason, and never a number (rule 5)."""
    gate = state.plan.steps[command.step]
    assert isinstance(gate, GateStep)
    errors: list[str] = []
    sides: list[dict[str, float] | None] = []
    for site in (gate.target, gate.baseline):
        if site is None:
            sides.append(None)
            continue
        try:
            sides.append(metrics.read(gate.service, site).counters)
        except PortError as error:
            errors.append(f"{site}: {error.happened}")
            sides.append(None)
    return ev.GateMeasured(now_s, command.step, sides[0], sides[1], "; ".join(errors))
