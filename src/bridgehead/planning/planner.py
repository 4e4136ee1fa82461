"""The planner: estate and policy in, a plan out (M7.1 to M7.5, M10.1, M10.4). Pure but for the clock that it is given.

Data is planned first, then slots and days by ``search``, then places, vehicles and tasks; every part keeps the rules of
``docs/reference/plan-files.md``. The checker, which shares no code with it, has the last word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.estate import Estate, Workload
from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.plan import (
    Level,
    PhaseId,
    Plan,
    PlannedPhase,
    RollbackPoint,
    Score,
    ServiceCopy,
    ServiceMode,
    Shrink,
    SparePart,
    Swing,
    Transfer,
    Wave,
    digest_of,
)  # fmt: skip
from bridgehead.model.policy import Policy
from bridgehead.planning.demand import Demand, demand
from bridgehead.planning.grid import Rounds, Yard
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.places import Placing
from bridgehead.planning.search import DAY_MINUTES, Found, Progress, Search
from bridgehead.planning.swings import shrinks, swings
from bridgehead.planning.transfers import bulk, checkpoints, with_sync
from bridgehead.planning.waves import waves

ASSESSED_S = 90 * DAY_S
"""The assessment begins that long before the move (M5.0)."""


def make(
    estate: Estate,
    policy: Policy,
    *,
    seed: int,
    time_limit_s: float,
    now_s: Callable[[], float],
    progress: Callable[[Progress], None],
    name: str = "",
) -> Plan | NoPlan:
    """Make a plan.

    Raises BAD_INPUT with everything that is missing, and for needs that go in circles.
    """
    asked = demand(estate, policy)
    assert policy.begins_s is not None, "demand() has checked it"
    yard = Yard(policy.logistics, asked) if asked.hardware and policy.logistics is not None and asked.parcels else None
    bridgehead_s = policy.begins_s + policy.phases.bridgehead_s
    services = _services(asked, bridgehead_s)
    services_s = bridgehead_s + policy.phases.services_s
    copies = bulk(asked, begins_s=bridgehead_s, swings_s=services_s)
    ready = max((one.ends_s for one in copies), default=services_s)
    placements, unplaced = Placing(asked).place() if yard is not None else ((), ())
    if unplaced:
        return NoPlan(asked, yard, services_s, ready, unplaced)
    search = Search(asked, yard, services_s=services_s, ready_s=ready, seed=seed, time_limit_s=time_limit_s, now_s=now_s, progress=progress)
    found = search.run()
    if found is None:
        return NoPlan(asked, yard, services_s, ready)
    return _plan(asked, yard, found, services, copies, name or policy.name, seed, bridgehead_s, services_s, placements)


def _services(asked: Demand, begins_s: float) -> tuple[ServiceCopy, ...]:
    """In the order of their needs; those that need nothing of each other at the same time (M7.2)."""
    known: dict[WorkloadId, Workload] = {one.id: one for one in asked.services}
    level: dict[WorkloadId, int] = {}
    while len(level) < len(known):
        ready = [one for one in known.values() if one.id not in level and all(need in level for need in one.needs if need in known)]
        if not ready:
            names = ", ".join(sorted(set(known) - set(level)))
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="plan the services",
                subject=names,
                happened="they need each other in a circle",
                remedy="Take one of the needs away: something has to be there first.",
            )
        depth = len(set(level.values()))
        level |= {one.id: depth for one in ready}
    length = asked.policy.phases.services_s / max(1, len(set(level.values())))
    both = {service.workload for service in asked.estate.services if {asked.source.id, asked.target.id} <= set(service.sites)}
    return tuple(
        ServiceCopy(
            name,
            ServiceMode.ACTIVE_ACTIVE if name in both else ServiceMode.ACTIVE_PASSIVE,
            begins_s + math.floor(at * length),
            begins_s + math.floor((at + 1) * length),
        )
        for name, at in sorted(level.items())
    )


def _plan(
    asked: Demand,
    yard: Yard | None,
    found: Found,
    services: tuple[ServiceCopy, ...],
    copies: tuple[Transfer, ...],
    name: str,
    seed: int,
    bridgehead_s: float,
    services_s: float,
    placements: tuple[object, ...],
) -> Plan:
    policy = asked.policy
    assert policy.begins_s is not None, "demand() has checked it"
    shift = 0.0 if yard is None else yard.packers.begins_s
    gone = swings(asked, found.choice, found.calendar, shift_s=shift)
    less = shrinks(asked, found.choice, found.calendar, gone, shift_s=shift)
    carried = () if yard is None else waves(found.choice.leaving, found.kinds, yard, found.calendar)
    synced = with_sync(copies, asked.jobs, gone)
    state = checkpoints(asked, {job.id: job for job in asked.jobs}, gone, synced, begins_s=bridgehead_s)
    phases = _phases(policy, bridgehead_s, services_s, gone, carried)
    ends = next(phase.ends_s for phase in phases if phase.id is PhaseId.DECOMMISSION)
    over = max([one.ends_s for one in gone] + [one.joins_s for one in carried], default=services_s)
    return Plan(
        name=name,
        source=asked.source.id,
        target=asked.target.id,
        estate=digest_of(asked.estate),
        policy=digest_of(policy),
        begins_s=policy.begins_s,
        ends_s=ends,
        score=_score(asked, yard, found, gone, less, carried, (over - policy.begins_s) / DAY_S),
        seed=seed,
        phases=phases,
        services=services,
        transfers=(*synced, *state),
        swings=gone,
        shrinks=less,
        waves=carried,
        placements=placements,  # type: ignore[arg-type]  # the search of places made them
        rollback=_rollback(phases, gone),
        spares=_spares(asked, (over - policy.begins_s) / HOUR_S),
        assumptions=asked.assumptions,
    )


def _phases(
    policy: Policy, bridgehead_s: float, services_s: float, gone: tuple[Swing, ...], carried: tuple[Wave, ...]
) -> tuple[PlannedPhase, ...]:
    assert policy.begins_s is not None, "demand() has checked it"
    found = [
        PlannedPhase(PhaseId.PREPARE, policy.begins_s - ASSESSED_S, policy.begins_s),
        PlannedPhase(PhaseId.BRIDGEHEAD, policy.begins_s, bridgehead_s),
        PlannedPhase(PhaseId.SERVICES, bridgehead_s, services_s),
    ]
    if gone:
        found.append(PlannedPhase(PhaseId.SWING, min(one.begins_s for one in gone), max(one.ends_s for one in gone)))
    late = [one for one in carried if not one.bridgehead]
    if late:
        found.append(PlannedPhase(PhaseId.HARDWARE, min(one.out_s for one in late), max(one.joins_s for one in late)))
    over = max([services_s, *(one.ends_s for one in gone), *(one.joins_s for one in carried)])
    ends = over + policy.phases.decommission_s
    found.append(PlannedPhase(PhaseId.DECOMMISSION, over, ends))
    found.append(PlannedPhase(PhaseId.LINK_KEPT, ends, ends + policy.phases.keep_link_s))
    return tuple(found)


def _rollback(phases: tuple[PlannedPhase, ...], gone: tuple[Swing, ...]) -> tuple[RollbackPoint, ...]:
    """Written steps for every phase, with what makes people go back (M10.4)."""
    ends = {phase.id: phase.ends_s for phase in phases}
    found = [
        RollbackPoint("bridgehead", ends[PhaseId.BRIDGEHEAD], "power the bridgehead down, take the routes back; nothing depends on it yet",
                      "the failover test with uncritical workloads fails twice"),
        RollbackPoint("services", ends[PhaseId.SERVICES], "point all names at the source's instances, which have run all the time",
                      "a service is not validated from both sites"),
    ]  # fmt: skip
    if gone:
        found.append(RollbackPoint("swing", ends[PhaseId.SWING], "swing back one by one: only what changed travels",
                                   "a gate is breached, or a workload stands still for longer than planned"))  # fmt: skip
    if PhaseId.HARDWARE in ends:
        found.append(RollbackPoint("hardware", ends[PhaseId.HARDWARE], "hold the waves that have not left; what runs at the target stays",
                                   "racks arrive damaged, burn-in fails, or the reserve of a site would be broken"))  # fmt: skip
    found.append(RollbackPoint("decommission", ends[PhaseId.LINK_KEPT], "move back by a plan of its own, over the line that is kept",
                               "the target does not hold its objectives"))  # fmt: skip
    return tuple(found)


def _spares(asked: Demand, hours: float) -> tuple[SparePart, ...]:
    rules = asked.policy.spares
    found = []
    for model in asked.models:
        units = sum(parcel.gpus(model) for parcel in asked.parcels)
        if not units:
            continue
        floor, because = math.ceil(rules.floor * units - 1e-9), f"{rules.floor:.0%} of {units:,}"
        if rules.gpu_hours_per_fault is not None:
            mean = hours * units / rules.gpu_hours_per_fault
            least = poisson_quantile(mean, rules.target)
            if least > floor:
                floor, because = least, f"{mean:.1f} faults are expected; so many last with {rules.target:.0%}"
        found.append(SparePart(model, floor, because))
    return tuple(found)


def poisson_quantile(mean: float, target: float) -> int:
    """Least k with P(X <= k) >= target (CK6: 2.025 and 95 % give 5)."""
    count, term = 0, math.exp(-mean)
    if term == 0.0:  # the mean is too large for floats: far above it is safe
        return math.ceil(mean + 6 * math.sqrt(mean))
    total = term
    while total < target:
        count += 1
        term *= mean / count
        total += term
    return count


def _score(
    asked: Demand,
    yard: Yard | None,
    found: Found,
    gone: tuple[Swing, ...],
    less: tuple[Shrink, ...],
    carried: tuple[Wave, ...],
    days: float,
) -> Score:
    jobs = {job.id: job for job in asked.jobs}
    costs: list[tuple[WorkloadId, float]] = [(one.id, one.lost_gpu_hours) for one in gone]
    costs += [(one.workload, (jobs[one.workload].gpus - one.gpus) * (one.ends_s - one.begins_s) / HOUR_S) for one in less]
    weighted = math.fsum((1 + jobs[name].priority) * hours for name, hours in costs)
    least = math.fsum(
        (1 + job.priority) * job.crossing.lost_s * (job.gpus if not found.tight else job.least) / HOUR_S for job in asked.jobs
    )
    levels = [
        Level("lost-gpu-hours", weighted, min(weighted, least + found.shrink_bound)),
        Level("days", days, min(days, found.bound_minutes / DAY_MINUTES)),
        *_cost_level(asked, yard, found, carried),
    ]
    weights: Mapping[str, float] = {
        "lost-gpu-hours": asked.policy.weights.lost_gpu_hour, "days": asked.policy.weights.day, "cost": asked.policy.weights.money,
    }  # fmt: skip
    value = math.fsum(weights[level.id] * level.value for level in levels)
    bound = math.fsum(weights[level.id] * level.bound for level in levels)
    return Score(tuple(levels), max(0.0, (value - bound) / value) if value else 0.0, math.fsum(hours for _, hours in costs), found.binding)


def _cost_level(asked: Demand, yard: Yard | None, found: Found, carried: tuple[Wave, ...]) -> list[Level]:
    """Trips, and a day of both crews for each wave: what of the cost the planner decides. Left out where nobody gave the prices."""
    if yard is None or yard.fleet.trip_cost is None or yard.packers.day_cost is None or yard.fitters.day_cost is None:
        return []
    day = yard.packers.day_cost * yard.packers.teams + yard.fitters.day_cost * yard.fitters.teams
    racks = sum(len(parcel.racks) for parcel in asked.parcels)
    most, rounds = 1, 1
    while yard.packing_s(Rounds(rounds, 0)) <= yard.packers.shift_s:
        most, rounds = rounds, rounds + 1
    trips = sum(len(wave.vehicles) for wave in carried)
    value = trips * yard.fleet.trip_cost + len(carried) * day
    bound = min(found.trips_bound, trips) * yard.fleet.trip_cost + math.ceil(racks / (most * yard.teams)) * day
    return [Level("cost", value, min(value, bound))]
