"""What is said of a recovery when its driver stops: refused, left under way, serving, done (findings of a first user; J05, R14)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.app import runs, wiring
from bridgehead.app.home import Home
from bridgehead.app.recover_outcome import outcome_of
from bridgehead.cli.recover_display import Told, is_recovery, print_outcome
from bridgehead.cli.run import _ended
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import Epoch, Person, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Approvers, Protected, Recovery, SiteJob
from bridgehead.model.runbook import ActionStep, HoldStep, Runbook
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.loss import Loss
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.steps import Case
from bridgehead.runbook.language import read_runbook, write_runbook
from bridgehead.runbook.state import RunState

RUN, LOST_S = RunId("fo1"), 1796282845.0485373
POINT = SnapshotInfo("lm@100", "lm", 100, 0, "a", 1000.0, 10, verified=True, counts=True)
WORK = Protected("lm", WorkloadKind.TRAINING, "a", "b", tuple(SiteJob(site, ("run",), name=f"lm-{site}") for site in ("a", "b")))
PLACES = Recovery("r", ("a", "b"), (WORK,), witness="w", approvers=Approvers(("ann",)))
FAILOVER = failover_runbook(Failover("failover", PLACES, "a", (Case(WORK, "a", "b", point=POINT),), LOST_S))
MOVE = move_runbook(Move("move", msgspec.structs.replace(PLACES, approvers=None), "a", "b", (Case(WORK, "a", "b"),), LOST_S))
EVIDENCE = {
    "confirm": {"confirmed_s": LOST_S},
    "ready-lm": {
        "resumed_step": 101,
        "loss": msgspec.to_builtins(Loss("lm", "lm@100", 100, 188, 88, 31.6, 2, exact=False)),
        "lost_steps": 88,
    },
    "serving": {"milestone": "serving", "reached_s": LOST_S + 24.0, "after_s": 24.0},
}


class Story:
    """A run in a home of its own, to which things happen as a driver would write them."""

    def __init__(self, home: Home, runbook: Runbook) -> None:
        self.home, self.runbook = home, runbook
        runs.start(home, runbook, {"sites": {}, "services": {}}, name=RUN, by="ann")
        self.say(ev.DriverTook(LOST_S, Epoch(1), "vm/1"))

    @property
    def state(self) -> RunState:
        return runs.state_of(self.home, RUN)

    def say(self, *events: ev.Event) -> None:
        journal = self.home.journal()
        journal.append(RUN, list(events), after_seq=journal.head_seq(RUN), holder=None)

    def does(self, *names: str) -> None:
        """These steps are done."""
        for name in names:
            step, found = StepId(name), EVIDENCE.get(name, {})
            if not isinstance(self.state.plan.steps[step], ActionStep):
                self.say(ev.StepStarted(LOST_S, step), ev.Approved(LOST_S, step, Person("ann"), ""), ev.StepDone(LOST_S, step))
                continue
            for phase in (ev.Phase.PRECHECK, ev.Phase.APPLY, ev.Phase.VERIFY):
                told = found if phase is ev.Phase.VERIFY else {}
                self.say(ev.Intent(LOST_S, step, phase, 1, Epoch(1)), ev.PhaseDone(LOST_S, step, phase, 1, Epoch(1), told))

    def rolls_back(self, reason: str, *kept: str) -> None:
        self.say(ev.RollbackBegan(LOST_S, reason), *(ev.StepUndone(LOST_S, StepId(step), kept=True) for step in kept))
        self.say(ev.RunEnded(LOST_S, ev.Verdict.ROLLED_BACK, reason))


@pytest.fixture
def failover(tmp_path: Path) -> Story:
    return Story(Home(tmp_path / "home"), FAILOVER)


def serves(story: Story) -> None:
    story.does("confirm", "approve", "confirm-again", "prove-lm", "fence-lm", "standby-lm", "ready-lm", "serving")


def test_J05_a_refused_failover_says_that_nothing_was_changed_and_how_to_ask_again(failover, capsys) -> None:
    failover.does("confirm")
    failover.rolls_back("step approve failed: rejected by ann", "confirm")
    assert _ended(failover.home, failover.state, json=False) == ExitCode.NEGATIVE
    said = capsys.readouterr().out
    option = failover.home.option
    assert said.endswith(f"Nothing was changed. Ask again: `bridgehead recover failover a{option}`\n")
    assert said.startswith("fo1: rolled-back (step approve failed: rejected by ann)\n")
    assert "lost" not in said
    assert "goes on from" not in said


def test_a_failover_that_was_given_up_after_its_fence_does_not_say_that_nothing_was_changed(failover, capsys) -> None:
    failover.does("confirm", "approve", "confirm-again", "prove-lm", "fence-lm")
    failover.rolls_back("abort asked by ann", "fence-lm", "prove-lm", "confirm-again", "confirm")
    _ended(failover.home, failover.state, json=False)
    said = capsys.readouterr().out
    assert "Nothing was changed" not in said
    assert "serving: not reached" in said


def test_a_failover_that_serves_says_once_while_it_goes_on_that_it_is_not_protected(failover) -> None:
    said: list[str] = []
    told = Told(" --home /x", said.append)
    told.saw(failover.state)
    assert said == []
    serves(failover)
    told.saw(failover.state)
    told.saw(failover.state)
    (text,) = said
    assert "NOT PROTECTED" in text
    assert "`bridgehead recover protect a --home /x`" in text


def test_resuming_a_recovery_ends_with_what_recover_says(failover, capsys) -> None:
    serves(failover)
    assert _ended(failover.home, failover.state, json=False) == ExitCode.UNAVAILABLE
    said = capsys.readouterr()
    assert "serving: reached at " in said.out
    assert "lm: goes on from step 100 (lm@100); lost: at least 88 steps" in said.out
    assert f"`bridgehead recover protect a{failover.home.option}`" in said.out
    assert "stopped here" not in said.err


def test_a_recovery_that_is_left_under_way_says_how_to_go_on(tmp_path: Path, capsys) -> None:
    story = Story(Home(tmp_path / "home"), MOVE)
    came = outcome_of(story.state, head="0" * 64)
    for state in (None, story.state):
        print_outcome(came, home_option=" --home /x", state=state)
        said = capsys.readouterr()
        assert said.err == "stopped here; the run waits where it is: `bridgehead run resume fo1 --home /x` goes on\n"
        assert "NOT PROTECTED" not in said.out
    assert _ended(story.home, story.state, json=False) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err.count("stopped here") == 1


def test_other_runs_end_as_before(tmp_path: Path, capsys) -> None:
    story = Story(Home(tmp_path / "home"), Runbook("soak", (HoldStep(StepId("soak"), 1.0),)))
    assert not is_recovery(story.state)
    assert _ended(story.home, story.state, json=False) == ExitCode.UNAVAILABLE
    said = capsys.readouterr()
    assert said.out.startswith("fo1: going forward\nledger head ")
    assert said.err.count("stopped here") == 1


@pytest.mark.parametrize("runbook", [FAILOVER, MOVE], ids=["failover", "move"])
def test_the_runbook_of_a_recovery_is_written_with_a_clock_time_and_reads_back_the_same(runbook) -> None:
    text = write_runbook(runbook, actions=wiring.action_params())
    assert "since: '2026-12-03 07:27:25.0485373Z'\n" in text
    assert read_runbook(text, file="x", actions=wiring.action_params()) == runbook
