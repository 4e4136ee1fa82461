"""Places: where each rack will stand, by power, cooling, weight, height, NVLink domains and pods (M3, M5.3, M7.4; rules 2 to 4).

Racks that share leaves at the source go to one pod of the target, largest groups first, each to the pod that it fills best. Every place is
tried against the loads of all single failures. What the search does not place is named, with the limit that most places failed for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Placement
from bridgehead.planning.demand import Demand, Freight
from bridgehead.planning.power_places import Draw, PowerLedger

_SLACK = 1 + 1e-9


class Unplaced(msgspec.Struct, frozen=True):
    """Racks for which there is no place.

    Attributes:
        because: for each limit, how many places failed for it.
    """

    racks: tuple[RackId, ...]
    because: Mapping[str, int]


class _Heat:
    """What loops still carry, with one unit of each lost and the margin kept."""

    def __init__(self, site: Site, margin: float) -> None:
        self._loops = {loop.id: loop for loop in site.loops}
        self.left: dict[LoopId, float] = {}
        for loop in site.loops:
            usable = _usable_w(loop, margin)
            self.left[loop.id] = 0.0 if usable is None or loop.other_load_w is None else usable - loop.other_load_w

    def needs(self, one: Freight, place: Rack) -> dict[LoopId, float] | None:
        """Heat into each loop; None when a kind of loop that it needs does not reach the place."""
        air = sum((node.power_w or 0.0) * (1 - (node.liquid_share or 0.0)) for node in one.nodes)
        wet = sum((node.power_w or 0.0) * (node.liquid_share or 0.0) for node in one.nodes)
        found: dict[LoopId, float] = {}
        for kind, heat in ((LoopKind.AIR, air), (LoopKind.LIQUID, wet)):
            loops = [name for name in place.loops if name in self._loops and self._loops[name].kind is kind]
            if heat and not loops:
                return None
            for name in loops:
                found[name] = heat / len(loops)
        return found


def _usable_w(loop: Loop, margin: float) -> float | None:
    """Units that are needed carry it, and one may be lost (rules section 4)."""
    if loop.unit_capacity_w is None or loop.units is None:
        return None
    needed = loop.units if loop.units_needed is None else loop.units_needed
    return (1 - margin) * loop.unit_capacity_w * min(loop.units - 1, needed)


class Placing:
    """The search."""

    def __init__(self, demand: Demand) -> None:
        self._site, margin = demand.target, demand.policy.margin
        self._power = PowerLedger(self._site, margin=margin)
        self._heat = _Heat(self._site, margin)
        standing = {node.rack for node in self._site.nodes}
        self._free: defaultdict[str, list[Rack]] = defaultdict(list)
        for rack in sorted(self._site.racks, key=lambda rack: (rack.pod, rack.row, rack.column or 0, rack.id)):
            if rack.id not in standing:
                self._free[rack.pod].append(rack)
        racks = {rack.id: rack for rack in self._site.racks}
        for name in standing:
            if name is not None and name in racks:
                self._power.add(self._power.draw([node for node in self._site.nodes if node.rack == name], racks[name]))
        self._groups = _groups(demand)
        self.failed: Counter[str] = Counter()

    def place(self) -> tuple[tuple[Placement, ...], tuple[Unplaced, ...]]:
        """Places for all; those for which there is none."""
        found: list[Placement] = []
        missing: list[Unplaced] = []
        for group in self._groups:
            self.failed = Counter()
            chosen = self._group(group)
            if chosen is None:
                missing.append(Unplaced(tuple(one.rack.id for one in group), dict(self.failed)))
            else:
                found += chosen
        return tuple(sorted(found, key=lambda one: one.id)), tuple(missing)

    def _group(self, group: tuple[Freight, ...]) -> list[Placement] | None:
        """In the pod with the fewest free places that takes all of it."""
        pods = sorted((len(places), pod) for pod, places in self._free.items() if len(places) >= len(group))
        if not pods:
            self.failed["places: no pod has so many free"] += 1
        for _, pod in pods:
            chosen = self._in_pod(group, self._free[pod])
            if chosen is not None:
                for one, place, draw in chosen:
                    self._power.add(draw)
                    for name, heat in (self._heat.needs(one, place) or {}).items():
                        self._heat.left[name] -= heat
                    self._free[pod].remove(place)
                return [Placement(one.rack.id, place.id) for one, place, _ in chosen]
        return None

    def _in_pod(self, group: tuple[Freight, ...], places: Iterable[Rack]) -> list[tuple[Freight, Rack, Draw]] | None:
        left = list(places)
        chosen: list[tuple[Freight, Rack, Draw]] = []
        heat: Counter[LoopId] = Counter()
        for one in group:
            for place in left:
                draw = self._try(one, place, [draw for _, _, draw in chosen], heat)
                if draw is not None:
                    chosen.append((one, place, draw))
                    heat.update(self._heat.needs(one, place) or {})
                    left.remove(place)
                    break
            else:
                return None
        return chosen

    def _try(self, one: Freight, place: Rack, others: list[Draw], heat: Mapping[LoopId, float]) -> Draw | None:
        limit = self._holds(one, place)
        if limit:
            self.failed[limit] += 1
            return None
        needs = self._heat.needs(one, place)
        if needs is None or any(self._heat.left[name] * _SLACK < watts + heat.get(name, 0.0) for name, watts in needs.items()):
            self.failed["cooling"] += 1
            return None
        draw = self._power.draw(one.nodes, place)
        if not self._power.fits([*others, draw]):
            self.failed["power"] += 1
            return None
        return draw

    def _holds(self, one: Freight, place: Rack) -> str:
        height = max((one.rack.units or 0, sum(node.units or 0 for node in one.nodes) + one.rack.used_units))
        if place.units is None or height > place.units - place.used_units:
            return "height"
        if place.max_weight_kg is None or one.weight_kg > place.max_weight_kg:
            return "weight"
        floor = self._site.floor_kg_per_m2
        if floor is not None and place.footprint_m2 is not None and one.weight_kg > floor * place.footprint_m2:
            return "floor"
        return ""


def _groups(demand: Demand) -> list[tuple[Freight, ...]]:
    """Racks that have to be in one pod: those of one pod of the source where the target has pods, and those of one NVLink domain."""
    pods = any(rack.pod for rack in demand.target.racks)
    groups: defaultdict[str, list[Freight]] = defaultdict(list)
    for number, parcel in enumerate(demand.parcels):
        for one in parcel.racks:
            groups[one.rack.pod if pods and one.rack.pod else f"\0{number}"].append(one)
    return sorted((tuple(group) for group in groups.values()), key=lambda group: (-sum(_power_w(one) for one in group), group[0].rack.id))


def _power_w(one: Freight) -> float:
    return sum(node.power_w or 0.0 for node in one.nodes)
