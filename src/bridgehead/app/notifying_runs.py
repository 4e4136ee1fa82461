"""Notices of runs: who must answer, what stands still, who is called when nobody does, and that it is over (R14; G06, G08)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.app import runs, views
from bridgehead.app.home import Home
from bridgehead.app.notifying import Bell, Say, ringing
from bridgehead.kernel.errors import BridgeheadError, PortError
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.model.notice import Ask, Notice, NoticeKind, Severity
from bridgehead.model.notifyfile import Notifying
from bridgehead.model.recovery import Escalation
from bridgehead.model.runbook import ApprovalStep, TaskStep
from bridgehead.ports.journal import Entry, Journal
from bridgehead.recovery.escalation import Call, Wait, WaitKind, due, undriven, waits
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, fold

ESCALATION: Final = "escalation"
"""Beside the connections of a run: its own escalation, so that whoever drives it knows it."""
LOOK_S: Final = 1.0
UNDRIVEN_S: Final = 30.0
"""So long, nobody must drive a run before that is trouble: longer than any lease, and than a driver takes that starts anew."""


def with_escalation(connections: dict[str, Any], levels: Sequence[Escalation]) -> dict[str, Any]:
    """The connections of a run that has an escalation of its own."""
    return {**connections, ESCALATION: msgspec.to_builtins(levels)} if levels else connections


def levels_of(connections: Mapping[str, Any], file: Notifying | None) -> tuple[Escalation, ...]:
    """Who is called about a run: its own levels, else those of the home."""
    own = msgspec.convert(connections.get(ESCALATION, ()), tuple[Escalation, ...])
    return own or (file.escalation if file is not None else ())


def opened(bell: Bell, run: RunId | None = None) -> dict[str, Notice]:
    """Threads of a run, or of all, that people believe to be open. To be asked before the run is looked at, see ``tell``."""
    return bell.outbox.open_threads("run/" if run is None else _prefix(run))


def tell(
    bell: Bell,
    state: st.RunState,
    found: Sequence[Wait],
    levels: Sequence[Escalation],
    *,
    before: Mapping[str, Notice],
    home: Home,
    now_s: float,
) -> None:
    """Have told what waits for people, whom nobody answered, and what is over. Raises port errors of the outbox.

    Args:
        found: what it waits for.
        before: threads that were open before ``state`` was read: another process, that knows more, may have opened others since.
    """
    standing = [_waiting(bell.file, state, wait, home) for wait in found]
    standing += [_calling(state, call) for call in due(found, levels, now_s=now_s)]
    for notice in standing:
        bell.post(notice)
    prefix, alone = _prefix(state.run), _alone(state.run)
    ours = {
        thread: last
        for thread, last in before.items()
        if thread.startswith(prefix) and (last.since_s <= state.last_s or thread.startswith(alone))  # whether it is driven, no entry says
    }
    bell.settle(ours, {notice.thread for notice in standing}, what=lambda notice: _outcome(state, notice), now_s=now_s)


class RunTelling:
    """Tells of one run while this process drives it. ``saw`` and ``notes`` may be called from two threads.

    Args:
        bell: None where nobody is told; levels that are due are noted in the ledger all the same.
        noted: what its ledger notes already.
    """

    def __init__(self, home: Home, *, levels: Sequence[Escalation], bell: Bell | None, noted: set[str], say: Say) -> None:
        self._home, self._levels, self._bell, self._noted, self._say = home, levels, bell, noted, say
        self._state: st.RunState | None = None
        self._troubles: list[str] = []
        self._trouble = ""

    def saw(self, state: st.RunState) -> None:
        """The run is so now."""
        self._state = state

    def trouble(self, text: str) -> None:
        """Somebody cannot be told: noted, so that it can be seen."""
        self._troubles.append(text)

    def notes(self) -> list[str]:
        """Tell what is due; returns what the ledger is to note."""
        if self._state is None:
            return []
        now_s = time.time()
        try:
            before = opened(self._bell, self._state.run) if self._bell is not None else {}
            state = self._state
            if self._bell is not None:
                tell(self._bell, state, waits(state), self._levels, before=before, home=self._home, now_s=now_s)
            self._trouble = ""
        except PortError as error:
            if error.happened != self._trouble:
                self.trouble(f"people cannot be told: {error.happened}")
            self._trouble = error.happened
        calls = due(waits(self._state), self._levels, now_s=now_s)
        fresh = [call.text for call in calls if call.text not in self._noted]
        self._noted.update(fresh)
        while self._troubles:
            fresh.append(self._troubles.pop(0))
        for text in fresh:
            self._say(text)
        return fresh


@contextlib.contextmanager
def telling(home: Home, entries: Sequence[Entry], *, say: Say) -> Iterator[RunTelling]:
    """For a process that drives the run whose journal begins with ``entries``. At the end, its last state is told."""
    first = entries[0].event
    assert isinstance(first, ev.RunOpened)
    noted = {entry.event.text for entry in entries if isinstance(entry.event, ev.Noticed)}
    early: list[str] = []
    told: RunTelling | None = None
    with ringing(home, say=lambda text: told.trouble(text) if told is not None else early.append(text)) as bell:
        levels = levels_of(first.estate, bell.file if bell is not None else None)
        told = RunTelling(home, levels=levels, bell=bell, noted=noted, say=say)
        for text in early:
            told.trouble(text)
        yield told
        told.notes()


class RunsTelling:
    """Tells of all runs of a home, whoever drives them, or nobody: a stuck run has no driver. One thread calls ``look``."""

    def __init__(self, home: Home, bell: Bell, *, say: Say) -> None:
        self._home, self._bell, self._say = home, bell, say
        self._seen: dict[RunId, tuple[int, st.RunState, tuple[Escalation, ...]]] = {}
        self._damaged: set[RunId] = set()
        self._over: set[RunId] = set()
        self._idle: dict[RunId, tuple[float, float]] = {}  # when the last driver wrote last, and since when there has been none

    def run(self, stop: threading.Event) -> None:
        """Look again and again until ``stop``. What is in the way is said once, and waited for."""
        trouble, journal = "", None
        while not stop.is_set():
            try:
                if not self._home.is_new:
                    journal = journal or self._home.journal()
                    self.look(journal, now_s=time.time())
                trouble = ""
            except Exception as error:  # whatever it is: who tells nobody any more must at least say so, and go on
                happened = error.happened if isinstance(error, BridgeheadError) else f"{type(error).__name__}: {error}"
                if happened != trouble:
                    self._say(f"people cannot be told: {happened}")
                trouble = happened
            stop.wait(LOOK_S)
        if journal is not None:
            journal.close()

    def look(self, journal: Journal, *, now_s: float) -> None:
        """Tell what is due of every run. Raises port errors of journal and outbox."""
        before = opened(self._bell)
        for run in journal.runs():
            if run in self._damaged or (run in self._over and journal.head_seq(run) == self._seen[run][0]):
                continue
            try:
                state, levels = self._read(journal, run)
                found = [*waits(state), *self._undriven(journal, state, before, now_s=now_s)]
                tell(self._bell, state, found, levels, before=before, home=self._home, now_s=now_s)
            except PortError:
                raise
            except Exception as error:  # damaged, or of a newer version, or whatever it is: others are told of
                self._damaged.add(run)
                self._say(f"nobody is told of {run}: {type(error).__name__}: {error}")
                continue
            if isinstance(state.mode, st.Ended):
                self._over.add(run)

    def _undriven(self, journal: Journal, state: st.RunState, before: Mapping[str, Notice], *, now_s: float) -> list[Wait]:
        """That nobody drives the run, when it has been so for long enough, or another process has seen so and told it."""
        run = state.run
        told = next(
            (last.since_s for thread, last in before.items() if thread.startswith(_alone(run)) and last.kind is NoticeKind.TROUBLE), None
        )
        driven_s, since_s = self._idle.get(run, (state.driven_s, now_s))
        if told is not None:
            since_s = told
        elif driven_s != state.driven_s or since_s > now_s:  # somebody drove it since then; or the clock was set back
            since_s = now_s
        wait = undriven(state, since_s=since_s)
        if wait is None or journal.holder(run) is not None:
            self._idle.pop(run, None)
            return []
        self._idle[run] = state.driven_s, since_s
        return [wait] if told is not None or now_s - since_s >= UNDRIVEN_S else []

    def _read(self, journal: Journal, run: RunId) -> tuple[st.RunState, tuple[Escalation, ...]]:
        known = self._seen.get(run)
        if known is None:
            entries = journal.read(run)
            first = entries[0].event
            assert isinstance(first, ev.RunOpened)
            found = entries[-1].seq, fold(entry.event for entry in entries), levels_of(first.estate, self._bell.file)
        else:
            seq, state, levels = known
            for entry in journal.read(run, after_seq=seq) if journal.head_seq(run) != seq else ():
                state, seq = apply(state, entry.event), entry.seq
            found = seq, state, levels
        self._seen[run] = found
        return found[1], found[2]


def _prefix(run: RunId) -> str:
    return f"run/{run}/"


def _alone(run: RunId) -> str:
    """Of the threads that say that nobody drives it; no step has an empty name."""
    return f"{_prefix(run)}/undriven/"


def _thread(run: RunId, wait: Wait) -> str:
    if wait.kind is WaitKind.DRIVER:  # two processes that see it within the same moment tell it once
        return f"{_alone(run)}{wait.since_s // UNDRIVEN_S:.0f}"
    return f"{_prefix(run)}{wait.step}/{wait.since_s:.3f}"


def _waiting(file: Notifying, state: st.RunState, wait: Wait, home: Home) -> Notice:
    thread = _thread(state.run, wait)
    trouble = wait.kind in (WaitKind.TROUBLE, WaitKind.DRIVER)
    explain = f"`bridgehead run explain {state.run}{home.option}` says what can be done."
    if wait.kind is WaitKind.DRIVER:
        explain = f"`bridgehead run resume {state.run}{home.option}`, or a controller, goes on with it.\n{explain}"
    ask = None if trouble else _ask(file, state, wait, home)
    return Notice(
        key=thread,
        thread=thread,
        kind=NoticeKind.TROUBLE if trouble else NoticeKind.ASK,
        title=wait.what,
        text=f"{wait.what}\n\n{explain}" if ask is None else "\n".join([ask.question, *(f"- {item}" for item in ask.items)]),
        at_s=wait.since_s,
        since_s=wait.since_s,
        severity=Severity.CRITICAL if trouble else Severity.WARNING,
        people=file.on_call if trouble else wait.people,
        labels=_labels(state, wait),
        ask=ask,
    )


def _ask(file: Notifying, state: st.RunState, wait: Wait, home: Home) -> Ask:
    plan_step, now = state.plan.steps[wait.step], state.steps[wait.step]
    links = {name: link.replace("{run}", state.run).replace("{step}", wait.step) for name, link in file.links.items()}
    commands = tuple(
        command
        for command in views.view(state, driver="", home_option=home.option).what_you_can_do
        if command.startswith(tuple(f"bridgehead run {verb} {state.run} {wait.step} " for verb in ("approve", "reject", "done")))
    )
    expires_s = views.step_view(state, wait.step).deadline_s
    if isinstance(plan_step, ApprovalStep) and isinstance(now, st.Asking):
        question = plan_step.text or plan_step.title or f"May {wait.step} of {state.run} be done?"
        return Ask(
            run=state.run, step=wait.step, task=False, question=question, may_answer=plan_step.approvers, round_s=wait.since_s,
            quorum=plan_step.quorum, said_yes=now.approved_by, expires_s=expires_s, commands=commands, links=links,
        )  # fmt: skip
    assert isinstance(plan_step, TaskStep)
    assert isinstance(now, st.Assigned)
    items = plan_step.undo_checklist if now.undoing else plan_step.checklist
    return Ask(
        run=state.run, step=wait.step, task=True, question=plan_step.title or wait.what, may_answer=wait.people, round_s=wait.since_s,
        items=items, expires_s=expires_s, commands=commands, links=links,
    )  # fmt: skip


def _calling(state: st.RunState, call: Call) -> Notice:
    thread = f"{_thread(state.run, call.wait)}/call-{call.number}"
    return Notice(
        key=thread,
        thread=thread,
        kind=NoticeKind.CALL,
        title=f"nobody has answered: {call.wait.what}",
        text=f"{call.text}\n\nIt waits for {', '.join(call.wait.people) or 'somebody'}, and nothing has happened so far.",
        at_s=call.due_s,
        since_s=call.wait.since_s,
        severity=Severity.CRITICAL,
        people=call.people,
        labels=_labels(state, call.wait) | {"level": str(call.number)},
    )


def _labels(state: st.RunState, wait: Wait) -> dict[str, str]:
    return {"run": state.run, "runbook": state.plan.runbook.name, "step": wait.step, "waits_for": wait.kind.value}


def _outcome(state: st.RunState, notice: Notice) -> str:
    """What came of it, in a line."""
    step = notice.labels.get("step", "")
    words = f"{state.run} is {runs.mode_word(state)}"
    if step in state.plan.steps:
        seen = views.step_view(state, state.plan.steps[step].id)  # type: ignore[index]  # a label is a plain text
        words = f"{seen.id} of {state.run}: {seen.state}{f' ({seen.detail})' if seen.detail else ''}; {words}"
    return f"This is over: {words}."
