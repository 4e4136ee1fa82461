"""Freight: vehicles, the dock, and what is never under way together (PLAN-VEHICLE, PLAN-DOCK, PLAN-APART; M7.4, rules section 10). Pure."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

from bridgehead.kernel.units import Dimension
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding
from bridgehead.model.logistics import Fleet, Logistics
from bridgehead.model.plan import TaskKind, Vehicle, VehicleId, Wave
from bridgehead.planning.check_case import TICK_S, Case, amount, counted, lasting, listed, number, when
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground, task_of


def rack_kg(ground: Ground, rack: RackId) -> tuple[float, list[str]]:
    """What a rack of the source weighs with its nodes as far as it is known, and what is not."""
    found, site = ground.racks.get(rack), ground.policy.source
    lacks = [f"sites.{site}.racks.{rack}.weight"] if found is None or found.weight_kg is None else []
    nodes = ground.nodes.get(rack, [])
    lacks += [f"sites.{site}.nodes.{node.id}.weight" for node in nodes if node.weight_kg is None]
    return math.fsum([(found.weight_kg or 0.0) if found else 0.0, *(node.weight_kg or 0.0 for node in nodes)]), lacks


def check_vehicle(ground: Ground) -> Iterator[Finding]:
    """``PLAN-VEHICLE``: what each trip carries, and where each vehicle is."""
    logistics = ground.policy.logistics
    trips: defaultdict[VehicleId, list[tuple[Wave, Vehicle]]] = defaultdict(list)
    for wave in ground.plan.waves:
        for vehicle in wave.vehicles:
            trips[vehicle.id].append((wave, vehicle))
            if logistics is not None:
                yield _load(ground, wave, vehicle, logistics)
    if logistics is None:
        if trips:
            case = Case("PLAN-VEHICLE", "plan")
            case.lack("the policy says nothing of vehicles", measurement="give policy.logistics")
            yield case.finding("")
        return
    for name, found in sorted(trips.items()):
        yield _whereabouts(name, found, logistics.fleet)
    yield _fleet(trips, logistics.fleet)


def _load(ground: Ground, wave: Wave, vehicle: Vehicle, logistics: Logistics) -> Finding:
    case, fleet = Case("PLAN-VEHICLE", f"{wave.id}/vehicle:{vehicle.id}"), logistics.fleet
    racks = dict.fromkeys(vehicle.racks)
    text = f"{vehicle.id} of {wave.id} carries {counted(len(vehicle.racks), 'rack')}, and has {fleet.racks} places"
    case.at_most(len(vehicle.racks), fleet.racks, text, unit="racks", remedy="put some of them into another vehicle")
    weights = [rack_kg(ground, rack) for rack in racks]
    weight, unweighed = math.fsum(kg for kg, _ in weights), [path for _, lacks in weights for path in lacks]
    if fleet.payload_kg is None:
        case.lack(f"nobody says what {fleet.id} may carry", measurement="give policy.logistics.fleet.payload")
    else:
        limit, shown = fleet.payload_kg, amount(weight, Dimension.MASS)
        over = amount(weight - limit, Dimension.MASS)
        text = f"{vehicle.id} of {wave.id} carries {shown}, {over} more than the {amount(limit, Dimension.MASS)} that it may"
        if case.at_most(weight, limit, text, unit="kg", remedy="put a rack into another vehicle") and unweighed:
            case.lack(f"nobody knows what the load of {vehicle.id} in {wave.id} weighs", measurement=f"give {listed(unweighed)}")
    _value(ground, case, wave, vehicle, logistics)
    length = vehicle.arrives_s - vehicle.leaves_s
    text = f"{vehicle.id} of {wave.id} drives for {lasting(length)}, and the way takes {lasting(fleet.transit_s)}"
    case.at_least(length, fleet.transit_s, text, unit="s", remedy="let it arrive later")
    return case.finding(f"{vehicle.id} of {wave.id} carries {counted(len(racks), 'rack')} of {number(weight)} kg")


def _value(ground: Ground, case: Case, wave: Wave, vehicle: Vehicle, logistics: Logistics) -> None:
    insured, prices = logistics.fleet.insured, logistics.gpu_values
    total, unpriced = 0.0, set()
    for rack in dict.fromkeys(vehicle.racks):
        for model, count in ground.gpus(rack).items():
            total += prices.get(model, 0.0) * count
            unpriced |= set() if model in prices else {model or "GPUs without a model"}
    money = ground.policy.currency
    if vehicle.value is not None and not unpriced and not math.isclose(vehicle.value, total, rel_tol=1e-6, abs_tol=0.01):
        text = f"{vehicle.id} of {wave.id} is insured for {number(vehicle.value)} {money}, and its load is worth {number(total)} {money}"
        case.fault(text, value=vehicle.value, limit=total, unit=money, remedy=f"set its value to {number(total)} {money}")
    if insured is None:
        return
    text = f"{vehicle.id} of {wave.id} carries {number(total)} {money}, {number(total - insured)} {money} more than it is insured for"
    if case.at_most(total, insured, text, unit=money, remedy="put a rack into another vehicle, or insure more") and unpriced:
        text = f"nobody knows what the load of {vehicle.id} in {wave.id} is worth"
        case.lack(text, measurement=f"give policy.logistics.gpu_values of {listed(unpriced)}")


def _whereabouts(name: VehicleId, trips: list[tuple[Wave, Vehicle]], fleet: Fleet) -> Finding:
    case = Case("PLAN-VEHICLE", f"vehicle:{name}")
    way, _, last = name.rpartition("-")
    if way != fleet.id or not last.isdigit():
        text = f"{name} is no vehicle of the fleet {fleet.id}, whose vehicles are {fleet.id}-1 to {fleet.id}-{fleet.vehicles}"
        case.fault(text, remedy=f"name a vehicle of {fleet.id}")
    back_s = 2 * fleet.transit_s
    ordered = sorted(trips, key=lambda trip: (trip[1].leaves_s, trip[0].id))
    for (before, first), (after, second) in itertools.pairwise(ordered):
        free = first.leaves_s + back_s
        if second.leaves_s < free - TICK_S:
            text = f"{name} leaves with {before.id} {when(first.leaves_s)} and again with {after.id} {when(second.leaves_s)}"
            text += f", {lasting(free - second.leaves_s)} before it can be back"
            remedy = f"take another vehicle for {after.id}, or let it leave at {when(free)}"
            case.fault(text, value=second.leaves_s - first.leaves_s, limit=back_s, unit="s", remedy=remedy)
    return case.finding(f"{name} is back before each of its {counted(len(trips), 'trip')}")


def _fleet(trips: dict[VehicleId, list[tuple[Wave, Vehicle]]], fleet: Fleet) -> Finding:
    case = Case("PLAN-VEHICLE", f"fleet:{fleet.id}")
    text = f"the plan uses {len(trips)} vehicles ({listed(trips)}), and {fleet.id} has {fleet.vehicles}"
    case.at_most(len(trips), fleet.vehicles, text, unit="vehicles", remedy=f"use {fleet.id}-1 to {fleet.id}-{fleet.vehicles} only")
    return case.finding(f"the plan uses {len(trips)} of {counted(fleet.vehicles, 'vehicle')}")


def check_dock(ground: Ground) -> Iterator[Finding]:
    """``PLAN-DOCK``: racks that stand at the dock, from arrival until they are installed."""
    case, logistics = Case("PLAN-DOCK", "plan"), ground.policy.logistics
    course = Course()
    stays: list[tuple[Wave, float, float]] = []
    for wave in ground.plan.waves:
        transit, install = task_of(wave, TaskKind.TRANSIT), task_of(wave, TaskKind.INSTALL)
        arrives = max((one.arrives_s for one in wave.vehicles), default=wave.out_s) if transit is None else transit.ends_s
        leaves = wave.joins_s if install is None else install.ends_s
        stays.append((wave, arrives, leaves))
        course.add(len(wave.racks), arrives, leaves)
    limit = None if logistics is None else logistics.dock_places
    if not stays:
        yield case.finding("nothing comes to the dock")
        return
    if limit is None:
        case.lack("nobody says how many racks the dock takes", measurement="give policy.logistics.dock_places")
        yield case.finding("")
        return
    worst, over = (0.0, 0.0), 0
    for moment, (racks,) in steps(course):
        over += racks > limit
        worst = (moment, racks) if racks > worst[1] else worst
    moment, racks = worst
    now = [wave.id for wave, arrives, leaves in stays if arrives - TICK_S <= moment < leaves - TICK_S / 2]
    more = f"; and at {counted(over - 1, 'other moment')}" if over > 1 else ""
    text = f"at {when(moment)} {int(racks)} racks stand at the dock of {ground.target.id} ({listed(now)}), which takes {limit}{more}"
    case.at_most(racks, limit, text, unit="racks", remedy="let one of these waves come later, or install faster")
    yield case.finding(f"never more than {counted(int(racks), 'rack')} stand at the dock, which takes {limit}")


def check_apart(ground: Ground) -> Iterator[Finding]:
    """``PLAN-APART``: of each pair of racks that are to be kept apart."""
    pairs = {(min(one, other), max(one, other)) for one in ground.carried for other in ground.carried[one].apart_from}
    for one, other in sorted(pairs):
        if one == other or one not in ground.carried or other not in ground.carried:
            continue
        case = Case("PLAN-APART", f"rack:{one}+{other}")
        for first, second in itertools.product(ground.waves_of.get(one, ()), ground.waves_of.get(other, ())):
            begins, ends = max(first.out_s, second.out_s), min(first.joins_s, second.joins_s)
            if begins < ends - TICK_S:
                where = f"both in {first.id}" if first is second else f"{one} in {first.id}, {other} in {second.id}"
                text = f"{one} and {other} are to be kept apart, and both are under way from {when(begins)} to {when(ends)} ({where})"
                remedy = f"let one of them leave after {when(ends)}"
                case.fault(text, value=ends - begins, limit=0.0, unit="s", remedy=remedy)
        yield case.finding(f"{one} and {other} are never under way together")
