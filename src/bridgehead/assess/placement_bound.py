"""Placement bound: how many nodes of one kind a site can feed and hold at the very most, and what stops more (M5.3; RD6). Pure.

Every bound is a relaxation: what is not known counts as unlimited, so that fewer nodes than the bound may fit but never more. A site that
offers enough kilowatts in all may still feed hardly any node, because power comes in circuits (the trap of M5.3).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.assess.power_flow import Flow
from bridgehead.assess.power_math import headroom
from bridgehead.assess.power_tree import kind_words
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId, Wiring

UNLIMITED = 10**9
_SLACK = 1 + 1e-9


class Kind(msgspec.Struct, frozen=True):
    """Nodes that are alike for placing.

    Attributes:
        name: of the kind, for people.
        loads_va: what each draws at least, ascending; in W where the target has dc, since that is less.
        supplies, needed: of each; None while unknown.
        units: height; 0 while unknown.
        weight_kg: of the lightest; 0 while unknown.
    """

    name: str
    loads_va: tuple[float, ...]
    supplies: int | None
    needed: int | None
    units: int
    weight_kg: float


class Bound(msgspec.Struct, frozen=True):
    """At most so many nodes, and what stops more, as a clause."""

    nodes: int
    because: str


def circuit_limit(circuit: Circuit, flow: Flow, *, margin: float) -> float:
    """VA that a circuit may carry with the margin, by the site's reading; taken as fully continuous while nobody said."""
    lasting = 1.0 if circuit.continuous is None else circuit.continuous
    return headroom(circuit.rating_va, continuous=lasting, margin=margin).chosen(flow.site.headroom)


