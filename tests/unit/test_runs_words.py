"""Who may say what to a run, and what verbs that only look cost (R14, design rule 6)."""

from __future__ import annotations

import subprocess
import sys
import time

import msgspec
import pytest

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, Person, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ApprovalStep, HoldStep, Runbook, TaskStep
from bridgehead.runbook import state as st

RUN, AGREE, CABLE = RunId("move"), StepId("agree"), StepId("cable")
BOOK = Runbook(
    "Move llm: ams → fra",
    (
        ApprovalStep(AGREE, (Person("ann"), Person("bob")), 60.0, quorum=2),
        TaskStep(CABLE, Person("eve"), ("unplug", "label"), 60.0),
        HoldStep(StepId("soak"), 1.0, needs=(AGREE,)),
    ),
)


@pytest.fixture
def home(tmp_path):
    """A run that asks for an approval and a task; nobody drives it."""
    home = Home(tmp_path / "home")
    runs.start(home, BOOK, {"sites": {}, "services": {}}, name=RUN, by="ann")
    say(home, ev.DriverTook(time.time(), Epoch(1), "vm/1"), ev.StepStarted(time.time(), AGREE), ev.StepStarted(time.time(), CABLE))
    return home


def say(home, *events):
    journal = home.journal()
    journal.append(RUN, list(events), after_seq=journal.head_seq(RUN), holder=None)


def refused(code, call, *arguments, **options) -> str:
    with pytest.raises(BridgeheadError) as caught:
        call(*arguments, **options)
    assert caught.value.code is code
    return f"{caught.value.happened} {caught.value.remedy}"


def approve(home, by, *, step=AGREE, yes=True):
    runs.approve(home, RUN, step, by=Person(by), comment="", yes=yes)


def test_each_named_person_approves_once(home):
    approve(home, "ann")
    assert "ann approved it before" in refused(ErrorCode.RUN_STATE, approve, home, "ann")
    approve(home, "bob")
    assert runs.state_of(home, RUN).steps[AGREE].approved_by == ("ann", "bob")


def test_who_approved_may_still_reject(home):
    approve(home, "ann")
    approve(home, "ann", yes=False)
    assert runs.state_of(home, RUN).steps[AGREE].rejected_by == "ann"


@pytest.mark.parametrize(
    ("by", "step", "told"), [("zoe", AGREE, "zoe may not"), ("ann", CABLE, "not an approval"), ("ann", "x", "no such step")]
)
def test_others_and_other_steps_are_refused(home, by, step, told):
    for yes in (True, False):
        assert told in refused(ErrorCode.RUN_STATE, approve, home, by, step=StepId(step), yes=yes)


def test_an_approval_after_its_time_is_refused_but_time_on_hold_does_not_count(home):
    state = runs.state_of(home, RUN)
    assert isinstance(state.steps[AGREE], st.Asking)
    long_ago = msgspec.structs.replace(BOOK.steps[0], deadline_s=0.0)
    late = Home(home.folder.parent / "late")
    book = Runbook("late", (long_ago,))
    runs.start(late, book, {"sites": {}, "services": {}}, name=RUN, by="ann")
    say(late, ev.StepStarted(time.time() - 1.0, AGREE))
    assert "time for approving is over" in refused(ErrorCode.RUN_STATE, approve, late, "ann")
    say(late, ev.Paused(time.time(), "ann", "lunch"))
    approve(late, "ann")


@pytest.mark.parametrize(
    ("by", "evidence", "told"),
    [
        ("ann", ["a", "b"], "belongs to eve"),
        ("eve", [], "2 items, 0 given"),
        ("eve", ["a"], "2 items, 1 given"),
        ("eve", ["a", "  "], "2 items, 1 given"),
        ("eve", ["a", "b", "c"], "2 items, 3 given"),
    ],
)
def test_a_task_is_signed_off_by_its_owner_with_all_evidence(home, by, evidence, told):
    assert told in refused(ErrorCode.RUN_STATE, runs.sign_off, home, RUN, CABLE, by=Person(by), evidence=evidence)
    runs.sign_off(home, RUN, CABLE, by=Person("eve"), evidence=["a", "b"])
    assert "not open" in refused(ErrorCode.RUN_STATE, runs.sign_off, home, RUN, CABLE, by=Person("eve"), evidence=["a", "b"])


def test_pause_resume_abort_say_whether_they_did_something(home):
    assert runs.resume(home, RUN, by="ann") is False
    runs.pause(home, RUN, by="ann", reason="lunch")
    assert "it is paused" in refused(ErrorCode.RUN_STATE, runs.pause, home, RUN, by="ann", reason="lunch")
    assert runs.resume(home, RUN, by="ann") is True
    assert runs.abort(home, RUN, by="ann", reason="enough") is True
    assert "it is rolling back" in refused(ErrorCode.RUN_STATE, runs.undo, home, RUN, by="ann")
    say(home, ev.RunEnded(time.time(), ev.Verdict.ROLLED_BACK, "enough"))
    assert runs.abort(home, RUN, by="ann", reason="enough") is False
    assert "it is rolled-back" in refused(ErrorCode.RUN_STATE, runs.pause, home, RUN, by="ann", reason="lunch")


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 101, "../x", "ü"])
def test_names_that_are_none_are_refused(home, name):
    assert "cannot be the name" in refused(ErrorCode.BAD_USAGE, runs.start, home, BOOK, {"sites": {}, "services": {}}, name=name, by="ann")


@pytest.mark.parametrize("title", ["move", "Move llm: ams → fra", "→", "", "x" * 300])
def test_a_made_name_is_a_name(home, title):
    name = runs.name_for(msgspec.structs.replace(BOOK, name=title), now_s=1.0)
    assert runs.start(home, BOOK, {"sites": {}, "services": {}}, name=name, by="ann") == name


def test_looking_into_a_new_home_makes_none(tmp_path):
    home = Home(tmp_path / "new")
    for call in (
        runs.state_of,
        runs.entries_of,
        lambda home, run: next(runs.follow(home, run)),
        lambda home, run: runs.undo(home, run, by="x"),
    ):
        assert str(home.folder) in refused(ErrorCode.RUN_NOT_FOUND, call, home, RUN)
    assert not home.folder.exists()


NEEDLESS = ("cryptography", "yaml", "numpy", "http.client", "asyncio", "rich", "concurrent.futures", "bridgehead.runbook.engine")


@pytest.mark.parametrize("verb", ["status", "explain"])
def test_verbs_that_look_load_nothing_needless(home, verb):
    """The budget of `run status` is 0.3 s: whoever polls it pays for nothing that it does not use."""
    program = (
        "import sys; from bridgehead.cli.main import call; "
        f"code = call(['run', {verb!r}, 'move', '--json', '--home', {str(home.folder)!r}]); "
        f"print(code, [name for name in {NEEDLESS!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == "0 []\n"
