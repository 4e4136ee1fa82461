"""Consumption: what a plan uses up, counted from it: days, energy, GPU-hours, trips, work (M6, M7.4, M10.1, M11). Pure."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Final

import msgspec

from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.finding import Origin
from bridgehead.model.logistics import DAY_S, HOUR_S, CrewId
from bridgehead.model.plan import PhaseId, TaskKind
from bridgehead.planning.course import Course
from bridgehead.planning.steps import Steps

PREPARATION: Final = 3.0
"""Hours of preparation for each hour of execution (M6)."""


class Counted(msgspec.Struct, frozen=True):
    """A number and how it is known; None where it cannot be counted."""

    value: float | None
    origin: Origin = Origin.DERIVED


class Power(msgspec.Struct, frozen=True):
    """Power of nodes under load.

    Attributes:
        watts: by node; None where nothing is known of any node.
        origin: the weakest of what they rest on.
    """

    watts: dict[NodeId, float] | None
    origin: Origin


def days_of(course: Course) -> float:
    """Days on which both sites run: from the first day to the end of decommissioning."""
    return (course.plan.ends_s - course.plan.begins_s) / DAY_S


def link_days(course: Course) -> float:
    """Days for which the lines between the sites are paid."""
    kept = course.phase(PhaseId.LINK_KEPT)
    ends_s = course.plan.ends_s if kept is None else max(kept.ends_s, course.plan.ends_s)
    return (ends_s - course.plan.begins_s) / DAY_S


def power_of(course: Course) -> Power:
    """Power of every node of both sites.

    The larger one of what was declared and measured. A node of which neither is known takes what its kind takes on the mean, by GPU, or
    its plate: that is a guess. Energy is counted at this power, so it is an upper bound for nodes that idle.
    """
    nodes = [*course.source.nodes, *course.target.nodes]
    known = {node.id: max(node.power_w or 0.0, node.measured_w or 0.0) for node in nodes}
    known = {name: watts for name, watts in known.items() if watts}
    if len(known) == len(nodes):
        measured = all(node.measured_w and node.measured_w >= (node.power_w or 0.0) for node in nodes)
        return Power(known, Origin.MEASURED if measured and nodes else Origin.DECLARED)
    with_gpus = [node for node in nodes if node.id in known and node.gpus]
    gpus = sum(node.gpus for node in with_gpus)
    each_w = sum(known[node.id] for node in with_gpus) / gpus if gpus else None
    guessed = {node.id: _guess_w(node, each_w) for node in nodes if node.id not in known}
    if any(watts is None for watts in guessed.values()):
        return Power(None, Origin.MISSING)
    return Power(known | {name: watts for name, watts in guessed.items() if watts is not None}, Origin.GUESS)


def _guess_w(node: Node, each_w: float | None) -> float | None:
    if node.nameplate_w is not None:
        return node.nameplate_w
    return node.gpus * each_w if each_w is not None else None


class Energy(msgspec.Struct, frozen=True):
    """Energy of IT equipment: kW times hours. One power for all of it, so that what is wrong with it is wrong everywhere alike.

    Attributes:
        kw: power of what stands at the source in the beginning; of the target where the source has nothing.
        source_h, target_h: hours at that power that make up what each site uses while the plan runs.
        otherwise_h: hours of the source in the same time, were nobody to move.
    """

    kw: Counted
    source_h: float
    target_h: float
    otherwise_h: float


def energy_of(course: Course) -> Energy:
    """What stands draws power: at the source until it is out or the plan ends, at the target from its burn-in on."""
    power = power_of(course)
    if power.watts is None:
        return Energy(Counted(None, Origin.MISSING), 0.0, 0.0, 0.0)
    plan = course.plan
    lasts_s = plan.ends_s - plan.begins_s
    here = there = 0.0
    for node in course.source.nodes:
        wave = None if node.rack is None else course.wave_of.get(node.rack)
        watts = power.watts[node.id]
        out_s = plan.ends_s if wave is None else wave.out_s
        here += watts * max(0.0, out_s - plan.begins_s)
        if wave is not None:
            on_s = next((task.begins_s for task in wave.tasks if task.id is TaskKind.BURN_IN), wave.joins_s)
            there += watts * max(0.0, plan.ends_s - on_s)
    own_w = sum(power.watts[node.id] for node in course.target.nodes)
    there += own_w * lasts_s
    left_w = sum(power.watts[node.id] for node in course.source.nodes)
    whole_w = left_w or own_w
    if not whole_w:
        return Energy(Counted(0.0, power.origin), 0.0, 0.0, 0.0)
    otherwise_h = left_w / whole_w * lasts_s / HOUR_S
    return Energy(Counted(whole_w / 1000, power.origin), here / whole_w / HOUR_S, there / whole_w / HOUR_S, otherwise_h)


def gpu_hours_in_transit(course: Course) -> float:
    """GPU-hours from the time that the source does not have a GPU until the target has it.

    Less those by which workloads are shrunk at the same moment: these are lost GPU-hours already, and count once.
    """
    total = 0.0
    for model in course.models:
        away: list[tuple[float, float]] = []
        for wave in course.plan.waves:
            count = sum(course.gpus_of(rack)[model] for rack in wave.racks)
            away += [(wave.out_s, count), (wave.joins_s, -count)]
        for shrink in course.plan.shrinks:
            workload = course.workloads.get(shrink.workload)
            if workload is not None and course.model_of(workload) == model:
                less = workload.gpus - shrink.gpus
                away += [(shrink.begins_s, -less), (shrink.ends_s, less)]
        steps = Steps(0.0, away)
        total += sum(max(0.0, steps.at(begins_s)) * (ends_s - begins_s) for begins_s, ends_s in pairwise(steps.moments_s))
    return total / HOUR_S


def gpu_hours_run(course: Course) -> float:
    """GPU-hours of all workloads at both sites while the plan runs: the reserve is a share of it."""
    return sum(steps.over(course.plan.begins_s, course.plan.ends_s) for steps in course.running.values()) / HOUR_S


def team_days(course: Course) -> dict[CrewId, int]:
    """For each crew the sum over all days of the teams that work on it (the most at once)."""
    busy: defaultdict[tuple[CrewId, int], list[tuple[float, float, int]]] = defaultdict(list)
    for wave in course.plan.waves:
        for task in wave.tasks:
            if not task.crew or task.ends_s <= task.begins_s:
                continue
            for day in range(int(task.begins_s // DAY_S), int(-(-task.ends_s // DAY_S))):
                busy[task.crew, day].append((max(task.begins_s, day * DAY_S), min(task.ends_s, (day + 1) * DAY_S), task.teams))
    found: defaultdict[CrewId, int] = defaultdict(int)
    for (crew, _), held in busy.items():
        found[crew] += max(sum(teams for begins_s, ends_s, teams in held if begins_s <= at < ends_s) for at, _, _ in held)
    return dict(sorted(found.items()))


def vehicle_trips(course: Course) -> int:
    """Round trips of vehicles."""
    return sum(len(wave.vehicles) for wave in course.plan.waves)


def courier_trips(course: Course) -> int:
    """Trips of couriers: what one courier takes at one time is one."""
    return len({(one.courier, one.begins_s) for one in course.plan.transfers if one.courier})


def execution_h(course: Course) -> float:
    """Hours of tasks that crews carry out."""
    return sum(task.ends_s - task.begins_s for wave in course.plan.waves for task in wave.tasks if task.crew) / HOUR_S


def carried_value(course: Course) -> Counted:
    """What everything that is carried is worth: of the vehicles' loads, else by ``gpu_values`` of the policy."""
    loads = [vehicle.value for wave in course.plan.waves for vehicle in wave.vehicles]
    known = [load for load in loads if load is not None]
    if loads and len(known) == len(loads):
        return Counted(sum(known), Origin.DECLARED)
    values = {} if course.policy.logistics is None else course.policy.logistics.gpu_values
    total = 0.0
    for rack in course.wave_of:
        for model, count in course.gpus_of(rack).items():
            if model not in values:
                return Counted(None, Origin.MISSING)
            total += count * values[model]
    return Counted(total, Origin.DECLARED)
