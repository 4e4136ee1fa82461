"""Places: one rack in each, that holds it, near what belongs to it (PLAN-DOMAIN, PLAN-PLACE; M2, M3, M7.4). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding
from bridgehead.model.plan import Placement
from bridgehead.planning.check_case import Case, amount, counted, listed
from bridgehead.planning.check_freight import rack_kg
from bridgehead.planning.check_ground import Ground


def check_domain(ground: Ground) -> Iterator[Finding]:
    """``PLAN-DOMAIN``: NVLink domains stay whole, pods of the source stay together."""
    place_of = {one.id: one.place for one in reversed(ground.plan.placements)}
    domains: defaultdict[str, list[RackId]] = defaultdict(list)
    pods: defaultdict[str, list[RackId]] = defaultdict(list)
    for rack in ground.carried.values():
        if rack.nvlink_domain:
            domains[rack.nvlink_domain].append(rack.id)
        if rack.pod:
            pods[rack.pod].append(rack.id)
    for name, racks in sorted(domains.items()):
        case = Case("PLAN-DOMAIN", f"nvlink-domain:{name}")
        waves = {wave.id for rack in racks for wave in ground.waves_of.get(rack, ())}
        if len(waves) > 1:
            text = f"NVLink domain {name} ({listed(racks)}) is torn apart: it is carried by {listed(waves)}"
            case.fault(text, value=len(waves), limit=1, unit="waves", remedy="carry all of its racks in one wave")
        _one_pod(ground, case, f"NVLink domain {name}", racks, place_of)
        yield case.finding(f"NVLink domain {name} is carried in one wave into one pod")
    if any(rack.pod for rack in ground.target.racks):
        for name, racks in sorted(pods.items()):
            case = Case("PLAN-DOMAIN", f"pod:{name}")
            _one_pod(ground, case, f"pod {name}", racks, place_of)
            yield case.finding(f"racks of pod {name} are placed in one pod")


def _one_pod(ground: Ground, case: Case, what: str, racks: list[RackId], place_of: dict[RackId, RackId]) -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for rack in racks:
        place = ground.target_racks.get(place_of.get(rack, RackId("")))
        if place is not None:
            found[place.pod].append(f"{rack} in {place.id}")
    if len(found) > 1:
        shown = "; ".join(f"{pod or 'no pod'}: {listed(where, most=3)}" for pod, where in sorted(found.items()))
        text = f"{what} is spread over {len(found)} pods of {ground.target.id} ({shown})"
        case.fault(text, value=len(found), limit=1, unit="pods", remedy="give all of its racks places of one pod")
    elif list(found) == [""] and len(racks) > 1:
        text = f"nobody knows whether the places of {what} share their leaves"
        case.lack(text, measurement=f"give the pod of the racks of {ground.target.id}")


def check_place(ground: Ground) -> Iterator[Finding]:
    """``PLAN-PLACE``: of each placement."""
    taken: defaultdict[RackId, list[RackId]] = defaultdict(list)
    for one in ground.plan.placements:
        taken[one.place].append(one.id)
    for one in ground.plan.placements:
        case = Case("PLAN-PLACE", f"rack:{one.id}")
        place, rack = ground.target_racks.get(one.place), ground.racks.get(one.id)
        if place is None:
            text = f"{one.id} is placed in '{one.place}', and {ground.target.id} has no such rack position"
            case.fault(text, remedy=f"choose an empty rack of {ground.target.id}")
        elif one.place in ground.target_nodes:
            standing = counted(len(ground.target_nodes[one.place]), "node")
            text = f"{one.id} is placed in {one.place}, where {standing} of {ground.target.id} stand"
            case.fault(text, remedy=f"choose an empty rack of {ground.target.id}")
        others = [other for other in taken[one.place] if other != one.id]
        if others:
            text = f"{one.place} takes one rack, and the plan puts {one.id} and {listed(others)} there"
            case.fault(text, value=1 + len(others), limit=1, unit="racks", remedy="give one of them another place")
        if place is not None and rack is not None:
            _holds(ground, case, one, rack, place)
        yield case.finding(f"{one.place} holds {one.id}")


def _holds(ground: Ground, case: Case, one: Placement, rack: Rack, place: Rack) -> None:
    site = ground.policy.target
    _height(ground, case, one, rack, place)
    weight, unweighed = rack_kg(ground, one.id)
    path, shown = f"sites.{site}.racks.{place.id}", amount(weight, Dimension.MASS)
    limits: list[tuple[str, float]] = []
    if place.max_weight_kg is None:
        case.lack(f"nobody says what weight {place.id} carries", measurement=f"give {path}.max_weight")
    else:
        limits.append((f"{place.id} carries", place.max_weight_kg))
    if ground.target.floor_kg_per_m2 is not None:
        area = place.footprint_m2 if place.footprint_m2 is not None else rack.footprint_m2
        if area is None:
            case.lack(f"nobody says on which area {place.id} rests", measurement=f"give {path}.footprint")
        else:
            limits.append((f"the floor under {place.id} carries", ground.target.floor_kg_per_m2 * area))
    for what, limit in limits:
        over = amount(weight - limit, Dimension.MASS)
        text = f"{one.id} weighs {shown} with its nodes, {over} more than {what} ({amount(limit, Dimension.MASS)})"
        case.at_most(weight, limit, text, unit="kg", remedy="choose a place that carries it")
    if unweighed and not case.broken:
        case.lack(f"nobody knows what {one.id} weighs", measurement=f"give {listed(unweighed)}")
    text = f"{one.id} hangs on {counted(len(rack.circuits), 'circuit')}, and {place.id} has {len(place.circuits)}"
    case.at_least(len(place.circuits), len(rack.circuits), text, unit="circuits", remedy="choose a place with as many circuits")


def _height(ground: Ground, case: Case, one: Placement, rack: Rack, place: Rack) -> None:
    nodes = ground.nodes.get(one.id, [])
    height: int | None = rack.units
    if height is None and all(node.units is not None for node in nodes):
        height = rack.used_units + sum(node.units or 0 for node in nodes)
    if height is None:
        case.lack(f"nobody knows how high {one.id} is", measurement=f"give sites.{ground.policy.source}.racks.{one.id}.units")
    elif place.units is None:
        case.lack(f"nobody knows how high {place.id} is", measurement=f"give sites.{ground.policy.target}.racks.{place.id}.units")
    else:
        free = place.units - place.used_units
        text = f"{one.id} is {height} units high, and {place.id} has {free} free"
        case.at_most(height, free, text, unit="units", remedy="choose a higher place")
