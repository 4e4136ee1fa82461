"""Conflict: a smallest set of limits that cannot be kept together: without any one of them there would be a plan (design rule 2)."""

from __future__ import annotations

import math
from typing import assert_never

import msgspec
from ortools.sat.python import cp_model

from bridgehead.kernel.quantity import format_duration
from bridgehead.model.logistics import DAY_S
from bridgehead.planning.grid import calendar
from bridgehead.planning.master import Limit, Master
from bridgehead.planning.no_plan import NoPlan


def smallest(master: Master, *, seed: int, limit_s: float) -> tuple[Limit, ...] | None:
    """The smallest conflict; None when there is none, or nobody can tell in ``limit_s`` seconds a question.

    The model is built with switches. Limits are taken away one by one; whatever is not needed for the contradiction stays away.
    """
    core = _core(master, tuple(master.switches), seed, limit_s)
    if core is None:
        return None
    kept = list(core)
    for limit in core:
        without = tuple(one for one in kept if one is not limit)
        less = _core(master, without, seed, limit_s)
        if less is not None:
            kept = [one for one in kept if one in less]
    return tuple(sorted(kept))


def _core(master: Master, limits: tuple[Limit, ...], seed: int, limit_s: float) -> tuple[Limit, ...] | None:
    """Limits among these that contradict each other; None when they can be kept together, or it is not proved that they cannot."""
    model = master.model.clone()
    names = {master.switches[limit].index: limit for limit in limits}
    model.add_assumptions([master.switches[limit] for limit in limits])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # the set of assumptions is only given by one worker
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = limit_s
    if solver.solve(model) != cp_model.INFEASIBLE:
        return None
    found = {names[index] for index in solver.sufficient_assumptions_for_infeasibility() if index in names}
    return tuple(limit for limit in limits if limit in found)


class Conflict(msgspec.Struct, frozen=True):
    """Why there is no plan.

    Attributes:
        limits: the smallest set that cannot be kept together; empty while nobody can tell, or where places are missing.
        texts: each in plain words.
    """

    limits: tuple[Limit, ...]
    texts: tuple[str, ...]


def conflict_of(none: NoPlan, *, seed: int, limit_s: float) -> Conflict:
    """The conflict behind a missing plan."""
    if none.unplaced:
        first = none.unplaced[0]
        because = ", ".join(f"{what} ({count} places)" for what, count in sorted(first.because.items(), key=lambda one: -one[1]))
        racks = [rack for one in none.unplaced for rack in one.racks]
        shown = ", ".join(racks[:5]) + (f" and {len(racks) - 5} more" if len(racks) > 5 else "")
        text = (
            f"{len(racks)} racks find no place at {none.demand.target.id}: {shown}; of {first.racks[0]}'s group, places fail for {because}"
        )
        return Conflict((), (text,))
    days = horizon(none)
    asked = calendar(none.demand, none.yard, days=days, services_s=none.services_s, ready_s=none.ready_s)
    for tight in (True, False):
        limits = smallest(Master(none.demand, none.yard, asked, tight=tight, switched=True), seed=seed, limit_s=limit_s)
        if limits:
            return Conflict(limits, tuple(f"{WORDS[limit]} ({now(limit, none)})" for limit in limits))
    return Conflict((), ())


def horizon(none: NoPlan) -> int:
    """Days within which it is impossible: to the deadline, or some months after services are there."""
    begins = none.demand.policy.begins_s or 0.0
    ends = none.demand.policy.ends_s
    least = math.ceil((max(none.services_s, none.ready_s) - begins) / DAY_S)
    return least + 60 if ends is None else max(1, min(least + 60, math.floor((ends - begins) / DAY_S)))


WORDS: dict[Limit, str] = {
    Limit.RESERVE_SOURCE: "the source keeps what runs there and the reserve, at every moment",
    Limit.RESERVE_TARGET: "the target holds what goes over and the reserve, at every moment",
    Limit.BRIDGEHEAD: "enough, and not too much, stands at the target before the first swing",
    Limit.WINDOWS: "each swing lies within one window",
    Limit.LANES: "only so many swings at the same time",
    Limit.PACKERS: "racks are packed within the shift of the source's crew",
    Limit.FITTERS: "racks are installed within the shift of the target's crew",
    Limit.VEHICLES: "vehicles carry only so many racks, so much weight and value, and have to come back",
    Limit.DOCK: "the dock has only so many places",
    Limit.BLACKOUTS: "nothing moves in blackouts",
    Limit.DEADLINE: "everything has gone over by the end",
}


def now(limit: Limit, none: NoPlan) -> str:
    """The value that a limit has now, with its path."""
    policy, yard = none.demand.policy, none.yard
    logistics = policy.logistics
    match limit:
        case Limit.RESERVE_SOURCE | Limit.RESERVE_TARGET:
            return f"policy.reserve: {policy.reserve:.0%}"
        case Limit.BRIDGEHEAD:
            return f"policy.bridgehead: {policy.bridgehead.least:.0%} to {policy.bridgehead.most:.0%}"
        case Limit.WINDOWS:
            longest = max((one.ends_s - one.begins_s for one in policy.windows), default=0.0)
            swing = max((job.crossing.length_s for job in none.demand.jobs), default=0.0)
            return f"policy.windows: the longest lasts {format_duration(longest)}, the longest swing {format_duration(math.ceil(swing))}"
        case Limit.LANES:
            return f"policy.limits.concurrent_moves: {policy.limits.concurrent_moves}"
        case Limit.PACKERS | Limit.FITTERS:
            crew = None if yard is None else yard.packers if limit is Limit.PACKERS else yard.fitters
            return "" if crew is None else f"policy.logistics.crews.{crew.id}: {crew.teams} teams, {format_duration(crew.shift_s)} a day"
        case Limit.VEHICLES:
            fleet = None if logistics is None else logistics.fleet
            return "" if fleet is None else f"policy.logistics.fleet: {fleet.vehicles} with {fleet.racks} places each"
        case Limit.DOCK:
            return "" if logistics is None else f"policy.logistics.dock_places: {logistics.dock_places}"
        case Limit.BLACKOUTS:
            return f"policy.blackouts: {len(policy.blackouts)}"
        case Limit.DEADLINE:
            return "policy.ends" if policy.ends_s is not None else f"within {horizon(none)} days"
        case _:
            assert_never(limit)
