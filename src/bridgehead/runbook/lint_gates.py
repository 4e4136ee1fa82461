"""Linting gates: a gate that cannot pass, or that passes without evidence, is an error (design rule 5; G01-G03)."""

from __future__ import annotations

from bridgehead.kernel.quantity import format_duration
from bridgehead.model.runbook import Criterion, GateStep
from bridgehead.runbook.finding import Finding, LintCode, found

FEWEST_SAMPLES = 2
"""Growth of a counter needs a reading at its beginning and one at its end."""


def check_gate(gate: GateStep) -> list[Finding]:
    """Findings about one gate."""
    findings = []
    if gate.min_samples < FEWEST_SAMPLES:
        message = f"'min_samples' is {gate.min_samples}: growth is seen between two readings, so at least {FEWEST_SAMPLES} are needed"
        findings.append(found(LintCode.GATE_SAMPLES, gate.id, "gate.min_samples", message))
    if gate.min_traffic < 1:
        message = f"'min_traffic' is {gate.min_traffic}: without traffic there is no evidence"
        findings.append(found(LintCode.GATE_TRAFFIC, gate.id, "gate.min_traffic", message))
    if not gate.criteria:
        findings.append(found(LintCode.GATE_CRITERIA, gate.id, "gate.criteria", "it has no criteria: it would pass whatever happens"))
    if gate.baseline == gate.target:
        message = f"target and baseline are both '{gate.target}': it would compare the site with itself"
        findings.append(found(LintCode.GATE_BASELINE, gate.id, "gate.baseline", message))
    for number, criterion in enumerate(gate.criteria):
        findings += _criterion(gate, criterion, f"gate.criteria.[{number}]")
    return findings + _times(gate)


def _criterion(gate: GateStep, criterion: Criterion, field: str) -> list[Finding]:
    compares = criterion.over_baseline is not None or criterion.ratio_to_baseline is not None
    if not compares and criterion.limit is None:
        message = f"criterion '{criterion.name}' has no limit: give 'max', 'over_baseline' or 'times_baseline'"
        return [found(LintCode.GATE_LIMIT, gate.id, field, message)]
    if compares and gate.baseline is None:
        message = f"criterion '{criterion.name}' compares with a baseline, but the gate names none: it could never pass"
        return [found(LintCode.GATE_BASELINE, gate.id, field, message)]
    return []


def _times(gate: GateStep) -> list[Finding]:
    if gate.interval_s <= 0:
        return [found(LintCode.GATE_DEADLINE, gate.id, "gate.interval", "'interval' is zero: give the time between readings")]
    needed_s = gate.min_samples * gate.interval_s
    if 0 < gate.deadline_s < needed_s:
        message = (
            f"the deadline of {format_duration(gate.deadline_s)} ends before {gate.min_samples} readings are taken, "
            f"one each {format_duration(gate.interval_s)} ({format_duration(needed_s)}): it could never pass"
        )
        return [found(LintCode.GATE_DEADLINE, gate.id, "deadline", message)]
    return []
