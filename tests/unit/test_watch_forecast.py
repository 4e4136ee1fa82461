"""Forecasts: the miss is told before it happens, and not when there is none ahead."""

from __future__ import annotations

import pytest

from bridgehead.recovery.watch.forecast import Cycle, burn_rate, cycle_of, forecast, quantile

EVEN = Cycle(1800.0, 300.0)


def test_the_next_copy_comes_before_the_objective_breaks() -> None:
    found = forecast(copied_s=1000.0, newest_s=1000.0, rpo_s=3600.0, cycle=EVEN, now_s=1500.0)
    assert (found.breaks_s, found.next_copy_s, found.late_s, found.worst_s) == (4600.0, 3100.0, -1500.0, 2100.0)


def test_a_copy_that_is_on_its_way_counts_from_its_own_creation() -> None:
    found = forecast(copied_s=1000.0, newest_s=2800.0, rpo_s=3600.0, cycle=EVEN, now_s=2900.0)
    assert found.next_copy_s == 3100.0


def test_a_late_copy_moves_with_the_clock_until_it_is_too_late() -> None:
    found = forecast(copied_s=1000.0, newest_s=2800.0, rpo_s=3600.0, cycle=EVEN, now_s=4601.0)
    assert found.late_s == pytest.approx(1.0)
    assert forecast(copied_s=1000.0, newest_s=1000.0, rpo_s=1800.0, cycle=EVEN, now_s=1100.0).late_s == 300.0


def test_without_measurements_nothing_is_promised() -> None:
    found = forecast(copied_s=1000.0, newest_s=1000.0, rpo_s=3600.0, cycle=Cycle(None, None), now_s=1100.0)
    assert (found.next_copy_s, found.late_s, found.worst_s) == (None, None, None)


def test_cycle_takes_the_ninetieth_percentile_of_what_was_measured() -> None:
    created = [0.0, 100.0, 200.0, 300.0, 700.0]
    found = cycle_of(created, [(0.0, 5.0), (100.0, 5.0), (200.0, 5.0), (300.0, 50.0)])
    assert (found.interval_s, found.delay_s) == (400.0, 50.0)
    assert cycle_of([5.0], []) == Cycle(None, None, None)
    assert quantile([], 0.9) is None
    assert cycle_of([0.0, 10.0], [(0.0, -3.0)]).delay_s == 0.0, "a clock that is ahead makes no negative delay"


def test_delays_that_grow_are_seen_to_cross_the_objective_later() -> None:
    delays = [(100.0 * number, 10.0 + 5.0 * number) for number in range(10)]
    cycle = cycle_of([one for one, _ in delays], delays)
    assert cycle.drift == pytest.approx(0.05)
    found = forecast(copied_s=900.0, newest_s=900.0, rpo_s=300.0, cycle=cycle, now_s=1000.0)
    assert found.drifts_over_s == pytest.approx(1000.0 + (300.0 - 150.0) / 0.05, rel=0.1)
    level = cycle_of([0.0, 1.0, 2.0, 3.0], [(0.0, 5.0), (1.0, 9.0), (2.0, 4.0), (3.0, 6.0)])
    assert level.drift == 0.0, "noise is no trend"


def test_burn_rate_is_one_when_nothing_is_copied_and_needs_half_its_window() -> None:
    nothing = [(float(second), float(second)) for second in range(0, 3601, 60)]
    assert burn_rate(nothing, window_s=3600.0, now_s=3600.0) == pytest.approx(1.0)
    even = [(float(second), float(second % 600)) for second in range(0, 3601, 60)]
    assert burn_rate(even, window_s=3600.0, now_s=3600.0) == pytest.approx(0.0)
    assert burn_rate(nothing[:5], window_s=3600.0, now_s=240.0) is None
