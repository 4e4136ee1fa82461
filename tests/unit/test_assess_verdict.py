"""What findings add up to: the verdict, what to measure, the register of risks, the calendar (M5.0, M5.3, M5.4)."""

from __future__ import annotations

import itertools

import pytest

from bridgehead.assess.calendar import ASSESSMENT_DAYS, DAY_S, calendar
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.risks import register
from bridgehead.assess.verdict import binding_first, measurements, verdict
from bridgehead.kernel.ids import Person
from bridgehead.kernel.moment import format_moment
from bridgehead.model.finding import Finding, FindingStatus, Origin, Severity, Verdict
from bridgehead.model.policy import Period, RiskEstimate

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
CHECK = Check("PWR-TEST", "Is it?", ("M5.3",), "a <= b", lambda _scope: ())


def finding(status: FindingStatus, code: str = "PWR-A", subject: str = "b", **more: object) -> Finding:
    more.setdefault("remedy", "mend it" if status is FAIL else "")
    more.setdefault("measurement", "measure it" if status is UNKNOWN else "")
    return Finding(code=code, subject=subject, status=status, text="it is so", **more)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], Verdict.CANNOT_TELL),
        ([PASS], Verdict.GO),
        ([PASS, UNKNOWN], Verdict.CANNOT_TELL),
        ([PASS, UNKNOWN, FAIL], Verdict.NO_GO),
    ],
)
def test_nothing_looked_at_is_no_go_ahead(states: list[FindingStatus], expected: Verdict) -> None:
    for order in itertools.permutations(states):
        assert verdict(finding(status) for status in order) is expected


def test_warnings_do_not_decide() -> None:
    assert verdict([finding(PASS), finding(FAIL, severity=Severity.WARNING)]) is Verdict.GO
    assert verdict([finding(FAIL, severity=Severity.WARNING)]) is Verdict.CANNOT_TELL, "nothing that decides was looked at"


def test_binding_constraint_comes_first() -> None:
    tight, tighter = finding(FAIL, "PWR-A", margin=-0.1), finding(FAIL, "PWR-B", margin=-0.5)
    warning, unknown, good = finding(FAIL, "COOL-A", severity=Severity.WARNING, margin=-9.0), finding(UNKNOWN), finding(PASS, margin=0.2)
    for order in itertools.permutations([tight, tighter, warning, unknown, good]):
        assert binding_first(order) == (tighter, tight, unknown, warning, good)


def test_one_measurement_settles_many() -> None:
    waiting = [finding(UNKNOWN, subject=f"b/{number}", measurement="weigh the racks") for number in range(3)]
    found = measurements([*waiting, finding(UNKNOWN, "WL-A", measurement="ask", severity=Severity.WARNING), finding(PASS), finding(FAIL)])
    assert [(one.what, len(one.settles), one.blocking) for one in found] == [("weigh the racks", 3, True), ("ask", 1, False)]


def test_missing_or_guessed_input_never_passes_and_may_fail() -> None:
    def judged(value: float | None, guess: float | None) -> Finding:
        case = Case(CHECK, "b")
        case.take("a", value, "W", "sites.b.power")
        factor = case.guess("f", guess, "1", "sites.b.f", otherwise=0.5, because="rules")
        return case.at_most((value or 0.0) / factor, 10.0, "W", "it carries so much", remedy="mend it")

    assert judged(4.0, 0.5).status is PASS
    assert judged(4.0, None).status is UNKNOWN
    assert "sites.b.f" in judged(4.0, None).measurement
    assert judged(6.0, None).status is FAIL
    assert judged(None, 0.5).status is UNKNOWN
    assert [one.origin for one in judged(None, None).inputs] == [Origin.MISSING, Origin.GUESS]
    assert judged(6.0, 0.5).margin == pytest.approx(-0.2)


def test_limit_of_nothing_has_a_margin_too() -> None:
    assert Case(CHECK, "b").at_most(0.0, 0.0, "W", "", remedy="").status is PASS
    assert Case(CHECK, "b").at_most(1.0, 0.0, "W", "", remedy="x").margin == -1.0


