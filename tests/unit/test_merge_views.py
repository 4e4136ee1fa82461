"""Merging, by example: what is one fact, what is a conflict, and which reading of a gauge is taken (M2, E06)."""

from __future__ import annotations

from bridgehead.discovery.merge import merge
from bridgehead.model.fact import Fact, Source, Status


def say(value: object, *, tool: str = "t", at_s: float | None = None, attribute: str = "serial", status: Status = Status.KNOWN) -> Fact:
    return Fact("node:a", attribute, value, "", status, Source(tool, f"{tool}.txt", 3, at_s), "printed 'N/A'" if value is None else "")  # type: ignore[arg-type]  # any value


def test_equal_values_are_one_fact_with_all_sources() -> None:
    [view] = merge([say("x", tool="u"), say("x"), say(None, tool="v", status=Status.UNKNOWN)])
    assert (view.status, view.value, [source.tool for source in view.claims[0].sources]) == (Status.KNOWN, "x", ["t", "u"])


def test_different_values_are_a_conflict_that_names_both_and_the_later_does_not_win() -> None:
    [view] = merge([say("x", at_s=1.0), say("y", tool="u", at_s=9.0)])
    assert (view.status, view.value, [claim.value for claim in view.claims]) == (Status.CONFLICT, None, ["x", "y"])
    assert view.note == "x (t, t.txt:3) against y (u, u.txt:3)"


def test_numbers_and_words_and_truths_differ() -> None:
    assert merge([say(1), say(1.0, tool="u")])[0].status is Status.KNOWN
    assert merge([say(1), say(True, tool="u")])[0].status is Status.CONFLICT
    assert merge([say(1), say("1", tool="u")])[0].status is Status.CONFLICT


def test_newest_reading_of_a_gauge_is_taken_and_said() -> None:
    [view] = merge([say(374, attribute="power-draw", at_s=5.0), say(344, tool="u", attribute="power-draw", at_s=4.0)])
    assert (view.status, view.value) == (Status.KNOWN, 374)
    assert view.note == "the newest reading; earlier: 344 (u, u.txt:3)"


def test_E06_readings_without_an_order_in_time_are_a_conflict() -> None:
    for times in ((5.0, 5.0), (5.0, None), (None, None)):
        facts = [
            say(value, tool=tool, attribute="power-draw", at_s=at_s) for value, tool, at_s in zip((374, 344), "tu", times, strict=True)
        ]
        assert merge(facts)[0].status is Status.CONFLICT


def test_conflict_inside_one_output_stays_one() -> None:
    [view] = merge([say(8, status=Status.CONFLICT), say(8, tool="u")])
    assert view.status is Status.CONFLICT


def test_only_unknown_is_unknown_with_what_was_printed() -> None:
    [view] = merge([say(None, status=Status.UNKNOWN)])
    assert (view.status, view.value, view.note) == (Status.UNKNOWN, None, "printed 'N/A'")


def test_views_are_in_the_order_of_their_numbers() -> None:
    facts = [Fact(f"node:a/gpu:{number}", "uuid", "x", "", Status.KNOWN, Source("t", "f", 1)) for number in (10, 9, 1)]
    assert [view.subject for view in merge(facts)] == ["node:a/gpu:1", "node:a/gpu:9", "node:a/gpu:10"]


def test_state_of_a_node_in_the_scheduler_is_the_newest_one() -> None:
    """A node that was drained on Monday and came back is no conflict; of two captures without a time nobody knows which is newer."""
    monday, tuesday = Source("scontrol", "mon.txt", 1, 1000.0), Source("scontrol", "tue.txt", 1, 2000.0)
    drained = Fact("node:g1", "scheduler-state", "IDLE+DRAIN", "", Status.KNOWN, monday)
    back = Fact("node:g1", "scheduler-state", "ALLOCATED", "", Status.KNOWN, tuesday)
    for order in ([drained, back], [back, drained]):
        [view] = merge(order)
        assert (view.status, view.value) == (Status.KNOWN, "ALLOCATED")
        assert "IDLE+DRAIN" in view.note
    [timeless] = merge([drained, Fact("node:g1", "scheduler-state", "DOWN", "", Status.KNOWN, Source("scontrol", "x.txt", 1))])
    assert timeless.status is Status.CONFLICT
