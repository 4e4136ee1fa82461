"""Perform one command through actions and ports, and turn what came of it into an event.

Used by the real shell (``engine``) and by the simulator alike, so that both journal the same things.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.ids import Epoch, StepId
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


class Earlier(Mapping[str, Json]):
    """Evidence of the steps that a step needs, looked up when an action asks: most ask for one of thousands."""

    def __init__(self, state: st.RunState, step_id: StepId) -> None:
        self._state = state
        self._step_id = step_id

    def __getitem__(self, key: str) -> Json:
        step_id = StepId(key)
        if not self._state.plan.needs(self._step_id, step_id):
            raise KeyError(key)
        match self._state.steps[step_id]:
            case st.Finished() as done:
                return {**done.applied, **done.verified}
            case st.ToUndo() | st.Undoing() | st.Stuck() | st.Broken() as left:
                return left.applied
            case _:
                raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (step_id for step_id in self._state.plan.order if self._state.plan.needs(self._step_id, step_id))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def prepare(state: st.RunState, command: Perform, actions: Mapping[str, Action], now_s: float) -> PhaseCall:
    """Gather what the phase is given.

    Raises:
        Permanent: the action is not registered, or its parameters do not fit: the run was opened by another version.
    """
    plan_step = state.plan.steps[command.step]
    assert isinstance(plan_step, ActionStep)
    stamp = Stamp(run=state.run, step=command.step, attempt=command.attempt, epoch=state.epoch)
    try:
        action = actions[plan_step.action]
        params = msgspec.convert(plan_step.params, action.params_type)
    except (KeyError, msgspec.ValidationError) as error:
        raise Permanent(
            f"this version does not know the action or its parameters ({type(error).__name__}: {error})",
            tried=f"prepare {plan_step.action}",
            subject=stamp.key,
            remedy="Drive the run with the version that opened it.",
        ) from error
    step = state.steps[command.step]
    recorded: Json = {}
    applied: Json = {}
    since_s = now_s
    if isinstance(step, st.Working | st.Undoing):
        recorded, applied, since_s = step.recorded, step.applied, step.since_s
    call = Call(stamp=stamp, recorded=recorded, applied=applied, earlier=Earlier(state, command.step), since_s=since_s, now_s=now_s)
    return PhaseCall(action, params, command.phase, call)


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
