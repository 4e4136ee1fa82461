"""Damage to places: racks where they do not fit, draw too much, are not cooled, or stand far from what belongs to them."""

from __future__ import annotations

from collections import Counter

import msgspec

from bridgehead.model.cooling import LoopKind
from bridgehead.model.equipment import Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Placement
from bridgehead.testing.plan_bed import Bed, Damaged

_replace = msgspec.structs.replace


def _placed(bed: Bed, kind: str, codes: str, one: Placement, place: RackId, *names: str) -> Damaged:
    """A rack in another place; what stands there goes to the place that it leaves."""
    places = tuple(
        _replace(other, place=place) if other.id == one.id else _replace(other, place=one.place) if other.place == place else other
        for other in bed.plan.placements
    )
    return bed.changed(kind, codes, *(names or (one.id, place)), placements=places)


def two_in_one_place(bed: Bed) -> Damaged | None:
    """Two racks in one place."""
    one = bed.pick(bed.plan.placements)
    other = bed.pick_where(bed.plan.placements, lambda each: one is not None and each.id != one.id)
    if one is None or other is None:
        return None
    places = tuple(_replace(each, place=other.place) if each.id == one.id else each for each in bed.plan.placements)
    return bed.changed("two_in_one_place", "PLACE", other.place, placements=places)


def place_that_is_not_there(bed: Bed) -> Damaged | None:
    """A place that the target does not have."""
    one = bed.pick(bed.plan.placements)
    return None if one is None else _placed(bed, "place_that_is_not_there", "PLACE", one, RackId("nowhere"), "nowhere")


def does_not_fit(bed: Bed) -> Damaged | None:
    """A rack too heavy or too high for its place."""
    for one in bed.chance.sample(bed.plan.placements, len(bed.plan.placements)):
        rack = bed.racks[one.id]
        weight = (rack.weight_kg or 0.0) + sum(node.weight_kg or 0.0 for node in bed.nodes(one.id))

        def bad(place: Rack, weight: float = weight, rack: Rack = rack) -> bool:
            heavy = place.max_weight_kg is not None and weight > place.max_weight_kg * 1.001
            return place.id not in bed.full and (heavy or (place.units is not None and (rack.units or 0) > place.units - place.used_units))

        place = bed.pick_where(bed.target.racks, bad)
        if place is not None:
            return _placed(bed, "does_not_fit", "PLACE", one, place.id)
    return None


def far_from_its_pod(bed: Bed) -> Damaged | None:
    """A rack is exchanged with one in another pod."""
    carried = [bed.racks[one.id] for one in bed.plan.placements]
    sizes = Counter(rack.pod for rack in carried if rack.pod)
    pods = {one.id: bed.places[one.place].pod for one in bed.plan.placements}
    one = bed.pick_where(bed.plan.placements, lambda one: sizes[bed.racks[one.id].pod] > 1)
    place = bed.pick_where(bed.target.racks, lambda rack: one is not None and rack.id not in bed.full and rack.pod != pods[one.id])
    if one is None or place is None:
        return None
    mates = [rack.id for rack in carried if rack.pod == bed.racks[one.id].pod and rack.id != one.id]
    if all(each.place == place.id for each in bed.plan.placements if each.id in mates):
        return None
    return _placed(bed, "far_from_its_pod", "DOMAIN", one, place.id, bed.racks[one.id].pod, bed.racks[one.id].nvlink_domain or "-")


def overloads_its_circuits(bed: Bed) -> Damaged | None:
    """A rack in a place whose circuits do not carry it when one of them is lost."""
    circuits = {circuit.id: circuit for circuit in bed.target.circuits}
    for one in bed.chance.sample(bed.plan.placements, len(bed.plan.placements)):
        nodes = bed.nodes(one.id)
        # Each circuit has a supply, so that with one lost another carries its share at least.
        spread = min((node.supplies or 1 for node in nodes), default=1)
        load = sum((node.power_w or 0.0) / (node.power_factor or 0.95) for node in nodes)

        def weak(place: Rack, load: float = load, spread: int = spread) -> bool:
            found = [circuits[name] for name in place.circuits]
            if place.id in bed.full or len(found) < 2 or spread < len(found):
                return False
            usable = [(circuit.continuous or 1.0) * circuit.rating_va for circuit in found]
            return load > 1.01 * max(usable) * (len(found) - 1)

        place = bed.pick_where(bed.target.racks, weak)
        if place is not None:
            return _placed(bed, "overloads_its_circuits", "POWER", one, place.id, place.id, *place.circuits)
    return None


def not_cooled(bed: Bed) -> Damaged | None:
    """A rack with liquid cooling where there is none."""
    wet = {loop.id for loop in bed.target.loops if loop.kind is LoopKind.LIQUID}
    one = bed.pick_where(bed.plan.placements, lambda one: bed.wet(one.id))
    place = bed.pick_where(bed.target.racks, lambda rack: rack.id not in bed.full and bool(rack.loops) and not wet & set(rack.loops))
    return None if one is None or place is None else _placed(bed, "not_cooled", "COOLING", one, place.id, place.id)


KINDS = (two_in_one_place, place_that_is_not_there, does_not_fit, far_from_its_pod, overloads_its_circuits, not_cooled)
