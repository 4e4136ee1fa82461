"""Heat: what each cooling loop and rack has to carry away, low and high (rules section 4: heat is the electrical power). Pure, linear."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.assess import asking
from bridgehead.assess.loads import Load, load_of
from bridgehead.model.cooling import LoopId, LoopKind
from bridgehead.model.equipment import Node
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

    def join(self, other: Heat, *, factor: float = 1.0) -> None:
        """A share of another place's heat, with all that is not known of it."""
        self.add(other.low_w * factor, other.high_w * factor)
        self.hard |= other.hard
        self.soft |= other.soft

    def lacks(self, limit_w: float) -> list[str]:
        """What must be known before anything up to ``limit_w`` passes."""
        return sorted(self.hard) + (sorted(self.soft) if self.high_w > limit_w else [])


class HeatFlow:
    """The heat of one site.

    Attributes:
        parts: by rack and kind, the heat that a rack gives into air and into liquid; only where there may be some.
        loops: of each cooling loop.
        homeless: by rack and kind, heat of racks that have no loop of that kind; it has nowhere to go.
        unreached: racks with nodes of which nobody said which loops they have.
        rackless: how many nodes stand in no rack that is known.
        air: heat into the air, of each rack.
    """

    def __init__(self, site: Site, *, nodes: Iterable[Node] | None = None) -> None:
        self.site = site
        self.parts: dict[tuple[RackId, LoopKind], Heat] = {}
        self.loops = {loop.id: Heat() for loop in site.loops}
        self.homeless: dict[tuple[RackId, LoopKind], Heat] = {}
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
        for (rack, kind), heat in self.parts.items():
            self._spread(rack, kind, heat)
        self.air = {rack.id: Heat() for rack in site.racks}
        for rack_id, heat in self.air.items():
            heat.join(self.parts.get((rack_id, LoopKind.AIR), Heat()))
        self._not_placed()

    def loops_at(self, rack: RackId, kind: LoopKind) -> tuple[LoopId, ...]:
        """The loops of a kind that reach a rack, in the order of the file, each once."""
        return tuple(loop for loop in dict.fromkeys(self._racks[rack].loops) if self._kinds.get(loop) is kind)

    def _node(self, node: Node) -> None:
        if node.rack is None or node.rack not in self._racks:
            self.rackless += 1
            return
        load, share = load_of(node), node.liquid_share
        parts = {LoopKind.AIR: (0.0, 1.0), LoopKind.LIQUID: (0.0, 1.0)}
        if share is not None:
            parts = {LoopKind.AIR: (1 - share, 1 - share), LoopKind.LIQUID: (share, share)}
        for kind, part in parts.items():
            if part[1] > 0:
                _into(self.parts.setdefault((node.rack, kind), Heat()), load, part, uncertain=share is None)

    def _spread(self, rack: RackId, kind: LoopKind, heat: Heat) -> None:
        """Loops of one kind at a rack share its heat evenly."""
        found = self.loops_at(rack, kind)
        if not self._racks[rack].loops:
            self.unreached.add(rack)
        elif not found:
            self.homeless[rack, kind] = heat
        for loop in found:
            self.loops[loop].join(heat, factor=1 / len(found))

    def _not_placed(self) -> None:
        """Heat of which nobody knows where it goes could go anywhere."""
        for heat in self.loops.values():
            heat.hard |= {asking.RACK_OF_NODE} if self.rackless else set()
            heat.hard |= {asking.RACK_LOOPS} if self.unreached else set()
        for heat in self.air.values():
            heat.hard |= {asking.RACK_OF_NODE} if self.rackless else set()


def _into(heat: Heat, load: Load, part: tuple[float, float], *, uncertain: bool) -> None:
    heat.add(load.low_w * part[0], load.known_w * part[1])
    if load.high_w is None:
        heat.hard.add(asking.LOAD)
    if load.loose:
        heat.soft.add(asking.LOAD)
    if uncertain:
        heat.soft.add(asking.LIQUID_SHARE)
