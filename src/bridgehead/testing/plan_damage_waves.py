"""Damage to waves: steps, crews, vehicles, the dock, and what is never under way together; and to capacity at both sites."""

from __future__ import annotations

from collections import Counter

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S, HOUR_S, CrewId
from bridgehead.model.plan import TaskKind, Vehicle, VehicleId, Wave
from bridgehead.testing.plan_bed import Bed, Damaged, shifted, swapped, without

_replace = msgspec.structs.replace
_AT_SOURCE = (TaskKind.PACK, TaskKind.LOAD)
_AT_TARGET = (TaskKind.UNLOAD, TaskKind.INSPECT, TaskKind.INSTALL)


def task_removed(bed: Bed) -> Damaged | None:
    """A step is left out."""
    wave = bed.pick(bed.plan.waves)
    task = None if wave is None else bed.pick(wave.tasks)
    if wave is None or task is None:
        return None
    waves = bed.with_wave(wave, tasks=without(wave.tasks, task))
    return bed.changed("task_removed", "WAVE", f"{wave.id} has no step {task.id}", waves=waves)


def _shorter(bed: Bed, kind: str, *kinds: TaskKind) -> Damaged | None:
    wave = bed.pick_where(bed.plan.waves, lambda one: bed.task(one, *kinds) is not None)
    task = None if wave is None else bed.task(wave, *kinds)
    if wave is None or task is None:
        return None
    shorter = (task.begins_s + task.ends_s) / 2 if task.id not in (*_AT_SOURCE, *_AT_TARGET) else task.begins_s + 60.0
    return bed.changed(kind, "WAVE", f"{task.id} of {wave.id}", waves=bed.with_task(wave, task, ends_s=shorter))


def short_acclimatisation(bed: Bed) -> Damaged | None:
    """Unpacked while water condenses."""
    return _shorter(bed, "short_acclimatisation", TaskKind.ACCLIMATISE)


def short_burn_in(bed: Bed) -> Damaged | None:
    """Half of the burn-in."""
    return _shorter(bed, "short_burn_in", TaskKind.BURN_IN)


def hurried_work(bed: Bed) -> Damaged | None:
    """A minute for the work on all racks."""
    return _shorter(bed, "hurried_work", *_AT_SOURCE, *_AT_TARGET)


def out_of_order(bed: Bed) -> Damaged | None:
    """Installed before it is inspected."""
    wave = bed.pick(bed.plan.waves)
    install = None if wave is None else next((one for one in wave.tasks if one.id is TaskKind.INSTALL), None)
    if wave is None or install is None or install.ends_s <= install.begins_s:
        return None
    waves = bed.with_task(wave, install, begins_s=install.begins_s - 5 * DAY_S, ends_s=install.ends_s - 5 * DAY_S)
    return bed.changed("out_of_order", "WAVE", f"install of {wave.id}", waves=waves)


def coolant_not_drained(bed: Bed) -> Damaged | None:
    """A wave with racks cooled by liquid, without the step for that."""
    wave = bed.pick_where(bed.plan.waves, lambda one: any(bed.wet(rack) for rack in one.racks))
    if wave is None:
        return None
    gone = bed.chance.choice((TaskKind.DRAIN_COOLANT, TaskKind.LEAK_TEST))
    waves = bed.with_wave(wave, tasks=tuple(task for task in wave.tasks if task.id is not gone))
    return bed.changed("coolant_not_drained", "WAVE", f"{wave.id} has no step {gone}", waves=waves)


def unprepared(bed: Bed) -> Damaged | None:
    """Work that is prepared for as long as it takes, and not three times."""
    wave = bed.pick(bed.plan.waves)
    task = None if wave is None else bed.task(wave, *_AT_SOURCE, *_AT_TARGET)
    if wave is None or task is None:
        return None
    waves = bed.with_task(wave, task, prepared_from_s=2 * task.begins_s - task.ends_s)
    return bed.changed("unprepared", "PREPARED", f"{task.id} of {wave.id}", waves=waves)


def crew_of_the_other_site(bed: Bed) -> Damaged | None:
    """People who are not there."""
    logistics = bed.policy.logistics
    away = None if logistics is None else bed.pick_where(logistics.crews, lambda crew: crew.site == bed.policy.target)
    wave = bed.pick(bed.plan.waves)
    task = None if wave is None else bed.task(wave, *_AT_SOURCE)
    if wave is None or task is None or away is None:
        return None
    waves = bed.with_task(wave, task, crew=away.id)
    return bed.changed("crew_of_the_other_site", "CREW", f"{task.id} of {wave.id}", waves=waves)


