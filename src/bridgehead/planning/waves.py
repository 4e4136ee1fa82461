"""Waves: the racks, vehicles and tasks of each day on which something leaves (M6, M7.4, M10.1, M12). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S, CrewId
from bridgehead.model.plan import Task, TaskKind, Vehicle, VehicleId, Wave, WaveId
from bridgehead.planning.demand import Freight, Parcel
from bridgehead.planning.grid import Calendar, Rounds, Yard
from bridgehead.planning.kinds import Kind

PREPARED = 3
"""Hours of preparation for each hour of execution (M6)."""
_AT_SOURCE = (TaskKind.PACK, TaskKind.DRAIN_COOLANT, TaskKind.LOAD)
_AT_TARGET = (TaskKind.UNLOAD, TaskKind.INSPECT, TaskKind.INSTALL, TaskKind.LEAK_TEST)


def waves(leaving: Mapping[int, Mapping[int, int]], kinds: tuple[Kind, ...], yard: Yard, calendar: Calendar) -> tuple[Wave, ...]:
    """One wave a day. Of racks of a kind those that stand first at the source leave first."""
    waiting = [list(kind.parcels) for kind in kinds]
    loads: dict[int, dict[int, list[Parcel]]] = {
        day: {kind: [waiting[kind].pop(0) for _ in range(count)] for kind, count in chosen.items()} for day, chosen in leaving.items()
    }
    rounds = {day: _rounds(load, yard) for day, load in loads.items()}
    found: list[Wave] = []
    turn = 0
    for number, (day, load) in enumerate(sorted(loads.items()), start=1):
        other = rounds.get(day - yard.unload_day + yard.install_day)
        unloading_s = 0.0 if other is None else other.racks * yard.handling.load_s
        found.append(_wave(number, day, load, rounds[day], unloading_s, turn, kinds, yard, calendar))
        turn += len(found[-1].vehicles)
    return tuple(found)


def _rounds(load: Mapping[int, list[Parcel]], yard: Yard) -> Rounds:
    parcels = [parcel for parcels in load.values() for parcel in parcels]
    return Rounds(
        math.ceil(sum(len(parcel.racks) for parcel in parcels) / yard.teams),
        math.ceil(sum(parcel.liquid for parcel in parcels) / yard.teams),
    )


def _wave(
    number: int,
    day: int,
    load: Mapping[int, list[Parcel]],
    rounds: Rounds,
    unloading_s: float,
    turn: int,
    kinds: tuple[Kind, ...],
    yard: Yard,
    calendar: Calendar,
) -> Wave:
    midnight = calendar.midnight_s + day * DAY_S
    times = yard.timetable(rounds, others_unload_s=unloading_s)
    tasks = tuple(_task(kind, midnight + begins, midnight + ends, yard) for kind, begins, ends in times.steps)
    leaves, arrives = midnight + times.end_s(TaskKind.LOAD), midnight + times.end_s(TaskKind.TRANSIT)
    vehicles: list[Vehicle] = []
    for kind, parcels in sorted(load.items()):
        racks = [one for parcel in parcels for one in parcel.racks]
        for at in range(0, len(racks), kinds[kind].per_vehicle):
            vehicles.append(_vehicle(racks[at : at + kinds[kind].per_vehicle], turn + len(vehicles), leaves, arrives, yard))
    out = tasks[0].begins_s
    return Wave(WaveId(f"w{number:03d}"), out, tasks[-1].ends_s, tuple(vehicles), tasks, bridgehead=out < calendar.services_s)


def _task(kind: TaskKind, begins_s: float, ends_s: float, yard: Yard) -> Task:
    if kind not in (*_AT_SOURCE, *_AT_TARGET):
        return Task(kind, begins_s, ends_s)
    crew = yard.packers if kind in _AT_SOURCE else yard.fitters
    return Task(kind, begins_s, ends_s, CrewId(crew.id), yard.teams, begins_s - PREPARED * (ends_s - begins_s))


def _vehicle(racks: list[Freight], turn: int, leaves_s: float, arrives_s: float, yard: Yard) -> Vehicle:
    """Vehicles take turns, so that each has the time to come back."""
    name = VehicleId(f"{yard.fleet.id}-{turn % yard.fleet.vehicles + 1}")
    value = sum(one.value for one in racks) if yard.logistics.gpu_values else None
    return Vehicle(name, tuple(RackId(one.rack.id) for one in racks), leaves_s, arrives_s, value)
