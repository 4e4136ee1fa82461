"""The plan of the small move, moment by moment as a person would write it down; numbers that follow from a table are worked out here."""

from __future__ import annotations

import math
from collections.abc import Callable

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.estate import Estate, Workload
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S, HOUR_S, CrewId
from bridgehead.model.plan import (
    Level,
    PhaseId,
    Placement,
    Plan,
    PlannedPhase,
    RollbackPoint,
    Score,
    ServiceCopy,
    ServiceMode,
    Shrink,
    SparePart,
    Swing,
    SwingMode,
    Task,
    TaskKind,
    Transfer,
    Vehicle,
    VehicleId,
    Wave,
    WaveId,
    digest_of,
)
from bridgehead.model.policy import Policy

_At = Callable[..., float]
"""Of a day, and an hour of it."""
_LANE_BPS = 10e9
_MODES = {"serve": SwingMode.CANARY, "train": SwingMode.PRECOPY, "tune": SwingMode.RESTART, "batch": SwingMode.REQUEUE}
_PLACES = {"r1": "t1", "r2": "t2", "r3": "t3", "r4": "t4", "c1": "t5", "c2": "t6"}


def small_plan(estate: Estate, policy: Policy) -> Plan:
    """The plan, for ``small_move`` only."""
    assert policy.begins_s is not None
    begins, hardware = policy.begins_s, bool(policy.hardware)
    work = {one.id: one for one in estate.workloads}

    def at(day: int, hour: float = 0.0) -> float:
        return begins + day * DAY_S + hour * HOUR_S

    waves = _waves(at) if hardware else ()
    nights = {"serve": 11, "tune": 18, "batch": 18, "train": 19} if hardware else {"serve": 11, "tune": 11, "batch": 12, "train": 12}
    shrinks = _shrinks(waves, at) if hardware else ()
    swings = tuple(_swing(work[WorkloadId(name)], at(day, 21), shrinks) for name, day in nights.items())
    ends = {one.id: one.ends_s for one in swings}
    shrinks = tuple(
        Shrink(one.workload, one.site, one.gpus, one.begins_s, ends[one.workload]) if one.site == policy.source else one for one in shrinks
    )
    over = max([one.joins_s for one in waves] + list(ends.values()))
    hours = {WorkloadId(one.id): one.lost_gpu_hours for one in swings}
    for one in shrinks:
        hours[one.workload] += (work[one.workload].gpus - one.gpus) * (one.ends_s - one.begins_s) / HOUR_S
    lost = math.fsum(hours.values())
    levels = (
        Level("lost-gpu-hours", math.fsum(hours[name] * (1 + work[name].priority) for name in hours), 0.0),
        Level("days", (over - begins) / DAY_S, 20.0 if hardware else 10.0),
    )
    value, bound = sum(one.value for one in levels), sum(one.bound for one in levels)
    return Plan(
        name="small",
        source=policy.source,
        target=policy.target,
        estate=digest_of(estate),
        policy=digest_of(policy),
        begins_s=begins,
        ends_s=over + 5 * DAY_S,
        score=Score(levels, (value - bound) / value, lost),
        phases=_phases(at, swings, waves, over),
        services=(
            ServiceCopy(WorkloadId("dns"), ServiceMode.ACTIVE_ACTIVE, at(5), at(6)),
            ServiceCopy(WorkloadId("auth"), ServiceMode.ACTIVE_PASSIVE, at(6), at(8)),
        ),
        transfers=_transfers(at, swings),
        swings=swings,
        shrinks=shrinks,
        waves=waves,
        placements=tuple(Placement(RackId(rack), RackId(place)) for rack, place in sorted(_PLACES.items())) if hardware else (),
        rollback=(RollbackPoint("swing", at(11, 21), "traffic goes back to the source", "errors rise"),),
        spares=(SparePart("H100", 7, "10 % of 64"),) if hardware else (),
    )


def _swing(work: Workload, begins_s: float, shrinks: tuple[Shrink, ...]) -> Swing:
    mode = _MODES[work.id]
    delta_s = 8 * 0.25 * (work.total_checkpoint_bytes or 0) / _LANE_BPS
    lost_s, length_s = 0.0, 4 * 600.0
    match mode:
        case SwingMode.PRECOPY:
            lost_s = 20.0 + delta_s + 60.0 * 0.25 + 5.0
        case SwingMode.RESTART:  # neither save nor restore is measured: the size at 100 and at 200 Gbit/s
            size = 8 * (work.total_checkpoint_bytes or 0)
            lost_s = size / 100e9 + delta_s + size / 200e9 + 300.0
        case SwingMode.REQUEUE:
            lost_s = 900.0
        case SwingMode.CANARY:
            pass
    if mode is not SwingMode.CANARY:
        length_s = math.ceil(600.0 + 3 * delta_s + lost_s)
    gpus = min([work.gpus, *(one.gpus for one in shrinks if one.workload == work.id and one.site == work.site)])
    return Swing(work.id, mode, begins_s, begins_s + length_s, lost_s, lost_s * gpus / HOUR_S)


def _shrinks(waves: tuple[Wave, ...], at: _At) -> tuple[Shrink, ...]:
    """Training on half of its GPUs from the second wave on, batch paused while the third is away; the source's ends with the swing."""
    train, batch, back = WorkloadId("train"), WorkloadId("batch"), waves[2].joins_s
    return (
        Shrink(train, SiteId("old"), 8, waves[1].out_s, at(20)),
        Shrink(train, SiteId("new"), 8, at(19, 21), back),
        Shrink(batch, SiteId("new"), 0, at(19, 21), back),
    )


