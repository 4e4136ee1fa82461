"""Evidence of steps in words: clock times for moments, no JSON (finding of a first user; R14)."""

from __future__ import annotations

import pytest

from bridgehead.app.step_facts import facts
from bridgehead.app.views import LOOKS_ONLY
from bridgehead.app.wiring import ACTIONS

NOW_S = 1796282877.25
CLOCK = "2026-12-03 07:27:57 UTC"


@pytest.mark.parametrize("key", ["decided", "reached", "confirmed", "asked", "in_force", "closed", "first_step", "ended", "created"])
def test_moments_are_shown_as_clock_times(key):
    assert facts({f"{key}_s": NOW_S}) == f"{key.replace('_', ' ')} {CLOCK}"


def test_durations_stay_durations():
    assert facts({"after_s": 24.04, "age_s": 272.2, "paused_s": 123456.0}) == "after 24.04 s, age 272.2 s, paused 123456 s"


@pytest.mark.parametrize("value", [float("inf"), 1e300, 9.99e10, -1e9, 0, 10**40])
def test_no_number_of_seconds_is_too_strange_to_be_shown(value):
    assert facts({"odd_s": value})


def test_what_is_nested_is_put_into_words_or_left_out():
    seen = {"confirmed_s": NOW_S, "lm": {"step": 3488, "step_ended_s": 1796282845.0485373, "reported_s": NOW_S, "final": False}}
    assert facts(seen) == f"confirmed {CLOCK}, lm at step 3488"
    assert facts({"weights": {"site-a": 0, "site-b": 100}}) == "weights site-a 0; site-b 100"
    assert facts({"missing": {"site-a": "no answer"}}) == "missing site-a: no answer"
    loss = {"workload": "lm", "snapshot": "lm@1", "steps": 3, "seconds": None, "exact": False}
    assert facts({"loss": loss, "lost_steps": 3, "databases": [{"name": "orders"}]}) == "lost steps 3"
    assert "and 3 more" in facts({"weights": {f"s{number}": number for number in range(9)}})


def test_what_only_looks_is_registered():
    names = {action.name for action in ACTIONS}
    assert names >= LOOKS_ONLY
