"""Decide and apply: what a run does next, without clock, thread or file (design rules 3-6; G04-G07, J02, J04)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bridgehead.model import event as ev
from bridgehead.model.runbook import (
    ActionStep,
    ApprovalStep,
    Criterion,
    GateStep,
    HoldStep,
    OnBreach,
    Retry,
    Runbook,
    Step,
    TaskStep,
    UndoPolicy,
)
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, opened
from bridgehead.runbook.decide import Flight, Measure, Perform, decide

Answer = Callable[[str, ev.Phase, int], str]
"""(step, phase, attempt) → "done", or the word of an error."""


def action(step_id: str, *needs: str, **changes: object) -> ActionStep:
    values: dict[str, object] = {"deadline_s": 100.0, "retry": Retry(3, 1.0), "undo_deadline_s": 50.0} | changes
    return ActionStep(id=step_id, action="test", params={}, needs=needs, **values)


def gate(step_id: str, *needs: str, on_breach: OnBreach = OnBreach.ROLLBACK) -> GateStep:
    rule = Criterion("bad", "bad", "all", limit=0.0)
    return GateStep(step_id, "svc", "b", "a", (rule,), "all", 10, 2, 1.0, 30.0, needs, on_breach)


class Play:
    """Runs a runbook against scripted answers in virtual time, and keeps every event."""

    def __init__(self, *steps: Step, answer: Answer = lambda step, phase, attempt: "done", pause_expires_s: float = 1000.0) -> None:
        self.now_s = 0.0
        self.answer = answer
        self.counters = {"all": 0.0, "bad": 0.0}
        self.calls: list[tuple[str, str]] = []
        runbook = Runbook("test", steps, pause_expires_s=pause_expires_s)
        self.state = opened(ev.RunOpened(0.0, "run", runbook, "", {}, "me", "0"))
        self.take_over(1)

    def take_over(self, epoch: int) -> None:
        self.say(ev.DriverTook(self.now_s, epoch, "test"))

    def say(self, event: ev.Event) -> None:
        self.state = apply(self.state, event)

    def turn(self) -> bool:
        """One decision with all its consequences; False when only time or a person can change anything."""
        decision = decide(self.state, {}, self.now_s)
        for event in decision.records:
            self.say(event)
        for command in () if decision.records else decision.commands:
            self.perform(command)
        if not decision.records and not decision.commands:
            if math.isinf(decision.wake_s):
                return False
            self.now_s = max(decision.wake_s, self.now_s + 1e-6)
        return True

    def perform(self, command: Perform | Measure) -> None:
        if isinstance(command, Measure):
            self.counters = {name: value + (20.0 if name == "all" else 0.0) for name, value in self.counters.items()}
            self.say(ev.GateMeasured(self.now_s, command.step, dict(self.counters), dict(self.counters), ""))
            return
        if command.intent is not None:
            self.say(command.intent)
        self.calls.append((command.step, command.phase.value))
        word = self.answer(command.step, command.phase, command.attempt)
        if word == "done":
            event: ev.Event = ev.PhaseDone(
                self.now_s, command.step, command.phase, command.attempt, self.state.epoch, {"was": command.step}
            )
        else:
            event = ev.PhaseFailed(self.now_s, command.step, command.phase, command.attempt, self.state.epoch, word, "why", "do", 0.0)
        self.say(event)

    def until_quiet(self, turns: int = 500) -> st.RunState:
        for _ in range(turns):
            if not self.turn():
                return self.state
        raise AssertionError(f"not quiet after {turns} turns: {self.state.mode}")

    def until(self, reached: Callable[[st.RunState], bool]) -> None:
        for _ in range(500):
            if reached(self.state):
                return
            assert self.turn(), f"quiet in {self.state.mode}"
        raise AssertionError("never reached")


def verdict(state: st.RunState) -> ev.Verdict:
    assert isinstance(state.mode, st.Ended), state.mode
    return state.mode.verdict


def undos(play: Play) -> list[str]:
    return [step for step, phase in play.calls if phase == "undo"]


def fails(step: str, phase: str, word: str = "permanent") -> Answer:
    return lambda at, in_phase, attempt: word if (at, in_phase.value) == (step, phase) else "done"


def test_needs_are_kept_and_branches_run_side_by_side() -> None:
    play = Play(action("a"), action("b", "a"), action("c", "a"), action("d", "b", "c"))
    assert verdict(play.until_quiet()) is ev.Verdict.DONE
    order = [step for step, phase in play.calls if phase == "apply"]
    assert order == ["a", "b", "c", "d"]


@pytest.mark.parametrize("phase", ["precheck", "apply", "verify"])
def test_a_failed_step_rolls_back_in_reverse_order(phase: str) -> None:
    play = Play(action("a"), action("b", "a"), action("c", "b"), answer=fails("c", phase))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert undos(play) == (["b", "a"] if phase == "precheck" else ["c", "b", "a"])


def test_keep_lets_an_effect_stay() -> None:
    play = Play(action("a", undo=UndoPolicy.KEEP, undo_reason="harmless"), action("b", "a"), answer=fails("b", "apply"))
    play.until_quiet()
    assert undos(play) == ["b"]
    assert play.state.steps["a"] == st.Undone(kept=True)


def test_J04_definite_failures_use_up_attempts_and_end() -> None:
    play = Play(action("a"), answer=fails("a", "verify", "failed"))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert play.calls.count(("a", "apply")) == 3


def test_transient_errors_are_bounded_by_the_deadline_alone() -> None:
    play = Play(action("a", deadline_s=20.0), answer=fails("a", "apply", "transient"))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert play.calls.count(("a", "apply")) > 3
    assert 20.0 <= play.now_s < 21.0


def test_an_outage_shorter_than_the_deadline_is_survived() -> None:
    play = Play(action("a", deadline_s=100.0))
    play.answer = lambda step, phase, attempt: "transient" if play.now_s < 30.0 else "done"
    assert verdict(play.until_quiet()) is ev.Verdict.DONE


def test_an_unknown_outcome_is_looked_at_before_it_is_tried_again() -> None:
    answers = iter(["unknown"])
    play = Play(action("a"), answer=lambda step, phase, attempt: next(answers, "done") if phase is ev.Phase.APPLY else "done")
    assert verdict(play.until_quiet()) is ev.Verdict.DONE
    assert play.calls == [("a", "precheck"), ("a", "apply"), ("a", "verify")]


def test_a_new_driver_looks_before_it_repeats_an_apply_that_may_have_happened() -> None:
    play = Play(action("a"))
    play.until(lambda state: isinstance(state.steps["a"], st.Working) and state.steps["a"].phase is ev.Phase.APPLY)
    decision = decide(play.state, {}, play.now_s)
    assert isinstance(decision.commands[0], Perform)
    assert decision.commands[0].intent is not None
    play.say(decision.commands[0].intent)  # ... and the driver dies before the outcome
    play.take_over(2)
    looked = iter(["failed"])
    play.answer = lambda step, phase, attempt: next(looked, "done") if phase is ev.Phase.VERIFY else "done"
    play.calls.clear()
    assert verdict(play.until_quiet()) is ev.Verdict.DONE
    assert play.calls == [("a", "verify"), ("a", "apply"), ("a", "verify")]


def test_undo_never_overtakes_a_call_that_is_still_out() -> None:
    play = Play(action("a"))
    play.until(lambda state: isinstance(state.steps["a"], st.Working) and state.steps["a"].phase is ev.Phase.APPLY)
    intent = decide(play.state, {}, play.now_s).commands[0].intent
    assert intent is not None
    play.say(intent)
    play.say(ev.AbortAsked(play.now_s, "me", "test"))
    out = {"a": Flight(busy=True, poll_at_s=math.inf)}
    assert decide(play.state, out, play.now_s).commands == ()
    late = decide(play.state, out, play.now_s + 50.0)
    assert isinstance(late.records[0], ev.StepStuck)


def test_a_failing_undo_is_stuck_and_says_what_to_do() -> None:
    play = Play(
        action("a"), action("b", "a"), answer=lambda s, p, n: "permanent" if (s, p.value) in {("b", "apply"), ("a", "undo")} else "done"
    )
    play.until_quiet()
    assert isinstance(play.state.mode, st.NeedsPerson)
    stuck = play.state.steps["a"]
    assert isinstance(stuck, st.Stuck)
    assert "Restore by hand" in stuck.instruction
    play.answer = lambda step, phase, attempt: "done"
    play.say(ev.Resumed(play.now_s, "me"))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK


def test_abort_of_a_stuck_run_ends_it_as_abandoned() -> None:
    play = Play(
        action("a"), action("b", "a"), answer=lambda s, p, n: "permanent" if (s, p.value) in {("b", "apply"), ("a", "undo")} else "done"
    )
    play.until_quiet()
    play.say(ev.AbortAsked(play.now_s, "me", "by hand"))
    assert verdict(play.until_quiet()) is ev.Verdict.ABANDONED


@pytest.mark.parametrize("turns", range(14))
def test_G05_abort_works_at_every_moment(turns: int) -> None:
    play = Play(action("a"), gate("g", "a"), action("b", "g"), HoldStep("h", 5.0, ("b",)))
    for _ in range(turns):
        play.turn()
    ended = isinstance(play.state.mode, st.Ended)
    play.say(ev.AbortAsked(play.now_s, "me", "test"))
    assert verdict(play.until_quiet()) is (ev.Verdict.DONE if ended else ev.Verdict.ROLLED_BACK)


def test_J02_a_verdict_is_written_once() -> None:
    play = Play(action("a"))
    before = play.until_quiet()
    for event in (ev.AbortAsked(9.0, "me", ""), ev.Paused(9.0, "me", ""), ev.Resumed(9.0, "me"), ev.Frozen(9.0, "a", "")):
        play.say(event)
    assert play.state.mode == before.mode


def test_a_gate_breach_rolls_back() -> None:
    play = Play(action("a"), gate("g", "a"))
    play.counters["bad"] = 0.0
    play.until(lambda state: isinstance(state.steps["g"], st.Measuring) and len(state.steps["g"].samples) == 1)
    play.counters["bad"] = 1.0
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert undos(play) == ["a"]


def test_G07_freeze_leaves_everything_and_waits_for_a_person() -> None:
    play = Play(action("a"), gate("g", "a", on_breach=OnBreach.FREEZE))
    play.until(lambda state: isinstance(state.steps["g"], st.Measuring) and len(state.steps["g"].samples) == 1)
    play.counters["bad"] = 1.0
    play.until(lambda state: isinstance(state.mode, st.OnHold))
    assert undos(play) == []
    play.say(ev.Resumed(play.now_s, "me"))
    assert verdict(play.until_quiet()) is ev.Verdict.DONE  # new evidence: the bad event is before the new start


def test_G06_a_freeze_that_nobody_ends_rolls_back() -> None:
    play = Play(action("a"), gate("g", "a", on_breach=OnBreach.FREEZE), pause_expires_s=60.0)
    play.until(lambda state: isinstance(state.steps["g"], st.Measuring) and len(state.steps["g"].samples) == 1)
    play.counters["bad"] = 1.0
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK


def test_a_pause_stops_the_clock_of_deadlines() -> None:
    play = Play(HoldStep("h", 10.0), ApprovalStep("ok", ("ann",), 20.0))
    play.turn()
    play.say(ev.Paused(1.0, "me", "lunch"))
    assert decide(play.state, {}, 30.0).records == ()
    play.say(ev.Resumed(101.0, "me"))
    assert decide(play.state, {}, 115.0).records == (ev.StepDone(115.0, "h"),)
    assert any(isinstance(event, ev.StepFailed) for event in decide(play.state, {}, 120.0).records)


def test_an_outage_counts_neither_against_deadlines_nor_against_an_actions_own_patience() -> None:
    play = Play(action("a", deadline_s=120.0), ApprovalStep("ok", ("ann",), 50_000.0))
    play.until(lambda state: isinstance(state.steps["a"], st.Working) and state.steps["a"].phase is ev.Phase.APPLY)
    intent = decide(play.state, {}, 10.0).commands[0].intent
    assert intent is not None
    play.say(intent)
    play.say(ev.Approved(5000.0, "ok", "ann", "while nobody drives"))
    play.now_s = 5001.0
    play.take_over(2)
    assert not any(isinstance(event, ev.StepFailed) for event in decide(play.state, {}, 5001.0).records)
    assert 5001.0 - play.state.steps["a"].since_s < 20.0


def test_time_never_runs_backwards_in_a_run() -> None:
    play = Play(action("a", deadline_s=120.0))
    play.until(lambda state: isinstance(state.steps["a"], st.Working))
    play.say(ev.Paused(4000.0, "me", "a clock one hour ahead"))
    play.say(ev.Resumed(10.0, "me"))
    assert play.state.paused_total_s >= 0
    assert not any(isinstance(event, ev.StepFailed) for event in decide(play.state, {}, 20.0).records)


def test_an_error_of_an_earlier_phase_does_not_make_a_step_look_tried() -> None:
    answers = iter(["transient"])
    play = Play(action("a"), answer=lambda step, phase, attempt: next(answers, "done") if phase is ev.Phase.PRECHECK else "done")
    play.until(lambda state: isinstance(state.steps["a"], st.Working) and state.steps["a"].phase is ev.Phase.APPLY)
    play.say(ev.AbortAsked(play.now_s, "me", ""))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert undos(play) == []


def test_the_pause_between_transient_errors_grows() -> None:
    times: list[float] = []

    def down(step: str, phase: ev.Phase, attempt: int) -> str:
        times.append(play.now_s)
        return "transient"

    play = Play(action("a", deadline_s=200.0), answer=down)
    play.until_quiet()
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[:5] == pytest.approx([1, 2, 4, 8, 16], abs=0.01)


def test_an_approval_needs_the_named_people_and_expires() -> None:
    play = Play(ApprovalStep("ok", ("ann", "bob"), 20.0, quorum=2))
    play.turn()
    for name in ("ann", "ann", "eve"):
        play.say(ev.Approved(1.0, "ok", name, ""))
    assert decide(play.state, {}, 1.0).records == ()
    play.say(ev.Approved(2.0, "ok", "bob", ""))
    assert verdict(play.until_quiet()) is ev.Verdict.DONE
    late = Play(ApprovalStep("ok", ("ann",), 20.0))
    assert verdict(late.until_quiet()) is ev.Verdict.ROLLED_BACK


def test_a_rejection_rolls_back() -> None:
    play = Play(action("a"), ApprovalStep("ok", ("ann",), 20.0, ("a",)))
    play.until(lambda state: isinstance(state.steps["ok"], st.Asking))
    play.say(ev.Rejected(play.now_s, "ok", "ann", "not today"))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert undos(play) == ["a"]


def test_a_finished_run_with_every_kind_of_step_is_undone_by_another_run() -> None:
    task = TaskStep("t", "mover", ("do",), 30.0, ("b",), undo_checklist=("undo",))
    steps = (action("a"), gate("g", "a"), ApprovalStep("ok", ("ann",), 20.0, ("g",)), HoldStep("h", 1.0, ("ok",)), action("b", "h"), task)
    play = Play(*steps)
    done = {step.id: ev.DoneBefore({"was": step.id}, {}) for step in steps}
    play.state = opened(ev.RunOpened(0.0, "run-undo", Runbook("test", steps), "", {}, "me", "0", ev.Undoes("run", done)))
    play.take_over(1)
    play.until(lambda state: isinstance(state.steps["t"], st.Assigned))
    assert undos(play) == []
    play.say(ev.TaskSignedOff(play.now_s, "t", "mover", ["photo"]))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    assert undos(play) == ["b", "a"]


def test_a_task_is_undone_by_its_owner_or_stuck() -> None:
    task = TaskStep("rack", "mover", ("rack it",), 50.0, undo_checklist=("take it out",))
    play = Play(task, action("a", "rack"), answer=fails("a", "apply"))
    play.turn()
    play.say(ev.TaskSignedOff(play.now_s, "rack", "mover", ["photo"]))
    play.until(lambda state: isinstance(state.steps["rack"], st.Assigned))
    unattended = play.state
    play.say(ev.TaskSignedOff(play.now_s, "rack", "mover", ["photo"]))
    assert verdict(play.until_quiet()) is ev.Verdict.ROLLED_BACK
    play.state = unattended
    play.until_quiet()
    assert isinstance(play.state.mode, st.NeedsPerson)


@given(data=some.data())
def test_G06_every_state_has_an_exit(data: some.DataObject) -> None:
    """Whatever answers come, and whatever an operator says, a run never rests without a person being asked by name of a verb."""
    words = ["done", "done", "done", "transient", "unknown", "failed", "permanent"]
    play = Play(
        action("a"),
        gate("g", "a", on_breach=data.draw(some.sampled_from(list(OnBreach)))),
        ApprovalStep("ok", ("ann",), 20.0, ("a",)),
        action("b", "g", "ok"),
        TaskStep("t", "mover", ("do",), 30.0, ("b",), undo_checklist=("undo",)),
        answer=lambda step, phase, attempt: data.draw(some.sampled_from(words)),
    )
    for _ in range(data.draw(some.integers(0, 25))):
        play.turn()
        match data.draw(some.integers(0, 14)):
            case 0:
                play.say(ev.Paused(play.now_s, "me", ""))
            case 1:
                play.say(ev.Resumed(play.now_s, "me"))
            case 2:
                play.say(ev.AbortAsked(play.now_s, "me", ""))
            case 3:
                play.say(ev.Approved(play.now_s, "ok", "ann", ""))
            case 4:
                play.say(ev.TaskSignedOff(play.now_s, "t", "mover", [""]))
            case 5:
                play.take_over(play.state.epoch + 1)
            case 6:
                play.counters["bad"] += 1.0
            case _:
                pass
    play.answer = lambda step, phase, attempt: "done"
    state = play.until_quiet()
    assert isinstance(state.mode, st.Ended | st.NeedsPerson)
    if isinstance(state.mode, st.Ended):
        assert all(isinstance(step, (*st.FINAL_STEPS, st.Broken)) for step in state.steps.values())
