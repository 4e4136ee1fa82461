"""Two ways of planning to compare with: greedy, largest first, on the planner's grid and rules; and stop, move everything, start again."""

from __future__ import annotations

import math
from typing import NamedTuple

from bridgehead.model.estate import Estate
from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.policy import Policy
from bridgehead.planning.demand import Demand, demand
from bridgehead.planning.grid import Calendar, Rounds, Yard, calendar
from bridgehead.planning.kinds import Kind, kinds_of
from bridgehead.planning.transfers import bulk

PATIENCE_DAYS = 30
MOST_DAYS = 400


class Baseline(NamedTuple):
    """What came out; ``stuck`` says why there are no days."""

    days: float | None
    lost_gpu_hours: float
    stuck: str = ""


class _Ground(NamedTuple):
    asked: Demand
    yard: Yard
    kinds: tuple[Kind, ...]
    grid: Calendar
    most_racks: int


def _ground(estate: Estate, policy: Policy) -> _Ground:
    asked = demand(estate, policy)
    assert policy.logistics is not None
    assert policy.begins_s is not None
    yard = Yard(policy.logistics, asked)
    services_s = policy.begins_s + policy.phases.bridgehead_s + policy.phases.services_s
    ready_s = max(one.ends_s for one in bulk(asked, begins_s=policy.begins_s + policy.phases.bridgehead_s, swings_s=services_s))
    grid = calendar(asked, yard, days=MOST_DAYS, services_s=services_s, ready_s=ready_s)
    rounds = 0
    while _fits(yard, rounds + 1):
        rounds += 1
    return _Ground(asked, yard, kinds_of(asked.parcels, yard), grid, rounds * yard.teams)


def _fits(yard: Yard, rounds: int) -> bool:
    """Whether a wave of so many rounds, all of it with liquid cooling, fits both shifts beside the unloading of another."""
    both = Rounds(rounds, rounds)
    fitting_s = yard.fitting_s(both) + rounds * yard.handling.load_s + max(0.0, yard.late_s)
    return yard.packing_s(both) <= yard.packers.shift_s and fitting_s <= yard.fitters.shift_s


def greedy(estate: Estate, policy: Policy) -> Baseline:
    """Every night the largest workloads that fit go over; every morning as many racks leave as crews, vehicles, dock and reserve allow."""
    ground = _ground(estate, policy)
    asked, yard, grid = ground.asked, ground.yard, ground.grid
    left = [len(kind.parcels) for kind in ground.kinds]
    gone: list[tuple[int, int, int]] = []  # day, kind, count
    over: dict[str, float] = {}
    last_s = last_change_s = grid.services_s
    moments = [(grid.midnight_s + day * DAY_S + yard.packers.begins_s, 0, day) for day in sorted(grid.leave)]
    moments += [(slot.begins_s, 1, number) for number, slot in enumerate(grid.slots)]
    for at_s, what, number in sorted(moments):
        if what == 0:
            taken = _leave(ground, number, at_s, left, gone, over)
            for kind, count in taken:
                left[kind] -= count
                gone.append((number, kind, count))
                last_s = max(last_s, grid.midnight_s + number * DAY_S + yard.away_s)
            last_change_s = at_s if taken else last_change_s
        else:
            for name, ends_s in _swing(ground, number, gone, over):
                over[name] = ends_s
                last_s, last_change_s = max(last_s, ends_s), at_s
        if len(over) == len(asked.jobs) and not any(left):
            lost = sum(job.crossing.lost_s * job.gpus for job in asked.jobs) / HOUR_S
            return Baseline((last_s - (policy.begins_s or 0.0)) / DAY_S, lost)
        if at_s - last_change_s > PATIENCE_DAYS * DAY_S:
            break
    return Baseline(None, 0.0, f"{len(asked.jobs) - len(over)} workloads and {sum(left)} loads wait for each other")