class Halls:
    """What a target offers to nodes that come, with what stands there already taken off.

    Attributes:
        caps: VA that each circuit may still carry at most.
    """

    def __init__(self, flow: Flow, *, margin: float) -> None:
        self._flow = flow
        self._margin = margin
        self.caps = {
            one.id: max(0.0, circuit_limit(one, flow, margin=margin) - flow.circuits[one.id].low[0 if one.wiring is Wiring.DC else 1])
            for one in flow.site.circuits
        }
        self._standing: defaultdict[RackId, list[Node]] = defaultdict(list)
        for node in flow.nodes:
            if node.rack is not None:
                self._standing[node.rack].append(node)

    def bound(self, kind: Kind) -> Bound:
        """The least of all bounds. Groups of racks that share no circuit are bounded apart and added up."""
        if kind.supplies is not None and kind.supplies - 1 < (kind.needed or 1):
            return Bound(0, f"each needs {kind.needed or 1} of its {kind.supplies} supplies, so that it cannot lose one")
        parts = [self._part(kind, racks, circuits) for racks, circuits in self._groups()]
        total = Bound(min(UNLIMITED, sum(part.nodes for part in parts)), _tightest(parts))
        return min([total, *self._sources(kind)], key=lambda bound: bound.nodes)

    def together(self, kinds: Sequence[Kind]) -> Bound:
        """A bound for nodes of all kinds at once: by power as for one kind, and by what all racks together hold, carry and feed."""
        loads = tuple(sorted(load for kind in kinds for load in kind.loads_va))
        racks = self._flow.site.racks
        bounds = []
        if all(rack.circuits for rack in racks):
            left = sum(self._worst_left(circuits) for _, circuits in self._groups())
            why = f"after the worst loss at each rack all circuits may carry {_va(left)} more together"
            bounds.append(smallest_first(loads, left, why))
        units = [self._free_units(rack) for rack in racks]
        if None not in units:
            total = sum(filter(None, units))
            heights = [kind.units for kind in kinds for _ in kind.loads_va]
            bounds.append(smallest_first(heights, total, f"all racks together have {total} rack units left"))
        weights = [self._free_kg(rack) for rack in racks]
        if None not in weights:
            kg = sum(filter(None, weights))
            heavy = [kind.weight_kg for kind in kinds for _ in kind.loads_va]
            bounds.append(smallest_first(heavy, kg, f"all racks together carry {kg:,.0f} kg more"))
        bounds.append(self.bound(Kind("all", loads, None, None, 0, 0.0)))
        return min(bounds, key=lambda bound: bound.nodes)

    def _worst_left(self, circuits: Sequence[CircuitId]) -> float:
        """VA that a group of circuits may still carry whatever single thing is lost; a node never hangs on two groups."""
        lost: defaultdict[str, float] = defaultdict(float)
        for name in circuits:
            for state in self._flow.losses[name]:
                lost[state] += self.caps[name]
        return sum(self.caps[name] for name in circuits) - max(lost.values(), default=0.0)

    def _groups(self) -> list[tuple[list[Rack], list[CircuitId]]]:
        """Racks that share circuits, directly or through others; sorted by id."""
        leader: dict[str, str] = {}

        def find(name: str) -> str:
            while leader.setdefault(name, name) != name:
                leader[name] = name = leader[leader[name]]
            return name

        racks = sorted(self._flow.site.racks, key=lambda rack: rack.id)
        for rack in racks:
            for circuit in rack.circuits:
                leader[find(f"circuit {circuit}")] = find(f"rack {rack.id}")
        groups: defaultdict[str, list[Rack]] = defaultdict(list)
        for rack in racks:
            groups[find(f"rack {rack.id}")].append(rack)
        return [(found, sorted({name for rack in found for name in rack.circuits if name in self.caps})) for found in groups.values()]

    def _part(self, kind: Kind, racks: list[Rack], circuits: list[CircuitId]) -> Bound:
        bounds = [self._space(kind, racks)]
        if all(rack.circuits for rack in racks):
            bounds += self._power(kind, circuits)
        return min(bounds, key=lambda bound: bound.nodes)

    def _space(self, kind: Kind, racks: Sequence[Rack]) -> Bound:
        room = [min(self._by_units(kind, rack), self._by_weight(kind, rack)) for rack in racks]
        fullest = min(zip(room, racks, strict=True), key=lambda pair: pair[0])[1]
        return Bound(min(UNLIMITED, sum(room)), f"rack {fullest.id} has no more room or carries no more weight")

    def _by_units(self, kind: Kind, rack: Rack) -> int:
        free = self._free_units(rack)
        return UNLIMITED if free is None or not kind.units else free // kind.units

    def _by_weight(self, kind: Kind, rack: Rack) -> int:
        free = self._free_kg(rack)
        return UNLIMITED if free is None or not kind.weight_kg else math.floor(free / kind.weight_kg * _SLACK)

    def _free_units(self, rack: Rack) -> int | None:
        if rack.units is None:
            return None
        return max(0, rack.units - rack.used_units - sum(node.units or 0 for node in self._standing[rack.id]))

    def _free_kg(self, rack: Rack) -> float | None:
        floor = self._flow.site.floor_kg_per_m2
        limits = [rack.max_weight_kg, None if floor is None or rack.footprint_m2 is None else floor * rack.footprint_m2]
        known = [limit for limit in limits if limit is not None]
        if not known:
            return None
        return max(0.0, min(known) - (rack.weight_kg or 0.0) - sum(node.weight_kg or 0.0 for node in self._standing[rack.id]))

    def _power(self, kind: Kind, circuits: Sequence[CircuitId]) -> Iterable[Bound]:
        """Bounds by supplies on circuits, by pairs that share them, and by what survives each loss."""
        if not circuits:
            return
        least = min(circuits, key=lambda name: (self.caps[name], name))
        shown = f"circuit {least} may carry {_va(self.caps[least])} more"
        yield from self._survivors(kind, circuits, shown)
        load = kind.loads_va[0]
        if kind.supplies is None or load <= 0:
            return
        normal, stressed = load / kind.supplies, load / (kind.supplies - 1)
        places = {name: _supplies(self.caps[name], normal, stressed) for name in circuits}
        total = sum(places.values())
        yield Bound(
            total // kind.supplies,
            f"{shown}, enough for {places[least]} of the {kind.supplies} supplies that each has ({_va(stressed)} each)",
        )
        largest = max(self.caps[name] for name in circuits)
        if 2 * stressed > largest * _SLACK:
            seconds = sum(count - 1 for count in places.values() if count > 1)
            why = f"two of them cannot share two circuits: when one of these is lost, the other would get {_va(2 * stressed)}"
            yield Bound(_paired(sum(1 for count in places.values() if count), seconds, kind.supplies), f"{shown}, and {why}")

    def _survivors(self, kind: Kind, circuits: Sequence[CircuitId], shown: str) -> Iterable[Bound]:
        groups: defaultdict[str, list[CircuitId]] = defaultdict(list)
        for name in circuits:
            for state in self._flow.losses[name]:
                groups[state].append(name)
        all_va = sum(self.caps[name] for name in circuits)
        for state, dead in sorted(groups.items()):
            left_va = all_va - sum(self.caps[name] for name in dead)
            if len(dead) == len(circuits):
                yield Bound(0, f"{state} leaves nothing alive ({shown})")
                continue
            yield smallest_first(kind.loads_va, left_va, f"with {state} all others may carry {_va(left_va)} together ({shown})")

    def _sources(self, kind: Kind) -> Iterable[Bound]:
        """Elements of the tree through which everything goes, in the normal state or when another part is lost."""
        circuits = {name for rack in self._flow.site.racks for name in rack.circuits if name in self.caps}
        if not circuits or not all(rack.circuits for rack in self._flow.site.racks):
            return
        lost: defaultdict[str, set[CircuitId]] = defaultdict(set)
        below: defaultdict[str, set[CircuitId]] = defaultdict(set)
        for name in circuits:
            for state in self._flow.losses[name]:
                lost[state].add(name)
            for above in self._flow.tree.above(self._flow.tree.circuits[name]):
                below[above].add(name)
        wide = [
            ("all is well", set[CircuitId]()),
            *((state, dead) for state, dead in sorted(lost.items()) if 4 * len(dead) >= len(circuits)),
        ]
        for source in self._flow.site.sources:
            if source.limit_va is None or 4 * len(below[source.id]) < len(circuits):
                continue
            room = headroom(source.limit_va, continuous=source.continuous or 1.0, margin=self._margin).chosen(self._flow.site.headroom)
            left = max(0.0, room - self._flow.sources[source.id].low[1])
            for state, dead in wide:
                if circuits - dead and circuits - dead <= below[source.id]:
                    why = f"{kind_words(source.kind)} {source.id} may carry {_va(left)} more, and feeds all of them when {state}"
                    yield smallest_first(kind.loads_va, left, why)