def crew_that_is_none(bed: Bed) -> Damaged | None:
    """A crew that nobody hired."""
    wave = bed.pick(bed.plan.waves)
    task = None if wave is None else bed.task(wave, *_AT_SOURCE, *_AT_TARGET)
    if wave is None or task is None:
        return None
    waves = bed.with_task(wave, task, crew=CrewId("volunteers"))
    return bed.changed("crew_that_is_none", "CREW", "volunteers", waves=waves)


def too_many_teams(bed: Bed) -> Damaged | None:
    """More teams than the crew has."""
    logistics, wave = bed.policy.logistics, bed.pick(bed.plan.waves)
    task = None if wave is None else bed.task(wave, *_AT_SOURCE, *_AT_TARGET)
    if wave is None or task is None or logistics is None:
        return None
    crew = next(one for one in logistics.crews if one.id == task.crew)
    return bed.changed("too_many_teams", "CREW", crew.id, waves=bed.with_task(wave, task, teams=crew.teams + 1))


def at_night(bed: Bed) -> Damaged | None:
    """Work outside the shift."""
    logistics, wave = bed.policy.logistics, bed.pick(bed.plan.waves)
    task = None if wave is None else bed.task(wave, *_AT_SOURCE, *_AT_TARGET)
    if wave is None or task is None or logistics is None:
        return None
    crew = next(one for one in logistics.crews if one.id == task.crew)
    if crew.shift_s >= DAY_S - HOUR_S:
        return None
    midnight = task.begins_s - (task.begins_s - crew.begins_s) % DAY_S
    begins = midnight + crew.shift_s + (DAY_S - crew.shift_s) / 4
    waves = bed.with_task(wave, task, begins_s=begins, ends_s=begins + task.ends_s - task.begins_s)
    return bed.changed("at_night", "CREW", f"{task.id} of {wave.id}", waves=waves)


def wave_in_a_blackout(bed: Bed) -> Damaged | None:
    """Racks on the road when nothing may move."""
    wave, black = bed.pick(bed.plan.waves), bed.pick(bed.policy.blackouts)
    if wave is None or black is None:
        return None
    moved = shifted(wave, (black.begins_s + black.ends_s) / 2 - wave.out_s)
    return bed.changed("wave_in_a_blackout", "WINDOW", wave.id, waves=swapped(bed.plan.waves, wave, moved))


def overloaded(bed: Bed) -> Damaged | None:
    """Everything in one vehicle."""
    logistics = bed.policy.logistics
    if logistics is None:
        return None
    fleet = logistics.fleet
    wave = bed.pick_where(bed.plan.waves, lambda one: bool(one.vehicles) and _too_much(bed, one))
    if wave is None:
        return None
    first = wave.vehicles[0]
    whole: Vehicle = _replace(first, racks=wave.racks, value=None)
    return bed.changed("overloaded", "VEHICLE", first.id, waves=bed.with_wave(wave, vehicles=(whole,))) if fleet else None


def _too_much(bed: Bed, wave: Wave) -> bool:
    """Whether one vehicle cannot take all of a wave."""
    logistics = bed.policy.logistics
    assert logistics is not None
    fleet, gpus = logistics.fleet, Counter[str]()
    for rack in wave.racks:
        gpus.update(bed.gpus(rack))
    weight = sum((bed.racks[rack].weight_kg or 0) + sum(node.weight_kg or 0 for node in bed.nodes(rack)) for rack in wave.racks)
    value = sum(logistics.gpu_values.get(model, 0.0) * count for model, count in gpus.items())
    heavy = fleet.payload_kg is not None and weight > fleet.payload_kg * 1.001
    return len(wave.racks) > fleet.racks or heavy or (fleet.insured is not None and value > fleet.insured * 1.001)


def wrong_value(bed: Bed) -> Damaged | None:
    """A load that is insured for a tenth of what it is worth."""
    wave = bed.pick_where(bed.plan.waves, lambda one: any(vehicle.value for vehicle in one.vehicles))
    vehicle = None if wave is None else bed.pick_where(wave.vehicles, lambda one: bool(one.value))
    if wave is None or vehicle is None:
        return None
    odd = _replace(vehicle, value=(vehicle.value or 0.0) / 10)
    waves = bed.with_wave(wave, vehicles=swapped(wave.vehicles, vehicle, odd))
    return bed.changed("wrong_value", "VEHICLE", f"{vehicle.id} of {wave.id}", waves=waves)


