"""Course: what stands, runs and is on the line at each moment of a plan, as plan, estate and policy say it (M7.3, M7.4, M10.1). Pure.

Cost, drawings and explanations read it; the checker has its own, so that it shares no code with anything here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate, Site, Workload, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import PhaseId, Plan, PlannedPhase, Wave
from bridgehead.model.policy import Policy
from bridgehead.planning.steps import Steps

USABLE = 0.8
"""Of a line whose rate nobody measured (contract of plan files, line rate for the move)."""


class Course:
    """What a plan brings about, moment by moment.

    Attributes:
        plan, estate, policy: what it is drawn from.
        source, target: the sites; a site that the estate does not have is empty.
    """

    def __init__(self, plan: Plan, estate: Estate, policy: Policy) -> None:
        self.plan, self.estate, self.policy = plan, estate, policy
        sites = {site.id: site for site in estate.sites}
        self.source = sites.get(plan.source, Site(id=plan.source))
        self.target = sites.get(plan.target, Site(id=plan.target))

    @cached_property
    def nodes_of(self) -> dict[RackId, list[Node]]:
        """The nodes of each rack of the source."""
        held: defaultdict[RackId, list[Node]] = defaultdict(list)
        for node in self.source.nodes:
            if node.rack is not None:
                held[node.rack].append(node)
        return dict(held)

    @cached_property
    def workloads(self) -> dict[WorkloadId, Workload]:
        """By id."""
        return {workload.id: workload for workload in self.estate.workloads}

    @cached_property
    def wave_of(self) -> dict[RackId, Wave]:
        """The wave of each rack that is carried."""
        return {rack: wave for wave in self.plan.waves for rack in wave.racks}

    @cached_property
    def done_s(self) -> float:
        """When everything has gone over: the last join and the last end of a swing."""
        ends = [*(wave.joins_s for wave in self.plan.waves), *(swing.ends_s for swing in self.plan.swings)]
        return max(ends, default=self.plan.begins_s)

    def phase(self, name: PhaseId) -> PlannedPhase | None:
        """One phase; None where the plan has none of that name."""
        return next((phase for phase in self.plan.phases if phase.id is name), None)

    def gpus_of(self, rack: RackId) -> Counter[str]:
        """GPUs of a rack of the source, by model."""
        return _gpus(self.nodes_of.get(rack, []))

    def model_of(self, workload: Workload) -> str:
        """The GPU model that it runs on: the one it names, else the one of which its site has most."""
        if workload.gpu_model:
            return workload.gpu_model
        site = self.source if workload.site == self.source.id else self.target
        counted = _gpus(site.nodes) or _gpus(self.source.nodes)
        return min(counted, key=lambda model: (-counted[model], model), default="")

    @cached_property
    def models(self) -> tuple[str, ...]:
        """All GPU models of both sites."""
        return tuple(sorted({*_gpus(self.source.nodes), *_gpus(self.target.nodes)}))

    @cached_property
    def standing(self) -> dict[tuple[SiteId, str], Steps]:
        """GPUs that stand, by site and model: the source without what is out, the target with what has joined."""
        gone: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        come: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for wave in self.plan.waves:
            for rack in wave.racks:
                for model, count in self.gpus_of(rack).items():
                    gone[model].append((wave.out_s, -count))
                    come[model].append((wave.joins_s, count))
        here, there = _gpus(self.source.nodes), _gpus(self.target.nodes)
        found = {(self.source.id, model): Steps(here[model], gone[model]) for model in self.models}
        return found | {(self.target.id, model): Steps(there[model], come[model]) for model in self.models}

    @cached_property
    def running(self) -> dict[tuple[SiteId, str], Steps]:
        """GPUs that workloads use, by site and model."""
        return self.running_without(None)

    def running_without(self, left_out: WorkloadId | None) -> dict[tuple[SiteId, str], Steps]:
        """As ``running``, without one workload."""
        base: Counter[tuple[SiteId, str]] = Counter()
        changes: defaultdict[tuple[SiteId, str], list[tuple[float, float]]] = defaultdict(list)
        spans = {swing.id: (swing.begins_s, swing.ends_s) for swing in self.plan.swings}
        last = self.phase(PhaseId.DECOMMISSION)
        over_s = self.plan.ends_s if last is None else last.begins_s
        # A service runs at both sites from the beginning of its copy until the source is given up.
        spans |= {copy.id: (copy.begins_s, over_s) for copy in self.plan.services}
        for workload in self.estate.workloads:
            if workload.id == left_out or not workload.gpus or workload.site not in (self.source.id, self.target.id):
                continue
            model = self.model_of(workload)
            base[workload.site, model] += workload.gpus
            if workload.site == self.source.id and workload.id in spans:
                begins_s, ends_s = spans[workload.id]
                changes[self.target.id, model].append((begins_s, workload.gpus))
                changes[self.source.id, model].append((ends_s, -workload.gpus))
        for shrink in self.plan.shrinks:
            workload = self.workloads.get(shrink.workload, _NOBODY)
            if workload.id != left_out and workload.gpus:
                less = workload.gpus - shrink.gpus
                changes[shrink.site, self.model_of(workload)] += [(shrink.begins_s, -less), (shrink.ends_s, less)]
        keys = [(site.id, model) for site in (self.source, self.target) for model in self.models]
        return {key: Steps(base[key], changes[key]) for key in keys}

    def reserve_broken(self) -> tuple[tuple[SiteId, str, float], ...]:
        """Where what runs, with its reserve, needs more than stands there: site, GPU model and the first such moment of the plan."""
        found = []
        for (site, model), run in self.running.items():
            stand = self.standing[site, model]
            moments_s = sorted({self.plan.begins_s, *run.moments_s, *stand.moments_s})
            short = (at for at in moments_s if (1 + self.policy.reserve) * run.at(at) > stand.at(at) + 1e-6 and at < self.plan.ends_s)
            first_s = next(short, None)
            if first_s is not None:
                found.append((site, model, first_s))
        return tuple(found)

    @cached_property
    def line_rate_bps(self) -> float:
        """What the move may take of the lines between both sites."""
        ends = {self.source.id, self.target.id}
        links = [link for link in self.estate.links if set(link.between) == ends]
        rates = [USABLE * link.rate_bps if link.measured_bps is None else link.measured_bps for link in links]
        free = sum(max(0.0, rate - (link.used_bps or 0.0)) for rate, link in zip(rates, links, strict=True))
        limit = self.policy.limits.rate_bps
        return free if limit is None else min(free, limit)

    @property
    def lane_bps(self) -> float:
        """What one swing may take of the line: once swings have begun, half of the line is theirs."""
        return self.line_rate_bps / 2 / self.policy.limits.concurrent_moves

    @cached_property
    def line_use(self) -> Steps:
        """What transfers and reservations take of the line, in bit/s."""
        return self.line_use_without("")

    def line_use_without(self, left_out: str) -> Steps:
        """As ``line_use``, without one transfer."""
        changes = []
        for one in self.plan.transfers:
            if one.id == left_out or one.courier:
                continue
            changes += [(one.begins_s, one.rate_bps), (one.ends_s, -one.rate_bps)]
            if one.sync_ends_s is not None:
                changes += [(one.ends_s, one.sync_bps), (one.sync_ends_s, -one.sync_bps)]
        return Steps(0.0, changes)

    @cached_property
    def swings_at_once(self) -> Steps:
        """How many workloads are on their way."""
        return Steps(0, [pair for one in self.plan.swings for pair in ((one.begins_s, 1.0), (one.ends_s, -1.0))])

    def goes_over(self, workload: Workload) -> bool:
        """Whether it swings: it is at the source and no service."""
        return workload.site == self.source.id and workload.kind is not WorkloadKind.SERVICE


def _gpus(nodes: list[Node] | tuple[Node, ...]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for node in nodes:
        if node.gpus:
            counted[node.gpu_model] += node.gpus
    return counted


_NOBODY = Workload(id=WorkloadId(""), kind=WorkloadKind.BATCH, site=SiteId(""))
