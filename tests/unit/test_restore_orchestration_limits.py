"""Limits of a runbook: as many steps of a kind at once as it says, the first in the file first (R14)."""

from __future__ import annotations

import math

import msgspec

from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, OnFailure, Retry, Runbook
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, opened
from bridgehead.runbook.decide import Flight, Perform, decide
from bridgehead.runbook.language import read_runbook, write_runbook


class Nothing(msgspec.Struct):
    """Parameters of an action that takes none."""


class Desk:
    """A run whose calls come back when the test says so."""

    def __init__(self, *steps: ActionStep, limits: dict[str, int]) -> None:
        self.flights: dict[str, Flight] = {}
        self.state = opened(ev.RunOpened(0.0, "run", Runbook("test", steps, limits=limits), "", {}, "me", "0"))
        self.say(ev.DriverTook(0.0, 1, "test"))

    def say(self, event: ev.Event) -> None:
        self.state = apply(self.state, event)

    def turn(self, now_s: float) -> list[str]:
        """Which steps' calls are started now."""
        while True:
            decision = decide(self.state, self.flights, now_s)
            for event in decision.records:
                self.say(event)
            if not decision.records:
                break
        self.wake_s = decision.wake_s
        for command in decision.commands:
            assert isinstance(command, Perform)
            if command.intent is not None:
                self.say(command.intent)
            self.flights[command.step] = Flight(busy=True, poll_at_s=math.inf)
        return [command.step for command in decision.commands]

    def back(self, step: str, now_s: float, *, error: str = "") -> None:
        """The call of its phase has come back."""
        del self.flights[step]
        at = self.state.steps[step]
        assert isinstance(at, st.Working)
        if error:
            self.say(ev.PhaseFailed(now_s, step, at.phase, at.attempt, 1, error, "no", "mend it", 0.0))
        else:
            self.say(ev.PhaseDone(now_s, step, at.phase, at.attempt, 1, {}))

    def finish(self, step: str, now_s: float) -> None:
        """Its calls come back well until it is done."""
        while not isinstance(self.state.steps[step], st.Finished):
            if step in self.flights:
                self.back(step, now_s)
            else:
                self.turn(now_s)


def step(name: str, *needs: str, limit: str = "line", backoff_s: float = 4.0) -> ActionStep:
    return ActionStep(name, "test", {}, 100.0, needs, Retry(3, backoff_s), on_failure=OnFailure.FREEZE, limit=limit)


def test_R14_as_many_begin_as_may_and_the_first_in_the_file_go_first() -> None:
    desk = Desk(step("a"), step("b"), step("c"), step("free", limit=""), limits={"line": 2})
    assert desk.turn(0.0) == ["a", "b", "free"]
    desk.back("a", 1.0)
    assert desk.turn(1.0) == ["a"]  # its next phase: what has begun keeps its place
    desk.finish("a", 2.0)
    assert desk.turn(2.0) == ["c"]


def test_limits_do_not_count_for_each_other() -> None:
    desk = Desk(step("a"), step("b", limit="dock"), step("c", limit="dock"), limits={"line": 1, "dock": 1})
    assert desk.turn(0.0) == ["a", "b"]


def test_R14_what_waits_for_its_next_try_makes_room_and_gets_its_place_back_before_what_has_not_begun() -> None:
    desk = Desk(step("a"), step("b"), step("c"), limits={"line": 1})
    assert desk.turn(0.0) == ["a"]
    desk.back("a", 1.0, error="transient")
    assert desk.turn(1.0) == ["b"]  # a is tried again at 5 s
    assert desk.turn(6.0) == []
    assert desk.wake_s == 100.0  # a stands back, and nothing but its deadline makes it move
    desk.finish("b", 7.0)
    assert desk.turn(7.0) == ["a"]


def test_a_step_that_broke_has_no_place_any_more() -> None:
    desk = Desk(step("a"), step("b"), limits={"line": 1})
    desk.turn(0.0)
    desk.back("a", 1.0, error="permanent")
    assert isinstance(desk.state.steps["a"], st.Broken)
    assert desk.turn(1.0) == ["b"]


def test_the_deadline_of_what_stands_back_does_not_run_before_it_begins_and_runs_afterwards() -> None:
    desk = Desk(step("a"), step("b"), limits={"line": 1})
    desk.turn(0.0)
    desk.flights["a"] = Flight(busy=False, poll_at_s=90.0)
    assert desk.turn(50.0) == []
    assert isinstance(desk.state.steps["b"], st.Waiting)
    del desk.flights["a"]
    desk.say(ev.PhaseFailed(95.0, "a", ev.Phase.PRECHECK, 1, 1, "transient", "no", "mend it", 0.0))
    assert desk.turn(95.0) == ["b"]
    assert desk.turn(101.0) == []
    assert isinstance(desk.state.steps["a"], st.Broken)


def test_a_new_driver_lets_no_more_go_on_than_may() -> None:
    desk = Desk(step("a"), step("b"), step("c"), limits={"line": 2})
    desk.turn(0.0)
    desk.back("a", 1.0, error="transient")
    assert desk.turn(1.0) == ["c"]
    desk.flights.clear()
    desk.say(ev.DriverTook(2.0, 2, "other"))
    assert desk.turn(2.0) == ["a", "b"]
    desk.finish("a", 3.0)
    assert desk.turn(3.0) == ["c"]


def test_limits_are_written_into_files_and_read_back() -> None:
    book = Runbook("x", (step("a"),), limits={"line": 2})
    assert read_runbook(write_runbook(book, actions={"test": Nothing}), file="x.yaml", actions={"test": Nothing}) == book