def in_two_places(bed: Bed) -> Damaged | None:
    """A vehicle that leaves again before it can be back."""
    wave = bed.pick(bed.plan.waves)
    first = None if wave is None or not wave.vehicles else wave.vehicles[0]
    if wave is None or first is None:
        return None
    other = next((one for one in bed.plan.waves if one is not wave and one.vehicles), None)
    if other is None:
        return None
    again = _replace(first, leaves_s=first.leaves_s + 60.0, arrives_s=first.arrives_s + 60.0, racks=other.vehicles[0].racks)
    waves = bed.with_wave(other, vehicles=(again, *other.vehicles[1:]))
    return bed.changed("in_two_places", "VEHICLE", first.id, waves=waves)


def foreign_vehicle(bed: Bed) -> Damaged | None:
    """A vehicle that the fleet does not have."""
    wave = bed.pick_where(bed.plan.waves, lambda one: bool(one.vehicles))
    vehicle = None if wave is None else bed.pick(wave.vehicles)
    if wave is None or vehicle is None:
        return None
    odd = _replace(vehicle, id=VehicleId("cart-1"))
    return bed.changed("foreign_vehicle", "VEHICLE", "cart-1", waves=bed.with_wave(wave, vehicles=swapped(wave.vehicles, vehicle, odd)))


def leaves_while_loading(bed: Bed) -> Damaged | None:
    """A vehicle is gone before loading ends."""
    wave = bed.pick_where(bed.plan.waves, lambda one: bool(one.vehicles) and bed.task(one, TaskKind.LOAD) is not None)
    vehicle = None if wave is None else bed.pick(wave.vehicles)
    load = None if wave is None else bed.task(wave, TaskKind.LOAD)
    if wave is None or vehicle is None or load is None:
        return None
    early = _replace(vehicle, leaves_s=load.begins_s)
    waves = bed.with_wave(wave, vehicles=swapped(wave.vehicles, vehicle, early))
    return bed.changed("leaves_while_loading", "WAVE", f"{vehicle.id} of {wave.id}", waves=waves)


def dock_full(bed: Bed) -> Damaged | None:
    """Nothing is ever installed, so that everything stands at the dock."""
    logistics = bed.policy.logistics
    racks = sum(len(wave.racks) for wave in bed.plan.waves)
    if logistics is None or logistics.dock_places is None or racks <= logistics.dock_places:
        return None
    last = max(wave.joins_s for wave in bed.plan.waves) + DAY_S
    waves = tuple(
        _replace(wave, tasks=tuple(_replace(task, ends_s=last) if task.id is TaskKind.INSTALL else task for task in wave.tasks))
        for wave in bed.plan.waves
    )
    return bed.changed("dock_full", "DOCK", "dock", waves=waves)


def _put_with(bed: Bed, kind: str, code: str, rack: Rack, wave: Wave) -> Damaged | None:
    """A rack is taken into another wave."""
    if not wave.vehicles:
        return None
    cleared = tuple(
        _replace(
            one,
            vehicles=tuple(
                _replace(each, racks=tuple(name for name in each.racks if name != rack.id), value=None) if rack.id in each.racks else each
                for each in one.vehicles
            ),
        )
        for one in bed.plan.waves
    )
    there = next(one for one in cleared if one.id == wave.id)
    first = there.vehicles[0]
    fuller = _replace(there, vehicles=(_replace(first, racks=(*first.racks, rack.id), value=None), *there.vehicles[1:]))
    waves = tuple(fuller if one.id == wave.id else one for one in cleared)
    return bed.changed(kind, code, rack.nvlink_domain if code == "DOMAIN" else rack.id, waves=waves)


def _wave_of(bed: Bed, rack: RackId) -> Wave | None:
    return next((wave for wave in bed.plan.waves if rack in wave.racks), None)


def both_halves(bed: Bed) -> Damaged | None:
    """Two racks that are to be kept apart in one vehicle."""
    carried = {rack for wave in bed.plan.waves for rack in wave.racks}
    rack = bed.pick_where(bed.source.racks, lambda one: one.id in carried and any(other in carried for other in one.apart_from))
    if rack is None:
        return None
    other = next(name for name in rack.apart_from if name in carried)
    wave = _wave_of(bed, other)
    return None if wave is None else _put_with(bed, "both_halves", "APART", rack, wave)


