"""``decide``: what a run does next, from its state, what is in flight, and the time. Pure (design rule 3).

The same function runs in production, under virtual time in the simulator, in ``--dry-run`` and in tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import assert_never

import msgspec

from bridgehead.kernel.ids import StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, OnBreach, OnFailure, Step, TaskStep, UndoPolicy
from bridgehead.runbook import state as st
from bridgehead.runbook.gates import Judgement, judge
from bridgehead.runbook.limits import standing_back


class Flight(msgspec.Struct, frozen=True):
    """A step's call that the shell knows of: ``busy`` while it is out, else polled again at ``poll_at_s``. Lost in a restart."""

    busy: bool
    poll_at_s: float


class Perform(msgspec.Struct, frozen=True):
    """Call a phase of an action. ``intent`` is journalled first when it is not None (a poll needs none)."""

    step: StepId
    phase: ev.Phase
    attempt: int
    intent: ev.Intent | None


class Measure(msgspec.Struct, frozen=True):
    """Read the counters of a gate."""

    step: StepId


Command = Perform | Measure
_STANDS_BACK = Flight(busy=False, poll_at_s=math.inf)
"""Of a step that wants to go on and gets no place: only its deadline counts."""


class Decision(msgspec.Struct, frozen=True):
    """What to do now.

    Attributes:
        records: events to journal; when there are any, journal and apply them and decide again before performing anything.
        commands: calls to start.
        wake_s: when time alone will change the decision; infinity when only an outcome or a word can.
    """

    records: tuple[ev.Event, ...]
    commands: tuple[Command, ...]
    wake_s: float


def decide(state: st.RunState, flights: Mapping[StepId, Flight], now_s: float) -> Decision:
    """Decide. Deterministic: steps are looked at in the order of the runbook."""
    match state.mode:
        case st.Ended():
            return Decision((), (), math.inf)
        case st.Abandoning(by=by, reason=reason):
            return _records(ev.RunEnded(now_s, ev.Verdict.ABANDONED, f"taken over by {by}: {reason}"))
        case st.NeedsPerson():
            return Decision((), (), math.inf)
        case st.OnHold() as hold:
            return _on_hold(state, hold, now_s)
        case st.Forward():
            return _forward(state, flights, now_s)
        case st.Backward(reason=reason):
            return _backward(state, flights, now_s, reason)
        case _:
            assert_never(state.mode)


def _records(*events: ev.Event) -> Decision:
    return Decision(events, (), math.inf)


def _on_hold(state: st.RunState, hold: st.OnHold, now_s: float) -> Decision:
    """Nobody came: go back to the last known good state (no state without an exit, design rule 6)."""
    expires_s = hold.since_s + state.plan.runbook.pause_expires_s
    if now_s < expires_s:
        return Decision((), (), expires_s)
    if isinstance(hold.direction, st.Backward):
        return _records(ev.Resumed(now_s, "expiry of the pause"))
    return _records(ev.RollbackBegan(now_s, f"on hold since {hold.by} ({hold.reason}); nobody resumed or aborted in time"))


def _forward(state: st.RunState, flights: Mapping[StepId, Flight], now_s: float) -> Decision:
    broken = {step_id: step for step_id in _in_order(state) if isinstance(step := state.steps[step_id], st.Broken)}
    for step_id, step in broken.items():
        if not _may_wait(state.plan.steps[step_id]):
            return _records(ev.RollbackBegan(now_s, f"step {step_id} failed: {step.reason}"))
    called = [ev.Paged(now_s, step_id, f"{step.reason}; {step.remedy}") for step_id, step in broken.items() if not step.paged]
    if called:
        return _records(*called)
    if broken and not state.ready and state.active == broken.keys():
        first, step = next(iter(broken.items()))
        others = f"; so did {', '.join(list(broken)[1:])}" if len(broken) > 1 else ""
        return _records(ev.Frozen(now_s, first, f"it failed: {step.reason}{others}"))
    if state.unfinished == 0:
        return _records(ev.RunEnded(now_s, ev.Verdict.DONE, "every step reached its goal"))
    records: list[ev.Event] = []
    commands: list[Command] = []
    wake_s = math.inf
    order = _in_order(state)
    back = standing_back(state, order, flights, now_s)
    for step_id in order:
        if step_id in back and isinstance(state.steps[step_id], st.Waiting):
            continue
        flight = _STANDS_BACK if step_id in back else flights.get(step_id)
        decision = _step_forward(state, step_id, flight, now_s)
        records += decision.records
        commands += decision.commands
        wake_s = min(wake_s, decision.wake_s)
    return Decision(tuple(records), tuple(commands), wake_s)


def _may_wait(plan_step: Step) -> bool:
    """Whether the run goes on without a step that failed, until a person comes."""
    return isinstance(plan_step, ActionStep) and plan_step.on_failure is OnFailure.FREEZE


def _in_order(state: st.RunState) -> list[StepId]:
    return sorted(state.active | state.ready, key=lambda step_id: state.plan.position[step_id])


