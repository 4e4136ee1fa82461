"""Placement search: a rack, and a circuit for each supply, for nodes that come (M5.3). Pure, greedy, the same answer every time.

Each supply goes to the fullest circuit of the rack that still carries it after every single loss. What comes out is only a proposal: the
checks judge the site with it like any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from bridgehead.assess.cooling import usable_w
from bridgehead.assess.heat import HeatFlow
from bridgehead.assess.loads import load_of
from bridgehead.assess.placement_bound import circuit_limit
from bridgehead.assess.power_flow import NORMAL, Flow
from bridgehead.assess.power_math import headroom
from bridgehead.model.cooling import LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.power import CircuitId, SourceId, Wiring

_SLACK = 1 + 1e-12


class Placing:
    """Places nodes one after the other."""

    def __init__(self, flow: Flow, heat: HeatFlow, *, margin: float) -> None:
        self._flow = flow
        self._limits = {one.id: circuit_limit(one, flow, margin=margin) for one in flow.site.circuits}
        self._dc = {one.id for one in flow.site.circuits if one.wiring is Wiring.DC}
        self._base: dict[CircuitId, float] = {}
        self._shifts: dict[CircuitId, defaultdict[str, float]] = {}
        for name, meter in flow.circuits.items():
            part = 0 if name in self._dc else 1
            self._base[name] = meter.high[part]
            self._shifts[name] = defaultdict(
                float, {state: high[part] - meter.high[part] for state, _, high in meter.states() if state != NORMAL}
            )
        self._left = self._sources_left(margin)
        self._heat_left = {loop.id: (usable_w(loop, margin=margin) or 0.0) - heat.loops[loop.id].high_w for loop in flow.site.loops}
        self._loops: dict[LoopId, LoopKind] = {loop.id: loop.kind for loop in flow.site.loops}
        self._units = {rack.id: (rack.units or 0) - rack.used_units for rack in flow.site.racks}
        self._kg = {rack.id: self._carries(rack) - (rack.weight_kg or 0.0) for rack in flow.site.racks}
        for node in flow.nodes:
            if node.rack in self._units:
                self._units[node.rack] -= node.units or 0
                self._kg[node.rack] -= node.weight_kg or 0.0
        self._failed: set[tuple[bytes, RackId]] = set()

    def place(self, nodes: Sequence[Node]) -> list[Node] | None:
        """All of them with rack and circuits, largest first; None when one finds no place."""
        found = []
        for node in sorted(nodes, key=lambda node: (-load_of(node).known_w, node.id)):
            placed = self._somewhere(node)
            if placed is None:
                return None
            found.append(placed)
        return found

    def _sources_left(self, margin: float) -> dict[SourceId, float]:
        rule, left = self._flow.site.headroom, {}
        for source in self._flow.site.sources:
            if source.limit_va is not None and source.continuous is not None:
                room = headroom(source.limit_va, continuous=source.continuous, margin=margin).chosen(rule)
                left[source.id] = room - max(high[1] for _, _, high in self._flow.sources[source.id].states())
        return left

    def _carries(self, rack: Rack) -> float:
        on_floor = (self._flow.site.floor_kg_per_m2 or 0.0) * (rack.footprint_m2 or 0.0)
        return min(rack.max_weight_kg or 0.0, on_floor)

    def _somewhere(self, node: Node) -> Node | None:
        alike = msgspec.json.encode(
            msgspec.structs.replace(node, id=NodeId(""), rack=None, position=None, circuits=(), firmware={}, nics=())
        )
        for rack in sorted(self._flow.site.racks, key=lambda rack: rack.id):
            # What did not fit will not fit later either, since a rack only fills up.
            if (alike, rack.id) in self._failed:
                continue
            cords = self._cords(node, rack) if self._holds(node, rack) else None
            if cords is not None:
                self._take(node, rack, Counter(cords))
                return msgspec.structs.replace(node, rack=rack.id, position=None, circuits=tuple(sorted(cords)))
            self._failed.add((alike, rack.id))
        return None

    def _holds(self, node: Node, rack: Rack) -> bool:
        if self._units[rack.id] < (node.units or 0) or self._kg[rack.id] * _SLACK < (node.weight_kg or 0.0):
            return False
        return all(self._heat_left[loop] * _SLACK >= heat_w for loop, heat_w in self._heat(node, rack).items())

    def _heat(self, node: Node, rack: Rack) -> dict[LoopId, float]:
        """Heat that a node gives to each loop of a rack."""
        share = node.liquid_share or 0.0
        found: dict[LoopId, float] = {}
        for kind, part in ((LoopKind.AIR, 1 - share), (LoopKind.LIQUID, share)):
            loops = [loop for loop in rack.loops if self._loops.get(loop) is kind]
            found |= {loop: load_of(node).known_w * part / len(loops) for loop in loops}
        return found

    def _cords(self, node: Node, rack: Rack) -> list[CircuitId] | None:
        """A circuit for each supply; None when there is none that works."""
        circuits = sorted(name for name in set(rack.circuits) if self._limits.get(name, 0.0) > 0)
        cords: list[CircuitId] = []
        for _ in range(node.supplies or 0):
            works = [name for name in circuits if self._works(node, Counter([*cords, name]))]
            if not works:
                return None
            cords.append(min(works, key=lambda name: (self._limits[name] - self._base[name] - cords.count(name) * 1e-9, name)))
        fits = all(used <= self._left.get(source, 0.0) * _SLACK for source, used in self._through(node, Counter(cords)).items())
        return cords if cords and fits else None

    def _works(self, node: Node, counts: Counter[CircuitId]) -> bool:
        """Whether some supplies of a node, the others being elsewhere, keep every circuit within its limit and leave enough alive."""
        supplies, needed = node.supplies or 1, node.supplies_needed or 1
        lost = self._lost(counts)
        if any(supplies - sum(counts[name] for name in dead) < needed for dead in lost.values()):
            return False
        for name, count in counts.items():
            load = self._load(node, name)
            share = count * load / supplies
            spare = self._limits[name] * _SLACK - self._base[name] - share
            shifts = self._shifts[name]
            if spare < max(shifts.values(), default=0.0) or spare < 0 or spare < count * load / max(1, supplies - 1) - share:
                return False
            for state, dead in lost.items():
                if name not in dead:
                    live = supplies - sum(counts[one] for one in dead)
                    if spare < shifts.get(state, 0.0) + count * load / live - share:
                        return False
        return True

    def _load(self, node: Node, name: CircuitId) -> float:
        load = load_of(node)
        return load.known_w if name in self._dc else load.high_va

    def _lost(self, counts: Counter[CircuitId]) -> dict[str, set[CircuitId]]:
        found: defaultdict[str, set[CircuitId]] = defaultdict(set)
        for name in counts:
            for state in self._flow.losses[name]:
                found[state].add(name)
        return found

    def _through(self, node: Node, counts: Counter[CircuitId]) -> dict[SourceId, float]:
        """The most of a node that goes through each element above its circuits, in any state."""
        supplies = node.supplies or 1
        found: dict[SourceId, float] = {}
        for dead in (set[CircuitId](), *self._lost(counts).values()):
            live = supplies - sum(counts[name] for name in dead)
            parts: Counter[SourceId] = Counter()
            for name, count in counts.items():
                if name not in dead:
                    parts.update(dict.fromkeys(self._flow.tree.above(self._flow.tree.circuits[name]), count))
            for source, count in parts.items():
                found[source] = max(found.get(source, 0.0), load_of(node).high_va * count / live)
        return found

    def _take(self, node: Node, rack: Rack, counts: Counter[CircuitId]) -> None:
        supplies = node.supplies or 1
        for source, used in self._through(node, counts).items():
            self._left[source] = self._left.get(source, 0.0) - used
        for loop, heat_w in self._heat(node, rack).items():
            self._heat_left[loop] -= heat_w
        self._units[rack.id] -= node.units or 0
        self._kg[rack.id] -= node.weight_kg or 0.0
        for state, dead in self._lost(counts).items():
            live = supplies - sum(counts[name] for name in dead)
            for name, count in counts.items():
                after = 0.0 if name in dead else count * self._load(node, name) / live
                self._shifts[name][state] += after - count * self._load(node, name) / supplies
        for name, count in counts.items():
            self._base[name] += count * self._load(node, name) / supplies
