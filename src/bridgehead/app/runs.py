"""Runs: the use cases behind ``bridgehead run``. Nothing heavy is imported before a run is driven: verbs that only look start quickly."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bridgehead.app.home import Home
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound, Permanent, PortError
from bridgehead.kernel.ids import Person, RunId, SiteId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ApprovalStep, Runbook, TaskStep
from bridgehead.ports.journal import DriverIdentity, Entry, Journal
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, fold

if TYPE_CHECKING:
    from bridgehead.ports.switchboard import Switchboard
    from bridgehead.runbook.engine import Engine, Watcher

WATCH_S = 0.2
SPARE_WORKERS = 8
"""Beside the steps that a limit counts: fences, starts, ramps."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def name_for(runbook: Runbook, *, now_s: float) -> str:
    """The name of a run that the user did not name: the runbook's, as far as it fits, and the time."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", runbook.name).strip("._-") or "run"
    return f"{words[:80]}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now_s))}"


def start(home: Home, runbook: Runbook, connections: dict[str, Any], *, name: str, by: str) -> RunId:
    """Open a run; ``drive`` makes it go. Raises BAD_USAGE for a name that is taken or not a name, BAD_INPUT and port errors for
    connections that cannot be made; nothing is opened then."""
    from bridgehead.app import wiring
    from bridgehead.runbook.engine import open_run

    if not _NAME.fullmatch(name):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start a run",
            subject=repr(name),
            happened="this cannot be the name of a run",
            remedy="Use letters, digits, '.', '_' and '-', at most 100, beginning with a letter or digit.",
        )
    wiring.connect(connections)
    run = RunId(name)
    try:
        open_run(home.journal(), run, runbook, estate=connections, by=by, at_s=time.time())
    except Conflict as conflict:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start a run",
            subject=name,
            happened="a run of that name exists",
            remedy=f"`bridgehead run resume {name}{home.option}` goes on with it; choose another --name for a new one.",
        ) from conflict
    except Permanent as error:
        error.remedy = "Free disk space there, then start it again; nothing was begun."
        raise
    return run


def drive(
    home: Home,
    run: RunId,
    *,
    watcher: Watcher,
    on_engine: Callable[[Engine], None] = lambda engine: None,
    chores: Callable[[], list[str]] = list,
    workers: int = SPARE_WORKERS,
    say: Callable[[str], None] = lambda text: None,
) -> st.RunState:
    """Drive the run in this process until it ends, needs a person, or is told to stop. People are told as the home's notify.yaml says.

    Args:
        say: told who is called, and who cannot be reached.
        chores: called about every second beside the upkeep; what it returns is noted in the ledger.
        workers: upper bound of calls at a time; at least so many as the runbook's limits allow, and some for its other steps.

    Raises:
        BridgeheadError: RUN_NOT_FOUND, RUN_BUSY when another live process drives it or took it over.
        Permanent: the journal has no space; what was written until then counts.
    """
    from bridgehead.app import wiring
    from bridgehead.app.notifying_runs import telling
    from bridgehead.drivers.system import SystemClock, this_driver
    from bridgehead.recovery.agreement import comparison
    from bridgehead.runbook.engine import Engine

    journal = journal_of(home, run)
    entries = entries_of(home, run, journal=journal)
    first = entries[0].event
    assert isinstance(first, ev.RunOpened)
    ports = wiring.connect(first.estate)
    vault_sites = [SiteId(site) for site, connected in first.estate["sites"].items() if "vault" in connected]
    try:
        with telling(home, entries, say=say) as told:

            def watch(state: st.RunState, events: Sequence[ev.Event]) -> None:
                told.saw(state)
                watcher(state, events)

            engine = Engine(
                journal,
                actions=wiring.actions(ports),
                metrics=ports.metrics,
                clock=SystemClock(),
                driver=this_driver(),
                workers=max(workers, SPARE_WORKERS + sum(first.runbook.limits.values())),
                upkeep=lambda: [*keep_weights(ports), *chores(), *told.notes()],
                compare=lambda state, epoch: comparison(state, epoch, ports, vault_sites=vault_sites),
                watcher=watch,
            )
            on_engine(engine)
            return engine.drive(run)
    except Permanent as error:
        error.remedy = f"Free disk space there, then `bridgehead run resume {run}{home.option}` goes on from what was written."
        raise
    except Conflict as error:
        raise busy(home, run, "another process took it over; this one has stopped") from error
    except BridgeheadError as error:
        if error.code is ErrorCode.RUN_BUSY:
            raise busy(home, run, error.happened) from error
        raise


def busy(home: Home, run: RunId, happened: str) -> BridgeheadError:
    """The error that another process drives the run."""
    return BridgeheadError(
        ErrorCode.RUN_BUSY,
        tried="drive the run",
        subject=str(run),
        happened=happened,
        remedy=f"`bridgehead run watch {run}{home.option}` follows it. To drive it here instead, end that process first.",
    )


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


def journal_of(home: Home, run: RunId) -> Journal:
    """The journal in which the run should be; who only looks makes none. Raises RUN_NOT_FOUND."""
    if home.is_new:
        raise not_found(home, run)
    return home.journal()


def entries_of(home: Home, run: RunId, *, journal: Journal | None = None) -> list[Entry]:
    """The run's whole journal. Raises RUN_NOT_FOUND, JOURNAL_DAMAGED."""
    try:
        return (journal or journal_of(home, run)).read(run)
    except NotFound as error:
        raise not_found(home, run) from error


