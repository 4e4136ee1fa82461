"""Gates judge by evidence: missing data, errors and thin traffic never pass (design rule 5; G01, G02, G03)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from bridgehead.model.event import GateVerdict
from bridgehead.model.runbook import Criterion, GateStep, OnNoData
from bridgehead.runbook.gates import judge
from bridgehead.runbook.state import GateSample

ERRORS = Criterion("errors", "errors_total", "requests_total", limit=0.01)
GATE = GateStep(
    id="gate",
    service="chat",
    target="site-b",
    baseline="site-a",
    criteria=(ERRORS,),
    traffic="requests_total",
    min_traffic=100,
    min_samples=3,
    interval_s=1.0,
    deadline_s=60.0,
)


def sample(at_s: float, target: dict[str, float] | None, baseline: dict[str, float] | None = None, error: str = "") -> GateSample:
    return GateSample(at_s, target, baseline, error)


def growing(requests: float, errors: float | None, *, count: int = 3) -> tuple[GateSample, ...]:
    """``count`` samples whose counters grow evenly by the given totals; a None counter is missing."""
    rows = []
    for index in range(count):
        share = index / (count - 1)
        counters = {"requests_total": 1000 + requests * share}
        if errors is not None:
            counters["errors_total"] = 7 + errors * share
        rows.append(sample(float(index), counters, counters))
    return tuple(rows)


def with_criterion(**changes: object) -> GateStep:
    return msgspec.structs.replace(GATE, criteria=(msgspec.structs.replace(ERRORS, **changes),))


def test_enough_good_evidence_passes() -> None:
    judgement = judge(GATE, growing(200, 1))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.PASS, True)


def test_bad_evidence_is_a_breach_with_its_numbers() -> None:
    judgement = judge(GATE, growing(200, 5))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.BREACH, True)
    assert judgement.text == "errors: 0.025 (5 of 200), limit 0.01"


@pytest.mark.parametrize("count", [1, 2, 5, 50])
def test_G01_only_errors_never_pass(count: int) -> None:
    judgement = judge(GATE, tuple(sample(float(i), None, None, "connection refused") for i in range(count)))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.ERROR, False)


def test_G01_errors_do_not_count_as_samples() -> None:
    good = growing(500, 0, count=2)
    bad = tuple(sample(float(i), None, None, "timeout") for i in range(2, 9))
    judgement = judge(GATE, good + bad)
    assert (judgement.verdict, judgement.settled) == (GateVerdict.ERROR, False)


def test_G02_empty_readings_are_no_data() -> None:
    judgement = judge(GATE, tuple(sample(float(i), {}) for i in range(20)))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.NO_DATA, False)


@pytest.mark.parametrize(
    ("policy", "requests", "verdict"),
    [
        (OnNoData.HOLD, 200, GateVerdict.NO_DATA),
        (OnNoData.FAIL, 200, GateVerdict.BREACH),
        (OnNoData.OK, 200, GateVerdict.PASS),
        (OnNoData.OK, 0, GateVerdict.NO_DATA),
        (OnNoData.OK, 99, GateVerdict.NO_DATA),
    ],
)
def test_G03_an_absent_error_counter_passes_only_with_proved_traffic(policy: OnNoData, requests: int, verdict: GateVerdict) -> None:
    assert judge(with_criterion(no_data=policy), growing(requests, None)).verdict is verdict


def test_thin_traffic_holds() -> None:
    judgement = judge(GATE, growing(99, 0))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.NO_DATA, False)


def test_few_samples_hold() -> None:
    assert not judge(GATE, growing(500, 0, count=2)).settled


def test_a_breach_that_good_traffic_cannot_outweigh_is_settled_at_once() -> None:
    gate = with_criterion(limit=0.0)
    judgement = judge(gate, growing(3, 1, count=2))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.BREACH, True)


def test_a_breach_that_good_traffic_may_outweigh_waits() -> None:
    judgement = judge(GATE, growing(3, 1, count=2))
    assert not judgement.settled


def test_compared_with_the_source_at_the_same_time() -> None:
    gate = with_criterion(limit=None, ratio_to_baseline=2.0)
    slow_everywhere = judge(gate, growing(200, 20))
    assert slow_everywhere.verdict is GateVerdict.PASS
    worse = tuple(
        sample(float(i), {"requests_total": 100.0 * i, "errors_total": 10.0 * i}, {"requests_total": 100.0 * i, "errors_total": 1.0 * i})
        for i in range(4)
    )
    assert judge(gate, worse).verdict is GateVerdict.BREACH


def test_a_baseline_that_cannot_be_read_is_no_data() -> None:
    gate = with_criterion(limit=None, ratio_to_baseline=2.0)
    blind = tuple(sample(float(i), {"requests_total": 100.0 * i, "errors_total": 0.0}, None) for i in range(4))
    judgement = judge(gate, blind)
    assert (judgement.verdict, judgement.settled) == (GateVerdict.NO_DATA, False)


def test_a_counter_that_fell_is_no_data() -> None:
    restarted = (sample(0.0, {"requests_total": 1000.0, "errors_total": 5.0}), *growing(500, 0)[1:], sample(9.0, {"requests_total": 3.0}))
    assert judge(GATE, restarted).verdict is GateVerdict.NO_DATA


def rows_of(*pairs: tuple[float, float]) -> tuple[GateSample, ...]:
    """Readings of (requests, errors) at both sides."""
    counters = [{"requests_total": requests, "errors_total": errors} for requests, errors in pairs]
    return tuple(sample(float(number), row, row) for number, row in enumerate(counters))


def test_a_restart_in_the_middle_hides_errors_and_is_no_data() -> None:
    gate = with_criterion(limit=0.05)
    judgement = judge(gate, rows_of((0, 0), (50, 5), (1, 0), (120, 1)))
    assert (judgement.verdict, judgement.settled) == (GateVerdict.NO_DATA, False)


@pytest.mark.parametrize(
    "samples",
    [
        rows_of((1000, 5), (1100, 1), (1200, 1)),
        tuple(sample(float(i), {"requests_total": 100.0 * i, **({"errors_total": 1.0} if i == 0 else {})}) for i in range(4)),
    ],
    ids=["fell", "vanished"],
)
def test_G03_ok_is_only_for_a_counter_that_never_existed(samples: tuple[GateSample, ...]) -> None:
    assert judge(with_criterion(no_data=OnNoData.OK), samples).verdict is GateVerdict.NO_DATA


def test_G03_ok_does_not_cover_a_missing_denominator() -> None:
    gate = with_criterion(no_data=OnNoData.OK, denominator="answers_total")
    assert judge(gate, growing(500, 90)).verdict is GateVerdict.NO_DATA


def test_one_failed_reading_of_the_baseline_does_not_doom_a_gate() -> None:
    gate = with_criterion(limit=None, over_baseline=0.01)
    first = sample(0.0, {"requests_total": 0.0, "errors_total": 0.0}, None, "timeout")
    later = tuple(
        sample(float(i), {"requests_total": 100.0 * i, "errors_total": 0.0}, {"requests_total": 90.0 * i, "errors_total": 0.0})
        for i in range(1, 5)
    )
    assert judge(gate, (first, *later)).verdict is GateVerdict.PASS


def test_a_faultless_baseline_without_an_error_counter_can_be_compared_with() -> None:
    gate = with_criterion(limit=None, over_baseline=0.01, no_data=OnNoData.OK)
    rows = tuple(sample(float(i), {"requests_total": 100.0 * i, "errors_total": 0.5 * i}, {"requests_total": 90.0 * i}) for i in range(5))
    assert judge(gate, rows).verdict is GateVerdict.PASS


@given(
    rows=some.lists(
        some.one_of(
            some.none(),
            some.dictionaries(some.sampled_from(["requests_total", "errors_total", "other"]), some.floats(allow_nan=True), max_size=3),
        ),
        max_size=8,
    ),
    policy=some.sampled_from(list(OnNoData)),
)
def test_whatever_is_read_a_pass_has_samples_and_traffic(rows: list[dict[str, float] | None], policy: OnNoData) -> None:
    judgement = judge(with_criterion(no_data=policy), tuple(sample(float(i), row, row) for i, row in enumerate(rows)))
    if judgement.verdict is GateVerdict.PASS and judgement.settled:
        good = [row for row in rows if row is not None]
        assert len(good) >= GATE.min_samples
        assert good[-1]["requests_total"] - good[0].get("requests_total", 0.0) >= GATE.min_traffic
