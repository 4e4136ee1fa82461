"""Places: why a rack stands where it will stand, and which other places would take it (M3; rules PLAN-PLACE and PLAN-DOMAIN). Pure."""

from __future__ import annotations

from collections import Counter

import msgspec

from bridgehead.model.equipment import Rack
from bridgehead.model.fabric import RackId
from bridgehead.planning.course import Course


class Fit(msgspec.Struct, frozen=True):
    """What a place lacks for a rack; nothing where it takes it."""

    place: RackId
    lacks: tuple[str, ...]


def fits_of(course: Course, rack: Rack) -> tuple[Fit, ...]:
    """Every place of the target against one rack: height, weight, circuits, pod. Power and cooling of all together are for the checker."""
    nodes = course.nodes_of.get(rack.id, [])
    taken = {node.rack for node in course.target.nodes}
    units = rack.used_units + sum(node.units or 0 for node in nodes)
    weights = [rack.weight_kg, *(node.weight_kg for node in nodes)]
    known = [weight for weight in weights if weight is not None]
    weight = sum(known) if len(known) == len(weights) else None
    pod = _pod_of(course, rack)
    return tuple(
        Fit(place.id, tuple(_lacks(place, rack, units, weight, pod)))
        for place in sorted(course.target.racks, key=lambda one: one.id)
        if place.id not in taken
    )


def _pod_of(course: Course, rack: Rack) -> str:
    """The pod of the target that the other racks of its pod and its domain go to; empty where they go to none."""
    pods = {place.id: place.pod for place in course.target.racks}
    held = {one.id: one for one in course.source.racks}
    found = Counter(
        pods.get(one.place, "") for one in course.plan.placements if one.id != rack.id and one.id in held and _together(held[one.id], rack)
    )
    found.pop("", None)
    return min(found, key=lambda name: (-found[name], name), default="")


def _together(one: Rack, other: Rack) -> bool:
    return (one.pod != "" and one.pod == other.pod) or (one.nvlink_domain != "" and one.nvlink_domain == other.nvlink_domain)


def _lacks(place: Rack, rack: Rack, units: int, weight_kg: float | None, pod: str) -> list[str]:
    found = []
    if place.units is not None and units > place.units:
        found.append("height")
    if place.max_weight_kg is not None and weight_kg is not None and weight_kg > place.max_weight_kg:
        found.append("weight")
    if len(place.circuits) < len(rack.circuits):
        found.append("circuits")
    if pod and place.pod and place.pod != pod:
        found.append("pod")
    return found


def place_facts(course: Course, rack: RackId) -> list[str]:
    """Sentences on the place of a rack."""
    placed = {one.id: one.place for one in course.plan.placements}
    one = next((held for held in course.source.racks if held.id == rack), None)
    if rack not in placed or one is None:
        return ["the plan gives it no place"]
    fits = fits_of(course, one)
    place = next((held for held in course.target.racks if held.id == placed[rack]), None)
    where = (
        ""
        if place is None
        else f" ({', '.join(filter(None, (place.position, f'pod {place.pod}' if place.pod else '')))})".replace(" ()", "")
    )
    facts = [f"it comes to {placed[rack]}{where}"]
    own = next((fit for fit in fits if fit.place == placed[rack]), None)
    if own is not None and own.lacks:
        facts.append(f"that place lacks {', '.join(own.lacks)} for it")
    pod = _pod_of(course, one)
    if pod:
        facts.append(f"racks of its pod or NVLink domain stand in pod {pod}, so it comes there too")
    lacking = Counter(lack for fit in fits for lack in fit.lacks)
    good = [fit.place for fit in fits if not fit.lacks]
    free = [name for name in good if name not in set(placed.values())]
    without = f"; the others lack {', '.join(f'{lack} ({count})' for lack, count in lacking.most_common())}" if lacking else ""
    facts.append(f"{len(good)} of {len(fits)} places take it by height, weight, circuits and pod, {len(free)} of them free{without}")
    return facts
