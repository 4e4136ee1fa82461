"""Space checks: rack units, positions, and the weight on racks and floor (M5.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import counting
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, Severity


def standing(site: Site) -> tuple[dict[RackId, list[Node]], bool]:
    """The nodes of each rack, sorted by id, and whether some stand nobody knows where."""
    racks: set[RackId] = {rack.id for rack in site.racks}
    found: defaultdict[RackId, list[Node]] = defaultdict(list)
    lost = False
    for node in sorted(site.nodes, key=lambda node: node.id):
        if node.rack in racks:
            found[node.rack].append(node)
        else:
            lost = True
    return found, lost


def _each(scope: Scope) -> Iterator[tuple[Site, Rack, list[Node], bool]]:
    for site in scope.sites:
        found, lost = standing(site)
        for rack in site.racks:
            yield site, rack, found.get(rack.id, []), lost


def _known(values: Iterable[float | None]) -> tuple[float, bool]:
    """The sum of what is known, and whether that is all."""
    listed = list(values)
    return sum(value for value in listed if value is not None), None not in listed


def _units(scope: Scope) -> Iterator[Finding]:
    for site, rack, nodes, lost in _each(scope):
        case = Case(UNITS, f"{site.id}/rack:{rack.id}")
        taken, complete = _known([node.units for node in nodes])
        taken += rack.used_units
        case.take("taken", taken, "U", f"sites.{site.id}.nodes")
        height = case.take("height", rack.units, "U", f"sites.{site.id}.racks.{rack.id}.units")
        if height is None:
            yield case.unknown(f"nobody said how high rack {rack.id} is", measurement=asking.UNITS)
            continue
        text = f"rack {rack.id} holds {taken:.0f} of {height} rack units"
        if taken <= height and (lost or not complete):
            asked = asking.RACK_OF_NODE if complete else asking.UNITS
            yield case.unknown(f"{text}, as far as is known", measurement=asked)
            continue
        yield case.at_most(taken, height, "U", text, remedy="place less in this rack")


def _weights(scope: Scope) -> Iterator[Finding]:
    for site, rack, nodes, lost in _each(scope):
        case = Case(WEIGHT, f"{site.id}/rack:{rack.id}")
        limit = case.take("limit", rack.max_weight_kg, "kg", f"sites.{site.id}.racks.{rack.id}.max_weight")
        weight, complete = _weighed(case, site, rack, nodes)
        if limit is None:
            yield case.unknown(f"nobody said what weight rack {rack.id} carries", measurement=asking.WEIGHT)
            continue
        text = f"rack {rack.id} weighs {_kg(weight)} and may weigh {_kg(limit)}"
        if weight <= limit and (lost or not complete):
            yield case.unknown(f"{text}, as far as is known", measurement=asking.RACK_OF_NODE if complete else asking.WEIGHT)
            continue
        yield case.at_most(weight, limit, "kg", text, remedy="place less in this rack")


def _weighed(case: Case, site: Site, rack: Rack, nodes: list[Node]) -> tuple[float, bool]:
    empty = case.take("empty rack", rack.weight_kg, "kg", f"sites.{site.id}.racks.{rack.id}.weight")
    for node in nodes:
        case.take(f"weight {node.id}", node.weight_kg, "kg", f"sites.{site.id}.nodes.{node.id}.weight")
    return _known([empty, *(node.weight_kg for node in nodes)])


def _floors(scope: Scope) -> Iterator[Finding]:
    for site, rack, nodes, lost in _each(scope):
        case = Case(FLOOR, f"{site.id}/rack:{rack.id}")
        carries = case.take("floor", site.floor_kg_per_m2, "kg/m2", f"sites.{site.id}.floor_kg_per_m2")
        area = case.take("area", rack.footprint_m2, "m2", f"sites.{site.id}.racks.{rack.id}.footprint_m2")
        weight, complete = _weighed(case, site, rack, nodes)
        if carries is None or area is None:
            yield case.unknown(
                f"nobody knows whether the floor carries rack {rack.id}{f' (at least {_kg(weight)})' if weight else ''}",
                measurement=asking.FLOOR,
            )
            continue
        load = weight / area
        text = f"rack {rack.id} loads the floor with {load:,.0f} kg/m2, and it carries {carries:,.0f} kg/m2"
        if load <= carries and (lost or not complete):
            yield case.unknown(f"{text}, as far as is known", measurement=asking.RACK_OF_NODE if complete else asking.WEIGHT)
            continue
        yield case.at_most(load, carries, "kg/m2", text, remedy="spread the weight with a plinth, or place less in this rack")


def _positions(scope: Scope) -> Iterator[Finding]:
    for site, rack, nodes, lost in _each(scope):
        case = Case(POSITION, f"{site.id}/rack:{rack.id}")
        wrong = _misplaced(rack, nodes)
        if wrong:
            remedy = "look where they really sit, and correct 'position' and 'units'"
            yield case.holds(False, f"in rack {rack.id} {wrong[0]}", remedy=remedy, value=len(wrong))
        elif nodes and (lost or rack.units is None or any(node.position is None or node.units is None for node in nodes)):
            yield case.unknown(f"nobody noted where all nodes of rack {rack.id} sit", measurement=asking.POSITION)
        elif nodes:
            yield case.holds(True, f"{counting(len(nodes), 'node')} of rack {rack.id} sit in places of their own", remedy="")


def _misplaced(rack: Rack, nodes: list[Node]) -> list[str]:
    """What cannot be: two nodes in one place, or a node above the top."""
    found = []
    placed = sorted((node.position, node.id, node.units or 1) for node in nodes if node.position is not None)
    top, below = 0, ""
    for position, name, units in placed:
        if position <= top:
            found.append(f"{below} and {name} sit in the same rack unit {position}")
        if position + units - 1 > top:
            top, below = position + units - 1, name
        if rack.units is not None and position + units - 1 > rack.units:
            found.append(f"{name} reaches up to unit {position + units - 1} of {rack.units}")
    return found


def _kg(value: float) -> str:
    return format_quantity(value, Dimension.MASS, digits=5)


UNITS = Check(
    "SPACE-UNITS", "Does every rack hold what stands in it?", ("M5.3",), "Σ units of nodes + used units <= height (rules section 4)", _units
)
WEIGHT = Check(
    "SPACE-WEIGHT", "Does every rack carry its weight?", ("M5.3",), "empty rack + Σ nodes <= limit of the rack (rules section 4)", _weights
)
FLOOR = Check(
    "SPACE-FLOOR",
    "Does the floor carry every rack?",
    ("M5.3",),
    "(empty rack + Σ nodes) / area <= floor (rules section 4: usable is the least of all)",
    _floors,
)
POSITION = Check(
    "SPACE-POSITION",
    "Do all nodes sit in places of their own?",
    ("M5.1",),
    "position + units - 1 <= height, and no two nodes in one rack unit (M5.1)",
    _positions,
    Severity.WARNING,
)
CHECKS: tuple[Check, ...] = (UNITS, WEIGHT, FLOOR, POSITION)
