"""Heat: what each cooling loop and rack has to carry away, low and high (rules section 4: heat is the electrical power). Pure, linear."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.assess import asking
from bridgehead.assess.loads import Load, load_of
from bridgehead.model.cooling import LoopId, LoopKind
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId


class Heat(msgspec.Struct):
    """Heat at one place.

    Attributes:
        low_w, high_w: what is there for certain, and the most that it can be with what is known.
        hard: what is not in ``high_w`` at all.
        soft: why ``high_w`` is more than ``low_w``.
    """

    low_w: float = 0.0
    high_w: float = 0.0
    hard: set[str] = msgspec.field(default_factory=set)
    soft: set[str] = msgspec.field(default_factory=set)

    def add(self, low_w: float, high_w: float) -> None:
        """More heat."""
        self.low_w += low_w
        self.high_w += high_w

    def lacks(self, limit_w: float) -> list[str]:
        """What must be known before anything up to ``limit_w`` passes."""
        return sorted(self.hard) + (sorted(self.soft) if self.high_w > limit_w else [])


class HeatFlow:
    """The heat of one site.

    Attributes:
        loops: of each cooling loop.
        homeless: by kind, heat of racks that have no loop of that kind; it has nowhere to go.
        unreached: racks with nodes of which nobody said which loops they have.
        rackless: how many nodes stand in no rack that is known.
        air: heat into the air, of each rack.
    """

    def __init__(self, site: Site, *, nodes: Iterable[Node] | None = None) -> None:
        self.site = site
        self.loops = {loop.id: Heat() for loop in site.loops}
        self.homeless: dict[tuple[RackId, LoopKind], Heat] = {}
        self.air = {rack.id: Heat() for rack in site.racks}
        self.unreached: set[RackId] = set()
        self.rackless = 0
        self._kinds: dict[LoopId, LoopKind] = {loop.id: loop.kind for loop in site.loops}
        self._racks = {rack.id: rack for rack in site.racks}
        for loop in site.loops:
            self.loops[loop.id].add(loop.other_load_w or 0.0, loop.other_load_w or 0.0)
            if loop.other_load_w is None:
                self.loops[loop.id].hard.add(asking.LOOP_OTHER_HEAT)
        for node in sorted(site.nodes if nodes is None else nodes, key=lambda node: node.id):
            self._node(node)

    def _node(self, node: Node) -> None:
        rack = self._racks.get(node.rack) if node.rack is not None else None
        load, share = load_of(node), node.liquid_share
        if rack is None:
            self.rackless += 1
            for heat in (*self.loops.values(), *self.air.values()):
                heat.hard.add(asking.RACK_OF_NODE)
            return
        parts = {LoopKind.AIR: (0.0, 1.0), LoopKind.LIQUID: (0.0, 1.0)}
        if share is not None:
            parts = {LoopKind.AIR: (1 - share, 1 - share), LoopKind.LIQUID: (share, share)}
        _into(self.air[rack.id], load, parts[LoopKind.AIR], 1.0, uncertain=share is None)
        if not rack.loops:
            self.unreached.add(rack.id)
            for heat in self.loops.values():
                heat.hard.add(asking.RACK_LOOPS)
            return
        for kind, part in parts.items():
            self._spread(rack, kind, load, part, uncertain=share is None)

    def _spread(self, rack: Rack, kind: LoopKind, load: Load, part: tuple[float, float], *, uncertain: bool) -> None:
        """Loops of one kind at a rack share its heat evenly."""
        found = [loop for loop in rack.loops if self._kinds.get(loop) is kind]
        if part[1] <= 0:
            return
        if not found:
            _into(self.homeless.setdefault((rack.id, kind), Heat()), load, part, 1.0, uncertain=uncertain)
        for loop in found:
            _into(self.loops[loop], load, part, 1 / len(found), uncertain=uncertain)


def _into(heat: Heat, load: Load, part: tuple[float, float], factor: float, *, uncertain: bool) -> None:
    heat.add(load.low_w * part[0] * factor, load.known_w * part[1] * factor)
    if load.high_w is None:
        heat.hard.add(asking.LOAD)
    if load.loose:
        heat.soft.add(asking.LOAD)
    if uncertain:
        heat.soft.add(asking.LIQUID_SHARE)