def domain_torn(bed: Bed) -> Damaged | None:
    """A rack of an NVLink domain comes in another wave."""
    carried = {rack for wave in bed.plan.waves for rack in wave.racks}
    sizes = Counter(rack.nvlink_domain for rack in bed.source.racks if rack.id in carried)
    rack = bed.pick_where(bed.source.racks, lambda one: one.id in carried and bool(one.nvlink_domain) and sizes[one.nvlink_domain] > 1)
    own = None if rack is None else _wave_of(bed, rack.id)
    wave = bed.pick_where(bed.plan.waves, lambda one: one is not own and bool(one.vehicles))
    return None if rack is None or wave is None else _put_with(bed, "domain_torn", "DOMAIN", rack, wave)


def _standing(bed: Bed, model: str, moment_s: float, site: SiteId) -> int:
    target = site == bed.policy.target
    total = sum(node.gpus for node in (bed.target if target else bed.source).nodes if node.gpu_model == model)
    for wave in bed.plan.waves:
        count = sum(bed.gpus(rack)[model] for rack in wave.racks)
        if target and wave.joins_s <= moment_s:
            total += count
        elif not target and wave.out_s <= moment_s:
            total -= count
    return total


def _running(bed: Bed, model: str, moment_s: float) -> float:
    """GPUs in use at the source, every workload counted on the fewest that it may have by then."""
    total = 0
    for swing in bed.plan.swings:
        work = bed.work[swing.id]
        if work.gpu_model == model and moment_s < swing.ends_s:
            now = [one.gpus for one in bed.plan.shrinks if one.workload == swing.id and one.site == bed.policy.source]
            total += min([work.gpus, *now])
    return total * (1 + bed.policy.reserve)


def leaves_too_early(bed: Bed) -> Damaged | None:
    """A wave leaves while what it carries is still needed."""
    begins = bed.plan.begins_s
    for wave in bed.chance.sample(bed.plan.waves, len(bed.plan.waves)):
        models = Counter[str]()
        for rack in wave.racks:
            models.update(bed.gpus(rack))
        for model, count in models.items():
            earlier = _standing(bed, model, begins, bed.policy.source) if begins < wave.out_s else 0
            if earlier and earlier - count + 0.5 < _running(bed, model, begins):
                moved = shifted(wave, begins - wave.out_s)
                return bed.changed("leaves_too_early", "RESERVE-SOURCE", model, waves=swapped(bed.plan.waves, wave, moved))
    return None


def swings_before_there_is_room(bed: Bed) -> Damaged | None:
    """A workload goes over before its GPUs are there."""
    begins = bed.plan.begins_s
    for swing in bed.chance.sample(bed.plan.swings, len(bed.plan.swings)):
        work = bed.work[swing.id]
        if work.gpus and work.gpu_model and work.gpus > _standing(bed, work.gpu_model, begins, bed.policy.target):
            early = bed.swing_to(swing, begins + 60.0)
            shrinks = tuple(one for one in bed.plan.shrinks if one.workload != swing.id)
            return bed.changed("swings_before_there_is_room", "RESERVE-TARGET", work.gpu_model, swings=early, shrinks=shrinks)
    return None


def all_of_the_bridgehead(bed: Bed) -> Damaged | None:
    """Every wave is called one of the bridgehead."""
    whole = bed.source.gpus + bed.target.gpus
    carried = sum(bed.gpus(rack).total() for wave in bed.plan.waves for rack in wave.racks)
    if carried <= bed.policy.bridgehead.most * whole * 1.001:
        return None
    waves = tuple(_replace(wave, bridgehead=True) for wave in bed.plan.waves)
    return bed.changed("all_of_the_bridgehead", "BRIDGEHEAD", "waves of the bridgehead", waves=waves)


def joins_too_late(bed: Bed) -> Damaged | None:
    """The bridgehead joins after the first swing has begun."""
    first = min((one.begins_s for one in bed.plan.swings), default=None)
    if first is None or not bed.plan.waves or bed.target.gpus >= bed.policy.bridgehead.least * (bed.source.gpus + bed.target.gpus):
        return None
    waves = tuple(shifted(wave, max(0.0, first + DAY_S - wave.joins_s)) for wave in bed.plan.waves)
    return bed.changed("joins_too_late", "BRIDGEHEAD", "first swing", waves=waves)


KINDS = (
    task_removed,
    short_acclimatisation,
    short_burn_in,
    hurried_work,
    out_of_order,
    coolant_not_drained,
    unprepared,
    crew_of_the_other_site,
    crew_that_is_none,
    too_many_teams,
    at_night,
    wave_in_a_blackout,
    overloaded,
    wrong_value,
    in_two_places,
    foreign_vehicle,
    leaves_while_loading,
    dock_full,
    both_halves,
    domain_torn,
    leaves_too_early,
    swings_before_there_is_room,
    all_of_the_bridgehead,
    joins_too_late,
)
