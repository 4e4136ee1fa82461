"""Runs: the use cases behind ``bridgehead run`` and ``bridgehead ledger``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from bridgehead.app.home import Home
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound, PortError
from bridgehead.kernel.ids import Person, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ApprovalStep, Runbook, TaskStep
from bridgehead.ports.journal import Journal
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold
from bridgehead.runbook.engine import Engine, Watcher, open_run, read_state

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def start(home: Home, runbook: Runbook, connections: dict[str, Any], *, name: str, by: str) -> RunId:
    """Open a run; ``drive`` makes it go. Raises BAD_USAGE for a name that is taken or not a name."""
    if not _NAME.fullmatch(name):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start a run",
            subject=repr(name),
            happened="this cannot be the name of a run",
            remedy="Use letters, digits, '.', '_' and '-', at most 100, beginning with a letter or digit.",
        )
    run = RunId(name)
    try:
        open_run(home.journal(), run, runbook, estate=connections, by=by, at_s=time.time())
    except Conflict as conflict:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start a run",
            subject=name,
            happened="a run of that name exists",
            remedy=f"`bridgehead run resume {name}` goes on with it; choose another --name for a new one.",
        ) from conflict
    return run


def drive(home: Home, run: RunId, *, watcher: Watcher, on_engine: Callable[[Engine], None] = lambda engine: None) -> st.RunState:
    """Drive the run in this process until it ends, needs a person, or is told to stop. Raises RUN_BUSY, RUN_NOT_FOUND."""
    from bridgehead.app import wiring
    from bridgehead.drivers.system import SystemClock, this_driver

    journal = home.journal()
    first = _entries(journal, run)[0]
    assert isinstance(first, ev.RunOpened)
    ports = wiring.connect(first.estate)
    engine = Engine(
        journal,
        actions=wiring.actions(ports),
        metrics=ports.metrics,
        clock=SystemClock(),
        driver=this_driver(),
        upkeep=lambda: keep_weights(ports),
        watcher=watcher,
    )
    on_engine(engine)
    return engine.drive(run)


def keep_weights(ports: Switchboard) -> list[str]:
    """Put weights back that a proxy lost (G09); says where there was a drift. A proxy that does not answer is left to the steps."""
    drifted = []
    for service, traffic in ports.traffics.items():
        try:
            if traffic.reconcile(service):
                drifted.append(f"the proxy of {service} had lost its weights; they were put back")
        except PortError:
            continue
    return drifted


def state_of(home: Home, run: RunId) -> st.RunState:
    """The run's state from its journal. Raises RUN_NOT_FOUND."""
    try:
        return read_state(home.journal(), run)
    except NotFound as error:
        raise _not_found(run) from error


def approve(home: Home, run: RunId, step: StepId, *, by: Person, comment: str, yes: bool) -> None:
    """Approve or reject. Raises RUN_STATE when the step does not wait for ``by``."""

    def word(state: st.RunState) -> ev.Event:
        plan_step = state.plan.steps.get(step)
        if not isinstance(plan_step, ApprovalStep) or not isinstance(state.steps[step], st.Asking):
            raise _wrong_state(run, f"approve step '{step}'", "it does not wait for an approval")
        if by not in plan_step.approvers:
            people = ", ".join(plan_step.approvers)
            raise _wrong_state(run, f"approve step '{step}'", f"{by} may not decide it", f"These may: {people}.")
        return ev.Approved(time.time(), step, by, comment) if yes else ev.Rejected(time.time(), step, by, comment)

    _say(home, run, word)


def sign_off(home: Home, run: RunId, step: StepId, *, by: Person, evidence: list[str]) -> None:
    """A person did a task. Raises RUN_STATE unless it is theirs, open, and every item has its evidence."""

    def word(state: st.RunState) -> ev.Event:
        plan_step, now = state.plan.steps.get(step), state.steps.get(step)
        if not isinstance(plan_step, TaskStep) or not isinstance(now, st.Assigned):
            raise _wrong_state(run, f"sign off step '{step}'", "it is not an open task")
        if by != plan_step.owner:
            raise _wrong_state(run, f"sign off step '{step}'", f"its owner is {plan_step.owner}, not {by}")
        items = plan_step.undo_checklist if now.undoing else plan_step.checklist
        if len(evidence) != len(items):
            raise _wrong_state(
                run,
                f"sign off step '{step}'",
                f"{len(evidence)} pieces of evidence for {len(items)} items",
                "Give --evidence once for each: " + "; ".join(items),
            )
        return ev.TaskSignedOff(time.time(), step, by, evidence)

    _say(home, run, word)