def smallest_first(needs: Iterable[float], limit: float, because: str) -> Bound:
    """How many of ``needs`` stay within ``limit`` together at the most; unlimited where all do."""
    sums = list(itertools.accumulate(sorted(needs)))
    fit = sum(1 for total in sums if total <= limit * _SLACK)
    return Bound(UNLIMITED if fit == len(sums) else fit, because)


def _supplies(cap: float, normal: float, stressed: float) -> int:
    """Supplies of which a circuit carries one under the stress of a loss elsewhere and the others as usual."""
    return 0 if stressed > cap * _SLACK else 1 + math.floor((cap * _SLACK - stressed) / normal)


def _paired(circuits: int, seconds: int, supplies: int) -> int:
    """Most nodes when each of their supplies takes a circuit of its own and any two nodes share one circuit at most.

    N nodes take N·supplies places. Every circuit gives one, and up to ``seconds`` more are there, each of which uses up at least one of
    the N·(N - 1)/2 pairs of nodes (RD6).
    """
    fits = 0
    while fits < circuits and (fits + 1) * supplies <= circuits + min(seconds, (fits + 1) * fits // 2):
        fits += 1
    return fits


def _tightest(parts: Sequence[Bound]) -> str:
    return min(parts, key=lambda bound: bound.nodes).because if parts else "there is no rack"


def _va(value: float) -> str:
    return format_quantity(value, Dimension.APPARENT_POWER, digits=4)
