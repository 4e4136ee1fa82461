"""Cooling checks: loops of air and liquid under full load with a unit lost, their flow, dew point, and racks on air alone (M5.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.cooling_math import air_m3ps, liquid_m3ps, pressure_ratio
from bridgehead.assess.fleet import counting, waiting_words
from bridgehead.assess.heat import Heat, HeatFlow
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.cooling import Loop, LoopKind
from bridgehead.model.estate import Site
from bridgehead.model.finding import Finding, FindingStatus, Origin, Severity

AIR_ALONE_W = 25_000.0
"""From here to 30 kW a rack on air alone is doubtful, above it hardly ever works; a weak source (rules section 4)."""


@lru_cache(maxsize=4)
def heats(scope: Scope) -> tuple[HeatFlow, ...]:
    """The heat of each site that is judged, as it stands."""
    return tuple(HeatFlow(site) for site in scope.sites)


def usable_w(loop: Loop, *, margin: float) -> float | None:
    """Heat that a loop may carry with one of its units lost and the margin kept; None while unknown."""
    if loop.unit_capacity_w is None or loop.units is None:
        return None
    return (1 - margin) * (loop.units - 1) * loop.unit_capacity_w


def watts(value: float) -> str:
    """Heat for people."""
    return format_quantity(value, Dimension.POWER, digits=4)


def heat_words(heat: Heat) -> str:
    """Heat for people; what is not in the number at all makes it "at least"."""
    if not heat.hard:
        return watts(heat.high_w)
    return f"at least {watts(heat.high_w)}" if heat.high_w > 0 else "heat that nobody knows"


def _flow(value: float) -> str:
    return format_quantity(value, Dimension.FLOW, digits=4)


def _judge(case: Case, heat: Heat, limit_w: float, text: str, *, remedy: str) -> Finding:
    lacks = heat.lacks(limit_w)
    if heat.low_w <= limit_w and lacks:
        return case.unknown(f"{text}; more must be known to tell", measurement=lacks[0])
    return case.at_most(heat.high_w, limit_w, "W", text, remedy=remedy, measurement=lacks[0] if lacks else "")


def _capacities(scope: Scope) -> Iterator[Finding]:
    for flow in heats(scope):
        for loop in flow.site.loops:
            yield _capacity(scope, flow.site, loop, flow.loops[loop.id])


def _capacity(scope: Scope, site: Site, loop: Loop, heat: Heat) -> Finding:
    place = f"sites.{site.id}.loops.{loop.id}"
    case = Case(CAPACITY, f"{site.id}/loop:{loop.id}", state="one unit lost")
    case.take("heat", heat.high_w, "W", f"sites.{site.id}.nodes", origin=Origin.DERIVED)
    case.take("unit capacity", loop.unit_capacity_w, "W", f"{place}.unit_capacity")
    case.take("units", loop.units, "", f"{place}.units")
    margin = case.take("margin", scope.policy.margin, "1", "policy.margin") or 0.0
    limit = usable_w(loop, margin=margin)
    if limit is None:
        return case.unknown(
            f"{loop.kind} loop {loop.id} has to carry {heat_words(heat)}, and nobody said what it can", measurement=asking.LOOP_CAPACITY
        )
    text = f"{loop.kind} loop {loop.id} has to carry {heat_words(heat)} and may carry {watts(limit)} (one unit lost, margin kept)"
    return _judge(case, heat, limit, text, remedy="add a unit to the loop, or place less on it")


def _spare(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        for loop in site.loops:
            place = f"sites.{site.id}.loops.{loop.id}"
            case = Case(SPARE, f"{site.id}/loop:{loop.id}", state="one unit lost")
            units = case.take("units", loop.units, "", f"{place}.units")
            needed = case.take("needed", loop.units_needed, "", f"{place}.units_needed")
            if units is None or needed is None:
                asked = asking.LOOP_CAPACITY if units is None else asking.LOOP_SPARE
                yield case.unknown(f"nobody knows whether {loop.kind} loop {loop.id} can lose a unit", measurement=asked)
                continue
            text = f"{loop.kind} loop {loop.id} has {units - 1} of {units} units when one is lost, and {needed} must run"
            yield case.at_least(units - 1, needed, "", text, remedy="add a spare pump, CDU or fan wall")


def _homeless(scope: Scope) -> Iterator[Finding]:
    for flow in heats(scope):
        for (rack, kind), heat in sorted(flow.homeless.items()):
            case = Case(HOME, f"{flow.site.id}/rack:{rack}", state=kind.value)
            case.take("heat", heat.high_w, "W", f"sites.{flow.site.id}.nodes", origin=Origin.DERIVED)
            text = f"rack {rack} gives up to {heat_words(heat)} into {kind.value}, and no {kind.value} loop reaches it"
            yield _judge(case, heat, 0.0, text, remedy=f"bring a loop for {kind.value} to the rack, or place its nodes elsewhere")
        for rack in sorted(flow.unreached):
            case = Case(HOME, f"{flow.site.id}/rack:{rack}")
            yield case.unknown(f"nobody said which cooling loops take the heat of rack {rack}", measurement=asking.RACK_LOOPS)
        if flow.rackless:
            text = f"nobody knows in which rack {counting(flow.rackless, 'node')} of {flow.site.id} stand, nor where their heat goes"
            yield Case(HOME, flow.site.id).unknown(text, measurement=asking.RACK_OF_NODE)


def _flows(scope: Scope) -> Iterator[Finding]:
    for flow in heats(scope):
        for loop in flow.site.loops:
            yield _enough_flow(flow.site, loop, flow.loops[loop.id])


def _enough_flow(site: Site, loop: Loop, heat: Heat) -> Finding:
    place = f"sites.{site.id}.loops.{loop.id}"
    case = Case(FLOW, f"{site.id}/loop:{loop.id}")
    case.take("heat", heat.high_w, "W", f"sites.{site.id}.nodes", origin=Origin.DERIVED)
    rise_k = case.take("ΔT", loop.rise_k, "K", f"{place}.rise")
    designed = case.take("flow", loop.flow_m3ps, "m3/s", f"{place}.flow")
    pressure: float | None = None
    if loop.kind is LoopKind.AIR:
        altitude_m = case.take("altitude", site.altitude_m, "m", f"sites.{site.id}.altitude")
        pressure = None if altitude_m is None else pressure_ratio(altitude_m)
        if pressure is None:
            return case.unknown(f"air loop {loop.id}: nobody knows how thin the air of {site.id} is", measurement=asking.ALTITUDE)
        case.take("pressure ratio", pressure, "", "rules section 4", origin=Origin.DERIVED)
    if not rise_k or designed is None:
        return case.unknown(f"nobody knows whether {loop.kind} loop {loop.id} moves enough", measurement=asking.LOOP_FLOW)
    per_w = _needed_m3ps(loop, 1.0, rise_k=rise_k, pressure=pressure)
    need = heat.high_w * per_w
    text = f"{loop.kind} loop {loop.id} needs {_flow(need)} for {heat_words(heat)} and is built for {_flow(designed)}"
    lacks = heat.lacks(designed / per_w)
    if heat.low_w * per_w <= designed and lacks:
        return case.unknown(f"{text}; more must be known to tell", measurement=lacks[0])
    return case.at_most(need, designed, "m3/s", text, remedy="raise the flow, or accept a larger rise of temperature")


def _needed_m3ps(loop: Loop, heat_w: float, *, rise_k: float, pressure: float | None) -> float:
    if pressure is not None:
        return air_m3ps(heat_w, rise_k=rise_k, pressure=pressure)
    return liquid_m3ps(heat_w, rise_k=rise_k, density_kg_per_m3=loop.density_kg_per_m3, heat_j_per_kg_k=loop.heat_j_per_kg_k)


def _dew_points(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        for loop in (loop for loop in site.loops if loop.kind is LoopKind.LIQUID):
            place = f"sites.{site.id}.loops.{loop.id}"
            case = Case(DEW, f"{site.id}/loop:{loop.id}")
            supply = case.take("supply", _celsius(loop.supply_k), "°C", f"{place}.supply")
            dew = case.take("dew point", _celsius(loop.dew_point_k), "°C", f"{place}.dew_point")
            if supply is None or dew is None:
                yield case.unknown(f"nobody knows whether water condenses on liquid loop {loop.id}", measurement=asking.DEW_POINT)
                continue
            shown = f"{supply:.1f} °C and the hall's dew point {dew:.1f} °C"
            remedy = "raise the supply temperature above the dew point, or dry the air"
            yield case.holds(
                supply > dew, f"the supply of liquid loop {loop.id} is {shown}", remedy=remedy, value=supply, limit=dew, unit="°C"
            )


def _celsius(value_k: float | None) -> float | None:
    """As a thermometer shows it: findings keep kelvin for differences. Rounded, so that 22 °C comes back as 22."""
    return None if value_k is None else round(value_k - 273.15, 6)


def _air_racks(scope: Scope) -> Iterator[Finding]:
    for flow in heats(scope):
        for rack in flow.site.racks:
            heat = flow.air[rack.id]
            case = Case(AIR, f"{flow.site.id}/rack:{rack.id}")
            case.take("heat into air", heat.high_w, "W", f"sites.{flow.site.id}.nodes", origin=Origin.DERIVED)
            case.take("limit", AIR_ALONE_W, "W", "rules section 4", origin=Origin.DEFAULT)
            text = (
                f"rack {rack.id} gives {heat_words(heat)} into the air; above 25 to 30 kW air alone seldom cools a rack (a rule of thumb)"
            )
            yield _judge(
                case,
                heat,
                AIR_ALONE_W,
                text,
                remedy="spread its nodes over more racks, cool them with liquid, or have the site prove that its air carries this much",
            )


def _inputs(scope: Scope) -> Iterator[Finding]:
    """All that the unknown findings on loops wait for, since each of them names one thing only."""
    for flow in heats(scope):
        waiting: Counter[str] = Counter()
        for loop in flow.site.loops:
            heat = flow.loops[loop.id]
            for finding in (_capacity(scope, flow.site, loop, heat), _enough_flow(flow.site, loop, heat)):
                if finding.status is FindingStatus.UNKNOWN:
                    waiting.update({finding.measurement, *heat.hard, *heat.soft})
        for what, count in sorted(waiting.items()):
            yield Case(INPUTS, flow.site.id, state=what).unknown(waiting_words(count, flow.site.id), measurement=what)


CAPACITY = Check(
    "COOL-CAPACITY",
    "Does every cooling loop carry its heat with the margin, after one of its units is lost?",
    ("M5.3",),
    "heat = electrical power · share of air or liquid; heat <= (1 - margin)·(units - 1)·unit capacity (rules section 4)",
    _capacities,
)
SPARE = Check(
    "COOL-SPARE",
    "Can every cooling loop lose a pump, CDU or fan wall?",
    ("M5.3", "M10.3"),
    "units - 1 >= units that must run (rules sections 2 and 4)",
    _spare,
)
HOME = Check(
    "COOL-REACH",
    "Does a loop of the right kind reach every rack that gives heat into it?",
    ("M5.3", "M12"),
    "liquid share + air share = the whole load; each part needs a loop (rules section 4)",
    _homeless,
)
FLOW = Check(
    "COOL-FLOW",
    "Does every cooling loop move enough air or coolant?",
    ("M5.3",),
    "air: CFM = 3,412·kW / (1.085·ΔT_F) / pressure ratio at altitude; liquid: P / (density·cp·ΔT) (rules section 4)",
    _flows,
)
DEW = Check(
    "COOL-DEW", "Is the supply of every liquid loop above the dew point?", ("M12",), "T_supply > T_dew (rules section 4)", _dew_points
)
AIR = Check(
    "COOL-AIR-RACK",
    "Does no rack give more heat into air than air alone can carry?",
    ("M5.3",),
    "heat into air of a rack <= 25 kW (rules section 4, weak source)",
    _air_racks,
    Severity.WARNING,
)
INPUTS = Check(
    "COOL-INPUTS",
    "Is everything known that the verdict on cooling needs?",
    ("M5.1", "M5.3"),
    "what the unknown findings on loops wait for (rules section 4)",
    _inputs,
)
CHECKS: tuple[Check, ...] = (CAPACITY, SPARE, HOME, FLOW, DEW, AIR, INPUTS)
