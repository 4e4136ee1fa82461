"""What a run writes where no table is redrawn: waits and gates are told now and then, and skipped steps in one line (R14, J06)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app.views import view
from bridgehead.cli.live_lines import HERE, LiveLines
from bridgehead.kernel.ids import Epoch, Person, RunId, ServiceId, SiteId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, ApprovalStep, Criterion, GateStep, OnFailure, Runbook, UndoPolicy
from bridgehead.runbook.apply import apply, opened
from bridgehead.runbook.decide import decide

CLOSE, GATE = StepId("close"), StepId("gate")
LATER = tuple(ActionStep(StepId(f"later-{number}"), "job.clear", {}, 60.0, needs=(CLOSE,)) for number in range(12))
WAITS = "could not close a site that was lost: lm at site-a: no answer"


class Story:
    """A run whose clock is turned by hand."""

    def __init__(self, *steps):
        self.now_s = 0.0
        self.state = opened(ev.RunOpened(0.0, RunId("fo4"), Runbook("failover", steps), "hash", {}, "ann", "0"))
        self._lines = LiveLines(self.state, now_s=lambda: self.now_s)
        self.say(ev.DriverTook(0.0, Epoch(1), "vm/1"))

    def say(self, *events, after_s=0.0, driver=HERE):
        self.now_s += after_s
        for event in events:
            self.state = apply(self.state, event)
        return [line for line in self._lines.of(self.state, driver=driver) if "driven by" not in line]


def kept(step_id, action, *, needs=(), on_failure=OnFailure.FREEZE):
    return ActionStep(
        step_id,
        action,
        {"site": "site-a"},
        600.0,
        needs=needs,
        undo=UndoPolicy.KEEP,
        undo_reason="it was taken over",
        on_failure=on_failure,
    )


def fails(number):
    return ev.PhaseFailed(
        1.0, CLOSE, ev.Phase.APPLY, 1, Epoch(1), "transient", "could not close a site that was lost: lm at site-a: no answer", "", 1.0
    )


@pytest.fixture
def waiting():
    """A failover that waits for the lost site to be closed."""
    story = Story(kept(StepId("fence"), "recovery.fence"), kept(CLOSE, "recovery.close"), *LATER)
    for step in ("fence", CLOSE):
        story.say(ev.Intent(0.0, StepId(step), ev.Phase.PRECHECK, 1, Epoch(1)))
        story.say(ev.PhaseDone(0.0, StepId(step), ev.Phase.PRECHECK, 1, Epoch(1), {}))
        story.say(ev.Intent(0.0, StepId(step), ev.Phase.APPLY, 1, Epoch(1)))
    story.say(ev.PhaseDone(0.0, StepId("fence"), ev.Phase.APPLY, 1, Epoch(1), {}))
    story.say(ev.PhaseDone(0.0, StepId("fence"), ev.Phase.VERIFY, 1, Epoch(1), {}))
    return story


def test_J06_a_step_that_waits_for_a_lost_site_says_so_at_once_and_about_once_a_minute(waiting):
    told = f"close: working  waits, and tries again: {WAITS} (Ctrl-C leaves it there)"
    assert waiting.say(fails(1)) == [told]
    assert waiting.say(fails(2), after_s=20.0) == []
    assert waiting.say(fails(3), after_s=38.0) == [told]
    assert waiting.say(fails(4), after_s=60.0) == [told]


def test_what_the_next_try_mends_is_no_line(waiting):
    told = msgspec.structs.replace(fails(1), error="unknown")
    assert waiting.say(told) == ["close: looking  attempt 2; unknown: " + WAITS]
    failed = ev.PhaseFailed(1.0, CLOSE, ev.Phase.VERIFY, 2, Epoch(1), "failed", "it is not there", "", 0.0)
    assert waiting.say(failed) == ["close: working  attempt 2; failed: it is not there"]
    assert waiting.say(failed) == []


def test_whoever_only_watches_is_not_told_that_ctrl_c_leaves_it(waiting):
    waiting.say(driver="process 7 on vm")
    assert waiting.say(fails(1), driver="process 7 on vm") == [f"close: working  waits, and tries again: {WAITS}"]


def test_what_an_action_waits_for_is_told_when_it_lasts(waiting):
    progress = ev.PhaseProgress(1.0, CLOSE, ev.Phase.APPLY, {"waiting_for": "site-a to be back"})
    assert waiting.say(progress) == []
    assert waiting.say(progress, after_s=5.0) == ["close: working  waiting for site-a to be back (Ctrl-C leaves it there)"]
    assert waiting.say(progress, after_s=30.0) == []
    assert len(waiting.say(progress, after_s=30.0)) == 1


def test_a_run_that_a_step_froze_speaks_of_no_gate_and_of_no_way_back(waiting):
    waiting.say(ev.StepFailed(2.0, CLOSE, "deadline of 600 s passed", ""))
    (line,) = waiting.say(ev.Frozen(2.0, CLOSE, "it failed: deadline of 600 s passed"))
    assert line.startswith("run fo4: frozen by a step  step close: it failed: deadline of 600 s passed; it waits for `run resume`")
    seen = view(waiting.state, driver="")
    words = " ".join((seen.mode, seen.reason, *seen.waits_for, *seen.what_you_can_do))
    assert "gate" not in words
    assert "roll" not in words
    assert any("run abort fo4  # end the run here: what it did stays" in command for command in seen.what_you_can_do)
    assert "ends, and what it did stays" in seen.waits_for[0]


def test_a_done_run_whose_effects_all_stay_offers_no_undo(waiting):
    waiting.say(ev.RunEnded(2.0, ev.Verdict.DONE, "every step reached its goal"))
    assert [command.split()[1] for command in view(waiting.state, driver="").what_you_can_do] == ["ledger"]


def test_a_step_that_is_late_and_waits_for_a_person_is_not_said_to_be_rolled_back(waiting):
    (late,) = decide(waiting.state, {}, 700.0).records
    assert isinstance(late, ev.StepFailed)
    assert late.remedy == "see the last error"


def test_a_run_whose_steps_have_an_undo_still_offers_to_roll_back():
    story = Story(ActionStep(CLOSE, "job.start", {}, 600.0))
    story.say(ev.Intent(0.0, CLOSE, ev.Phase.PRECHECK, 1, Epoch(1)), ev.PhaseDone(0.0, CLOSE, ev.Phase.PRECHECK, 1, Epoch(1), {}))
    story.say(ev.Intent(0.0, CLOSE, ev.Phase.APPLY, 1, Epoch(1)))
    assert "bridgehead run abort fo4  # roll back" in view(story.state, driver="x").what_you_can_do


def test_a_run_that_a_gate_froze_says_gate():
    story = Story(gate())
    story.say(ev.StepStarted(0.0, GATE), ev.Frozen(1.0, GATE, "errors: 0.5"))
    assert view(story.state, driver="").mode == "frozen by a gate"
    assert "bridgehead run resume fo4  # measure anew" in view(story.state, driver="").what_you_can_do


def test_steps_that_are_skipped_are_one_line_with_their_number():
    story = Story(
        kept(StepId("confirm"), "recovery.confirm-loss"),
        ApprovalStep(StepId("approve"), (Person("ann"),), 60.0),
        kept(CLOSE, "recovery.close"),
        *LATER,
    )
    for phase in (ev.Phase.PRECHECK, ev.Phase.APPLY, ev.Phase.VERIFY):
        story.say(ev.Intent(0.0, StepId("confirm"), phase, 1, Epoch(1)), ev.PhaseDone(0.0, StepId("confirm"), phase, 1, Epoch(1), {}))
    lines = story.say(ev.RollbackBegan(1.0, "step approve failed: rejected by ann"))
    assert "14 steps: skipped, they changed nothing" in lines
    assert sum("skipped" in line for line in lines) == 1
    (line,) = story.say(ev.StepUndone(1.0, StepId("confirm"), kept=True))
    assert line == "confirm: kept  it only looked: there is nothing to take back"


def gate(min_traffic=100):
    criterion = Criterion("errors", "e", "r", limit=0.0)
    return GateStep(GATE, ServiceId("chat"), SiteId("fra"), None, (criterion,), "r", min_traffic, 2, 1.0, 60.0)


def test_a_gate_tells_how_far_it_is_by_tenths_and_at_most_every_five_seconds():
    story = Story(gate())
    assert story.say(ev.StepStarted(0.0, GATE)) == ["gate: measuring  no-data: no reading yet"]
    told = {}
    for second in range(1, 33):
        measured = ev.GateMeasured(float(second), GATE, {"e": 0.0, "r": 3.0 * second}, None, "")
        for line in story.say(measured, after_s=1.0):
            told[second] = line
    assert told[5] == "gate: measuring  no-data: 5 of 2 samples, 12 of 100 requests"
    assert list(told) == [5, 10, 15, 20, 25, 30]
    assert "87 of 100" in list(told.values())[-1]


def test_a_gate_without_traffic_is_not_silent_and_not_chatty():
    story = Story(gate())
    story.say(ev.StepStarted(0.0, GATE))
    lines = [
        line
        for second in range(1, 60)
        for line in story.say(ev.GateMeasured(float(second), GATE, {"e": 0.0, "r": 0.0}, None, ""), after_s=1.0)
    ]
    assert lines == ["gate: measuring  no-data: 5 of 2 samples, 0 of 100 requests"]
