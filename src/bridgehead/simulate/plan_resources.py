"""PlanResources: how a plan hands on teams, docks, vehicles, lanes, bandwidth and GPUs, as needs between its activities. Pure."""

from __future__ import annotations

import itertools
from collections import Counter

from bridgehead.kernel.ids import SiteId, StepId, WorkloadId
from bridgehead.model.estate import Estate, Site, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Plan, Swing, TaskKind, Wave
from bridgehead.model.policy import Policy
from bridgehead.simulate.flows import Change, waits_for

Needs = dict[StepId, set[StepId]]
LINE_SHARE = 0.8
"""Part of a line rate that is counted on where nobody measured (docs/reference/plan-files.md)."""


def site_of(estate: Estate, site: SiteId) -> Site | None:
    """The site, if the estate has it."""
    return next((one for one in estate.sites if one.id == site), None)


def gpus_in_racks(site: Site) -> dict[RackId, Counter[str]]:
    """GPUs of each rack by model; racks without nodes are not in it."""
    found: dict[RackId, Counter[str]] = {}
    for node in site.nodes:
        if node.rack is not None:
            found.setdefault(node.rack, Counter())[node.gpu_model] += node.gpus
    return found


def gpu_model_of(estate: Estate, workload: WorkloadId, source: SiteId) -> str | None:
    """The model that a workload needs; where it does not say, the only one of the source; None where that cannot be told."""
    asked = next((one for one in estate.workloads if one.id == workload), None)
    if asked is not None and asked.gpu_model:
        return asked.gpu_model
    site = site_of(estate, source)
    models = {node.gpu_model for node in site.nodes if node.gpus} if site is not None else set()
    return models.pop() if len(models) == 1 else None


def line_bps(estate: Estate, policy: Policy) -> float:
    """Line rate for the move: what links between both sites carry less what production takes, at most the policy's limit."""
    ends = {policy.source, policy.target}
    rates = [
        (link.measured_bps if link.measured_bps is not None else LINE_SHARE * link.rate_bps) - (link.used_bps or 0.0)
        for link in estate.links
        if set(link.between) == ends
    ]
    total = sum(rates)
    return total if policy.limits.rate_bps is None else min(total, policy.limits.rate_bps)


def lane_bps(estate: Estate, policy: Policy) -> float:
    """What one swing has of the line once it has begun: half of the line is for swings (docs/reference/plan-files.md)."""
    return line_bps(estate, policy) / 2 / policy.limits.concurrent_moves


def lane_flow(plan: Plan, policy: Policy) -> Needs:
    """At most so many swings at a time."""
    changes: list[Change] = []
    for swing in plan.swings:
        changes += [Change(swing.begins_s, -1, _swing(swing)), Change(swing.ends_s, 1, _swing(swing))]
    return waits_for(policy.limits.concurrent_moves, changes)


def line_flow(plan: Plan, estate: Estate, policy: Policy) -> Needs:
    """A transfer takes its rate, gives back what keeping up does not need, and that when its last user has gone over."""
    changes: list[Change] = []
    for transfer in plan.transfers:
        if transfer.courier:
            continue
        step = StepId(f"copy-{transfer.id}")
        kept = transfer.sync_bps if transfer.sync_ends_s is not None else 0.0
        changes += [Change(transfer.begins_s, -transfer.rate_bps, step), Change(transfer.ends_s, transfer.rate_bps - kept, step)]
        if transfer.sync_ends_s is not None and kept:
            users = [swing for swing in plan.swings if swing.ends_s <= transfer.sync_ends_s]
            last = max(users, key=lambda swing: swing.ends_s, default=None)
            changes.append(Change(transfer.sync_ends_s, kept, step if last is None else _swing(last)))
    return waits_for(line_bps(estate, policy), [change for change in changes if change.amount])


def handling_flows(plan: Plan, policy: Policy) -> Needs:
    """Crews, docks and vehicles."""
    needs: Needs = {}
    logistics = policy.logistics
    if logistics is None:
        return needs
    for crew in logistics.crews:
        changes: list[Change] = []
        for wave in plan.waves:
            for task in wave.tasks:
                if task.crew == crew.id and task.teams:
                    step = StepId(f"{wave.id}-{task.id.value}")
                    changes += [Change(task.begins_s, -task.teams, step), Change(task.ends_s, task.teams, step)]
        _merge(needs, waits_for(crew.teams, changes))
    if logistics.dock_places is not None:
        _merge(needs, waits_for(logistics.dock_places, [change for wave in plan.waves for change in _dock(wave)]))
    trips: dict[str, list[tuple[float, Wave]]] = {}
    for wave in plan.waves:
        for vehicle in wave.vehicles:
            trips.setdefault(vehicle.id, []).append((vehicle.leaves_s, wave))
    for waves in trips.values():
        waves.sort(key=lambda trip: trip[0])
        for (_, before), (_, after) in itertools.pairwise(waves):
            needs.setdefault(StepId(f"{after.id}-{TaskKind.TRANSIT.value}"), set()).add(StepId(f"{before.id}-return"))
    return needs


