"""Gates: judge the target by the counters that grew since the gate began, beside the source at the same time.

Pure. Four outcomes (design rule 5; G01-G03): missing data and errors never pass, and a pass needs samples and traffic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.model.event import GateVerdict
from bridgehead.model.runbook import Criterion, GateStep, OnNoData
from bridgehead.runbook.action import Json
from bridgehead.runbook.state import GateSample

FEWEST: Final = 2
"""Growth is seen between two readings."""


class CriterionFinding(msgspec.Struct, frozen=True):
    """One criterion with the numbers it was judged by; ``value`` None when it could not be computed."""

    name: str
    verdict: GateVerdict
    value: float | None
    limit: float | None
    baseline: float | None
    numerator: float | None
    denominator: float | None
    text: str


class Judgement(msgspec.Struct, frozen=True):
    """The verdict now; ``settled`` False means that more evidence may still change it."""

    verdict: GateVerdict
    settled: bool
    text: str
    findings: tuple[CriterionFinding, ...]

    def as_json(self) -> list[Json]:
        """Findings as plain values, for the journal."""
        return [msgspec.to_builtins(finding) for finding in self.findings]


def judge(gate: GateStep, samples: tuple[GateSample, ...]) -> Judgement:
    """Judge the evidence collected so far.

    A breach is settled as soon as it is certain: enough samples and traffic, or so many bad events that the good ones still
    missing to ``min_traffic`` could not outweigh them. A pass is settled only with enough of both.
    """
    good = [sample for sample in samples if sample.target is not None]
    errors = len(samples) - len(good)
    if not good:
        verdict = GateVerdict.ERROR if errors else GateVerdict.NO_DATA
        return Judgement(verdict, False, f"{errors} of {len(samples)} readings failed" if errors else "no reading yet", ())
    traffic = _growth(gate.traffic, [sample.target for sample in good if sample.target is not None])
    enough = len(good) >= gate.min_samples and traffic is not None and traffic >= gate.min_traffic
    findings = tuple(_criterion(gate, criterion, good, traffic or 0.0) for criterion in gate.criteria)
    counted = f"{len(good)} of {gate.min_samples} samples, {_number(traffic)} of {gate.min_traffic} requests"
    breached = [finding for finding in findings if finding.verdict is GateVerdict.BREACH]
    if breached and (enough or any(_certain(gate, finding) for finding in breached)):
        return Judgement(GateVerdict.BREACH, True, "; ".join(finding.text for finding in breached), findings)
    if not enough:
        verdict = GateVerdict.ERROR if errors > len(good) else GateVerdict.NO_DATA
        return Judgement(verdict, False, counted + (f", {errors} readings failed" if errors else ""), findings)
    missing = [finding for finding in findings if finding.verdict is not GateVerdict.PASS]
    if missing:
        return Judgement(missing[0].verdict, False, "; ".join(finding.text for finding in missing), findings)
    return Judgement(GateVerdict.PASS, True, counted, findings)


def gathered(gate: GateStep, samples: tuple[GateSample, ...]) -> float:
    """How much of the samples and of the traffic that a verdict needs is there, from 0 to 1."""
    good = [sample.target for sample in samples if sample.target is not None]
    traffic = _growth(gate.traffic, good) if good else None
    return min(1.0, len(good) / max(1, gate.min_samples), (traffic or 0.0) / max(1, gate.min_traffic))


def _certain(gate: GateStep, finding: CriterionFinding) -> bool:
    """Could the requests that ``min_traffic`` still lacks, all good, bring the value under its limit again?"""
    if finding.numerator is None or finding.denominator is None or finding.limit is None:
        return False
    return finding.numerator > finding.limit * max(finding.denominator, float(gate.min_traffic))


def _criterion(gate: GateStep, criterion: Criterion, samples: Sequence[GateSample], traffic: float) -> CriterionFinding:
    targets = [sample.target for sample in samples if sample.target is not None]
    numerator = _bad_events(criterion, targets)
    denominator = _growth(criterion.denominator, targets)
    enough = traffic >= gate.min_traffic
    if numerator is None or not denominator or (numerator.assumed and not enough):
        return _no_data(criterion, numerator, denominator)
    value = numerator.count / denominator
    limit, baseline = _limit(criterion, samples)
    if limit is None:
        text = f"{criterion.name}: the baseline has no data to compare with"
        return CriterionFinding(criterion.name, GateVerdict.NO_DATA, value, None, None, numerator.count, denominator, text)
    verdict = GateVerdict.BREACH if value > limit else GateVerdict.PASS
    beside = "" if baseline is None else f", baseline {baseline:.6g}"
    text = f"{criterion.name}: {value:.6g} ({numerator.count:.6g} of {denominator:.6g}), limit {limit:.6g}{beside}"
    if numerator.assumed:
        text += f"; {criterion.numerator} was never counted, and {traffic:.6g} requests are proved"
    return CriterionFinding(criterion.name, verdict, value, limit, baseline, numerator.count, denominator, text)


class _Events(msgspec.Struct, frozen=True):
    """How many bad events; ``assumed`` none, because their counter has never existed."""

    count: float
    assumed: bool


def _bad_events(criterion: Criterion, readings: Sequence[dict[str, float]]) -> _Events | None:
    """None without data. With ``no_data: ok`` a counter that exists in no reading has counted nothing (G03); any other gap is no data."""
    grown = _growth(criterion.numerator, readings)
    if grown is not None:
        return _Events(grown, assumed=False)
    never = not any(criterion.numerator in reading for reading in readings)
    return _Events(0.0, assumed=True) if never and criterion.no_data is OnNoData.OK else None


def _no_data(criterion: Criterion, numerator: _Events | None, denominator: float | None) -> CriterionFinding:
    absent = criterion.numerator if numerator is None or numerator.assumed else criterion.denominator
    text = f"{criterion.name}: no data for {absent}"
    verdict = GateVerdict.BREACH if criterion.no_data is OnNoData.FAIL else GateVerdict.NO_DATA
    return CriterionFinding(criterion.name, verdict, None, None, None, None if numerator is None else numerator.count, denominator, text)


def _limit(criterion: Criterion, samples: Sequence[GateSample]) -> tuple[float | None, float | None]:
    """The tightest of the limits, and the baseline's value; None when a comparison is asked for that cannot be made."""
    limits = [] if criterion.limit is None else [criterion.limit]
    if criterion.over_baseline is None and criterion.ratio_to_baseline is None:
        return (limits[0] if limits else None), None
    readings = [sample.baseline for sample in samples if sample.baseline is not None]
    if len(readings) < FEWEST:
        return None, None
    events, denominator = _bad_events(criterion, readings), _growth(criterion.denominator, readings)
    if events is None or not denominator:
        return None, None
    baseline = events.count / denominator
    if criterion.over_baseline is not None:
        limits.append(baseline + criterion.over_baseline)
    if criterion.ratio_to_baseline is not None:
        limits.append(baseline * criterion.ratio_to_baseline)
    return min(limits), baseline


def _growth(name: str, readings: Sequence[dict[str, float]]) -> float | None:
    """How much a counter grew over all readings; None when it is missing at the end, is no number, or fell at any moment.

    A counter that falls has lost what it counted before: its process was restarted, and what happened just before that is not known.
    One that does not exist at the start but does later has counted from 0: exporters create series at the first event.
    """
    values = [reading[name] for reading in readings if name in reading]
    if not values or name not in readings[-1] or not all(math.isfinite(value) for value in values):
        return None
    if any(later < earlier for earlier, later in itertools.pairwise(values)):
        return None
    return values[-1] - (values[0] if name in readings[0] else 0.0)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
