"""Alarms do not flap, are not ended by blindness, and say what changed."""

from __future__ import annotations

from bridgehead.model.finding import FindingStatus, Input, Origin
from bridgehead.recovery.watch.alarm import AlarmKind, AlarmState, Patience, follow
from bridgehead.recovery.watch.finding import WatchFinding

PATIENCE = Patience(raise_after_s=60.0, clear_after_s=120.0)


def finding(status: FindingStatus, *, foreseen: bool = False, gpus: int = 8) -> WatchFinding:
    inputs = (Input("GPUs", gpus, "", Origin.DECLARED, "sites.b.nodes"), Input("age", gpus * 7.0, "s", Origin.MEASURED, "vault"))
    return WatchFinding(code="WCH-X", subject="lm", status=status, text=status.value, foreseen=foreseen, inputs=inputs)


def played(*said: tuple[float, WatchFinding]) -> AlarmState:
    known: dict[str, AlarmState] = {}
    for now_s, one in said:
        known = follow(known, [one], now_s=now_s, patience=PATIENCE)
    return known["WCH-X lm"]


PASS, FAIL, UNKNOWN = (finding(status) for status in (FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN))
SOON = finding(FindingStatus.PASS, foreseen=True)


def test_a_miss_is_an_alarm_at_once() -> None:
    found = played((0.0, PASS), (10.0, FAIL))
    assert (found.kind, found.raised_s) == (AlarmKind.MISSED, 10.0)


def test_what_is_foreseen_or_unknown_must_last() -> None:
    assert played((0.0, SOON), (59.0, SOON)).kind is None
    assert played((0.0, SOON), (60.0, SOON)).kind is AlarmKind.FORESEEN
    assert played((0.0, UNKNOWN), (59.0, UNKNOWN)).kind is None
    assert played((0.0, UNKNOWN), (60.0, UNKNOWN)).kind is AlarmKind.UNKNOWN


def test_flapping_neither_ends_nor_repeats_an_alarm() -> None:
    said = [(float(second), FAIL if second % 20 else PASS) for second in range(10, 1000, 10)]
    found = played(*said)
    assert found.kind is AlarmKind.MISSED
    assert found.raised_s == 10.0


def test_it_ends_after_passing_for_a_while_without_a_break() -> None:
    assert played((0.0, FAIL), (10.0, PASS), (129.0, PASS)).kind is AlarmKind.MISSED
    assert played((0.0, FAIL), (10.0, PASS), (130.0, PASS)).kind is None


def test_blindness_ends_no_alarm() -> None:
    found = played((0.0, FAIL), *((float(second), UNKNOWN) for second in range(10, 5000, 10)))
    assert found.kind is not None
    assert found.raised_s == 0.0


def test_a_plan_that_no_longer_works_says_what_changed() -> None:
    found = played((0.0, finding(FindingStatus.PASS, gpus=8)), (10.0, finding(FindingStatus.FAIL, gpus=4)))
    assert found.changed == ("sites.b.nodes: 8 -> 4",)
    again = follow({found.key: found}, [finding(FindingStatus.FAIL, gpus=2)], now_s=20.0, patience=PATIENCE)
    assert again[found.key].changed == ("sites.b.nodes: 8 -> 4",), "as it was when the alarm was raised"


def test_a_finding_that_is_no_longer_made_takes_its_alarm_with_it() -> None:
    assert follow({"WCH-X lm": played((0.0, FAIL))}, [], now_s=10.0, patience=PATIENCE) == {}
