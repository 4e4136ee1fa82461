"""Demand: what an estate and a policy ask of a plan, as plain numbers (M5.2, M7.3, M7.4). What is missing is collected, not guessed."""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Estate, Link, Site, Workload, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Assumption
from bridgehead.model.policy import Policy
from bridgehead.planning.swing_cost import Costing, Crossing

LINE_SHARE = 0.8
"""Of the line rate, where nobody measured (rules section 8)."""


class Job(msgspec.Struct, frozen=True):
    """A workload that has to go over.

    Attributes:
        least: the fewest GPUs that it can run on for a while; 0 when it may pause, ``gpus`` when it cannot shrink.
        crossing: how it goes over, and what that costs.
        services: services that have to be there before.
        others: workloads that have to have gone over before.
        data: transfers that have to be complete before.
    """

    id: WorkloadId
    kind: WorkloadKind
    gpus: int
    least: int
    model: str
    priority: int
    crossing: Crossing
    services: tuple[WorkloadId, ...]
    others: tuple[WorkloadId, ...]
    data: tuple[str, ...]


class Freight(msgspec.Struct, frozen=True):
    """One rack that is carried."""

    rack: Rack
    nodes: tuple[Node, ...]
    gpus: tuple[tuple[str, int], ...]
    liquid: bool
    weight_kg: float
    value: float


class Parcel(msgspec.Struct, frozen=True):
    """Racks that have to be carried in one wave: one rack, or all of an NVLink domain."""

    racks: tuple[Freight, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """Parcels of one kind can be exchanged for each other; those with racks to be kept apart are of their own kind."""
        apart = tuple(sorted(one.rack.id for one in self.racks if one.rack.apart_from))
        return (apart, *sorted((one.gpus, one.liquid, round(one.weight_kg, 3), round(one.value, 2)) for one in self.racks))

    @property
    def liquid(self) -> int:
        """Racks with liquid cooling."""
        return sum(one.liquid for one in self.racks)

    def gpus(self, model: str) -> int:
        """GPUs of one model."""
        return sum(dict(one.gpus).get(model, 0) for one in self.racks)


class Demand(msgspec.Struct, frozen=True):
    """Everything that the planner knows.

    Attributes:
        models: GPU models, sorted.
        standing: for each site and model, GPUs that stand there in the beginning.
        running: for each model, GPUs that workloads use at the target already.
        line_bps: what the move may take of the lines.
        assumptions: what was taken for values that nobody gave.
    """

    estate: Estate
    policy: Policy
    source: Site
    target: Site
    hardware: bool
    models: tuple[str, ...]
    standing: Mapping[SiteId, Mapping[str, int]]
    running: Mapping[str, int]
    jobs: tuple[Job, ...]
    services: tuple[Workload, ...]
    parcels: tuple[Parcel, ...]
    line_bps: float
    assumptions: tuple[Assumption, ...]


def demand(estate: Estate, policy: Policy) -> Demand:
    """Read it. Raises BAD_INPUT with everything that is missing: unknown never passes."""
    lacks: list[str] = []
    sites = {site.id: site for site in estate.sites}
    for end in (policy.source, policy.target):
        if end not in sites:
            raise _lacking([f"the estate has no site '{end}'"])
    source, target = sites[policy.source], sites[policy.target]
    hardware = policy.hardware if policy.hardware is not None else not target.nodes
    if policy.begins_s is None:
        lacks.append("policy.begins: the first day of the move")
    if hardware and policy.logistics is None:
        lacks.append("policy.logistics: crews, vehicles and docks, since hardware is carried")
    standing = {site.id: Counter(_models(site.nodes)) for site in (source, target)}
    models = tuple(sorted(set(standing[source.id]) | set(standing[target.id])))
    line = line_bps(estate, policy)
    if line <= 0:
        lacks.append("links: no line between the two sites leaves a rate for the move")
    costing = Costing(estate, policy, lane_bps=line / 2 / policy.limits.concurrent_moves)
    jobs, running = _jobs(estate, policy, models, costing, lacks)
    parcels = _parcels(source, policy, lacks) if hardware else ()
    services = tuple(sorted((one for one in estate.workloads if one.kind is WorkloadKind.SERVICE and one.site == source.id), key=_by_id))
    if lacks:
        raise _lacking(lacks)
    return Demand(
        estate, policy, source, target, hardware, models, standing, running, jobs, services, parcels, line, tuple(costing.assumptions)
    )


def _by_id(workload: Workload) -> str:
    return workload.id


def _lacking(lacks: list[str]) -> BridgeheadError:
    shown = lacks if len(lacks) <= 20 else [*lacks[:20], f"and {len(lacks) - 20} more"]
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="plan the move",
        subject="estate and policy",
        happened=f"{len(lacks)} things that a plan needs are missing:\n" + "\n".join(f"- {one}" for one in shown),
        remedy="Measure or declare them; a plan that rests on what nobody knows is none.",
    )


def _models(nodes: Iterable[Node]) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in nodes:
        if node.gpus:
            found[node.gpu_model] += node.gpus
    return found


def line_bps(estate: Estate, policy: Policy) -> float:
    """What the move may take of all lines between both sites together."""
    ends = {policy.source, policy.target}
    total = sum(_free_bps(link) for link in estate.links if set(link.between) == ends)
    return total if policy.limits.rate_bps is None else min(total, policy.limits.rate_bps)