def state_of(home: Home, run: RunId, *, journal: Journal | None = None) -> st.RunState:
    """The run's state from its journal. Raises RUN_NOT_FOUND, JOURNAL_DAMAGED."""
    return _folded(home, run, entries_of(home, run, journal=journal))


def follow(home: Home, run: RunId) -> Iterator[tuple[st.RunState, DriverIdentity | None]]:
    """The run's state and its driver, again and again, until it has ended or needs a person; reads only what is new."""
    journal = journal_of(home, run)
    entries = entries_of(home, run, journal=journal)
    state, seq = _folded(home, run, entries), entries[-1].seq
    while True:
        yield state, journal.holder(run)
        if isinstance(state.mode, st.Ended | st.NeedsPerson):
            return
        time.sleep(WATCH_S)
        if journal.head_seq(run) != seq:
            for entry in journal.read(run, after_seq=seq):
                state, seq = apply(state, entry.event), entry.seq


def approve(
    home: Home,
    run: RunId,
    step: StepId,
    *,
    by: Person,
    comment: str,
    yes: bool,
    only_if: Callable[[st.RunState], None] = lambda state: None,
) -> None:
    """Approve or reject. Raises RUN_STATE when the step does not wait for ``by``, or no longer.

    Args:
        only_if: raises for a state in which the word must not be said; asked in the moment of saying it.
    """
    tried = f"{'approve' if yes else 'reject'} step '{step}'"

    def word(state: st.RunState) -> ev.Event:
        only_if(state)
        plan_step, now = _known_step(home, state, step, tried=tried), state.steps[step]
        if not isinstance(plan_step, ApprovalStep):
            raise _wrong_state(home, run, tried, "it is not an approval")
        if not isinstance(now, st.Asking):
            raise _wrong_state(home, run, tried, "it does not wait for an approval now")
        if by not in plan_step.approvers:
            people = ", ".join(plan_step.approvers)
            raise _wrong_state(home, run, tried, f"{by} may not decide it", f"These may: {people}.")
        if yes and by in now.approved_by:
            raise _wrong_state(home, run, tried, f"{by} approved it before; {plan_step.quorum} different people are needed")
        paused_s = state.paused_total_s - now.paused_before_s
        on_hold = isinstance(state.mode, st.OnHold)  # time on hold does not count
        if yes and not on_hold and time.time() > now.started_s + plan_step.deadline_s + paused_s:
            remedy = f"`bridgehead run resume {run}{home.option}` lets it roll back; then start it again."
            raise _wrong_state(home, run, tried, "the time for approving is over", remedy)
        return ev.Approved(time.time(), step, by, comment) if yes else ev.Rejected(time.time(), step, by, comment)

    _say(home, run, word)


def sign_off(
    home: Home,
    run: RunId,
    step: StepId,
    *,
    by: Person,
    evidence: Sequence[str],
    only_if: Callable[[st.RunState], None] = lambda state: None,
) -> None:
    """A person did a task. Raises RUN_STATE unless it is theirs, open, and every item has its evidence. ``only_if`` as of ``approve``."""
    tried = f"sign off step '{step}'"

    def word(state: st.RunState) -> ev.Event:
        only_if(state)
        plan_step, now = _known_step(home, state, step, tried=tried), state.steps[step]
        if not isinstance(plan_step, TaskStep):
            raise _wrong_state(home, run, tried, "it is not a task")
        if not isinstance(now, st.Assigned):
            raise _wrong_state(home, run, tried, "the task is not open now")
        if by != plan_step.owner:
            raise _wrong_state(home, run, tried, f"it belongs to {plan_step.owner}, not to {by}", f"Ask {plan_step.owner} to sign it off.")
        items = plan_step.undo_checklist if now.undoing else plan_step.checklist
        if len(evidence) != len(items) or not all(text.strip() for text in evidence):
            given = sum(bool(text.strip()) for text in evidence)
            happened = f"evidence is needed for {len(items)} item{'s' if len(items) > 1 else ''}, {given} given"
            raise _wrong_state(home, run, tried, happened, "Give --evidence once for each, in this order: " + "; ".join(items) + ".")
        return ev.TaskSignedOff(time.time(), step, by, list(evidence))

    _say(home, run, word)


def pause(home: Home, run: RunId, *, by: str, reason: str) -> None:
    """Nothing new starts until ``resume``. Raises RUN_STATE when the run is not under way."""

    def word(state: st.RunState) -> ev.Event:
        if not isinstance(state.mode, st.Forward | st.Backward):
            raise _wrong_state(home, run, "pause the run", f"it is {mode_word(state)}")
        return ev.Paused(time.time(), by, reason)

    _say(home, run, word)


