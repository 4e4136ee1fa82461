"""Ground: a plan beside the estate and the policy that it is for, as the rules of the checker look things up. Pure.

Everything here is read from the three values anew; nothing comes from the planner. A site that the estate lacks is an empty one, so that
every rule can be asked of every plan.
"""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Iterable

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Estate, Link, Service, Site, Workload, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S
from bridgehead.model.plan import PhaseId, Plan, PlannedPhase, ServiceCopy, Shrink, Swing, Task, TaskKind, Transfer, Wave
from bridgehead.model.policy import Policy

NOT_MEASURED = 0.8
"""Of a line rate that nobody measured, so much is counted on."""


class Ground:
    """The three values, indexed."""

    def __init__(self, plan: Plan, estate: Estate, policy: Policy) -> None:
        self.plan, self.estate, self.policy = plan, estate, policy
        sites = {site.id: site for site in estate.sites}
        self.source: Site = sites.get(policy.source) or Site(policy.source)
        self.target: Site = sites.get(policy.target) or Site(policy.target)
        self.workloads: dict[str, Workload] = {one.id: one for one in estate.workloads}
        self.serving: dict[str, Service] = {one.id: one for one in estate.services}
        here = [one for one in estate.workloads if one.site == policy.source]
        self.moving: dict[WorkloadId, Workload] = {one.id: one for one in here if one.kind is not WorkloadKind.SERVICE}
        self.copied: dict[WorkloadId, Workload] = {one.id: one for one in here if one.kind is WorkloadKind.SERVICE}
        self._index_racks()
        self._index_plan()

    def _index_racks(self) -> None:
        policy = self.policy
        self.hardware = policy.hardware if policy.hardware is not None else not self.target.nodes
        self.nodes: dict[RackId, list[Node]] = _by_rack(self.source.nodes)
        self.target_nodes: dict[RackId, list[Node]] = _by_rack(self.target.nodes)
        self.racks: dict[RackId, Rack] = {rack.id: rack for rack in self.source.racks}
        self.target_racks: dict[RackId, Rack] = {rack.id: rack for rack in self.target.racks}
        self.carried: dict[RackId, Rack] = {}
        for rack in self.source.racks if self.hardware else ():
            if rack.id in self.nodes and not any(fnmatch.fnmatchcase(rack.id, pattern) for pattern in policy.stays):
                self.carried[rack.id] = rack

    def _index_plan(self) -> None:
        plan = self.plan
        self.phases: dict[PhaseId, list[PlannedPhase]] = defaultdict(list)
        for phase in plan.phases:
            self.phases[phase.id].append(phase)
        self.swings: dict[WorkloadId, Swing] = {one.id: one for one in reversed(plan.swings)}
        self.copies: dict[WorkloadId, ServiceCopy] = {one.id: one for one in reversed(plan.services)}
        self.transfers: dict[str, Transfer] = {one.id: one for one in reversed(plan.transfers)}
        self.shrinks: dict[WorkloadId, list[Shrink]] = defaultdict(list)
        for shrink in plan.shrinks:
            self.shrinks[shrink.workload].append(shrink)
        self.waves_of: dict[RackId, list[Wave]] = defaultdict(list)
        for wave in plan.waves:
            for rack in wave.racks:
                self.waves_of[rack].append(wave)

    @property
    def first_swing_s(self) -> float | None:
        """When the first swing begins; None without any."""
        return min((one.begins_s for one in self.plan.swings), default=None)

    @property
    def last_swing_s(self) -> float | None:
        """When the last swing ends."""
        return max((one.ends_s for one in self.plan.swings), default=None)

    @property
    def over_s(self) -> float | None:
        """The last of all joins and of the ends of all swings; None when the plan has neither."""
        return max([one.joins_s for one in self.plan.waves] + [one.ends_s for one in self.plan.swings], default=None)

    @property
    def days(self) -> float | None:
        """Of the plan, from ``policy.begins``; None where that is not given."""
        if self.policy.begins_s is None:
            return None
        return max(0.0, ((self.over_s if self.over_s is not None else self.policy.begins_s) - self.policy.begins_s) / DAY_S)

    @property
    def links(self) -> list[Link]:
        """Lines between both sites."""
        ends = {self.policy.source, self.policy.target}
        return [link for link in self.estate.links if set(link.between) == ends]

    @property
    def line_bps(self) -> float:
        """The line rate for the move; 0 when no line is known."""
        total = 0.0
        for link in self.links:
            there = NOT_MEASURED * link.rate_bps if link.measured_bps is None else link.measured_bps
            total += max(0.0, there - (link.used_bps or 0.0))
        return total if self.policy.limits.rate_bps is None else min(total, self.policy.limits.rate_bps)

    @property
    def lane_bps(self) -> float:
        """Of one swing: half of the line is for all of them."""
        return self.line_bps / 2 / self.policy.limits.concurrent_moves

    def gone_s(self, workload: str) -> float | None:
        """When a workload of the source has gone over, or a service is copied; None when the plan never does it."""
        name = WorkloadId(workload)
        if name in self.moving:
            swing = self.swings.get(name)
            return None if swing is None else swing.ends_s
        copy = self.copies.get(name)
        return None if copy is None else copy.ends_s

    def phase(self, kind: PhaseId) -> PlannedPhase | None:
        """The phase, if the plan has it."""
        found = self.phases.get(kind)
        return found[0] if found else None

    def gpu_model(self, workload: Workload) -> str | None:
        """The model that a workload needs; without one, the only model of both sites; None while that cannot be told."""
        if workload.gpu_model:
            return workload.gpu_model
        models = {node.gpu_model for site in (self.source, self.target) for node in site.nodes if node.gpus}
        return next(iter(models)) if len(models) == 1 else None

    def gpus(self, rack: RackId) -> Counter[str]:
        """GPUs of a rack of the source by model."""
        return count_gpus(self.nodes.get(rack, ()))

    def runs_on(self, workload: Workload, site: SiteId, moment_s: float) -> int:
        """On how many GPUs it runs at a moment, shrinks counted."""
        now = [one.gpus for one in self.shrinks.get(workload.id, ()) if one.site == site and one.begins_s <= moment_s < one.ends_s]
        return min([workload.gpus, *now])


def count_gpus(nodes: Iterable[Node]) -> Counter[str]:
    """GPUs by model."""
    found: Counter[str] = Counter()
    for node in nodes:
        if node.gpus:
            found[node.gpu_model] += node.gpus
    return found


def task_of(wave: Wave, kind: TaskKind) -> Task | None:
    """A step of a wave, if it has it."""
    return next((task for task in wave.tasks if task.id is kind), None)


def _by_rack(nodes: Iterable[Node]) -> dict[RackId, list[Node]]:
    found: defaultdict[RackId, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.rack is not None:
            found[node.rack].append(node)
    return dict(found)