def _free_bps(link: Link) -> float:
    usable = link.measured_bps if link.measured_bps is not None else LINE_SHARE * link.rate_bps
    return max(0.0, usable - (link.used_bps or 0.0))


def _jobs(
    estate: Estate, policy: Policy, models: tuple[str, ...], costing: Costing, lacks: list[str]
) -> tuple[tuple[Job, ...], Mapping[str, int]]:
    kinds = {one.id: one for one in estate.workloads}
    serves: dict[str, WorkloadId | None] = {one.id: one.workload for one in estate.services}
    running: Counter[str] = Counter()
    jobs: list[Job] = []
    for one in sorted(estate.workloads, key=_by_id):
        model = one.gpu_model or (models[0] if len(models) == 1 else "")
        if one.gpus and model not in models:
            what = f"no node has '{one.gpu_model}'" if one.gpu_model else "which of the GPU models it needs"
            lacks.append(f"workloads.{one.id}.gpu_model: {what}")
        if one.site == policy.target:
            running[model] += one.gpus
        if one.site != policy.source or one.kind is WorkloadKind.SERVICE:
            continue
        crossing = costing.crossing(one, lacks)
        if crossing is None:
            continue
        needed = _needed(one, kinds, serves)
        jobs.append(
            Job(
                one.id, one.kind, one.gpus, _least(one), model, one.priority, crossing,
                tuple(name for name in needed if kinds[name].kind is WorkloadKind.SERVICE and kinds[name].site == policy.source),
                tuple(name for name in needed if kinds[name].kind is not WorkloadKind.SERVICE and kinds[name].site == policy.source),
                _data(one, estate, policy),
            )
        )  # fmt: skip
    return tuple(jobs), running


def _needed(one: Workload, kinds: Mapping[WorkloadId, Workload], serves: Mapping[str, WorkloadId | None]) -> list[WorkloadId]:
    found: list[WorkloadId] = []
    for need in one.needs:
        name = serves.get(need) if need not in kinds else WorkloadId(need)
        if name is not None and name in kinds and name != one.id and name not in found:
            found.append(WorkloadId(name))
    return found


def _least(one: Workload) -> int:
    if one.pausable:
        return 0
    return one.gpus if one.min_gpus is None else min(one.min_gpus, one.gpus)


def _data(one: Workload, estate: Estate, policy: Policy) -> tuple[str, ...]:
    """Data sets, and what its store holds beside them."""
    sets = [name for name in one.datasets if any(data.id == name and data.site == policy.source for data in estate.datasets)]
    store = next((store for site in estate.sites if site.id == policy.source for store in site.stores if store.id == one.store), None)
    return tuple([*sets, f"store.{store.id}"] if store is not None and rest_bytes(estate, policy.source, store.id) else sets)


def rest_bytes(estate: Estate, site: SiteId, store: str) -> int:
    """What a store holds beside the data sets that name it."""
    used = next((one.used_bytes or 0 for at in estate.sites if at.id == site for one in at.stores if one.id == store), 0)
    return max(0, used - sum(data.size_bytes for data in estate.datasets if data.site == site and data.store == store))


def _parcels(source: Site, policy: Policy, lacks: list[str]) -> tuple[Parcel, ...]:
    nodes: defaultdict[RackId, list[Node]] = defaultdict(list)
    for node in source.nodes:
        if node.rack is not None:
            nodes[node.rack].append(node)
        elif node.gpus:
            lacks.append(f"sites.{source.id}.nodes.{node.id}.rack: where it stands")
    carried = [
        _freight(rack, tuple(nodes[rack.id]), policy, lacks)
        for rack in sorted(source.racks, key=lambda rack: rack.id)
        if nodes[rack.id] and not any(fnmatch.fnmatchcase(rack.id, pattern) for pattern in policy.stays)
    ]
    domains: defaultdict[str, list[Freight]] = defaultdict(list)
    for one in carried:
        domains[one.rack.nvlink_domain or f"\0{one.rack.id}"].append(one)
    return tuple(Parcel(tuple(racks)) for racks in domains.values())


def _freight(rack: Rack, nodes: tuple[Node, ...], policy: Policy, lacks: list[str]) -> Freight:
    place = f"sites.{policy.source}.racks.{rack.id}"
    if rack.weight_kg is None:
        lacks.append(f"{place}.weight: of the empty rack")
    for node in nodes:
        if node.weight_kg is None:
            lacks.append(f"sites.{policy.source}.nodes.{node.id}.weight")
        if node.liquid_share is None:
            lacks.append(f"sites.{policy.source}.nodes.{node.id}.liquid_share: whether its coolant has to be drained")
    values = {} if policy.logistics is None else policy.logistics.gpu_values
    insured = policy.logistics is not None and policy.logistics.fleet.insured is not None
    models = _models(nodes)
    for model in models:
        if insured and model not in values:
            lacks.append(f"policy.logistics.gpu_values['{model}']: vehicles carry at most an insured value")
    return Freight(
        rack, nodes, tuple(sorted(models.items())), any(node.liquid_share for node in nodes),
        (rack.weight_kg or 0.0) + sum(node.weight_kg or 0.0 for node in nodes),
        sum(values.get(model, 0.0) * count for model, count in models.items()),
    )  # fmt: skip
