"""PlanModel: a plan as columns of numbers, ready to be simulated many times: what can happen to each activity, workload and rack. Pure."""

from __future__ import annotations

import enum

import msgspec
import numpy as np
import numpy.typing as npt

from bridgehead.kernel.ids import StepId
from bridgehead.model.estate import Estate, Workload, WorkloadKind
from bridgehead.model.hazards import Rates
from bridgehead.model.plan import Plan, Swing, SwingMode, TaskKind
from bridgehead.model.policy import Policy
from bridgehead.simulate.chance import Numbers, keys_of
from bridgehead.simulate.plan_network import Activity, Kind, network_of, swing_id
from bridgehead.simulate.plan_resources import (
    gpu_changes,
    gpus_in_racks,
    lane_bps,
    running_gpus,
    site_of,
    standing_gpus,
)

Index = npt.NDArray[np.int64]
NODE_GPUS = 8
WARM_UP_S, REQUEUE_S = 300.0, 3600.0
"""What ``docs/reference/plan-files.md`` takes where nobody gave a value."""


class Hazard(enum.StrEnum):
    """What can hold an activity up, in the order of the rows of a sample."""

    NO_SHOW = "no-show"
    SLOW_WORK = "slow-work"
    LATE_TRUCK = "late-truck"
    SLOW_LINK = "slow-link"
    CUT_LINK = "cut-link"
    FAILED_GATE = "failed-gate"
    CORRUPT_CHECKPOINT = "corrupt-checkpoint"
    INTERRUPTION = "interruption"


class Activities(msgspec.Struct, frozen=True):
    """Columns over all activities; a number is 0 where a hazard cannot strike."""

    keys: npt.NDArray[np.uint64]
    begins_s: Numbers
    ends_s: Numbers
    crewed: Numbers
    people: Numbers
    trips: Numbers
    by_line: Numbers
    gates: Numbers
    restores: Numbers
    copy_s: Numbers
    """Time that a swing copies."""
    stopped_copy_s: Numbers
    """The part of it in which the workload stands still."""
    lost_s: Numbers
    restart_s: Numbers
    interval_s: Numbers
    interrupted_per_s: Numbers
    """Rate of interruptions of the workload that swings."""


class Jobs(msgspec.Struct, frozen=True):
    """Columns over all workloads that are no services. ``stopped_gpus``: how many stand still when one of them fails."""

    names: tuple[str, ...]
    keys: npt.NDArray[np.uint64]
    gpus: Numbers
    stopped_gpus: Numbers
    interval_s: Numbers
    """Time between two checkpoints; 0 where nothing is repeated."""
    save_s: Numbers
    restart_s: Numbers
    """Restore and warm-up."""
    swing: Index
    """Its swing's place among the activities; -1 for none."""


class Racks(msgspec.Struct, frozen=True):
    """Columns over all racks that are carried, in the order of their joins."""

    keys: npt.NDArray[np.uint64]
    join: Index
    node_gpus: Numbers
    model: Index


class Account(msgspec.Struct, frozen=True):
    """GPUs of one model at one site: what is free above the reserve in the beginning, and who changes that at his beginning or end."""

    site: str
    model: str
    free: float
    who: Index
    at_end: npt.NDArray[np.bool_]
    change: Numbers
    joins_here: bool


