"""Cooling loss: a whole loop is lost, by a leak, a valve, or the chiller behind it (M5.3, M12; rules section 2: every single loss).

COOL-CAPACITY judges the loss of one unit within a loop. Here racks that no other loop of the same kind reaches lose that part of their
cooling, air and liquid each for itself, and loops that also reach them have to carry what was on the lost one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.cooling import heat_words, heats, watts
from bridgehead.assess.fleet import counting, few
from bridgehead.assess.heat import Heat, HeatFlow
from bridgehead.assess.scope import Scope
from bridgehead.model.cooling import Loop, LoopId
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, Origin, Severity


def whole_w(loop: Loop, *, margin: float) -> float | None:
    """Heat that a loop with all its units may carry, the margin kept; None while unknown."""
    if loop.unit_capacity_w is None or loop.units is None:
        return None
    return (1 - margin) * loop.units * loop.unit_capacity_w


def _losses(scope: Scope) -> Iterator[Finding]:
    for flow in heats(scope):
        racks: defaultdict[LoopId, list[RackId]] = defaultdict(list)
        for rack, kind in flow.parts:
            for loop_id in flow.loops_at(rack, kind):
                racks[loop_id].append(rack)
        for loop in flow.site.loops:
            yield _loss(scope, flow, loop, sorted(racks[loop.id]))


def _loss(scope: Scope, flow: HeatFlow, loop: Loop, racks: list[RackId]) -> Finding:
    place = f"sites.{flow.site.id}"
    case = Case(LOSS, f"{flow.site.id}/loop:{loop.id}", state=f"loop {loop.id} lost")
    case.take("heat on it", flow.loops[loop.id].high_w, "W", f"{place}.nodes", origin=Origin.DERIVED)
    case.take("racks on it", len(racks), "", f"{place}.racks", origin=Origin.DERIVED)
    margin = case.take("margin", scope.policy.margin, "1", "policy.margin") or 0.0
    bare, shifted = _shifted(flow, loop, racks)
    stranded = [rack for rack in bare if flow.parts[rack, loop.kind].low_w > 0]
    overloaded, lacks = _overloaded(case, flow, shifted, margin=margin)
    if stranded:
        lost = [node for node in flow.site.nodes if node.rack in set(stranded)]
        text = (
            f"when {loop.kind} loop {loop.id} is lost, no other {loop.kind} loop cools {counting(len(stranded), 'rack')} with "
            f"{counting(sum(node.gpus for node in lost), 'GPU')} ({few(stranded)})"
        )
        text = "; ".join((text, *overloaded))
        remedy = f"bring a second {loop.kind} loop to these racks, or agree how their nodes are stopped before they overheat"
        return case.holds(False, text, remedy=remedy, value=len(stranded), limit=0)
    if overloaded:
        text = f"when {loop.kind} loop {loop.id} is lost, {'; '.join(overloaded)}"
        return case.holds(False, text, remedy="add units to the loops that have to take over, or place less on them")
    lacks |= flow.loops[loop.id].hard & {asking.RACK_OF_NODE, asking.RACK_LOOPS}
    for rack in bare:
        lacks |= flow.parts[rack, loop.kind].hard | flow.parts[rack, loop.kind].soft
    if lacks:
        text = f"it cannot be told what the loss of {loop.kind} loop {loop.id} would take down"
        return case.unknown(text, measurement=min(lacks))
    text = f"nothing hangs on {loop.kind} loop {loop.id}"
    if racks:
        text = f"when {loop.kind} loop {loop.id} is lost, others cool its {counting(len(racks), 'rack')} within their limits"
    return case.holds(True, text, remedy="", value=0, limit=0)


def _shifted(flow: HeatFlow, lost: Loop, racks: list[RackId]) -> tuple[list[RackId], dict[LoopId, Heat]]:
    """Racks that have no other loop of the kind, and what each other loop has to carry then."""
    bare: list[RackId] = []
    carried: dict[LoopId, Heat] = {}
    for rack in racks:
        others = [loop for loop in flow.loops_at(rack, lost.kind) if loop != lost.id]
        if not others:
            bare.append(rack)
        for loop in others:
            if loop not in carried:
                carried[loop] = Heat()
                carried[loop].join(flow.loops[loop])
            more = 1 / len(others) - 1 / (len(others) + 1)
            carried[loop].join(flow.parts[rack, lost.kind], factor=more)
    return bare, carried


def _overloaded(case: Case, flow: HeatFlow, carried: dict[LoopId, Heat], *, margin: float) -> tuple[list[str], set[str]]:
    """What is said of loops that cannot take over, and what must be known of the others."""
    loops: dict[str, Loop] = {loop.id: loop for loop in flow.site.loops}
    found: list[str] = []
    lacks: set[str] = set()
    for name, heat in sorted(carried.items()):
        limit_w = whole_w(loops[name], margin=margin)
        case.take(f"heat on {name} then", heat.high_w, "W", f"sites.{flow.site.id}.nodes", origin=Origin.DERIVED)
        case.take(f"limit of {name}", limit_w, "W", f"sites.{flow.site.id}.loops.{name}.unit_capacity", origin=Origin.DERIVED)
        if limit_w is None:
            lacks.add(asking.LOOP_CAPACITY)
            continue
        open_questions = heat.lacks(limit_w)
        if heat.low_w > limit_w or (heat.high_w > limit_w and not open_questions):
            found.append(f"loop {name} would get {heat_words(heat)} and may carry {watts(limit_w)} with all its units")
        lacks |= set(open_questions)
    return found, lacks


LOSS = Check(
    "COOL-LOOP-LOSS",
    "When a whole loop is lost, do others cool its racks?",
    ("M5.3", "M10.3"),
    "each rack has another loop of that kind, whose heat then <= (1 - margin)·units·unit capacity (rules sections 2 and 4)",
    _losses,
    Severity.WARNING,
)
CHECKS: tuple[Check, ...] = (LOSS,)
