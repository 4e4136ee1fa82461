"""Placement checks: whether the target holds and feeds what is carried there, circuit by circuit (M5.3; rules sections 2 and 3, RD6).

PASS needs a proposal that every check of power, cooling and space accepts; FAIL needs a bound below the need; between them it is UNKNOWN.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from bridgehead.assess import asking, cooling, phases, power, space
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.cooling import usable_w
from bridgehead.assess.heat import HeatFlow
from bridgehead.assess.loads import load_of
from bridgehead.assess.placement_bound import UNLIMITED, Bound, Halls, Kind
from bridgehead.assess.placement_search import Placing
from bridgehead.assess.power_flow import Flow
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.cooling import LoopKind
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Site
from bridgehead.model.finding import Finding, FindingStatus, Origin
from bridgehead.model.power import Wiring

_ACCEPTS: tuple[Check, ...] = (
    power.CIRCUIT,
    power.SOURCE,
    power.ACTIVE,
    power.REDUNDANT,
    phases.LINES,
    cooling.CAPACITY,
    cooling.HOME,
    cooling.FLOW,
    space.UNITS,
    space.WEIGHT,
    space.FLOOR,
)
"""What has to accept a proposal."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of the search.

    Attributes:
        placed: the nodes with rack and circuits; empty when no place was found or the search could not begin.
        lacks: what must be known first, sorted.
        refused: the text of what a check said against the proposal; empty when all accepted it.
    """

    placed: tuple[Node, ...]
    lacks: tuple[str, ...] = ()
    refused: str = ""

    @property
    def proved(self) -> bool:
        """Whether the nodes fit."""
        return bool(self.placed) and not self.lacks and not self.refused


@lru_cache(maxsize=2)
def outcome(scope: Scope) -> Outcome:
    """Place what comes at the target, and let the checks judge the site as it would stand then."""
    nodes = _renamed(scope.incoming, scope.target)
    lacks = _lacks_of(nodes)
    if lacks:
        return Outcome((), tuple(sorted(lacks | _site_lacks(scope))))
    placing = Placing(Flow(scope.target), HeatFlow(scope.target), margin=scope.policy.margin)
    placed = placing.place(nodes)
    if placed is None:
        return Outcome((), tuple(sorted(_site_lacks(scope))))
    site = msgspec.structs.replace(scope.target, nodes=(*scope.target.nodes, *placed))
    then = Scope(scope.estate, scope.policy, source=None, target=site)
    found = [finding for check in _ACCEPTS for finding in check.run(then)]
    unknown = {finding.measurement for finding in found if finding.status is FindingStatus.UNKNOWN}
    if unknown:
        # Each finding names one thing only; these two collect all of them.
        unknown |= {finding.measurement for check in (power.INPUTS, cooling.INPUTS) for finding in check.run(then)}
    failed = min((finding for finding in found if finding.status is FindingStatus.FAIL), key=_severity, default=None)
    return Outcome(tuple(placed), tuple(sorted(unknown)), failed.text if failed else "")


def _severity(finding: Finding) -> tuple[float, str, str]:
    return (finding.margin if finding.margin is not None else 0.0, finding.code, finding.subject)


def _renamed(nodes: Iterable[Node], target: Site) -> list[Node]:
    """Incoming nodes without rack and circuits; one whose name is taken at the target gets another."""
    taken = {node.id for node in target.nodes}
    found = []
    for node in nodes:
        name = node.id
        while name in taken:
            name = NodeId(f"{name}.moved")
        taken.add(name)
        found.append(msgspec.structs.replace(node, id=name, rack=None, position=None, circuits=()))
    return found


def _lacks_of(nodes: Iterable[Node]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        found |= {asking.LOAD} if load_of(node).high_w is None else set()
        found |= {asking.POWER_FACTOR} if node.power_factor is None else set()
        found |= {asking.SUPPLIES} if node.supplies is None or node.supplies_needed is None else set()
        found |= {asking.LIQUID_SHARE} if node.liquid_share is None else set()
        found |= {asking.UNITS} if node.units is None else set()
        found |= {asking.WEIGHT} if node.weight_kg is None else set()
    return found


def _site_lacks(scope: Scope) -> set[str]:
    """What is not known of the target, and would let nodes find a place or forbid it."""
    site, found = scope.target, set()
    for circuit in site.circuits:
        found |= {asking.CONTINUOUS} if circuit.continuous is None else set()
        found |= {asking.OTHER_LOAD} if circuit.other_load_w is None else set()
        found |= set() if circuit.feed else {asking.FEED}
        found |= {asking.TREE} if circuit.fed_by is None else set()
    for source in site.sources:
        found |= {asking.SOURCE_RATING} if source.limit_va is None else set()
        found |= {asking.CONTINUOUS} if source.continuous is None else set()
    for rack in site.racks:
        found |= {asking.UNITS} if rack.units is None else set()
        found |= {asking.WEIGHT} if rack.max_weight_kg is None or rack.weight_kg is None else set()
        found |= {asking.FLOOR} if rack.footprint_m2 is None or site.floor_kg_per_m2 is None else set()
        found |= set() if rack.loops else {asking.RACK_LOOPS}
        found |= set() if rack.circuits else {asking.RACK_CIRCUITS}
    for loop in site.loops:
        found |= {asking.LOOP_CAPACITY} if loop.unit_capacity_w is None or loop.units is None else set()
        found |= {asking.LOOP_OTHER_HEAT} if loop.other_load_w is None else set()
    return found | (set() if site.racks else {asking.RACKS})


def _kinds(scope: Scope) -> list[tuple[Kind, list[Node]]]:
    """Incoming nodes by what matters for placing; within a kind the one that needs least stands for all."""
    groups: defaultdict[tuple[str, int, int, int], list[Node]] = defaultdict(list)
    for node in scope.incoming:
        groups[node.model or node.gpu_model, node.supplies or 0, node.supplies_needed or 0, node.units or 0].append(node)
    dc = any(circuit.wiring is Wiring.DC for circuit in scope.target.circuits)
    found = []
    for (model, supplies, needed, units), nodes in sorted(groups.items()):
        nodes.sort(key=lambda node: node.id)
        loads = sorted((load.low_w if dc else load.low_w / load.power_factor) for load in map(load_of, nodes))
        name = model or f"nodes like {nodes[0].id}"
        found.append(
            (Kind(name, tuple(loads), supplies or None, needed or None, units, min(node.weight_kg or 0.0 for node in nodes)), nodes)
        )
    return found


def _hardware(scope: Scope) -> Iterator[Finding]:
    if not scope.incoming:
        return
    flow = Flow(scope.target)
    halls = Halls(flow, margin=scope.policy.margin)
    for kind, nodes in _kinds(scope):
        bound = min(halls.bound(kind), _by_heat(scope, nodes), key=lambda bound: bound.nodes)
        yield _placed(scope, kind, nodes, bound)


def _placed(scope: Scope, kind: Kind, nodes: list[Node], bound: Bound) -> Finding:
    site, source = scope.target.id, SiteId("") if scope.source is None else scope.source.id
    case = Case(HARDWARE, f"{site}/incoming:{nodes[0].id}")
    case.take("need", len(nodes), "", f"sites.{source}.nodes", origin=Origin.DERIVED)
    case.take("margin", scope.policy.margin, "1", "policy.margin")
    case.take("at most", min(bound.nodes, UNLIMITED), "", f"sites.{site}.racks", origin=Origin.DERIVED)
    what = f"{len(nodes)} {kind.name}"
    if bound.nodes < len(nodes):
        return case.at_least(
            bound.nodes,
            len(nodes),
            "",
            f"of {what} at most {bound.nodes} find a place at {site}: {bound.because}",
            remedy="have larger or more circuits, racks or cooling installed before anything moves, or move less",
        )
    result = outcome(scope)
    if result.proved:
        racks = sorted({node.rack for node in result.placed if node.rack is not None})
        shown = ", ".join(racks[:5]) + (f" and {len(racks) - 5} more" if len(racks) > 5 else "")
        return case.holds(True, f"{what} find a place at {site} (racks {shown}), and survive every single loss", remedy="")
    if result.lacks:
        return case.unknown(f"nobody can tell whether {what} find a place at {site}", measurement=result.lacks[0])
    against = f": {result.refused}" if result.refused else ""
    return case.unknown(
        f"no place was found for {what} at {site}, but it is not proved that there is none{against}", measurement=asking.PLACING
    )


def _by_heat(scope: Scope, nodes: list[Node]) -> Bound:
    """A bound by the heat that all loops of a kind can take together."""
    heat, margin, bounds = HeatFlow(scope.target), scope.policy.margin, [Bound(UNLIMITED, "")]
    for kind in LoopKind:
        loops = [loop for loop in scope.target.loops if loop.kind is kind]
        usable = [usable_w(loop, margin=margin) for loop in loops]
        if not loops or None in usable or not all(rack.loops for rack in scope.target.racks):
            continue
        left_w = sum(max(0.0, (one or 0.0) - heat.loops[loop.id].low_w) for one, loop in zip(usable, loops, strict=True))
        needs = sorted(load_of(node).low_w * _part(node, kind) for node in nodes)
        fit, total = 0, 0.0
        for need in needs:
            total += need
            fit += total <= left_w * (1 + 1e-9)
        if fit < len(nodes):
            shown = format_quantity(left_w, Dimension.POWER, digits=4)
            bounds.append(Bound(fit, f"the {kind.value} loops take {shown} more, with one unit of each lost and the margin kept"))
    return min(bounds, key=lambda bound: bound.nodes)


def _part(node: Node, kind: LoopKind) -> float:
    if node.liquid_share is None:
        return 0.0
    return node.liquid_share if kind is LoopKind.LIQUID else 1 - node.liquid_share


def _inputs(scope: Scope) -> Iterator[Finding]:
    if scope.incoming:
        for what in outcome(scope).lacks:
            yield Case(INPUTS, scope.target.id, state=what).unknown(
                f"placing what comes at {scope.target.id} waits for this: {what}", measurement=what
            )


HARDWARE = Check(
    "PLACE-HARDWARE",
    "Does the target hold and feed what is carried there, with the margin, after every single loss?",
    ("M5.3", "M10.3"),
    "a proposal that all checks of power, cooling and space accept; else the least of the bounds by circuits, pairs that share them, what "
    "survives each loss, elements of the tree, rack units, weight and heat (rules sections 2 and 3)",
    _hardware,
)
INPUTS = Check(
    "PLACE-INPUTS",
    "Is everything known that placing needs?",
    ("M5.1", "M5.3"),
    "what the search for places waits for",
    _inputs,
)
CHECKS: tuple[Check, ...] = (HARDWARE, INPUTS)
