"""Figures of R2, R3, R11 and R17, worked out from their inputs by hand beside what the code says."""

from __future__ import annotations

import pytest

from bridgehead.model.objectivefile import Continuity
from bridgehead.model.tariff import Assumptions
from bridgehead.recovery.objectives.book import Book
from bridgehead.recovery.objectives.figures import (
    Figure,
    Outcome,
    downtime_s,
    effective_gain,
    figures,
    rate_for,
    rate_of_slowdown,
    slowdown,
)


def figure(words: str, continuity: Continuity | None = None) -> Figure:
    found = [one for one in figures(Book(continuity or Continuity("x", ()))) if words in one.claim]
    assert len(found) == 1
    return found[0]


def test_R3_MV5_one_hour_on_100_TB_is_222_and_not_200() -> None:
    assert rate_for(100e12, rpo_s=3600) / 1e9 == pytest.approx(222.222, rel=1e-4)
    found = figure("100 TB")
    assert (found.printed, found.outcome) == (200.0, Outcome.WRONG)
    assert found.worked == pytest.approx(222.2, rel=1e-3)


def test_R3_50_000_a_month_is_225_for_each_gigabit() -> None:
    assert figure("50,000").worked == pytest.approx(225 * 222.222, rel=1e-3)


def test_R3_15_minutes_leave_only_what_runs_already() -> None:
    found = figure("15 min RTO")
    assert found.worked == 120 + 600 + 1800  # detect, decide, provision
    assert found.outcome is Outcome.ASSUMES
    quick = Continuity("x", (), assumptions=Assumptions(detect_s=300, decide_s=0, shift_s=700))
    assert figure("15 min RTO", quick).outcome is Outcome.WRONG
    assert "too long as well" in figure("15 min RTO", quick).text


def test_R3_synchronous_training_by_hand() -> None:
    # 588 GB of news at 1 Tb/s wait 4.704 s beside a step of 15 s
    assert slowdown(588e9, rate_bps=1e12, step_s=15) == pytest.approx(4.704 / 19.704)
    for share in (0.15, 0.175, 0.2):
        rate = rate_of_slowdown(588e9, share=share, step_s=15)
        assert slowdown(588e9, rate_bps=rate, step_s=15) == pytest.approx(share)
    assert figure("15 to 20 %").outcome is Outcome.ASSUMES


def test_R2_CO5_99_95_percent_is_4_38_hours_and_not_for_training() -> None:
    assert downtime_s(0.9995) / 3600 == pytest.approx(4.38)
    found = figure("99.95 %")
    assert found.outcome is Outcome.WRONG
    assert "training 0.55" in found.text
    assert "inference 18" in found.text


@pytest.mark.parametrize(
    ("words", "worked", "outcome"),
    [
        ("costs 2×", 2.0, Outcome.HOLDS),
        ("RTO 0", 130.0, Outcome.WRONG),
        ("60 % cheaper", 0.40, Outcome.WRONG),  # 1.2 of 2.0
        ("RTO 4 h", 2520.0, Outcome.ASSUMES),
        ("20 % of the cost", 4320.0, Outcome.WRONG),
        ("15 % more", 0.15, Outcome.OPEN),
        ("one lab's optimum", None, Outcome.OPEN),
    ],
)
def test_R11_patterns(words: str, worked: float | None, outcome: Outcome) -> None:
    found = figure(words)
    assert (found.worked, found.outcome) == (None if worked is None else pytest.approx(worked), outcome)


def test_R17_ten_for_one_needs_70_percent_of_duplicates() -> None:
    assert effective_gain(dedup=0.7, compression=3.0) == pytest.approx(10.0)
    assert figure("10 Gb/s effective").worked == pytest.approx(7.5)