def resume(home: Home, run: RunId, *, by: str) -> bool:
    """End a pause, a freeze or a stuck undo. False (and no effect) for a run that is under way: a driver is all it can lack then."""

    def word(state: st.RunState) -> ev.Event | None:
        return ev.Resumed(time.time(), by) if isinstance(state.mode, st.OnHold | st.NeedsPerson) else None

    return _say(home, run, word)


def abort(home: Home, run: RunId, *, by: str, reason: str) -> bool:
    """Ask for everything to be as it was before. False (and no effect) when the run has ended already."""

    def word(state: st.RunState) -> ev.Event | None:
        return None if isinstance(state.mode, st.Ended) else ev.AbortAsked(time.time(), by, reason)

    return _say(home, run, word)


def undo(home: Home, run: RunId, *, by: str) -> RunId:
    """Open a run that rolls a finished one back; the finished one's verdict stays. Raises RUN_STATE unless it is done and not undone."""
    from bridgehead.runbook.engine import open_run
    from bridgehead.runbook.turning import undoing_of

    journal = journal_of(home, run)
    entries = entries_of(home, run, journal=journal)
    first, state = entries[0].event, _folded(home, run, entries)
    assert isinstance(first, ev.RunOpened)
    if not isinstance(state.mode, st.Ended) or state.mode.verdict is not ev.Verdict.DONE:
        abort_it = (
            "" if isinstance(state.mode, st.Ended) else f"`bridgehead run abort {run}{home.option}` rolls it back while it is under way."
        )
        raise _wrong_state(home, run, "undo the run", f"it is {mode_word(state)}; only a run that is done can be undone", abort_it)
    back = RunId(f"{run}-undo")
    try:
        open_run(journal, back, first.runbook, estate=first.estate, by=by, at_s=time.time(), undoes=undoing_of(state))
    except Conflict as conflict:
        remedy = f"`bridgehead run explain {back}{home.option}` says how far that one is."
        raise _wrong_state(home, run, "undo the run", f"there is a run {back} already", remedy) from conflict
    return back


def mode_word(state: st.RunState) -> str:
    """One word or two for people."""
    match state.mode:
        case st.Forward():
            return "going forward"
        case st.Backward():
            return "rolling back"
        case st.OnHold(frozen=True, by=by):
            return "frozen by a gate" if by.startswith("gate ") else "frozen by a step"
        case st.OnHold():
            return "paused"
        case st.NeedsPerson():
            return "stuck"
        case st.Abandoning():
            return "being abandoned"
        case st.Ended(verdict=verdict):
            return verdict.value


def not_found(home: Home, run: RunId) -> BridgeheadError:
    """The error that there is no such run."""
    return BridgeheadError(
        ErrorCode.RUN_NOT_FOUND,
        tried="find the run",
        subject=str(run),
        happened=f"there is no run of that name in {home.folder if not home.database else home.place}",
        remedy=f"`bridgehead run list{home.option}` shows all; --home or BRIDGEHEAD_HOME names another home.",
    )


def _say(home: Home, run: RunId, word: Callable[[st.RunState], ev.Event | None]) -> bool:
    """Append an operator's word; when others wrote meanwhile, look again before saying it. False when there was nothing to say."""
    journal = journal_of(home, run)
    while True:
        entries = entries_of(home, run, journal=journal)
        event = word(_folded(home, run, entries))
        if event is None:
            return False
        try:
            journal.append(run, [event], after_seq=entries[-1].seq, holder=None)
            return True
        except Conflict:
            continue
        except Permanent as error:
            error.remedy = "Free disk space there, then give this command again; nothing was written."
            raise


def _folded(home: Home, run: RunId, entries: Sequence[Entry]) -> st.RunState:
    """Raises JOURNAL_DAMAGED for events that no engine writes in this order: somebody changed the journal, or its disk did."""
    try:
        return fold(entry.event for entry in entries)
    except (ValueError, KeyError, AssertionError) as error:
        raise BridgeheadError(
            ErrorCode.JOURNAL_DAMAGED,
            tried="read the run's journal",
            subject=f"{home.place}, run {run}",
            happened=f"its entries do not make a run ({type(error).__name__}: {error})",
            remedy=f"`bridgehead ledger verify {run}{home.option}` says which entries hold. Restore the journal from a copy.",
        ) from error


def _known_step(home: Home, state: st.RunState, step: StepId, *, tried: str) -> object:
    if step not in state.plan.steps:
        known = ", ".join(state.plan.steps)
        raise _wrong_state(home, state.run, tried, "the run has no such step", f"Its steps: {known}.")
    return state.plan.steps[step]


def _wrong_state(home: Home, run: RunId, tried: str, happened: str, remedy: str = "") -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.RUN_STATE,
        tried=tried,
        subject=f"run {run}",
        happened=happened,
        remedy=remedy or f"`bridgehead run explain {run}{home.option}` says what it waits for and what you can do.",
    )
