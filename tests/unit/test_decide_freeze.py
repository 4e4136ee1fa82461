"""Steps that fail without taking the rest of the run back: a recovery of many workloads (R14, design rule 6)."""

from __future__ import annotations

from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, OnFailure, Retry, Runbook
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, opened
from bridgehead.runbook.decide import Perform, decide


class Play:
    """Answers every call at once; ``bad`` steps fail in the named phase."""

    def __init__(self, *steps: ActionStep, bad: dict[str, ev.Phase]) -> None:
        self.bad, self.calls, self.events = bad, [], []
        self.state = opened(ev.RunOpened(0.0, "run", Runbook("test", steps, pause_expires_s=1000.0), "", {}, "me", "0"))
        self.say(ev.DriverTook(0.0, 1, "test"))

    def say(self, event: ev.Event) -> None:
        self.events.append(event)
        self.state = apply(self.state, event)

    def go(self, now_s: float) -> None:
        for _ in range(100):
            decision = decide(self.state, {}, now_s)
            for event in decision.records:
                self.say(event)
            for command in () if decision.records else decision.commands:
                assert isinstance(command, Perform)
                if command.intent is not None:
                    self.say(command.intent)
                self.calls.append((command.step, command.phase.value))
                if self.bad.get(command.step) is command.phase:
                    self.say(ev.PhaseFailed(now_s, command.step, command.phase, command.attempt, 1, "permanent", "no", "mend it", 0.0))
                else:
                    self.say(ev.PhaseDone(now_s, command.step, command.phase, command.attempt, 1, {}))
            if not decision.records and not decision.commands:
                return
        raise AssertionError("it never comes to rest")


def step(name: str, *needs: str) -> ActionStep:
    return ActionStep(name, "test", {}, 100.0, needs, Retry(1, 1.0), on_failure=OnFailure.FREEZE)


def test_R14_what_does_not_need_a_failed_step_goes_on_and_then_the_run_waits_for_a_person() -> None:
    play = Play(step("a"), step("b", "a"), step("c"), step("d", "c"), bad={"a": ev.Phase.APPLY})
    play.go(0.0)
    assert isinstance(play.state.steps["d"], st.Finished)
    assert isinstance(play.state.steps["b"], st.Waiting)
    assert isinstance(play.state.mode, st.OnHold)
    assert play.state.mode.frozen
    assert play.state.mode.by == "step a"
    assert [event.step for event in play.events if isinstance(event, ev.Paged)] == ["a"]


def test_a_resume_looks_first_whether_the_failed_step_is_done_after_all() -> None:
    play = Play(step("a"), step("b", "a"), bad={"a": ev.Phase.APPLY})
    play.go(0.0)
    play.bad.clear()
    play.calls.clear()
    play.say(ev.Resumed(10.0, "me"))
    play.go(10.0)
    assert play.calls[0] == ("a", "verify")
    assert isinstance(play.state.mode, st.Ended)
    assert play.state.mode.verdict is ev.Verdict.DONE


def test_a_resume_tries_a_step_that_changed_nothing_from_its_beginning() -> None:
    play = Play(step("a"), step("b"), bad={"a": ev.Phase.PRECHECK})
    play.go(0.0)
    play.bad.clear()
    play.calls.clear()
    play.say(ev.Resumed(10.0, "me"))
    play.go(10.0)
    assert play.calls[0] == ("a", "precheck")
    assert isinstance(play.state.mode, st.Ended)


def test_G06_a_run_that_waits_for_nobody_goes_back_in_the_end() -> None:
    play = Play(step("a"), step("b"), bad={"a": ev.Phase.APPLY})
    play.go(0.0)
    play.bad.clear()
    play.go(2000.0)
    assert isinstance(play.state.mode, st.Ended)
    assert play.state.mode.verdict is ev.Verdict.ROLLED_BACK


def test_an_abort_takes_a_frozen_run_back() -> None:
    play = Play(step("a"), step("b"), bad={"a": ev.Phase.APPLY})
    play.go(0.0)
    play.bad.clear()
    play.say(ev.AbortAsked(5.0, "me", "enough"))
    play.go(5.0)
    assert isinstance(play.state.mode, st.Ended)
    assert ("b", "undo") in play.calls
