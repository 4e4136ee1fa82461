"""Placement room: what a target still offers, circuit by circuit, while nodes are placed one after the other (M5.3). Pure.

Each condition here but ``carries`` is necessary: what it refuses, the checks of power, cooling and space refuse too, whatever else is
placed later, since more nodes only make every state worse. So a search that tries all that is left over proves that there is no place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from bridgehead.assess.cooling import usable_w
from bridgehead.assess.heat import HeatFlow
from bridgehead.assess.loads import load_of
from bridgehead.assess.placement_bound import circuit_limit
from bridgehead.assess.power_flow import NORMAL, Flow
from bridgehead.assess.power_math import headroom
from bridgehead.model.cooling import LoopId, LoopKind
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.power import CircuitId, SourceId, Wiring

_SLACK = 1 + 1e-12


class Room:
    """What is left of circuits, elements above them, cooling, rack units and weight.

    Attributes:
        flow: the site as it stands.
        limits: VA (W for dc) that each circuit may carry, the margin kept.
    """

    def __init__(self, flow: Flow, heat: HeatFlow, *, margin: float) -> None:
        self.flow = flow
        self.limits = {one.id: circuit_limit(one, flow, margin=margin) for one in flow.site.circuits}
        self._dc = {one.id for one in flow.site.circuits if one.wiring is Wiring.DC}
        self._base: dict[CircuitId, float] = {}
        self._shifts: dict[CircuitId, dict[str, float]] = {}
        for name, meter in flow.circuits.items():
            part = 0 if name in self._dc else 1
            self._base[name] = meter.high[part]
            self._shifts[name] = {state: high[part] - meter.high[part] for state, _, high in meter.states() if state != NORMAL}
        self._left = self._sources_left(margin)
        self._heat_left = {loop.id: (usable_w(loop, margin=margin) or 0.0) - heat.loops[loop.id].high_w for loop in flow.site.loops}
        self._loops: dict[LoopId, LoopKind] = {loop.id: loop.kind for loop in flow.site.loops}
        self._units = {rack.id: (rack.units or 0) - rack.used_units for rack in flow.site.racks}
        self._kg = {rack.id: self._bears(rack) - (rack.weight_kg or 0.0) for rack in flow.site.racks}
        for node in flow.nodes:
            if node.rack in self._units:
                self._units[node.rack] -= node.units or 0
                self._kg[node.rack] -= node.weight_kg or 0.0

    def copy(self) -> Room:
        """The same room, to try something in."""
        other = Room.__new__(Room)
        other.__dict__.update(self.__dict__)
        other._base, other._left, other._heat_left = dict(self._base), dict(self._left), dict(self._heat_left)
        other._units, other._kg = dict(self._units), dict(self._kg)
        other._shifts = dict(self._shifts)  # the inner ones are replaced, never changed
        return other

    def _sources_left(self, margin: float) -> dict[SourceId, float]:
        rule, left = self.flow.site.headroom, {}
        for source in self.flow.site.sources:
            if source.limit_va is not None and source.continuous is not None:
                room = headroom(source.limit_va, continuous=source.continuous, margin=margin).chosen(rule)
                left[source.id] = room - max(high[1] for _, _, high in self.flow.sources[source.id].states())
        return left

    def _bears(self, rack: Rack) -> float:
        on_floor = (self.flow.site.floor_kg_per_m2 or 0.0) * (rack.footprint_m2 or 0.0)
        return min(rack.max_weight_kg or 0.0, on_floor)

    def spare(self, name: CircuitId) -> float:
        """What a circuit may still carry in the normal state."""
        return self.limits[name] - self._base[name]

    def untouched(self, name: CircuitId) -> bool:
        """Whether a circuit carries nothing in any state."""
        return self._base[name] == 0 and not any(self._shifts[name].values())

    def left_in(self, rack: Rack) -> tuple[int, float]:
        """Rack units and kilograms that are left."""
        return self._units[rack.id], self._kg[rack.id]

    def holds(self, node: Node, rack: Rack) -> bool:
        """Whether a rack has the units, the strength and the cooling of each kind for a node."""
        if self._units[rack.id] < (node.units or 0) or self._kg[rack.id] * _SLACK < (node.weight_kg or 0.0):
            return False
        heat = self._heat(node, rack)
        return heat is not None and all(self._heat_left[loop] * _SLACK >= heat_w for loop, heat_w in heat.items())

    def _heat(self, node: Node, rack: Rack) -> dict[LoopId, float] | None:
        """Heat that a node gives to each loop of a rack; None where a kind of cooling that it needs does not reach the rack."""
        share = node.liquid_share or 0.0
        found: dict[LoopId, float] = {}
        for kind, part in ((LoopKind.AIR, 1 - share), (LoopKind.LIQUID, share)):
            loops = [loop for loop in dict.fromkeys(rack.loops) if self._loops.get(loop) is kind]
            if part > 0 and not loops:
                return None
            found |= {loop: load_of(node).known_w * part / len(loops) for loop in loops}
        return found

    def works(self, node: Node, counts: Mapping[CircuitId, int]) -> bool:
        """Whether some supplies of a node, the others being elsewhere, keep every circuit within its limit and leave enough alive."""
        supplies, needed = node.supplies or 1, node.supplies_needed or 1
        lost = self._lost(counts)
        if any(supplies - sum(counts[name] for name in dead) < needed for dead in lost.values()):
            return False
        for name, count in counts.items():
            load = self._load(node, name)
            share = count * load / supplies
            spare = self.limits[name] * _SLACK - self._base[name] - share
            shifts = self._shifts[name]
            if spare < max(shifts.values(), default=0.0) or spare < 0 or spare < count * load / max(1, supplies - 1) - share:
                return False
            for state, dead in lost.items():
                if name not in dead:
                    live = supplies - sum(counts[one] for one in dead)
                    if spare < shifts.get(state, 0.0) + count * load / live - share:
                        return False
        return True

    def carries(self, node: Node, counts: Mapping[CircuitId, int]) -> bool:
        """Whether what is above carries a node. More careful than needed: the worst states of all nodes are added up."""
        return all(used <= self._left.get(source, 0.0) * _SLACK for source, used in self._through(node, counts).items())

    def _load(self, node: Node, name: CircuitId) -> float:
        load = load_of(node)
        return load.known_w if name in self._dc else load.high_va

    def _lost(self, counts: Mapping[CircuitId, int]) -> dict[str, set[CircuitId]]:
        found: defaultdict[str, set[CircuitId]] = defaultdict(set)
        for name in counts:
            for state in self.flow.losses[name]:
                found[state].add(name)
        return found

    def _through(self, node: Node, counts: Mapping[CircuitId, int]) -> dict[SourceId, float]:
        """The most of a node that goes through each element above its circuits, in any state."""
        supplies = node.supplies or 1
        found: dict[SourceId, float] = {}
        for dead in (set[CircuitId](), *self._lost(counts).values()):
            live = supplies - sum(counts[name] for name in dead)
            parts: Counter[SourceId] = Counter()
            for name, count in counts.items():
                if name not in dead:
                    parts.update(dict.fromkeys(self.flow.tree.above(self.flow.tree.circuits[name]), count))
            for source, count in parts.items():
                found[source] = max(found.get(source, 0.0), load_of(node).high_va * count / live)
        return found

    def take(self, node: Node, rack: Rack, counts: Mapping[CircuitId, int]) -> None:
        """A node stands there from now on."""
        supplies = node.supplies or 1
        for source, used in self._through(node, counts).items():
            self._left[source] = self._left.get(source, 0.0) - used
        for loop, heat_w in (self._heat(node, rack) or {}).items():
            self._heat_left[loop] -= heat_w
        self._units[rack.id] -= node.units or 0
        self._kg[rack.id] -= node.weight_kg or 0.0
        shifts = {name: dict(self._shifts[name]) for name in counts}
        for state, dead in self._lost(counts).items():
            live = supplies - sum(counts[name] for name in dead)
            for name, count in counts.items():
                after = 0.0 if name in dead else count * self._load(node, name) / live
                shifts[name][state] = shifts[name].get(state, 0.0) + after - count * self._load(node, name) / supplies
        self._shifts |= shifts
        for name, count in counts.items():
            self._base[name] += count * self._load(node, name) / supplies