def _step_forward(state: st.RunState, step_id: StepId, flight: Flight | None, now_s: float) -> Decision:
    plan_step = state.plan.steps[step_id]
    step = state.steps[step_id]
    match step:
        case st.Waiting():
            if isinstance(plan_step, ActionStep):
                intent = ev.Intent(now_s, step_id, ev.Phase.PRECHECK, 1, state.epoch)
                return Decision((), (Perform(step_id, ev.Phase.PRECHECK, 1, intent),), math.inf)
            return _records(ev.StepStarted(now_s, step_id))
        case st.Working():
            assert isinstance(plan_step, ActionStep)
            return _working(state, step_id, plan_step, step, flight, now_s)
        case st.Measuring():
            assert isinstance(plan_step, GateStep)
            return _measuring(state, plan_step, step, flight, now_s)
        case st.Asking():
            assert isinstance(plan_step, ApprovalStep)
            return _asking(state, plan_step, step, now_s)
        case st.Assigned():
            assert isinstance(plan_step, TaskStep)
            late_s = _deadline(state, step.started_s, step.paused_before_s, plan_step.deadline_s)
            if now_s >= late_s:
                return _records(_late(now_s, step_id, plan_step.deadline_s, f"ask {plan_step.owner} why the task is not signed off"))
            return Decision((), (), late_s)
        case st.Holding():
            assert isinstance(plan_step, HoldStep)
            end_s = _deadline(state, step.started_s, step.paused_before_s, plan_step.hold_s)
            if plan_step.until_s is not None:
                end_s = max(end_s, plan_step.until_s)
            return _records(ev.StepDone(now_s, step_id)) if now_s >= end_s else Decision((), (), end_s)
        case _:
            return Decision((), (), math.inf)


def _deadline(state: st.RunState, started_s: float, paused_before_s: float, limit_s: float) -> float:
    return started_s + limit_s + (state.paused_total_s - paused_before_s)


def _late(now_s: float, step_id: StepId, deadline_s: float, remedy: str, doing: str = "") -> ev.StepFailed:
    return ev.StepFailed(now_s, step_id, f"deadline of {deadline_s:g} s passed{doing}", remedy)


def _working(state: st.RunState, step_id: StepId, plan_step: ActionStep, step: st.Working, flight: Flight | None, now_s: float) -> Decision:
    late_s = _deadline(state, step.started_s, step.paused_before_s, plan_step.deadline_s)
    if now_s >= late_s:
        doing = f" during {step.phase}" + (f"; last error: {step.error}" if step.error else "")
        remedy = "see the last error" + ("" if _may_wait(plan_step) else "; the step is rolled back")
        return _records(_late(now_s, step_id, plan_step.deadline_s, remedy, doing))
    if flight is not None and flight.busy:
        return Decision((), (), late_s)
    due_s = max(step.retry_at_s, flight.poll_at_s if flight is not None else 0.0)
    if now_s < due_s:
        return Decision((), (), min(due_s, late_s))
    intent = None if step.intent_epoch == state.epoch else ev.Intent(now_s, step_id, step.phase, step.attempt, state.epoch)
    return Decision((), (Perform(step_id, step.phase, step.attempt, intent),), late_s)


def _measuring(state: st.RunState, gate: GateStep, step: st.Measuring, flight: Flight | None, now_s: float) -> Decision:
    judgement = judge(gate, step.samples)
    if judgement.settled:
        verdict = _judged(gate, step, judgement, now_s)
        if verdict:
            return _records(*verdict)
    late_s = _deadline(state, step.started_s, step.paused_before_s, gate.deadline_s)
    if now_s >= late_s:
        reason = f"gate has no verdict after {gate.deadline_s:g} s ({judgement.verdict.value}): {judgement.text}"
        remedy = "see why the counters are missing; without evidence nothing goes on"
        judged = ev.GateJudged(now_s, gate.id, judgement.verdict, judgement.as_json())
        return _records(judged, ev.StepFailed(now_s, gate.id, reason, remedy))
    if flight is not None and flight.busy:
        return Decision((), (), late_s)
    due_s = step.samples[-1].at_s + gate.interval_s if step.samples else now_s
    if now_s < due_s:
        return Decision((), (), min(due_s, late_s))
    return Decision((), (Measure(gate.id),), late_s)


def _judged(gate: GateStep, step: st.Measuring, judgement: Judgement, now_s: float) -> list[ev.Event]:
    judged = ev.GateJudged(now_s, gate.id, judgement.verdict, judgement.as_json())
    if judgement.verdict is ev.GateVerdict.PASS:
        return [judged, ev.StepDone(now_s, gate.id)]
    match gate.on_breach:
        case OnBreach.ROLLBACK:
            return [judged, ev.StepFailed(now_s, gate.id, f"gate breached: {judgement.text}", "the target is not as good as the source")]
        case OnBreach.FREEZE:
            return [judged, ev.Frozen(now_s, gate.id, judgement.text)]
        case OnBreach.PAGE:
            return [] if step.paged else [judged, ev.Paged(now_s, gate.id, judgement.text)]
        case _:
            assert_never(gate.on_breach)


