"""Commissioning: what must be proved, and signed, before a liquid loop of the target is energised (M12; rules section 4)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.scope import Scope
from bridgehead.model.cooling import Gate, Loop, LoopKind
from bridgehead.model.finding import Finding


def _gates(scope: Scope) -> Iterator[Finding]:
    for loop in scope.target.loops:
        if loop.kind is LoopKind.LIQUID:
            for gate in Gate:
                yield _gate(scope, loop, gate)


def _gate(scope: Scope, loop: Loop, gate: Gate) -> Finding:
    place = f"sites.{scope.target.id}.loops.{loop.id}.records.{gate.value}"
    case = Case(GATES, f"{scope.target.id}/loop:{loop.id}", state=gate.value)
    record = next((record for record in loop.records if record.id == gate), None)  # read from a file it is a plain text
    passed = case.take("passed", None if record is None else record.passed, "", f"{place}.passed")
    signed = case.take("signed by", (record.signed_by or None) if record is not None else None, "", f"{place}.signed_by")
    if passed is False:
        return case.holds(
            False,
            f"loop {loop.id} did not pass its commissioning step {gate.value}",
            remedy="mend it and repeat the step before the loop is energised",
            value=passed,
        )
    if passed is None or signed is None:
        lacking = "there is no record" if record is None else "nobody signed the record"
        return case.unknown(f"loop {loop.id}: {lacking} of its commissioning step {gate.value}", measurement=asking.RECORDS)
    return case.holds(True, f"loop {loop.id} passed {gate.value}, signed by {signed}", remedy="", value=passed)


GATES = Check(
    "COOL-GATE",
    "Is every commissioning step of every liquid loop passed and signed?",
    ("M12",),
    "supply above dew point, filter, pressure drop, pressure-hold test, flush, load bank, each with a signed record (rules section 4)",
    _gates,
)
CHECKS: tuple[Check, ...] = (GATES,)
