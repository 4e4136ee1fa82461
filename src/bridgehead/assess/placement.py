"""Placement checks: whether the target holds and feeds what is carried there, circuit by circuit (M5.3; rules sections 2 and 3, RD6).

PASS needs a proposal that every check of power, cooling and space accepts; FAIL needs a bound below the need, or a search that left nothing
out; between them it is UNKNOWN.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from bridgehead.assess import asking, cooling, phases, power, space
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.cooling import usable_w
from bridgehead.assess.fleet import few
from bridgehead.assess.heat import HeatFlow
from bridgehead.assess.loads import load_of
from bridgehead.assess.placement_bound import UNLIMITED, Bound, Halls, Kind, smallest_first
from bridgehead.assess.placement_room import Room
from bridgehead.assess.placement_search import EveryWay, Exhausted, Greedy
from bridgehead.assess.power_flow import Flow
from bridgehead.assess.scope import Scope
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
        impossible: whether every way was tried, with all known, and none is accepted.
    """

    placed: tuple[Node, ...]
    lacks: tuple[str, ...] = ()
    refused: str = ""
    impossible: bool = False

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
    flow, heat = Flow(scope.target), HeatFlow(scope.target)
    room = Room(flow, heat, margin=scope.policy.margin)
    placed = Greedy(room.copy()).place(nodes)
    found = Outcome((), tuple(sorted(_site_lacks(scope)))) if placed is None else _judged(scope, placed)
    if found.proved or found.lacks or _site_lacks(scope) or not _certain(nodes, flow, heat):
        return found
    return _every_way(scope, room, nodes) or found


def _every_way(scope: Scope, room: Room, nodes: list[Node]) -> Outcome | None:
    """The answer of a search that leaves nothing out; None when there is too much to try, or the checks cannot tell."""

    def accepts(proposal: Sequence[Node]) -> bool | None:
        judged = _judged(scope, proposal)
        return None if judged.lacks else judged.proved

    try:
        placed = EveryWay(room, accepts).place(nodes)
    except Exhausted:
        return None
    return Outcome((), impossible=True) if placed is None else Outcome(tuple(placed))


def _judged(scope: Scope, placed: Sequence[Node]) -> Outcome:
    """What the checks say of the target with these nodes."""
    site = msgspec.structs.replace(scope.target, nodes=(*scope.target.nodes, *placed))
    then = Scope(scope.estate, scope.policy, source=None, target=site)
    found = [finding for check in _ACCEPTS for finding in check.run(then)]
    unknown = {finding.measurement for finding in found if finding.status is FindingStatus.UNKNOWN}
    if unknown:
        # Each finding names one thing only; these two collect all of them.
        unknown |= {finding.measurement for check in (power.INPUTS, cooling.INPUTS) for finding in check.run(then)}
    failed = min((finding for finding in found if finding.status is FindingStatus.FAIL), key=_severity, default=None)
    return Outcome(tuple(placed), tuple(sorted(unknown)), failed.text if failed else "")


def _certain(nodes: Iterable[Node], flow: Flow, heat: HeatFlow) -> bool:
    """Whether all numbers that a search counts with are certain, and not the most that they can be."""
    meters = (*flow.circuits.values(), *flow.sources.values())
    return (
        not any(load_of(node).loose for node in nodes)
        and not any(meter.hard or meter.soft or meter.loose for meter in meters)
        and not any(one.hard or one.soft for one in heat.loops.values())
    )


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
        shared = sum(other == model for other, *_ in groups) > 1
        name = (f"{model} of {units or 'unknown'} U" if shared else model) or f"nodes like {nodes[0].id}"
        found.append(
            (Kind(name, tuple(loads), supplies or None, needed or None, units, min(node.weight_kg or 0.0 for node in nodes)), nodes)
        )
    return found


