"""Power with all racks in their places, in every state (PLAN-POWER; M5.3, M10.3; rules sections 1 to 3). Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import assert_never

import msgspec

from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import HeadroomRule
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, Wiring
from bridgehead.planning.check_case import SLACK, Case, amount, counted, listed
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_power_lines import line_amperes
from bridgehead.planning.check_power_states import NORMAL, Draw, Wires, draws

_SPREAD = "give these racks other places, or fewer of them here"


class _Worst(msgspec.Struct):
    """The heaviest load of one place over all states."""

    value: float = -1.0
    state: str = NORMAL
    over: int = 0

    def see(self, value: float, state: str, limit: float | None) -> None:
        """Take a state in."""
        if limit is not None and value > limit * (1 + SLACK):
            self.over += 1
        if value > self.value:
            self.value, self.state = value, state


def placed_nodes(ground: Ground) -> list[tuple[Node, Rack]]:
    """Nodes of carried racks with the places in which they will stand."""
    found: list[tuple[Node, Rack]] = []
    for one in ground.plan.placements:
        place = ground.target_racks.get(one.place)
        if place is not None:
            found += [(node, place) for node in ground.nodes.get(one.id, ())]
    return found


def check_power(ground: Ground) -> Iterator[Finding]:
    """``PLAN-POWER``: of each circuit, each element of the power tree, and each rack."""
    site = ground.target
    wires = Wires(site, draws(site, placed_nodes(ground), path=f"sites.{ground.policy.source}"))
    circuits = {one.id: _Worst() for one in site.circuits}
    sources = {one.id: (_Worst(), _Worst()) for one in site.sources}
    lines = {one.id: _Worst() for one in site.sources if _has_lines(wires, one)}
    limits = _Limits(ground)
    starved: defaultdict[RackId | None, dict[str, tuple[Draw, int, str]]] = defaultdict(dict)
    states = [wires.normal]
    for state in (*states, *wires.lost()):
        for circuit, load in state.circuits.items():
            circuits[circuit].see(load[1], state.name, limits.circuits[circuit])
        for source, load in state.sources.items():
            sources[source][0].see(load[1], state.name, limits.apparent[source])
            sources[source][1].see(load[0], state.name, limits.active[source])
            if source in lines:
                lines[source].see(line_amperes(wires, source, state), state.name, limits.amperes[source])
        for draw, live in state.starved:
            starved[draw.rack].setdefault(draw.node.id, (draw, live, state.name))
    doubts = _doubts(wires)
    for one in site.circuits:
        yield _circuit(wires, one, circuits[one.id], limits.circuits[one.id], doubts)
    for element in site.sources:
        yield _source(wires, element, sources[element.id], limits, lines.get(element.id), doubts)
    yield from _racks(ground, wires, starved)


class _Limits:
    """What each place may carry with the margin kept, None while unknown (rules section 3)."""

    def __init__(self, ground: Ground) -> None:
        site, margin = ground.target, ground.policy.margin

        def limit(rating: float | None, continuous: float | None) -> float | None:
            if rating is None or continuous is None:
                return None
            match site.headroom:
                case HeadroomRule.CONTINUOUS:
                    return (1 - margin) * continuous * rating
                case HeadroomRule.RATING:
                    return min(continuous, 1 - margin) * rating
                case HeadroomRule.NEED:
                    return continuous * rating / (1 + margin)
                case _:
                    assert_never(site.headroom)

        self.circuits: dict[CircuitId, float | None] = {one.id: limit(one.rating_va, one.continuous) for one in site.circuits}
        self.apparent: dict[SourceId, float | None] = {one.id: limit(one.limit_va, one.continuous) for one in site.sources}
        self.active: dict[SourceId, float | None] = {one.id: limit(one.active_limit_w, 1.0) for one in site.sources}
        self.amperes: dict[SourceId, float | None] = {one.id: limit(_rated_a(one), one.continuous) for one in site.sources}


def _rated_a(source: PowerSource) -> float | None:
    """Amperes of one line of a three-phase element."""
    if source.current_a is not None:
        return source.current_a
    if source.rating_va is None or source.voltage_v is None:
        return None
    lines = math.sqrt(3) if source.wiring is Wiring.THREE_PHASE_LINE_TO_LINE else 3
    return source.rating_va / (lines * source.voltage_v)


def _has_lines(wires: Wires, source: PowerSource) -> bool:
    """Whether single-phase circuits load the lines of a three-phase element unequally."""
    three = source.wiring in (Wiring.THREE_PHASE_LINE_TO_LINE, Wiring.THREE_PHASE_LINE_TO_NEUTRAL)
    return three and any(wires.circuits[name].wiring is Wiring.SINGLE_PHASE for name in wires.in_lines[source.id])


def _doubts(wires: Wires) -> dict[CircuitId, list[str]]:
    """What the load of a circuit rests on that nobody gave."""
    found: defaultdict[CircuitId, list[str]] = defaultdict(list)
    for name, circuit in wires.circuits.items():
        if circuit.other_load_w is None:
            found[name].append(f"sites.{wires.site.id}.circuits.{name}.other_load")
    for draw in wires.draws:
        loads = [path for path in draw.doubts if path.endswith((".power", ".power_factor", ".supplies"))]
        for name in draw.cords or _reach(wires, draw):
            found[name] += loads
    return found


def _reach(wires: Wires, draw: Draw) -> list[CircuitId]:
    """Circuits on which a node may hang of which nobody knows how many supplies it has."""
    rack = None if draw.rack is None else wires.racks.get(draw.rack)
    return [name for name in (rack.circuits if rack is not None else ()) if name in wires.circuits]


def _asks(case: Case, what: str, paths: list[str]) -> None:
    if paths:
        case.lack(f"nobody knows for certain what {what} carries", measurement=f"give {listed(paths)}")


def _circuit(wires: Wires, circuit: Circuit, worst: _Worst, limit: float | None, doubts: dict[CircuitId, list[str]]) -> Finding:
    name = circuit.id
    case = Case("PLAN-POWER", f"circuit:{name}")
    unit = Dimension.POWER if circuit.wiring is Wiring.DC else Dimension.APPARENT_POWER
    on = listed(draw.rack or draw.node.id for draw in wires.on[name])
    load = max(0.0, worst.value)
    _asks(case, f"circuit {name}", doubts.get(name, []))
    _judged(case, f"circuit {name} ({on or 'nothing hangs on it'})", load, limit, worst, unit, any(draw.bound for draw in wires.on[name]))
    if limit is None and load:
        path = f"sites.{wires.site.id}.circuits.{name}.continuous"
        case.lack(f"circuit {name} carries {amount(load, unit)}, and nobody says what may flow for hours", measurement=f"give {path}")
    return case.finding(f"circuit {name} carries at most {amount(load, unit)}, {worst.state}")


def _judged(case: Case, what: str, load: float, limit: float | None, worst: _Worst, unit: Dimension, bound: bool) -> None:
    if limit is None:
        return
    more = f"; it is too much in {counted(worst.over - 1, 'other state')} as well" if worst.over > 1 else ""
    text = f"{what} carries {amount(load, unit)} {worst.state}, {amount(load - limit, unit)} more than"
    text += f" the {amount(limit, unit)} that it may{more}"
    if bound and load > limit * (1 + SLACK):
        case.lack(f"{text}, if the nameplates are drawn in full", measurement="measure or declare the power of these nodes")
        return
    base = {Dimension.POWER: "W", Dimension.APPARENT_POWER: "VA", Dimension.CURRENT: "A"}[unit]
    case.at_most(load, limit, text, unit=base, remedy=_SPREAD)


def _source(
    wires: Wires,
    source: PowerSource,
    worst: tuple[_Worst, _Worst],
    limits: _Limits,
    lines: _Worst | None,
    doubts: dict[CircuitId, list[str]],
) -> Finding:
    case = Case("PLAN-POWER", f"source:{source.id}")
    below = wires.below[source.id]
    apparent, active = max(0.0, worst[0].value), max(0.0, worst[1].value)
    what = f"{source.kind} {source.id}"
    paths = [path for name in below for path in doubts.get(name, [])]
    _asks(case, what, paths)
    bound = any(draw.bound for name in below for draw in wires.on[name])
    unit = Dimension.POWER if source.wiring is Wiring.DC else Dimension.APPARENT_POWER
    _judged(case, what, apparent, limits.apparent[source.id], worst[0], unit, bound)
    _judged(case, what, active, limits.active[source.id], worst[1], Dimension.POWER, bound)
    if lines is not None:
        if any(
            wires.circuits[name].wiring is Wiring.SINGLE_PHASE and wires.circuits[name].lines is None for name in wires.in_lines[source.id]
        ):
            case.lack(f"nobody says between which lines the circuits of {what} hang", measurement="give 'lines' of these circuits")
        _judged(case, f"the fullest line of {what}", max(0.0, lines.value), limits.amperes[source.id], lines, Dimension.CURRENT, bound)
    if apparent and limits.apparent[source.id] is None:
        lacking = "continuous" if source.limit_va is not None else "rating"
        text = f"{what} carries {amount(apparent, unit)}, and nobody says what it may"
        case.lack(text, measurement=f"give sites.{wires.site.id}.sources.{source.id}.{lacking}")
    return case.finding(f"{what} carries at most {amount(apparent, unit)}, {worst[0].state}")


def _racks(ground: Ground, wires: Wires, starved: dict[RackId | None, dict[str, tuple[Draw, int, str]]]) -> Iterator[Finding]:
    """Whether every node keeps the supplies that it needs, rack by rack of the target."""
    by_rack: defaultdict[RackId | None, list[Draw]] = defaultdict(list)
    for draw in wires.draws:
        by_rack[draw.rack].append(draw)
    came = {one.place: one.id for one in ground.plan.placements}
    for rack, found in by_rack.items():
        shown = "nodes without a rack" if rack is None else f"{came[rack]} in {rack}" if rack in came else f"rack {rack}"
        case = Case("PLAN-POWER", f"place:{rack or 'none'}")
        for draw, live, state in starved.get(rack, {}).values():
            need = draw.node.supplies_needed or 0
            text = f"{shown}: {draw.node.id} has {counted(live, 'supply')} left {state}, and needs {need}".replace("supplys", "supplies")
            case.fault(text, value=live, limit=need, unit="supplies", remedy="choose a place whose circuits share less")
        lacks = [path for draw in found for path in draw.doubts if not path.endswith((".power", ".power_factor"))]
        if lacks:
            case.lack(f"{shown}: nobody knows whether its nodes survive a loss", measurement=f"give {listed(lacks)}")
        unknown = [path for draw in found for path in draw.doubts if path.endswith(".power")]
        if unknown:
            case.lack(f"{shown}: nobody knows what its nodes draw", measurement=f"give {listed(unknown)}")
        yield case.finding(f"{shown}: every node keeps the supplies that it needs after every loss")
