"""Cooling with all racks in their places and one unit of a loop lost (PLAN-COOLING; M5.3, M12; rules section 4). Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from bridgehead.kernel.units import Dimension
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding
from bridgehead.planning.check_case import SLACK, Case, amount, listed
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_power import placed_nodes


class _Heat:
    """What flows into one loop, and what of it is not known."""

    def __init__(self) -> None:
        self.watts: list[float] = []
        self.racks: set[str] = set()
        self.lacks: set[str] = set()
        self.bound = False


class _Spread:
    """The heat of every node that will stand at the target, dealt to the loops of its rack."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.kinds = {loop.id: loop.kind for loop in ground.target.loops}
        self.loops: defaultdict[LoopId, _Heat] = defaultdict(_Heat)
        self.unreached: defaultdict[tuple[RackId, LoopKind], _Heat] = defaultdict(_Heat)
        site, racks = ground.target, ground.target_racks
        for node in site.nodes:
            if node.rack is not None and node.rack in racks:
                self._node(node, racks[node.rack], f"sites.{site.id}.nodes.{node.id}")
        for node, place in placed_nodes(ground):
            self._node(node, place, f"sites.{ground.policy.source}.nodes.{node.id}")

    def _node(self, node: Node, rack: Rack, path: str) -> None:
        given = [one for one in (node.power_w, node.measured_w) if one is not None]
        watts = max(given) if node.power_w is not None else node.nameplate_w
        lacks = {f"{path}.power"} if watts is None else set()
        lacks |= {f"{path}.liquid_share"} if node.liquid_share is None else set()
        for kind in LoopKind:
            share = node.liquid_share if kind is LoopKind.LIQUID or node.liquid_share is None else 1 - node.liquid_share
            loops = [name for name in dict.fromkeys(rack.loops) if self.kinds.get(name) is kind]
            heat = (watts or 0.0) * (share or 0.0)
            for one in [self.loops[name] for name in loops] or [self.unreached[rack.id, kind]]:
                one.watts.append(heat / max(1, len(loops)))
                one.racks.add(rack.id)
                one.lacks |= lacks
                one.bound |= node.power_w is None and node.nameplate_w is not None


def check_cooling(ground: Ground) -> Iterator[Finding]:
    """``PLAN-COOLING``: of each loop, and of each rack whose heat no loop takes."""
    spread = _Spread(ground)
    for (rack, kind), heat in sorted(spread.unreached.items()):
        finding = _unreached(ground, rack, kind, heat)
        if finding is not None:
            yield finding
    for loop in ground.target.loops:
        yield _loop(ground, loop, spread.loops[loop.id])


def _unreached(ground: Ground, rack: RackId, kind: LoopKind, heat: _Heat) -> Finding | None:
    watts, place = math.fsum(heat.watts), f"sites.{ground.target.id}.racks.{rack}.loops"
    case = Case("PLAN-COOLING", f"place:{rack}/{kind}")
    if not ground.target_racks[rack].loops:
        case.lack(f"nobody says which loops take the heat of {rack}", measurement=f"give {place}")
    elif watts:
        text = f"{rack} gives {amount(watts, Dimension.POWER)} into {kind}, and no {kind} loop reaches it"
        case.fault(text, value=watts, limit=0.0, unit="W", remedy=f"choose a place with a {kind} loop")
    elif heat.lacks:
        text = f"no {kind} loop reaches {rack}, and nobody knows whether it needs one"
        case.lack(text, measurement=f"give {listed(heat.lacks)}")
    else:
        return None
    return case.finding("")


def _loop(ground: Ground, loop: Loop, heat: _Heat) -> Finding:
    case, path = Case("PLAN-COOLING", f"loop:{loop.id}"), f"sites.{ground.target.id}.loops.{loop.id}"
    watts = math.fsum([*heat.watts, loop.other_load_w or 0.0])
    shown, what = amount(watts, Dimension.POWER), f"{loop.kind} loop {loop.id}"
    lacks = [*heat.lacks, *([f"{path}.other_load"] if loop.other_load_w is None else [])]
    if loop.unit_capacity_w is None or loop.units is None:
        if watts or lacks:
            missing = "unit_capacity" if loop.unit_capacity_w is None else "units"
            case.lack(f"{what} has to carry {shown}, and nobody says what it can", measurement=f"give {path}.{missing}")
        return case.finding(f"{what} carries nothing")
    limit = (1 - ground.policy.margin) * (loop.units - 1) * loop.unit_capacity_w
    text = f"{what} has to carry {shown} of {listed(heat.racks)}, {amount(watts - limit, Dimension.POWER)} more than the"
    text += f" {amount(limit, Dimension.POWER)} that it may with one of its {loop.units} units lost"
    if heat.bound and watts > limit * (1 + SLACK):
        case.lack(f"{text}, if the nameplates are drawn in full", measurement="measure or declare the power of these nodes")
    elif case.at_most(watts, limit, text, unit="W", remedy="give one of these racks a place on another loop") and lacks:
        case.lack(f"nobody knows all the heat of {what}", measurement=f"give {listed(lacks)}")
    return case.finding(f"{what} has to carry {shown} and may carry {amount(limit, Dimension.POWER)} with one unit lost")