def test_M5_4_register_says_what_is_done_and_invents_no_estimate() -> None:
    findings = [finding(FAIL, "PWR-A", subject=f"b/{number}") for number in range(9)] + [finding(UNKNOWN, "COOL-A"), finding(PASS, "WL-A")]
    found = {risk.id: risk for risk in register(findings, hardware=True)}
    assert set(found) == {
        "PWR-A", "COOL-A", "network-misconfiguration", "power-instability", "thermal-event", "transport-damage",
    }  # fmt: skip
    assert found["PWR-A"].mitigation == "mend it"
    assert "and 4 more" in found["PWR-A"].because
    assert found["COOL-A"].mitigation == "measure it"
    assert all(risk.probability is risk.cost is risk.exposure is None and risk.owner == "" for risk in found.values())
    assert "transport-damage" not in {risk.id for risk in register(findings, hardware=False)}
    said = RiskEstimate("PWR-A", Person("kim"), 0.25, 80_000.0)
    (first, *_) = register(findings, estimates=[said], hardware=False)
    assert (first.id, first.owner, first.exposure) == ("PWR-A", "kim", 20_000.0)


MOVE_S = 1_800_000_000.0
WEEKEND = Period(MOVE_S, MOVE_S + 2 * DAY_S)


def test_M5_0_calendar_begins_ninety_days_before_and_says_what_is_late() -> None:
    findings = [finding(FAIL, "PWR-A"), finding(FAIL, "PWR-B"), finding(UNKNOWN, "FUTURE-CODE"), finding(PASS, "WAN-A")]
    found = calendar(findings, windows=[WEEKEND], now_s=MOVE_S - 40.5 * DAY_S)
    assert found.stages[0].begins_s == MOVE_S - ASSESSMENT_DAYS * DAY_S
    assert found.stages[-1].ends_s == found.move_s == MOVE_S
    by_name = {stage.name: stage for stage in found.stages}
    assert [task.settles for task in by_name["Building"].tasks if task.settles] == [("PWR-A", "PWR-B")], "one task for both"
    assert [task.settles for task in by_name["Inventory"].tasks if task.settles] == [("FUTURE-CODE",)]
    assert {stage.name: stage.late_days for stage in found.stages if stage.late_days is not None} == {"Inventory": 34, "Building": 4}
    assert not any(task.settles for task in by_name["Network"].tasks)
    assert all(task.where for stage in found.stages for task in stage.tasks if task.settles)
    earliest = format_moment(MOVE_S - 40.5 * DAY_S + 90 * DAY_S)[:10]
    assert "in 40 days" in found.advice[0]
    assert f"not before {earliest}" in found.advice[1]


def test_M5_0_the_next_window_counts_and_one_of_the_past_asks_for_another() -> None:
    last_year = Period(MOVE_S - 365 * DAY_S, MOVE_S - 364 * DAY_S, "missed")
    found = calendar([], windows=[last_year, WEEKEND], now_s=MOVE_S - 100 * DAY_S)
    assert found.move_s == MOVE_S
    assert "its assessment begins 90 days before" in found.advice[0]
    over = calendar([finding(FAIL, "PWR-A")], windows=[last_year], now_s=MOVE_S)
    assert over.move_s is None
    assert all(stage.begins_s is stage.ends_s is stage.late_days is None for stage in over.stages)
    (advice,) = over.advice
    assert f"ended on {format_moment(last_year.ends_s)[:10]}" in advice
    assert f"a window from {format_moment(MOVE_S + 90 * DAY_S)[:10]} on" in advice


def test_M5_0_open_window_no_window_and_blackout() -> None:
    now = MOVE_S + DAY_S
    begun = calendar([finding(FAIL, "PWR-A")], windows=[WEEKEND], now_s=now)
    assert begun.move_s == MOVE_S
    assert begun.advice[0].startswith("The window of the move is open since")
    assert calendar([], windows=[], now_s=now).advice[0].startswith("No window of the move is set: give the policy a window")
    black = calendar([], windows=[WEEKEND], blackouts=[Period(MOVE_S - 1, MOVE_S + 3 * DAY_S)], now_s=0.0)
    assert black.move_s is None
    assert "blackouts" in black.advice[0]
    later = calendar([], windows=[WEEKEND], blackouts=[Period(MOVE_S - 1, MOVE_S + DAY_S)], now_s=0.0)
    assert later.move_s == MOVE_S + DAY_S, "what a blackout takes is no time to move"