def _hardware(scope: Scope) -> Iterator[Finding]:
    if not scope.incoming:
        return
    halls = Halls(Flow(scope.target), margin=scope.policy.margin)
    kinds = _kinds(scope)
    failed = False
    for kind, nodes in kinds:
        bound = min(halls.bound(kind), _by_heat(scope, nodes), key=lambda bound: bound.nodes)
        if bound.nodes < len(nodes):
            failed = True
            yield _too_many(scope, nodes[0].id, f"{len(nodes)} x {kind.name}", len(nodes), bound)
    if failed:
        return
    everything = [node for _, nodes in kinds for node in nodes]
    bound = min(halls.together([kind for kind, _ in kinds]), _by_heat(scope, everything), key=lambda bound: bound.nodes)
    if bound.nodes < len(everything):
        what = f"all {len(everything)} nodes together ({', '.join(f'{len(nodes)} x {kind.name}' for kind, nodes in kinds)})"
        yield _too_many(scope, "all", what, len(everything), bound)
        return
    for kind, nodes in kinds:
        yield _placed(scope, kind, nodes)


_MORE: Final = "have larger or more circuits, racks or cooling installed before anything moves, or move less"


def _case(scope: Scope, name: str, need: int) -> Case:
    case = Case(HARDWARE, f"{scope.target.id}/incoming:{name}")
    case.take("need", need, "", f"sites.{'' if scope.source is None else scope.source.id}.nodes", origin=Origin.DERIVED)
    case.take("margin", scope.policy.margin, "1", "policy.margin")
    return case


def _too_many(scope: Scope, name: str, what: str, need: int, bound: Bound) -> Finding:
    case = _case(scope, name, need)
    case.take("at most", bound.nodes, "", f"sites.{scope.target.id}.racks", origin=Origin.DERIVED)
    text = f"of {what} at most {bound.nodes} find a place at {scope.target.id}: {bound.because}"
    return case.at_least(bound.nodes, need, "", text, remedy=_MORE)


def _placed(scope: Scope, kind: Kind, nodes: list[Node]) -> Finding:
    site, case = scope.target.id, _case(scope, nodes[0].id, len(nodes))
    what = f"{len(nodes)} x {kind.name}"
    result = outcome(scope)
    if result.proved:
        racks = few(str(node.rack) for node in result.placed if node.model == nodes[0].model)
        return case.holds(True, f"{what} find a place at {site} (racks {racks}), and survive every single loss", remedy="")
    if result.impossible:
        text = (
            f"{what} find no place at {site} beside all else that comes: every way to place all {len(scope.incoming)} nodes was tried, and "
            "none survives every single loss"
        )
        return case.holds(False, text, remedy=_MORE)
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
        needs = [load_of(node).low_w * _part(node, kind) for node in nodes]
        shown = format_quantity(left_w, Dimension.POWER, digits=4)
        bounds.append(smallest_first(needs, left_w, f"the {kind.value} loops take {shown} more, with one unit of each lost, margin kept"))
    return min(bounds, key=lambda bound: bound.nodes)


def _part(node: Node, kind: LoopKind) -> float:
    if node.liquid_share is None:
        return 0.0
    return node.liquid_share if kind is LoopKind.LIQUID else 1 - node.liquid_share


def _inputs(scope: Scope) -> Iterator[Finding]:
    if scope.incoming:
        for what in outcome(scope).lacks:
            yield Case(INPUTS, scope.target.id, state=what).unknown(
                f"whether all that comes finds a place at {scope.target.id} waits for one thing to be found out", measurement=what
            )


HARDWARE = Check(
    "PLACE-HARDWARE",
    "Does the target hold and feed what is carried there, with the margin, after every single loss?",
    ("M5.3", "M10.3"),
    "a proposal that all checks of power, cooling and space accept; else the least of the bounds by circuits, pairs that share them, what "
    "survives each loss, elements of the tree, rack units, weight and heat, of each kind of node and of all together; or every way tried "
    "(rules sections 2 and 3)",
    _hardware,
)
INPUTS = Check(
    "PLACE-INPUTS",
    "Is everything known that placing needs?",
    ("M5.1", "M5.3"),
    "what the search for places waits for (M5.3)",
    _inputs,
)
CHECKS: tuple[Check, ...] = (HARDWARE, INPUTS)