def _waves(at: _At) -> tuple[Wave, ...]:
    return (
        _wave(1, at, 3, {"truck-1": ("r3",)}, wet=0, bridgehead=True),
        _wave(2, at, 12, {"truck-1": ("r4", "c1")}, wet=0),
        _wave(3, at, 20, {"truck-1": ("r1", "c2"), "truck-2": ("r2",)}, wet=2),
    )


def _wave(number: int, at: _At, day: int, loads: dict[str, tuple[str, ...]], *, wet: int, bridgehead: bool = False) -> Wave:
    """Two teams at each end, shifts from 7 to 17; packed and driven on the first day, unloaded on the second, installed on the third."""
    racks = sum(map(len, loads.values()))
    rounds = math.ceil(racks / 2)
    teams = min(2, racks)
    packed = 7.0 + 3 * rounds
    loading = packed + (2.0 if wet else 0.0)
    leaves = loading + 0.5 * rounds
    unloaded = 31.0 + 0.5 * rounds
    inspect = unloaded + 24.0
    installed = inspect + rounds * 4.0
    tested = 83.0 if wet else installed
    spans = [
        (TaskKind.DRAIN, 6.0, 7.0, "", 0),
        (TaskKind.PACK, 7.0, packed, "packers", teams),
        *([(TaskKind.DRAIN_COOLANT, packed, loading, "packers", 2)] if wet else []),
        (TaskKind.LOAD, loading, leaves, "packers", teams),
        (TaskKind.TRANSIT, leaves, leaves + 4, "", 0),
        (TaskKind.UNLOAD, 31.0, unloaded, "fitters", teams),
        (TaskKind.ACCLIMATISE, unloaded, inspect, "", 0),
        (TaskKind.INSPECT, inspect, inspect + rounds, "fitters", teams),
        (TaskKind.INSTALL, inspect + rounds, installed, "fitters", teams),
        *([(TaskKind.LEAK_TEST, 79.0, tested, "fitters", 2)] if wet else []),
        (TaskKind.BURN_IN, tested, tested + 48, "", 0),
        (TaskKind.JOIN, tested + 48, tested + 49, "", 0),
    ]
    tasks = tuple(
        Task(kind, at(day, begins), at(day, ends), CrewId(crew), count, at(day, begins - 3 * (ends - begins)) if crew else None)
        for kind, begins, ends, crew, count in spans
    )
    vehicles = tuple(
        Vehicle(
            VehicleId(name), tuple(RackId(rack) for rack in load), at(day, leaves), at(day, leaves + 4),
            640_000.0 * sum(rack.startswith("r") for rack in load),
        )
        for name, load in loads.items()
    )  # fmt: skip
    return Wave(WaveId(f"wave-{number}"), at(day, 6), at(day, tested + 49), vehicles, tasks, bridgehead)


def _transfers(at: _At, swings: tuple[Swing, ...]) -> tuple[Transfer, ...]:
    """Bulk one after the other at 15 Gbit/s, state in the night before; what changes is kept in step."""
    tera, ends = 10**12, {one.id: one for one in swings}
    found = [Transfer("archive", 100 * tera, at(0), at(3), courier="drives")]
    now = at(5)
    last = max(ends[WorkloadId(name)].ends_s for name in ("serve", "train", "tune"))
    for name, size, change, until in (
        ("corpus", 20 * tera, 0.0, None),
        ("events", tera, 1e9, ends[WorkloadId("tune")].ends_s),
        ("store.scratch", 4 * tera, 0.2e9, last),
    ):
        length = math.ceil(8 * size / (15e9 - change))
        found.append(Transfer(name, size, now, now + length, rate_bps=15e9, sync_bps=change, sync_ends_s=until))
        now += length
    for name, size, change in (("serve", tera // 10, 0.0), ("train", 8 * tera // 10, 1.6e12 / 1800.0), ("tune", 8 * tera // 100, 0.0)):
        swing = ends[WorkloadId(name)]
        begins, done = swing.begins_s - 5 * HOUR_S, swing.begins_s - HOUR_S
        until = swing.ends_s if change else None
        found.append(Transfer(f"checkpoint.{name}", size, begins, done, rate_bps=2e9, sync_bps=change, sync_ends_s=until))
    return tuple(found)


def _phases(at: _At, swings: tuple[Swing, ...], waves: tuple[Wave, ...], over: float) -> tuple[PlannedPhase, ...]:
    later = [one for one in waves if not one.bridgehead]
    hardware = [PlannedPhase(PhaseId.HARDWARE, min(one.out_s for one in later), max(one.joins_s for one in later))] if later else []
    return (
        PlannedPhase(PhaseId.PREPARE, at(-14), at(0)),
        PlannedPhase(PhaseId.BRIDGEHEAD, at(0), at(5)),
        PlannedPhase(PhaseId.SERVICES, at(5), at(10)),
        PlannedPhase(PhaseId.SWING, min(one.begins_s for one in swings), max(one.ends_s for one in swings)),
        *hardware,
        PlannedPhase(PhaseId.DECOMMISSION, over, over + 5 * DAY_S),
        PlannedPhase(PhaseId.LINK_KEPT, over + 5 * DAY_S, over + 35 * DAY_S),
    )
