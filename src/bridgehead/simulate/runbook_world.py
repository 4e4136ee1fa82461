"""RunbookWorld: a simulated world in which a given runbook can run: all that its steps name, of ordinary size (``run dry-run``).

A runbook of weeks, such as ``plan compile`` writes, gets a world of another pace: it begins a little before the first moment that the
runbook names, and its trainers save twice a day.

What a step's parameters say: ``site``, ``source``, ``target``, ``holder``, ``sites``, ``like`` are sites; ``weights`` names the sites of a
service; jobs are what their action does with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.runbook import ActionStep, GateStep, HoldStep, Runbook, TaskStep
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan, StoredPlan, TrainerPlan
from bridgehead.simulate.timeline import START_S

_SITE_KEYS = ("site", "source", "target", "holder", "like")
_HOUR_S, _DAY_S = 3600.0, 86_400.0


class Pace(msgspec.Struct, frozen=True):
    """How fast a world is for a runbook.

    Attributes:
        start_s: when it begins.
        limit_s: a run that has not ended after so long hangs.
        upkeep_s: time between two rounds of a driver's upkeep.
        step_s, save_every_steps: of trainers.
    """

    start_s: float = START_S
    limit_s: float = 4 * _HOUR_S
    upkeep_s: float = 1.0
    step_s: float = 0.1
    save_every_steps: int = 50


def pace_of(runbook: Runbook) -> Pace:
    """Of minutes for a runbook that names no moments, of weeks for one that does."""
    moments = [step.until_s for step in runbook.steps if isinstance(step, HoldStep) and step.until_s is not None]
    moments += [step.due_s for step in runbook.steps if isinstance(step, TaskStep) and step.due_s is not None]
    waits_s = sum(step.hold_s for step in runbook.steps if isinstance(step, HoldStep))
    if not moments:
        return Pace(limit_s=4 * _HOUR_S + waits_s)
    start_s = min(moments) - _HOUR_S
    limit_s = max(moments) - start_s + 60 * _DAY_S
    return Pace(start_s, limit_s, upkeep_s=600.0, step_s=5.0, save_every_steps=round(_DAY_S / 2 / 5.0))


def blueprint_of(runbook: Runbook) -> Blueprint:
    """The world before the runbook's first step: trainers that it holds or stops run already, so do backends it compares with or stops."""
    steps = [step for step in runbook.steps if isinstance(step, ActionStep)]
    services = _services(runbook, steps)
    trainers, backends = _trainers(steps, pace_of(runbook)), _backends(steps, services)
    known = {(plan.site, plan.job) for plan in trainers} | {(plan.site, plan.job) for plan in backends}
    backends += _stopped(steps, services, known)
    return Blueprint(
        sites=_sites(runbook, steps),
        trainers=tuple(trainers),
        backends=tuple(backends),
        services=tuple(ServicePlan(service, weights) for service, weights in services.items()),
        stored=_stored(steps, {(plan.site, plan.workload) for plan in trainers}),
        jobs=_running(steps, known),
    )


def _sites(runbook: Runbook, steps: list[ActionStep]) -> tuple[SiteId, ...]:
    named: list[str] = []
    for step in steps:
        named += [step.params[key] for key in _SITE_KEYS if key in step.params]
        named += [*step.params.get("sites", ()), *step.params.get("weights", {})]
    for gate in runbook.steps:
        if isinstance(gate, GateStep):
            named += [site for site in (gate.target, gate.baseline) if site is not None]
    return tuple(SiteId(site) for site in dict.fromkeys(named))


def _services(runbook: Runbook, steps: list[ActionStep]) -> dict[ServiceId, dict[SiteId, int]]:
    """Weights in the beginning: everything goes to the site that a canary compares with, or that has the most after the first shift."""
    found: dict[ServiceId, dict[SiteId, int]] = {}
    compared = {gate.service: gate.baseline for gate in runbook.steps if isinstance(gate, GateStep) and gate.baseline is not None}
    for step in steps:
        weights: Mapping[str, int] = step.params.get("weights", {})
        service = ServiceId(step.params.get("service", ""))
        if weights and service not in found:
            home = compared.get(service) or SiteId(max(weights, key=lambda site: weights[site]))
            found[service] = {SiteId(site): 100 if site == home else 0 for site in weights}
    return found


def _trainers(steps: list[ActionStep], pace: Pace) -> list[TrainerPlan]:
    plans: list[TrainerPlan] = []
    for step in steps:
        if step.action in ("training.hold", "training.standby"):
            site, workload = SiteId(step.params["site"]), WorkloadId(step.params["workload"])
            running = step.action == "training.hold"
            plan = TrainerPlan(site, _job_name(step.params["job"]), workload, running=running, step_s=pace.step_s)
            plans.append(msgspec.structs.replace(plan, save_every_steps=pace.save_every_steps))
    return plans


def _backends(steps: list[ActionStep], services: dict[ServiceId, dict[SiteId, int]]) -> list[BackendPlan]:
    return [
        BackendPlan(SiteId(step.params["site"]), _job_name(step.params["job"]), ServiceId(step.params["service"]), running=False)
        for step in steps
        if step.action == "service.start" and step.params["service"] in services
    ]


def _stopped(
    steps: list[ActionStep], services: dict[ServiceId, dict[SiteId, int]], known: set[tuple[SiteId, JobName]]
) -> list[BackendPlan]:
    """The job that is stopped after its service was drained serves it; else one that is stopped there and is no trainer; where none is,
    one serves unnamed."""
    plans: list[BackendPlan] = []
    for service, weights in services.items():
        home = next(site for site, weight in weights.items() if weight == 100)
        stops = [step for step in steps if step.action == "job.stop" and step.params.get("site") == home]
        stops = [step for step in stops if (home, _job_name(step.params["job"])) not in known]
        drained = {step.id for step in steps if step.action == "traffic.drain" and step.params.get("service") == service}
        names = [_job_name(step.params["job"]) for step in [one for one in stops if drained & set(one.needs)] or stops]
        name = names[0] if names else JobName(f"{service}-at-{home}")
        known.add((home, name))
        plans.append(BackendPlan(home, name, service, running=True))
    return plans


def _running(steps: list[ActionStep], known: set[tuple[SiteId, JobName]]) -> tuple[tuple[SiteId, JobName], ...]:
    """Jobs that the runbook stops without having started them run already."""
    named = {
        kind: [(SiteId(step.params["site"]), _job_name(step.params["job"])) for step in steps if step.action == kind]
        for kind in ("job.stop", "job.start")
    }
    return tuple(dict.fromkeys(job for job in named["job.stop"] if job not in known and job not in named["job.start"]))


def _stored(steps: list[ActionStep], trained: set[tuple[SiteId, WorkloadId]]) -> tuple[StoredPlan, ...]:
    """Snapshots that are copied by name, and those of workloads that are copied although nobody trains them, such as served models."""
    stored: list[StoredPlan] = []
    for step in steps:
        if step.action == "vault.replicate" and step.params.get("snapshot"):
            snapshot, workload = SnapshotId(step.params["snapshot"]), WorkloadId(step.params["workload"])
            stored.append(StoredPlan(SiteId(step.params["source"]), workload, step=0, snapshot=snapshot))
        elif step.action == "vault.precopy":
            site, workload = SiteId(step.params["source"]), WorkloadId(step.params["workload"])
            if (site, workload) not in trained:
                stored.append(StoredPlan(site, workload, step=0))
    return tuple(stored)


def _job_name(job: Any) -> JobName:
    """A job is given by its name, or as a whole specification."""
    return JobName(job["name"] if isinstance(job, Mapping) else job)