def _asking(state: st.RunState, plan_step: ApprovalStep, step: st.Asking, now_s: float) -> Decision:
    if step.rejected_by is not None:
        why = f": {step.why_rejected}" if step.why_rejected else ""
        return _records(ev.StepFailed(now_s, plan_step.id, f"rejected by {step.rejected_by}{why}", "talk to them before trying again"))
    if len(step.approved_by) >= plan_step.quorum:
        return _records(ev.StepDone(now_s, plan_step.id))
    late_s = _deadline(state, step.started_s, step.paused_before_s, plan_step.deadline_s)
    if now_s >= late_s:
        missing = f"{len(step.approved_by)} of {plan_step.quorum} approvals"
        return _records(_late(now_s, plan_step.id, plan_step.deadline_s, "ask for approval in time and start again", f" with {missing}"))
    return Decision((), (), late_s)


def _backward(state: st.RunState, flights: Mapping[StepId, Flight], now_s: float, reason: str) -> Decision:
    pending = [step_id for step_id in _in_order(state) if isinstance(state.steps[step_id], st.ToUndo | st.Undoing | st.Assigned)]
    if not pending:
        return _records(ev.RunEnded(now_s, ev.Verdict.ROLLED_BACK, reason))
    mask = 0
    for step_id in pending:
        mask |= state.plan.bit[step_id]
    records: list[ev.Event] = []
    commands: list[Command] = []
    wake_s = math.inf
    for step_id in reversed(pending):
        if state.plan.descendants[step_id] & mask:
            continue  # something that builds on it is not undone yet
        decision = _step_backward(state, step_id, flights.get(step_id), now_s)
        records += decision.records
        commands += decision.commands
        wake_s = min(wake_s, decision.wake_s)
    return Decision(tuple(records), tuple(commands), wake_s)


def _step_backward(state: st.RunState, step_id: StepId, flight: Flight | None, now_s: float) -> Decision:
    plan_step = state.plan.steps[step_id]
    step = state.steps[step_id]
    if isinstance(plan_step, TaskStep):
        if isinstance(step, st.ToUndo):
            return _records(ev.StepStarted(now_s, step_id))
        assert isinstance(step, st.Assigned)
        late_s = _deadline(state, step.started_s, step.paused_before_s, plan_step.deadline_s)
        if now_s >= late_s:
            instruction = f"{plan_step.owner} has to do, and sign off: " + "; ".join(plan_step.undo_checklist)
            return _records(ev.StepStuck(now_s, step_id, "the undo of the task was not signed off in time", instruction))
        return Decision((), (), late_s)
    assert isinstance(plan_step, ActionStep)
    assert isinstance(step, st.ToUndo | st.Undoing)
    if plan_step.undo is UndoPolicy.KEEP:
        return _records(ev.StepUndone(now_s, step_id, kept=True))
    since_s = step.since_s if isinstance(step, st.ToUndo) else step.started_s
    paused_before_s = state.paused_total_s if isinstance(step, st.ToUndo) else step.paused_before_s
    late_s = _deadline(state, since_s, paused_before_s, plan_step.undo_deadline_s)
    if flight is not None and flight.busy:
        # A call that has not come back may still act: undo may not overtake it.
        return _undo_late(plan_step, step, "a call has not come back", now_s) if now_s >= late_s else Decision((), (), late_s)
    if isinstance(step, st.ToUndo):
        intent = ev.Intent(now_s, step_id, ev.Phase.UNDO, 1, state.epoch)
        return Decision((), (Perform(step_id, ev.Phase.UNDO, 1, intent),), math.inf)
    if step.attempt > plan_step.retry.attempts:
        return _undo_late(plan_step, step, f"all {plan_step.retry.attempts} attempts failed", now_s)
    if now_s >= late_s:
        return _undo_late(plan_step, step, f"its deadline of {plan_step.undo_deadline_s:g} s passed", now_s)
    due_s = max(step.retry_at_s, flight.poll_at_s if flight is not None else 0.0)
    if now_s < due_s:
        return Decision((), (), min(due_s, late_s))
    undo_intent = None if step.intent_epoch == state.epoch else ev.Intent(now_s, step_id, ev.Phase.UNDO, step.attempt, state.epoch)
    return Decision((), (Perform(step_id, ev.Phase.UNDO, step.attempt, undo_intent),), late_s)


def _undo_late(plan_step: ActionStep, step: st.ToUndo | st.Undoing, why: str, now_s: float) -> Decision:
    error = f"; last error: {step.error}" if isinstance(step, st.Undoing) and step.error else ""
    found = msgspec.json.encode(step.recorded, order="sorted").decode()
    instruction = f"Restore by hand what the step '{plan_step.id}' ({plan_step.action}) found before it began: {found}"
    return _records(ev.StepStuck(now_s, plan_step.id, f"undo did not finish: {why}{error}", instruction))
