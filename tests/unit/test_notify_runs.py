"""What of a run people are told, when, whom, and that it is over; who is called when nobody answers (R14; G06, G08)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app import wiring
from bridgehead.app.home import Home
from bridgehead.app.notifying import Bell, required_bell
from bridgehead.app.notifying_runs import RunsTelling, RunTelling, levels_of, opened, tell, with_escalation
from bridgehead.app.recover import Proposal, Setting, open_proposal
from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Person, RunId, ServiceId, SiteId, StepId
from bridgehead.model import event as ev
from bridgehead.model.notice import Notice, NoticeKind, NoticeState, Severity
from bridgehead.model.recovery import Escalation, Recovery
from bridgehead.model.runbook import ApprovalStep, GateStep, OnBreach, Runbook, TaskStep
from bridgehead.recovery.escalation import undriven, waits
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, fold
from bridgehead.runbook.engine import open_run

AGREE = ApprovalStep(StepId("agree"), (Person("ann"), Person("bob")), 600.0, quorum=2, text="LOST if this is done: 12 steps.")
CABLE = TaskStep(StepId("cable"), Person("eve"), ("unplug it", "label it"), 600.0, needs=(StepId("agree"),))
GATE = GateStep(StepId("watch"), ServiceId("chat"), SiteId("b"), None, (), "requests", 1, 1, 1.0, 600.0, on_breach=OnBreach.PAGE)
LEVELS = (Escalation(60.0, (Person("ada"),)), Escalation(300.0, (Person("ben"),)))
BEGAN_S = 1_700_000_000.0
BEGUN = [ev.DriverTook(BEGAN_S, 1, "x/1"), ev.StepStarted(BEGAN_S + 1, AGREE.id), ev.StepStarted(BEGAN_S + 1, GATE.id)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.folder.mkdir(mode=0o700)
    hook = {"driver": "webhook", "url": "https://chat.example/x", "secrets": ["file:/none"]}
    addresses = {name: f"{name}@example.org" for name in ("ann", "bob", "eve", "ada", "ben", "duty")}
    mail = {"driver": "email", "server": "mail.example:587", "sender": "b@example.org", "addresses": addresses}
    alerts = {"driver": "alertmanager", "urls": ["https://alerts.example"], "tells": ["trouble", "alarm"]}
    file = {"notify": "ops", "channels": {"chat": hook, "post": mail, "alerts": alerts}, "on_call": ["duty"]}
    (home.folder / "notify.yaml").write_text(json.dumps(file))
    return home


@pytest.fixture
def bell(home: Home) -> Iterator[Bell]:
    """No courier is at work: what would be told stays in the outbox."""
    bell = required_bell(home, say=lambda text: None)
    yield bell
    bell.close(patience_s=0)


def state_after(*events: ev.Event) -> st.RunState:
    first = ev.RunOpened(BEGAN_S, RunId("move"), Runbook("book", (AGREE, CABLE, GATE)), "", {}, "ops", "0")
    return fold([first, *BEGUN, *events])


def look(bell: Bell, state: st.RunState, home: Home, *, after_s: float = 2.0) -> None:
    now_s = BEGAN_S + after_s
    tell(bell, state, waits(state), LEVELS, before=opened(bell), home=home, now_s=now_s)


def told(bell: Bell) -> list[Notice]:
    """In order, each once."""
    return list({found.notice.key: found.notice for found in reversed(bell.outbox.deliveries())}.values())


def whom(bell: Bell, notice: Notice) -> set[str]:
    return {found.receiver for found in bell.outbox.deliveries() if found.notice.key == notice.key}


def test_an_approval_is_told_once_to_those_who_may_answer(bell: Bell, home: Home) -> None:
    for after_s in (2.0, 3.0, 59.0):
        look(bell, state_after(), home, after_s=after_s)
    (ask,) = told(bell)
    assert (ask.kind, ask.severity, ask.people) == (NoticeKind.ASK, Severity.WARNING, ("ann", "bob"))
    assert ask.text == "LOST if this is done: 12 steps."
    assert ask.ask is not None
    assert (ask.ask.quorum, ask.ask.expires_s) == (2, BEGAN_S + 601)
    assert whom(bell, ask) == {"https://chat.example/x", "ann@example.org", "bob@example.org"}


def test_G06_who_did_not_answer_is_followed_by_the_next_and_the_next(bell: Bell, home: Home) -> None:
    one_said_yes = state_after(ev.Approved(BEGAN_S + 5, AGREE.id, Person("ann"), ""))
    for after_s in (2.0, 60.0, 62.0, 100.0, 302.0, 400.0):
        look(bell, one_said_yes, home, after_s=after_s)
    _, first, second = told(bell)
    assert [(one.kind, one.people, one.severity) for one in (first, second)] == [
        (NoticeKind.CALL, ("ada",), Severity.CRITICAL),
        (NoticeKind.CALL, ("ben",), Severity.CRITICAL),
    ]
    assert "It waits for bob" in first.text
    assert whom(bell, first) == {"https://chat.example/x", "ada@example.org"}
    assert (first.at_s, second.at_s) == (BEGAN_S + 61, BEGAN_S + 301), "whoever looks late says when it was due"


def test_everybody_who_was_told_hears_that_it_is_over(bell: Bell, home: Home) -> None:
    look(bell, state_after(), home, after_s=100.0)
    over = state_after(ev.Approved(BEGAN_S + 101, AGREE.id, Person("ann"), ""), ev.StepDone(BEGAN_S + 102, AGREE.id))
    for _ in range(2):
        look(bell, over, home, after_s=103.0)
    ended = [one for one in told(bell) if one.state is NoticeState.RESOLVED]
    assert len(ended) == 2, "the question, and the call"
    assert {address for one in ended for address in whom(bell, one)} == {
        "https://chat.example/x", "ann@example.org", "bob@example.org", "ada@example.org",
    }  # fmt: skip
    assert "agree of move: done" in ended[0].text
    assert ended[0].ask is None


def test_one_who_knows_less_ends_nothing_that_another_has_begun(bell: Bell, home: Home) -> None:
    """Two processes look: one has read the journal before the other wrote that the task is open."""
    before = state_after()
    after = apply(before, ev.StepDone(BEGAN_S + 10, AGREE.id))
    after = apply(after, ev.StepStarted(BEGAN_S + 11, CABLE.id))
    look(bell, after, home)
    tell(bell, before, waits(before), (), before=opened(bell), home=home, now_s=BEGAN_S + 12)
    assert [one.state for one in told(bell) if "cable" in one.thread] == [NoticeState.OPEN]


def test_a_task_is_told_with_its_checklist(bell: Bell, home: Home) -> None:
    look(bell, state_after(ev.StepDone(BEGAN_S + 10, AGREE.id), ev.StepStarted(BEGAN_S + 11, CABLE.id)), home)
    (task,) = told(bell)
    assert task.people == ("eve",)
    assert task.ask is not None
    assert (task.ask.task, task.ask.items) == (True, ("unplug it", "label it"))
    assert task.ask.commands[0].startswith("bridgehead run done move cable --as eve --evidence")


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([ev.Paged(BEGAN_S + 9, GATE.id, "bad")], "evidence of gate watch is bad"),
        ([ev.Frozen(BEGAN_S + 9, GATE.id, "errors 9 %")], "move stands still: gate watch: errors 9 %"),
        ([ev.WorldDiffers(BEGAN_S + 9, ["job new runs twice"])], "job new runs twice"),
    ],
)
def test_G08_a_run_that_stands_still_is_told_to_those_on_call(bell: Bell, home: Home, events: list[ev.Event], words: str) -> None:
    look(bell, state_after(*events), home, after_s=10.0)
    (trouble,) = [one for one in told(bell) if one.kind is NoticeKind.TROUBLE]
    assert (trouble.people, trouble.severity) == (("duty",), Severity.CRITICAL)
    assert words in f"{trouble.title} {trouble.text}"
    assert "bridgehead run explain move" in trouble.text
    assert whom(bell, trouble) == {"https://chat.example/x", "duty@example.org", "https://alerts.example"}


def test_a_pause_by_a_person_is_no_trouble_and_an_ended_run_asks_nobody() -> None:
    paused = state_after(ev.Paused(BEGAN_S + 9, "ops", "lunch"))
    assert [wait.step for wait in waits(paused)] == ["agree"]
    assert waits(state_after(ev.RunEnded(BEGAN_S + 9, ev.Verdict.ABANDONED, "by hand"))) == []


def test_a_run_takes_its_own_escalation_with_it(bell: Bell) -> None:
    connections: dict[str, Any] = {"sites": {}, "services": {}}
    assert levels_of(connections, None) == ()
    carried = json.loads(json.dumps(with_escalation(connections, LEVELS)))
    assert levels_of(carried, bell.file) == LEVELS
    assert with_escalation(connections, ()) == connections


def test_whoever_looks_at_a_recovery_calls_whom_its_own_file_names(home: Home, bell: Bell) -> None:
    """The process that opened it may be gone, and its file with it."""
    connections: dict[str, Any] = {"sites": {}, "services": {}}
    file = Recovery(name="two", sites=(SiteId("a"), SiteId("b")), workloads=(), escalation=LEVELS)
    proposal = Proposal(Runbook("failover", (AGREE,)), "", None, {})
    run = open_proposal(home, Setting(file, connections, wiring.connect(connections)), proposal, name="f", by="ops")
    journal = home.journal()
    asked_s = time.time()
    journal.append(run, [ev.DriverTook(asked_s, 1, "x/1"), ev.StepStarted(asked_s, AGREE.id)], after_seq=1, holder=None)
    RunsTelling(home, bell, say=print).look(journal, now_s=asked_s + 61)
    journal.close()
    assert [one.people for one in told(bell)] == [("ann", "bob"), ("ada",)]


def test_the_ledger_notes_each_call_once_whoever_drives(home: Home) -> None:
    said: list[str] = []
    noted: set[str] = set()
    for _ in range(2):  # the second one is the driver after a crash, which has read the journal
        telling = RunTelling(home, levels=LEVELS, bell=None, noted=noted, say=said.append)
        telling.saw(state_after())
        calls = telling.notes() + telling.notes()
        noted |= set(calls)
    first, second = (f"calling {who}: move waits for an approval: agree" for who in ("ada", "ben"))
    assert said == [first, second]


def test_what_cannot_be_told_is_noted_and_stops_nothing(home: Home, bell: Bell) -> None:
    bell.outbox.close()
    telling = RunTelling(home, levels=(), bell=bell, noted=set(), say=lambda text: None)
    telling.saw(state_after())
    assert [note[:24] for note in telling.notes() + telling.notes()] == ["people cannot be told: C"]


def test_all_runs_are_looked_at_also_when_nobody_drives_them_and_one_is_damaged(home: Home, bell: Bell) -> None:
    said: list[str] = []
    journal = home.journal()
    book = Runbook("book", (AGREE, CABLE, GATE))
    for run in ("one", "two"):
        open_run(journal, RunId(run), book, estate={"sites": {}, "services": {}}, by="ops", at_s=BEGAN_S)
        journal.append(RunId(run), BEGUN, after_seq=1, holder=None)
    journal.create(RunId("odd"), ev.Paused(BEGAN_S, "ops", "no run begins like this"))
    telling = RunsTelling(home, bell, say=said.append)
    telling.look(journal, now_s=BEGAN_S + 2)
    assert {one.thread.split("/")[1] for one in told(bell)} == {"one", "two"}
    assert len(said) == 1
    assert "odd" in said[0]
    journal.append(RunId("one"), [ev.RunEnded(BEGAN_S + 3, ev.Verdict.ABANDONED, "by hand")], after_seq=4, holder=None)
    for _ in range(3):
        telling.look(journal, now_s=BEGAN_S + 4)
    assert [one.thread.split("/")[1] for one in told(bell) if one.state is NoticeState.RESOLVED] == ["one"]
    assert len(said) == 1
    journal.close()


class Undriven:
    """A run that goes forward, and whoever looks at it; this process can be its driver."""

    def __init__(self, home: Home, bell: Bell) -> None:
        self.home, self.bell, self.journal, self.said = home, bell, home.journal(), list[str]()
        book = Runbook("book", (GATE,))
        connections = with_escalation({"sites": {}, "services": {}}, LEVELS[:1])
        open_run(self.journal, RunId("move"), book, estate=connections, by="ops", at_s=BEGAN_S)
        self.telling = self.another()

    def another(self) -> RunsTelling:
        return RunsTelling(self.home, self.bell, say=self.said.append)

    def write(self, *events: ev.Event) -> None:
        self.journal.append(RunId("move"), list(events), after_seq=self.journal.head_seq(RunId("move")), holder=None)

    def drive(self, after_s: float) -> None:
        epoch = self.journal.acquire(RunId("move"), this_driver())
        self.write(ev.DriverTook(BEGAN_S + after_s, epoch, "x/1"))

    def die(self) -> None:
        self.journal.release(RunId("move"), this_driver())

    def look(self, *after_s: float, telling: RunsTelling | None = None) -> list[tuple[NoticeKind, NoticeState]]:
        """What was told so far."""
        for one in after_s:
            (telling or self.telling).look(self.journal, now_s=BEGAN_S + one)
        return [(one.kind, one.state) for one in told(self.bell)]


STANDS, IS_OVER = (NoticeKind.TROUBLE, NoticeState.OPEN), (NoticeKind.TROUBLE, NoticeState.RESOLVED)


@pytest.fixture
def alone(home: Home, bell: Bell) -> Iterator[Undriven]:
    alone = Undriven(home, bell)
    yield alone
    alone.journal.close()


def test_G08_a_run_whose_driver_died_is_told_to_those_on_call(bell: Bell, alone: Undriven) -> None:
    alone.drive(0)
    assert alone.look(1, 3600) == []
    alone.die()
    assert alone.look(3601, 3630) == [], "another driver may be about to come"
    assert alone.look(3632, 3633) == [STANDS]
    (trouble,) = told(bell)
    assert (trouble.people, trouble.severity, trouble.since_s) == (("duty",), Severity.CRITICAL, BEGAN_S + 3601)
    assert "no process drives it" in trouble.title
    assert "bridgehead run resume move" in trouble.text
    assert alone.look(3662) == [STANDS, (NoticeKind.CALL, NoticeState.OPEN)], "and the next ones are called"
    assert told(bell)[1].people == ("ada",)
    alone.drive(3663)
    assert alone.look(3664).count(IS_OVER) == 1
    assert len(alone.look(3700, 9999)) == 4
    assert alone.said == []


def test_a_driver_that_comes_says_itself_that_it_drives(home: Home, bell: Bell, alone: Undriven) -> None:
    alone.look(0, 31)
    alone.drive(32)
    telling = RunTelling(home, levels=(), bell=bell, noted=set(), say=alone.said.append)
    telling.saw(fold(entry.event for entry in alone.journal.read(RunId("move"))))
    telling.notes()
    assert alone.look() == [STANDS, IS_OVER]


def test_who_looks_later_tells_it_no_second_time_and_does_not_end_it(alone: Undriven) -> None:
    alone.look(0, 31)
    assert alone.look(32, 33, 90, telling=alone.another()).count(STANDS) == 1
    assert IS_OVER not in alone.look()


def test_two_who_look_at_once_tell_it_once(bell: Bell, home: Home) -> None:
    """Neither knows that the other tells it, and they saw it at their own moments."""
    state = state_after()
    for since_s in (BEGAN_S + 10.0, BEGAN_S + 10.9):
        found = undriven(state, since_s=since_s)
        assert found is not None
        tell(bell, state, [found], (), before={}, home=home, now_s=BEGAN_S + 41)
    assert len(told(bell)) == 1


@pytest.mark.parametrize("entry", [True, False])
def test_each_time_that_a_run_loses_its_driver_is_told(alone: Undriven, entry: bool) -> None:
    """Also when the driver came and went between two looks, or wrote nothing."""
    alone.look(0, 31)
    if entry:
        alone.drive(31.2)
        state = fold(found.event for found in alone.journal.read(RunId("move")))
        tell(alone.bell, state, (), (), before=opened(alone.bell), home=alone.home, now_s=BEGAN_S + 31.3)
        alone.die()
    else:
        alone.journal.acquire(RunId("move"), this_driver())
        alone.look(32)
        alone.die()
    assert alone.look(33, 60) == [STANDS, IS_OVER]
    assert alone.look(64) == [STANDS, IS_OVER, STANDS]


@pytest.mark.parametrize("event", [ev.Paused(BEGAN_S, "ops", "lunch"), ev.RunEnded(BEGAN_S, ev.Verdict.ABANDONED, "by hand")])
def test_a_run_that_is_not_to_go_on_misses_no_driver(alone: Undriven, event: ev.Event) -> None:
    alone.write(event)
    assert alone.look(0, 31, 99) == []


class Choosy:
    """A channel that fails in an unforeseen way for one run."""

    refresh_s = None

    def receivers(self, notice: Notice) -> tuple[str, ...]:
        if notice.labels["run"] == "odd":
            raise ZeroDivisionError("oh")
        return ("r",)

    def send(self, notice: Notice, receiver: str) -> None:
        pass


def test_a_run_that_cannot_be_told_of_keeps_nobody_from_hearing_of_others(home: Home, bell: Bell, tmp_path: Path) -> None:
    choosy = Bell(bell.file, {name: Choosy() for name in bell.channels}, folder=tmp_path / "choosy", say=print)
    alone = Undriven(home, choosy)
    open_run(alone.journal, RunId("odd"), Runbook("book", (GATE,)), estate={}, by="ops", at_s=BEGAN_S + 1)
    assert alone.look(0, 31, 32) == [STANDS]
    assert alone.said == ["nobody is told of odd: ZeroDivisionError: oh"]
    alone.journal.close()
    choosy.close(patience_s=0)


class Unforeseen(Home):
    """Its journal fails in a way that nobody has thought of."""

    is_new = False  # type: ignore[assignment]  # a property there

    def journal(self) -> Any:
        raise ZeroDivisionError("oh")


def test_who_tells_of_all_runs_says_whatever_is_in_the_way_and_goes_on(home: Home, bell: Bell) -> None:
    said: list[str] = []
    stop = threading.Event()
    thread = threading.Thread(target=RunsTelling(Unforeseen(home.folder), bell, say=said.append).run, args=(stop,), daemon=True)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    stop.set()
    thread.join(10)
    assert said == ["people cannot be told: ZeroDivisionError: oh"]


def test_a_home_without_a_notify_file_is_told_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(BridgeheadError, match=r"be-told-and-answer\.md"):
        required_bell(Home(tmp_path / "new"), say=print)