def pause(home: Home, run: RunId, *, by: str, reason: str) -> None:
    """Nothing new starts until ``resume``. Raises RUN_STATE when the run is not under way."""

    def word(state: st.RunState) -> ev.Event:
        if not isinstance(state.mode, st.Forward | st.Backward):
            raise _wrong_state(run, "pause it", f"it is {mode_word(state)}")
        return ev.Paused(time.time(), by, reason)

    _say(home, run, word)


def resume(home: Home, run: RunId, *, by: str) -> None:
    """End a pause, a freeze or a stuck undo; no effect on a run that is under way (a driver is all it lacks then)."""

    def word(state: st.RunState) -> ev.Event | None:
        return ev.Resumed(time.time(), by) if isinstance(state.mode, st.OnHold | st.NeedsPerson) else None

    _say(home, run, word)


def abort(home: Home, run: RunId, *, by: str, reason: str) -> bool:
    """Ask for everything to be as it was before. False (and no effect) when the run has ended already."""
    said: list[bool] = []

    def word(state: st.RunState) -> ev.Event | None:
        said.append(not isinstance(state.mode, st.Ended))
        return ev.AbortAsked(time.time(), by, reason) if said[-1] else None

    _say(home, run, word)
    return said[-1]


def undo(home: Home, run: RunId, *, by: str) -> RunId:
    """Open a run that rolls a finished one back; the finished one's verdict stays. Raises RUN_STATE unless it is done."""
    journal = home.journal()
    events = _entries(journal, run)
    first, state = events[0], fold(events)
    assert isinstance(first, ev.RunOpened)
    if not isinstance(state.mode, st.Ended) or state.mode.verdict is not ev.Verdict.DONE:
        raise _wrong_state(run, "undo it", f"it is {mode_word(state)}", "A run under way is rolled back by `bridgehead run abort`.")
    steps = {step_id: ev.DoneBefore(step.recorded, step.applied) for step_id, step in state.steps.items() if isinstance(step, st.Finished)}
    back = RunId(f"{run}-undo")
    open_run(journal, back, first.runbook, estate=first.estate, by=by, at_s=time.time(), undoes=ev.Undoes(run, steps))
    return back


def mode_word(state: st.RunState) -> str:
    """One word or two for people."""
    match state.mode:
        case st.Forward():
            return "going forward"
        case st.Backward():
            return "rolling back"
        case st.OnHold(frozen=frozen):
            return "frozen by a gate" if frozen else "paused"
        case st.NeedsPerson():
            return "stuck"
        case st.Abandoning():
            return "being abandoned"
        case st.Ended(verdict=verdict):
            return verdict.value


def _say(home: Home, run: RunId, word: Callable[[st.RunState], ev.Event | None]) -> None:
    """Append an operator's word; when others wrote meanwhile, look again before saying it."""
    journal = home.journal()
    while True:
        events = _entries(journal, run)
        event = word(fold(events))
        if event is None:
            return
        try:
            journal.append(run, [event], after_seq=len(events), holder=None)
            return
        except Conflict:
            continue


def _entries(journal: Journal, run: RunId) -> list[ev.Event]:
    try:
        return [entry.event for entry in journal.read(run)]
    except NotFound as error:
        raise _not_found(run) from error


def _not_found(run: RunId) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.RUN_NOT_FOUND,
        tried="find the run",
        subject=str(run),
        happened="this home has no run of that name",
        remedy="`bridgehead run list` shows all; --home or BRIDGEHEAD_HOME names another home.",
    )


def _wrong_state(run: RunId, tried: str, happened: str, remedy: str = "") -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.RUN_STATE,
        tried=tried,
        subject=f"run {run}",
        happened=happened,
        remedy=remedy or f"`bridgehead run explain {run}` says what it waits for.",
    )
