"""PlainPlan: a plan without a planner, for tests and benches: each day a wave as soon as GPUs are free, each night as many swings as fit.

It keeps the rules on order, crews, lanes and reserves of ``docs/reference/plan-files.md``, but not those on places, power and data, and
it does not try to be good.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.equipment import Rack
from bridgehead.model.estate import Estate, Workload, WorkloadKind
from bridgehead.model.logistics import DAY_S, HOUR_S, CrewId, Logistics
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
from bridgehead.simulate.plan_resources import gpu_model_of, gpus_in_racks, lane_bps, line_bps, site_of

PRECHECK_S = 600.0
_WORK = {TaskKind.PACK, TaskKind.DRAIN_COOLANT, TaskKind.LOAD, TaskKind.UNLOAD, TaskKind.INSPECT, TaskKind.INSTALL, TaskKind.LEAK_TEST}
_AT_SOURCE = {TaskKind.PACK, TaskKind.DRAIN_COOLANT, TaskKind.LOAD}


def plain_plan(estate: Estate, policy: Policy, *, racks_per_wave: int = 8) -> Plan:
    """Make one, for a policy with logistics and a first day. Deterministic. Raises ValueError where this simple way gets stuck."""
    return _Plain(estate, policy, racks_per_wave).plan()


class _Plain:
    def __init__(self, estate: Estate, policy: Policy, racks_per_wave: int) -> None:
        assert policy.logistics is not None
        assert policy.begins_s is not None
        source, target = site_of(estate, policy.source), site_of(estate, policy.target)
        assert source is not None
        assert target is not None
        self.estate, self.policy, self.per_wave = estate, policy, racks_per_wave
        self.logistics: Logistics = policy.logistics
        self.begins_s = policy.begins_s
        self.bridgehead_ends_s = self.begins_s + policy.phases.bridgehead_s
        self.services_end_s = self.bridgehead_ends_s + policy.phases.services_s
        self.gpus = gpus_in_racks(source)
        carried = [rack for rack in source.racks if rack.id in self.gpus]
        self.racks = sorted(carried, key=lambda rack: (not self.gpus[rack.id].total(), rack.nvlink_domain or rack.id))
        self.wet = {node.rack for node in source.nodes if node.liquid_share}
        self.places = [rack.id for rack in target.racks if rack.id not in {node.rack for node in target.nodes}]
        moving = [one for one in estate.workloads if one.site == policy.source and one.kind is not WorkloadKind.SERVICE]
        self.waiting = sorted(moving, key=lambda one: (-one.priority, one.id))
        self.kept = 1 + policy.reserve
        self.free: dict[str, float] = defaultdict(float)
        for rack in self.racks:
            for model, count in self.gpus[rack.id].items():
                self.free[model] += count
        for one in self.waiting:
            self.free[self._model(one)] -= self.kept * one.gpus
        self.there: dict[str, float] = defaultdict(float)
        self.joins: list[tuple[float, Counter[str]]] = []
        self.waves: list[Wave] = []
        self.swings: list[Swing] = []
        self.lane_bps = lane_bps(estate, policy)

    def _model(self, one: Workload) -> str:
        return gpu_model_of(self.estate, one.id, self.policy.source) or ""

    def plan(self) -> Plan:
        total = sum(count for found in self.gpus.values() for count in found.values())
        day = self.begins_s + DAY_S
        while self._moved() < self.policy.bridgehead.least * total and day < self.bridgehead_ends_s:
            self._wave(day, bridgehead=True)
            day += DAY_S
        transfers = self._transfers()
        data_s = max((one.ends_s for one in transfers), default=0.0)
        day = max(self.services_end_s, math.ceil((data_s - self.begins_s) / DAY_S) * DAY_S + self.begins_s)
        first = day
        while (self.waiting or self.racks) and day < first + 400 * DAY_S:
            self._wave(day, bridgehead=False)
            self._night(day + 20 * HOUR_S, day + 30 * HOUR_S)
            day += DAY_S
        if self.waiting or self.racks:
            raise ValueError(f"{len(self.waiting)} workloads and {len(self.racks)} racks never find room")
        return self._finished(transfers, first)

    def _moved(self) -> int:
        return sum(self.gpus[rack].total() for wave in self.waves for rack in wave.racks)

    def _wave(self, day: float, *, bridgehead: bool) -> None:
        chosen: list[Rack] = []
        for rack in list(self.racks):
            partners = [one for one in self.racks if one == rack or (one.nvlink_domain and one.nvlink_domain == rack.nvlink_domain)]
            asked: Counter[str] = Counter()
            for one in partners:
                asked.update(self.gpus[one.id])
            if len(chosen) + len(partners) > self.per_wave or any(self.free[model] < count - 1e-6 for model, count in asked.items()):
                continue
            chosen += partners
            for model, count in asked.items():
                self.free[model] -= count
            self.racks = [one for one in self.racks if one not in partners]
        if chosen:
            tasks = self._tasks(day, chosen)
            number = len(self.waves)
            out_s, joins_s = tasks[0].begins_s, tasks[-1].ends_s
            self.waves.append(
                Wave(WaveId(f"wave-{number + 1:02d}"), out_s, joins_s, self._vehicles(chosen, tasks, number), tasks, bridgehead)
            )
            found: Counter[str] = Counter()
            for rack in chosen:
                found.update(self.gpus[rack.id])
            self.joins.append((joins_s, found))

    def _tasks(self, day: float, racks: list[Rack]) -> tuple[Task, ...]:
        handling, wet = self.logistics.handling, sum(rack.id in self.wet for rack in racks)
        lasts = {
            TaskKind.DRAIN: (HOUR_S, 0), TaskKind.PACK: (handling.pack_s, len(racks)),
            TaskKind.DRAIN_COOLANT: (handling.drain_coolant_s, wet),
            TaskKind.LOAD: (handling.load_s, len(racks)), TaskKind.TRANSIT: (self.logistics.fleet.transit_s, 0),
            TaskKind.UNLOAD: (handling.load_s, len(racks)), TaskKind.ACCLIMATISE: (handling.acclimatise_s, 0),
            TaskKind.INSPECT: (handling.inspect_s, len(racks)), TaskKind.INSTALL: (handling.install_s, len(racks)),
            TaskKind.LEAK_TEST: (handling.leak_test_s, wet), TaskKind.BURN_IN: (handling.burn_in_s, 0), TaskKind.JOIN: (handling.join_s, 0),
        }  # fmt: skip
        tasks: list[Task] = []
        now = day + 6 * HOUR_S
        for kind, (one_s, count) in lasts.items():
            if kind in (TaskKind.DRAIN_COOLANT, TaskKind.LEAK_TEST) and not wet:
                continue
            crew = self._crew(kind)
            lasts_s = one_s
            teams = 0
            if crew is not None:
                teams = min(crew[1], count)
                lasts_s = math.ceil(count / teams) * one_s
                now = self._in_shift(now, lasts_s, crew[2], crew[3])
            prepared = now - 3 * lasts_s if crew is not None else None
            tasks.append(Task(kind, now, now + lasts_s, crew[0] if crew is not None else CrewId(""), teams, prepared))
            now += lasts_s
        return tuple(tasks)

    def _crew(self, kind: TaskKind) -> tuple[CrewId, int, float, float] | None:
        if kind not in _WORK:
            return None
        site = self.policy.source if kind in _AT_SOURCE else self.policy.target
        # Waves of several days work beside each other: each takes a third of the teams.
        return next((one.id, max(1, one.teams // 3), one.begins_s, one.shift_s) for one in self.logistics.crews if one.site == site)

    def _in_shift(self, now: float, lasts_s: float, begins_s: float, shift_s: float) -> float:
        day = math.floor(now / DAY_S) * DAY_S
        if now < day + begins_s:
            return day + begins_s
        return now if now + lasts_s <= day + begins_s + shift_s else day + DAY_S + begins_s

    def _vehicles(self, racks: list[Rack], tasks: tuple[Task, ...], number: int) -> tuple[Vehicle, ...]:
        fleet = self.logistics.fleet
        transit = next(task for task in tasks if task.id is TaskKind.TRANSIT)
        groups = [racks[at : at + fleet.racks] for at in range(0, len(racks), fleet.racks)]
        names = [VehicleId(f"{fleet.id}-{(number * len(groups) + index) % fleet.vehicles + 1}") for index in range(len(groups))]
        return tuple(
            Vehicle(name, tuple(rack.id for rack in group), transit.begins_s, transit.ends_s)
            for name, group in zip(names, groups, strict=True)
        )

    def _night(self, begins_s: float, ends_s: float) -> None:
        for joined_s, found in [join for join in self.joins if join[0] <= begins_s]:
            for model, count in found.items():
                self.there[model] += count
            self.joins.remove((joined_s, found))
        lanes = [begins_s] * self.policy.limits.concurrent_moves
        for one in list(self.waiting):
            swing = self._swing(one, min(lanes))
            model = self._model(one)
            if swing.ends_s > ends_s or self.there[model] < self.kept * one.gpus - 1e-6:
                continue
            lanes[lanes.index(min(lanes))] = swing.ends_s
            self.swings.append(swing)
            self.waiting.remove(one)
            self.there[model] -= self.kept * one.gpus
            self.free[model] += self.kept * one.gpus

    def _swing(self, one: Workload, begins_s: float) -> Swing:
        size = one.total_checkpoint_bytes
        canary, precopy = self.policy.canary, self.policy.precopy
        if one.kind is WorkloadKind.INFERENCE:
            return Swing(one.id, SwingMode.CANARY, begins_s, begins_s + len(canary.steps) * canary.soak_s, 0.0, 0.0)
        if size is None:
            lost_s = (one.checkpoint_every_s or HOUR_S) / 2
            return Swing(one.id, SwingMode.REQUEUE, begins_s, begins_s + PRECHECK_S + lost_s, lost_s, lost_s * one.gpus / HOUR_S)
        delta_bits, save_s, restore_s = 8 * precopy.delta_share * size, one.save_s or 60.0, one.restore_s or 60.0
        mode, lost_s = SwingMode.RESTART, save_s + delta_bits / self.lane_bps + restore_s + (one.warm_up_s or 300.0)
        if one.checkpoint_every_s and delta_bits / one.checkpoint_every_s < self.lane_bps / 2:
            mode, lost_s = SwingMode.PRECOPY, save_s + delta_bits / self.lane_bps + restore_s * precopy.delta_share + precopy.release_s
        lasts_s = math.ceil(PRECHECK_S + 3 * delta_bits / self.lane_bps + lost_s)
        return Swing(one.id, mode, begins_s, begins_s + lasts_s, lost_s, lost_s * one.gpus / HOUR_S)

    def _transfers(self) -> tuple[Transfer, ...]:
        """One after the other at half of the line rate; what changes keeps its rate afterwards."""
        rate = 0.5 * line_bps(self.estate, self.policy)
        now, found = self.bridgehead_ends_s, []
        for data in self.estate.datasets:
            lasts_s = math.ceil(8 * data.size_bytes / rate)
            found.append(Transfer(data.id, data.size_bytes, now, now + lasts_s, rate_bps=rate, sync_bps=0.0))
            now += lasts_s
        return tuple(found)

    def _finished(self, transfers: tuple[Transfer, ...], first: float) -> Plan:
        policy, phases = self.policy, self.policy.phases
        over_s = max([first, *(one.ends_s for one in self.swings), *(one.joins_s for one in self.waves)])
        swings = [edge for one in self.swings for edge in (one.begins_s, one.ends_s)] or [first, first]
        hardware = [edge for one in self.waves if not one.bridgehead for edge in (one.out_s, one.joins_s)] or [first, first]
        ends_s = over_s + phases.decommission_s
        planned = (
            PlannedPhase(PhaseId.PREPARE, self.begins_s - 30 * DAY_S, self.begins_s),
            PlannedPhase(PhaseId.BRIDGEHEAD, self.begins_s, self.bridgehead_ends_s),
            PlannedPhase(PhaseId.SERVICES, self.bridgehead_ends_s, self.services_end_s),
            PlannedPhase(PhaseId.SWING, min(swings), max(swings)),
            PlannedPhase(PhaseId.HARDWARE, min(hardware), max(hardware)),
            PlannedPhase(PhaseId.DECOMMISSION, over_s, ends_s),
            PlannedPhase(PhaseId.LINK_KEPT, ends_s, ends_s + phases.keep_link_s),
        )
        lost = sum(one.lost_gpu_hours for one in self.swings)
        priority = {one.id: one.priority for one in self.estate.workloads}
        weighed = sum((1 + priority[one.id]) * one.lost_gpu_hours for one in self.swings)
        days = (over_s - self.begins_s) / DAY_S
        return Plan(
            name="plain", source=policy.source, target=policy.target, estate=digest_of(self.estate),
            policy=digest_of(policy),
            begins_s=self.begins_s, ends_s=ends_s, phases=planned,
            services=self._services(), transfers=transfers, swings=tuple(self.swings),
            waves=tuple(self.waves), score=Score((Level("lost-gpu-hours", weighed, 0.0), Level("days", days, 0.0)), 1.0, lost),
            placements=tuple(
                Placement(rack, place) for rack, place in zip([one for wave in self.waves for one in wave.racks], self.places, strict=False)
            ),
            rollback=(RollbackPoint("services", self.services_end_s, "all swings are taken back", "a service does not validate"),),
        )  # fmt: skip

    def _services(self) -> tuple[ServiceCopy, ...]:
        """In the order of their needs, one after the other, within the phase."""
        services = {one.id: one for one in self.estate.workloads if one.kind is WorkloadKind.SERVICE and one.site == self.policy.source}
        ordered: list[WorkloadId] = []
        while len(ordered) < len(services):
            for name, one in services.items():
                if name not in ordered and all(need in ordered or need not in services for need in one.needs):
                    ordered.append(name)
        each_s = math.floor(self.policy.phases.services_s / max(1, len(ordered)))
        begins_s = self.bridgehead_ends_s
        return tuple(
            ServiceCopy(name, ServiceMode.ACTIVE_PASSIVE, begins_s + at * each_s, begins_s + (at + 1) * each_s)
            for at, name in enumerate(ordered)
        )
