"""Power facts: whether what the estate says of loads, voltages and the site's power can be right (M5.3; rules section 1; E03, E06)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.loads import load_of, measured_contradicts, nameplate_contradicts, stated_w
from bridgehead.assess.power import flows, power
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site
from bridgehead.model.finding import Finding, Origin, Severity
from bridgehead.model.power import Circuit, PowerSource, Wiring, rating_va

PHASE_VOLTAGES = ((110.0, 130.0), (220.0, 240.0))
"""Voltages that are nearly always measured from a line to neutral (rules section 1, PW7)."""


def _loads(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        for node in site.nodes:
            case = _noted(Case(LOAD, f"{site.id}/node:{node.id}"), site, node)
            load = load_of(node)
            if node.power_w is not None:
                text = f"{node.id} takes {power(load.low_w, dc=True)} ({load.reading.value})"
                remedy = "find out which figure is wrong; what is declared has to be the most that the node takes"
                yield case.holds(not measured_contradicts(node), text, remedy=remedy, value=load.low_w, limit=node.power_w, unit="W")
                continue
            bound = f"; its plates allow {power(load.high_w, dc=True)} at most" if load.high_w is not None else ""
            least = "" if node.measured_w is None else f"; {power(node.measured_w, dc=True)} were measured, which need not be the most"
            yield case.unknown(f"nobody said what {node.id} takes at most{least}{bound}", measurement=asking.LOAD)


def _plates(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        for node in site.nodes:
            stated = stated_w(node)
            if stated is None or node.nameplate_w is None:
                continue
            yield _noted(Case(PLATE, f"{site.id}/node:{node.id}"), site, node).holds(
                not nameplate_contradicts(node),
                f"{node.id} takes {power(stated, dc=True)}, and its plates add up to "
                f"{power(node.nameplate_w, dc=True)}, which is a bound and not the load",
                remedy="find out which figure is wrong: plates that add up to less than the load are not all of them, or of another device",
                value=stated,
                limit=node.nameplate_w,
                unit="W",
            )


def _noted(case: Case, site: Site, node: Node) -> Case:
    place = f"sites.{site.id}.nodes.{node.id}"
    for name, value, source, origin in (
        ("measured", node.measured_w, "measured", Origin.MEASURED),
        ("declared", node.power_w, "power", Origin.DECLARED),
        ("nameplate", node.nameplate_w, "nameplate", Origin.DECLARED),
    ):
        if value is not None:
            case.take(name, value, "W", f"{place}.{source}", origin=origin)
    return case


def _voltages(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        things: list[tuple[str, str, Circuit | PowerSource]] = [("circuit", "circuits", one) for one in site.circuits]
        things += [("source", "sources", one) for one in site.sources if one.rating_va is None]
        for kind, places, thing in things:
            if thing.wiring not in (Wiring.THREE_PHASE_LINE_TO_LINE, Wiring.THREE_PHASE_LINE_TO_NEUTRAL):
                continue
            if thing.voltage_v is None or thing.current_a is None:
                continue
            yield _voltage(Case(VOLTAGE, f"{site.id}/{kind}:{thing.id}"), thing, f"sites.{site.id}.{places}.{thing.id}")


def _voltage(case: Case, thing: Circuit | PowerSource, place: str) -> Finding:
    assert thing.voltage_v is not None
    assert thing.current_a is not None
    assert thing.wiring is not None
    voltage_v, current_a = thing.voltage_v, thing.current_a
    case.take("V", voltage_v, "V", f"{place}.voltage")
    case.take("wiring", thing.wiring.value, "", f"{place}.wiring")
    between = rating_va(voltage_v, current_a, Wiring.THREE_PHASE_LINE_TO_LINE)
    to_neutral = rating_va(voltage_v, current_a, Wiring.THREE_PHASE_LINE_TO_NEUTRAL)
    doubtful = thing.wiring is Wiring.THREE_PHASE_LINE_TO_LINE and any(low <= voltage_v <= high for low, high in PHASE_VOLTAGES)
    shown = f"{format_quantity(voltage_v, Dimension.VOLTAGE)}, {format_quantity(current_a, Dimension.CURRENT)}"
    kind = "between lines" if thing.wiring is Wiring.THREE_PHASE_LINE_TO_LINE else "from line to neutral"
    return case.holds(
        not doubtful,
        f"{thing.id} ({shown}) is declared {kind}: that is {power(between)} between lines and {power(to_neutral)} from line to neutral",
        remedy="ask the site how the voltage is measured; this one is nearly always measured from a line to neutral",
        value=thing.wiring.value,
    )


def _rings(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        if flow.tree.cyclic:
            names = ", ".join(sorted(flow.tree.cyclic)[:5])
            yield Case(RING, flow.site.id).holds(
                False, f"at {flow.site.id} these elements of the power tree feed themselves, or hang on one that does: {names}",
                remedy="correct 'fed_by' in the estate",
            )  # fmt: skip


def _sites(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        yield _site(scope, site, (*site.nodes, *(scope.incoming if site is scope.target else ())))


def _site(scope: Scope, site: Site, nodes: tuple[Node, ...]) -> Finding:
    loads = [load_of(node) for node in nodes]
    other = [circuit.other_load_w for circuit in site.circuits]
    known_w = sum(load.known_w for load in loads) + sum(filter(None, other))
    low_w = sum(load.low_w for load in loads) + sum(filter(None, other))
    case = Case(SITE, site.id)
    case.take("load of nodes", known_w, "W", f"sites.{site.id}.nodes", origin=Origin.DERIVED)
    margin = case.take("margin", scope.policy.margin, "1", "policy.margin") or 0.0
    usable = case.take("usable power", site.power_w, "W", f"sites.{site.id}.power")
    vague = any(load.high_w is None for load in loads) or None in other
    words = f"at least {power(known_w, dc=True)}" if vague else power(known_w, dc=True)
    if usable is None:
        return case.unknown(f"{site.id} has to feed {words}, and nobody said what it can", measurement=asking.SITE_POWER)
    limit = (1 - margin) * usable
    text = f"{site.id} has to feed {words} and may feed {power(limit, dc=True)} ({power(usable, dc=True)}, less margin)"
    lacks = [asking.LOAD] if any(load.high_w is None for load in loads) else []
    lacks += [asking.OTHER_LOAD] if None in other else []
    if known_w > limit and any(load.loose for load in loads):
        lacks.append(asking.LOAD)
    if low_w <= limit and lacks:
        return case.unknown(f"{text}; more must be known to tell", measurement=lacks[0])
    return case.at_most(known_w, limit, "W", text, remedy="take less there, or have the site's power raised")


LOAD = Check(
    "PWR-LOAD",
    "Is the largest load of every node known?",
    ("M5.3",),
    "load = max(measured, declared), and measured <= declared; a reading is a lower bound, a nameplate an upper one (rules section 1)",
    _loads,
    Severity.WARNING,
)
PLATE = Check(
    "PWR-PLATE",
    "Do the plates of every node allow what it takes?",
    ("M5.3",),
    "nameplate >= max(measured, declared); else one of them is wrong (rules sections 1 and 11)",
    _plates,
    Severity.WARNING,
)
VOLTAGE = Check(
    "PWR-VOLTAGE",
    "Is every three-phase voltage one that is usual for the way in which it is said to be measured?",
    ("M5.3",),
    "S = √3·V_LL·I or 3·V_LN·I; 110 to 130 V and 220 to 240 V are hardly ever line to line (rules section 1, PW7)",
    _voltages,
    Severity.WARNING,
)
RING = Check(
    "PWR-RING",
    "Does no element of the power tree feed itself?",
    ("M5.3",),
    "fed_by has no ring (rules section 1: walk the whole path)",
    _rings,
)
SITE = Check(
    "PWR-SITE",
    "Does the site have the power for all nodes that will stand there?",
    ("M5.3",),
    "Σ P of what stands and of what comes <= (1 - margin)·usable power; circuits are what counts (M5.3)",
    _sites,
)
CHECKS: tuple[Check, ...] = (LOAD, PLATE, VOLTAGE, RING, SITE)