def _leave(
    ground: _Ground, day: int, at_s: float, left: list[int], gone: list[tuple[int, int, int]], over: dict[str, float]
) -> list[tuple[int, int]]:
    asked, yard, policy = ground.asked, ground.yard, ground.asked.policy
    room = ground.most_racks
    if yard.logistics.dock_places is not None:
        docked = sum(count * ground.kinds[kind].racks for when, kind, count in gone if day - yard.install_day <= when <= day)
        room = min(room, yard.logistics.dock_places - docked)
    away = sum(math.ceil(c * ground.kinds[k].racks / ground.kinds[k].per_vehicle) for w, k, c in gone if w > day - yard.cycle_days)
    vehicles = yard.fleet.vehicles - away
    spare = {}
    for model in asked.models:
        runs = sum(job.gpus for job in asked.jobs if job.model == model and over.get(job.id, math.inf) > at_s)
        stands = asked.standing[asked.source.id].get(model, 0) - sum(count * ground.kinds[kind].gpus(model) for _, kind, count in gone)
        spare[model] = stands - (1 + policy.reserve) * runs
    if at_s < ground.grid.services_s:
        total = sum(sum(site.values()) for site in asked.standing.values())
        moved = sum(count * ground.kinds[kind].gpus(model) for _, kind, count in gone for model in asked.models)
        early = policy.bridgehead.most * total - moved
    else:
        early = math.inf
    found = []
    for kind, what in enumerate(ground.kinds):
        apart = any(one.rack.apart_from for one in what.parcels[0].racks)
        if apart and any(
            day - when < 6 and any(one.rack.apart_from for one in ground.kinds[other].parcels[0].racks) for when, other, _ in gone
        ):
            continue
        gpus = sum(what.gpus(model) for model in asked.models)
        count = min(left[kind], room // what.racks, vehicles * what.per_vehicle // what.racks, 1 if apart else left[kind])
        while count and (
            gpus * count > early or any(what.gpus(model) * count > spare[model] for model in asked.models if what.gpus(model))
        ):
            count -= 1
        if count <= 0:
            continue
        found.append((kind, count))
        room -= count * what.racks
        vehicles -= math.ceil(count * what.racks / what.per_vehicle)
        early -= gpus * count
        for model in asked.models:
            spare[model] -= what.gpus(model) * count
        if apart:
            break
    return found


def _swing(ground: _Ground, number: int, gone: list[tuple[int, int, int]], over: dict[str, float]) -> list[tuple[str, float]]:
    asked, policy, slot = ground.asked, ground.asked.policy, ground.grid.slots[number]
    here = math.floor((slot.begins_s - ground.grid.midnight_s - ground.yard.away_s) / DAY_S)
    stands = {
        model: asked.standing[asked.target.id].get(model, 0) + sum(c * ground.kinds[k].gpus(model) for day, k, c in gone if day <= here)
        for model in asked.models
    }
    total = sum(sum(site.values()) for site in asked.standing.values())
    if sum(stands.values()) < policy.bridgehead.least * total:
        return []
    runs = {
        model: asked.running.get(model, 0) + sum(job.gpus for job in asked.jobs if job.model == model and job.id in over)
        for model in asked.models
    }
    lanes = [slot.begins_s] * policy.limits.concurrent_moves
    found = []
    for job in sorted(asked.jobs, key=lambda one: (-one.gpus, one.id)):
        lane = min(range(len(lanes)), key=lanes.__getitem__)
        ends_s = lanes[lane] + math.ceil(job.crossing.length_s)
        if job.id in over or ends_s > slot.ends_s or not all(other in over for other in job.others):
            continue
        if job.gpus and (1 + policy.reserve) * (runs[job.model] + job.gpus) > stands[job.model]:
            continue
        lanes[lane] = ends_s
        if job.gpus:
            runs[job.model] += job.gpus
        found.append((job.id, ends_s))
    return found


def stop_and_move(estate: Estate, policy: Policy) -> Baseline:
    """Everything stops when the services are there, and starts again when the last rack has joined."""
    ground = _ground(estate, policy)
    racks = sum(len(parcel.racks) for parcel in ground.asked.parcels)
    fleet, yard = ground.yard.fleet, ground.yard
    slowest = min(kind.per_vehicle for kind in ground.kinds)
    daily = min(ground.most_racks, fleet.vehicles * slowest // yard.cycle_days)
    if yard.logistics.dock_places is not None:
        daily = min(daily, max(1, yard.logistics.dock_places // (yard.install_day + 1)))
    days = math.ceil(racks / max(1, daily)) - 1 + yard.away_s / DAY_S
    begins_s = math.ceil(ground.grid.services_s / DAY_S) * DAY_S
    lost = sum(job.gpus for job in ground.asked.jobs) * days * 24 + sum(j.crossing.lost_s * j.gpus for j in ground.asked.jobs) / HOUR_S
    return Baseline((begins_s - (policy.begins_s or 0.0)) / DAY_S + days, lost)