class PlanModel:
    """Everything that is the same in all runs."""

    def __init__(self, plan: Plan, *, estate: Estate, policy: Policy, rates: Rates) -> None:
        self.plan, self.estate, self.policy, self.rates = plan, estate, policy, rates
        self.network: tuple[Activity, ...] = network_of(plan, estate=estate, policy=policy)
        self.place = {one.id: number for number, one in enumerate(self.network)}
        self._workloads = {one.id: one for one in estate.workloads}
        self._swings: dict[str, Swing] = {one.id: one for one in plan.swings}
        self._lane_bps = lane_bps(estate, policy)
        self.activities = self._activities()
        self.jobs = self._jobs()
        self.models = sorted({node.gpu_model for site in estate.sites for node in site.nodes if node.gpus})
        self.racks = self._racks()
        self.accounts = self._accounts()
        joins = {self.place[StepId(f"{wave.id}-{wave.tasks[-1].id.value}")] for wave in plan.waves if wave.tasks}
        self.over: Index = np.array(sorted(joins | {self.place[swing_id(one)] for one in plan.swings}), dtype=np.int64)
        """What has to be over before everything has gone over."""

    def _activities(self) -> Activities:
        crews = {crew.id for crew in self.policy.logistics.crews} if self.policy.logistics is not None else set()
        vehicles = {StepId(f"{wave.id}-{TaskKind.TRANSIT.value}"): len(wave.vehicles) for wave in self.plan.waves}
        couriers = {one.id for one in self.plan.transfers if one.courier}
        rows: list[tuple[float, ...]] = []
        for one in self.network:
            swing = self._swings[one.of] if one.kind is Kind.SWING else None
            transfer = one.kind is Kind.TRANSFER
            trips = vehicles.get(one.id, 0) + (transfer and one.of in couriers)
            crewed = one.kind is Kind.HANDLING and one.owner in crews
            rows.append(
                (
                    one.begins_s, one.ends_s, crewed, crewed or one.kind is Kind.SERVICE, trips,
                    transfer and one.of not in couriers, *(self._swing_row(swing) if swing is not None else (0.0,) * 8),
                )
            )  # fmt: skip
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 14).T
        return Activities(keys_of([one.id for one in self.network]), *table)

    def _swing_row(self, swing: Swing) -> tuple[float, ...]:
        """Gates, restores, copy, stopped copy, lost, restart, interval, rate of interruptions."""
        gates = len(self.policy.canary.steps) if swing.mode is SwingMode.CANARY else 0
        one = self._workloads.get(swing.id)
        if one is None or swing.mode in (SwingMode.CANARY, SwingMode.REQUEUE):
            return (gates, 0.0, 0.0, 0.0, swing.lost_s, 0.0, 0.0, 0.0)
        bits = 8 * self.policy.precopy.delta_share * (one.total_checkpoint_bytes or 0)
        stopped = min(bits / self._lane_bps, swing.lost_s) if self._lane_bps > 0 else 0.0
        per_s = one.gpus / (self.rates.interruptions.gpu_hours or np.inf) / 3600.0
        return (gates, 1.0, 3 * stopped, stopped, swing.lost_s, _restart_s(one), one.checkpoint_every_s or 0.0, per_s)

    def _jobs(self) -> Jobs:
        jobs = [one for one in self.estate.workloads if one.kind is not WorkloadKind.SERVICE and one.gpus and self._counts(one)]
        swing = [self.place.get(StepId(f"swing-{one.id}"), -1) for one in jobs]
        return Jobs(
            names=tuple(one.id for one in jobs),
            keys=keys_of([one.id for one in jobs]),
            gpus=np.array([one.gpus for one in jobs], dtype=np.float64),
            stopped_gpus=np.array([min(one.gpus, NODE_GPUS) if _serves(one) else one.gpus for one in jobs], dtype=np.float64),
            interval_s=np.array([_interval_s(one) for one in jobs], dtype=np.float64),
            save_s=np.array([one.save_s or 0.0 for one in jobs], dtype=np.float64),
            restart_s=np.array([_restart_s(one) for one in jobs], dtype=np.float64),
            swing=np.array(swing, dtype=np.int64),
        )

    def _counts(self, one: Workload) -> bool:
        return one.site in (self.plan.source, self.plan.target)

    def _racks(self) -> Racks:
        source = site_of(self.estate, self.plan.source)
        gpus = gpus_in_racks(source) if source is not None else {}
        nodes: dict[str, int] = {}
        for node in source.nodes if source is not None else ():
            if node.rack is not None and node.gpus:
                nodes[node.rack] = nodes.get(node.rack, 0) + 1
        names: list[str] = []
        rows: list[tuple[int, float, int]] = []
        for wave in sorted(self.plan.waves, key=lambda wave: wave.joins_s):
            for rack in wave.racks:
                for model, count in sorted(gpus.get(rack, {}).items()):
                    if count and wave.tasks:
                        join = self.place[StepId(f"{wave.id}-{wave.tasks[-1].id.value}")]
                        names.append(f"{rack}/{model}")
                        rows.append((join, count / nodes.get(rack, 1), self.models.index(model)))
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
        return Racks(keys_of(names), table[:, 0].astype(np.int64), table[:, 1], table[:, 2].astype(np.int64))

    def _accounts(self) -> tuple[Account, ...]:
        source, target = site_of(self.estate, self.plan.source), site_of(self.estate, self.plan.target)
        if source is None or target is None:
            return ()
        carried = gpus_in_racks(source)
        found: list[Account] = []
        for model in self.models:
            for site in (source, target):
                running = running_gpus(self.estate, site, self.plan.source, model)
                free = standing_gpus(site, model) - (1 + self.policy.reserve) * running
                changes = gpu_changes(self.plan, self.estate, self.policy, site, model, carried)
                who = np.array([self.place[change.by] for change in changes], dtype=np.int64)
                ends = np.array([self.network[at].ends_s == change.at_s for at, change in zip(who, changes, strict=True)], dtype=np.bool_)
                amounts = np.array([change.amount for change in changes], dtype=np.float64)
                found.append(Account(site.id, model, free, who, ends, amounts, joins_here=site is target))
        return tuple(found)


def _serves(one: Workload) -> bool:
    return one.kind is WorkloadKind.INFERENCE


def _restart_s(one: Workload) -> float:
    return (one.restore_s or 0.0) + (WARM_UP_S if one.warm_up_s is None else one.warm_up_s)


def _interval_s(one: Workload) -> float:
    if _serves(one):
        return 0.0
    return REQUEUE_S if one.checkpoint_every_s is None else one.checkpoint_every_s