def _dock(wave: Wave) -> list[Change]:
    tasks = {task.id: task for task in wave.tasks}
    if TaskKind.UNLOAD not in tasks or TaskKind.INSTALL not in tasks:
        return []
    count = len(wave.racks)
    unload, install = tasks[TaskKind.UNLOAD], tasks[TaskKind.INSTALL]
    return [
        Change(unload.begins_s, -count, StepId(f"{wave.id}-{TaskKind.UNLOAD.value}")),
        Change(install.ends_s, count, StepId(f"{wave.id}-{TaskKind.INSTALL.value}")),
    ]


def gpu_flows(plan: Plan, estate: Estate, policy: Policy) -> Needs:
    """GPUs of each model at both sites: waves take them from the source and bring them to the target, swings and shrinks free and take."""
    source, target = site_of(estate, plan.source), site_of(estate, plan.target)
    needs: Needs = {}
    if source is None or target is None:
        return needs
    carried = gpus_in_racks(source)
    models = sorted({node.gpu_model for site in (source, target) for node in site.nodes if node.gpus})
    for model in models:
        for site in (source, target):
            free = standing_gpus(site, model) - (1 + policy.reserve) * running_gpus(estate, site, plan.source, model)
            changes = gpu_changes(plan, estate, policy, site, model, carried)
            _merge(needs, waits_for(max(0.0, free), changes))
    return needs


def gpu_changes(plan: Plan, estate: Estate, policy: Policy, site: Site, model: str, carried: dict[RackId, Counter[str]]) -> list[Change]:
    """Who frees and takes GPUs of a model at a site, and when; a workload counts with the reserve that belongs to it."""
    at_source = site.id == plan.source
    changes: list[Change] = []
    for wave in plan.waves:
        count = sum(carried.get(rack, Counter())[model] for rack in wave.racks)
        if count and wave.tasks:
            edge = wave.tasks[0] if at_source else wave.tasks[-1]
            moment_s = wave.out_s if at_source else wave.joins_s
            changes.append(Change(moment_s, -count if at_source else count, StepId(f"{wave.id}-{edge.id.value}")))
    kept = 1 + policy.reserve
    workloads = {one.id: one for one in estate.workloads}
    for swing in plan.swings:
        asked = workloads.get(swing.id)
        if asked is None or gpu_model_of(estate, swing.id, plan.source) != model:
            continue
        moment_s = swing.ends_s if at_source else swing.begins_s
        shrunk = [one for one in plan.shrinks if at_source and one.workload == swing.id and one.site == site.id]
        on = next((one.gpus for one in shrunk if one.begins_s <= moment_s <= one.ends_s), asked.gpus)
        changes.append(Change(moment_s, kept * on if at_source else -kept * on, _swing(swing)))
    for number, shrink in enumerate(plan.shrinks):
        asked = workloads.get(shrink.workload)
        if asked is None or shrink.site != site.id or gpu_model_of(estate, shrink.workload, plan.source) != model:
            continue
        freed = kept * (asked.gpus - shrink.gpus)
        changes.append(Change(shrink.begins_s, freed, StepId(f"shrink-{shrink.workload}-{number}")))
        gone = any(swing.id == shrink.workload and swing.ends_s <= shrink.ends_s for swing in plan.swings)
        if not (at_source and gone):
            changes.append(Change(shrink.ends_s, -freed, StepId(f"grow-{shrink.workload}-{number}")))
    return changes


def standing_gpus(site: Site, model: str) -> int:
    """GPUs of a model at a site before the move."""
    return sum(node.gpus for node in site.nodes if node.gpu_model == model)


def running_gpus(estate: Estate, site: Site, source: SiteId, model: str) -> int:
    """GPUs of a model that workloads run on at a site before the move."""
    return sum(
        one.gpus
        for one in estate.workloads
        if one.site == site.id and one.kind is not WorkloadKind.SERVICE and gpu_model_of(estate, one.id, source) == model
    )


def _swing(swing: Swing) -> StepId:
    return StepId(f"swing-{swing.id}")


def _merge(needs: Needs, more: Needs) -> None:
    for step, others in more.items():
        needs.setdefault(step, set()).update(others)
