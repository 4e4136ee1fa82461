"""Gates: judge the target by the counters that grew since the gate began, beside the source at the same time.

Pure. Four outcomes (design rule 5; G01-G03): missing data and errors never pass, and a pass needs samples and traffic.
"""

from __future__ import annotations

import math

import msgspec

from bridgehead.model.event import GateVerdict
from bridgehead.model.runbook import Criterion, GateStep, OnNoData
from bridgehead.runbook.action import Json
from bridgehead.runbook.state import GateSample


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
    first, last = good[0], good[-1]
    assert first.target is not None
    assert last.target is not None
    traffic = _growth(gate.traffic, first.target, last.target)
    enough = len(good) >= gate.min_samples and traffic is not None and traffic >= gate.min_traffic
    findings = tuple(_criterion(gate, criterion, first, last, traffic or 0.0) for criterion in gate.criteria)
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


def _certain(gate: GateStep, finding: CriterionFinding) -> bool:
    """Could the requests that ``min_traffic`` still lacks, all good, bring the value under its limit again?"""
    if finding.numerator is None or finding.denominator is None or finding.limit is None:
        return False
    return finding.numerator > finding.limit * max(finding.denominator, float(gate.min_traffic))


def _criterion(gate: GateStep, criterion: Criterion, first: GateSample, last: GateSample, traffic: float) -> CriterionFinding:
    assert first.target is not None
    assert last.target is not None
    numerator = _growth(criterion.numerator, first.target, last.target)
    denominator = _growth(criterion.denominator, first.target, last.target)
    if numerator is None or denominator is None or denominator == 0:
        return _no_data(gate, criterion, numerator, denominator, traffic)
    value = numerator / denominator
    limit, baseline = _limit(criterion, first, last)
    if limit is None:
        text = f"{criterion.name}: the baseline has no data to compare with"
        return CriterionFinding(criterion.name, GateVerdict.NO_DATA, value, None, None, numerator, denominator, text)
    verdict = GateVerdict.BREACH if value > limit else GateVerdict.PASS
    beside = "" if baseline is None else f", baseline {baseline:.6g}"
    text = f"{criterion.name}: {value:.6g} ({numerator:.6g} of {denominator:.6g}), limit {limit:.6g}{beside}"
    return CriterionFinding(criterion.name, verdict, value, limit, baseline, numerator, denominator, text)


def _no_data(gate: GateStep, criterion: Criterion, numerator: float | None, denominator: float | None, traffic: float) -> CriterionFinding:
    absent = criterion.numerator if numerator is None else criterion.denominator
    text = f"{criterion.name}: no data for {absent}"
    match criterion.no_data:
        case OnNoData.FAIL:
            verdict = GateVerdict.BREACH
        case OnNoData.OK if traffic >= gate.min_traffic:
            # An error counter that has never counted does not exist; the companion count proves that there was traffic (G03).
            verdict = GateVerdict.PASS
            text += f"; taken as none, since {traffic:.6g} requests are proved"
        case _:
            verdict = GateVerdict.NO_DATA
    return CriterionFinding(criterion.name, verdict, None, None, None, numerator, denominator, text)


def _limit(criterion: Criterion, first: GateSample, last: GateSample) -> tuple[float | None, float | None]:
    """The tightest of the limits, and the baseline's value; None when a comparison is asked for that cannot be made."""
    limits = [] if criterion.limit is None else [criterion.limit]
    if criterion.over_baseline is None and criterion.ratio_to_baseline is None:
        return (limits[0] if limits else None), None
    if first.baseline is None or last.baseline is None:
        return None, None
    numerator = _growth(criterion.numerator, first.baseline, last.baseline)
    denominator = _growth(criterion.denominator, first.baseline, last.baseline)
    if numerator is None or not denominator:
        return None, None
    baseline = numerator / denominator
    if criterion.over_baseline is not None:
        limits.append(baseline + criterion.over_baseline)
    if criterion.ratio_to_baseline is not None:
        limits.append(baseline * criterion.ratio_to_baseline)
    return min(limits), baseline


def _growth(name: str, first: dict[str, float], last: dict[str, float]) -> float | None:
    """How much a counter grew; None when it is missing at the end, or fell: then its process restarted and the start is lost.

    A counter that did not exist at the start but does at the end has counted from 0: exporters create series at the first event.
    """
    end = last.get(name)
    begin = first.get(name, 0.0)
    if end is None or not math.isfinite(end) or not math.isfinite(begin) or end < begin:
        return None
    return end - begin


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6g}"
