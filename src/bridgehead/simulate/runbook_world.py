"""RunbookWorld: a simulated world in which a given runbook can run: all that its steps name, of ordinary size (``run dry-run``).

What a step's parameters say: ``site``, ``source``, ``target``, ``holder``, ``sites``, ``like`` are sites; ``weights`` names the sites of a
service; jobs are what their action does with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.runbook import ActionStep, GateStep, Runbook
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan, StoredPlan, TrainerPlan

_SITE_KEYS = ("site", "source", "target", "holder", "like")


def blueprint_of(runbook: Runbook) -> Blueprint:
    """The world before the runbook's first step: trainers that it holds or stops run already, so do backends it compares with or stops."""
    steps = [step for step in runbook.steps if isinstance(step, ActionStep)]
    services = _services(runbook, steps)
    trainers, backends = _trainers(steps), _backends(steps, services)
    plain = {plan.job for plan in trainers} | {plan.job for plan in backends}
    backends += _stopped(steps, services, plain)
    return Blueprint(
        sites=_sites(runbook, steps),
        trainers=tuple(trainers),
        backends=tuple(backends),
        services=tuple(ServicePlan(service, weights) for service, weights in services.items()),
        stored=_stored(steps),
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


def _trainers(steps: list[ActionStep]) -> list[TrainerPlan]:
    plans: list[TrainerPlan] = []
    for step in steps:
        params = step.params
        if step.action == "training.hold":
            plans.append(TrainerPlan(SiteId(params["site"]), JobName(params["job"]), WorkloadId(params["workload"]), running=True))
        elif step.action == "training.standby":
            name = _job_name(params["job"])
            plans.append(TrainerPlan(SiteId(params["site"]), name, WorkloadId(params["workload"]), running=False))
    return plans


def _backends(steps: list[ActionStep], services: dict[ServiceId, dict[SiteId, int]]) -> list[BackendPlan]:
    return [
        BackendPlan(SiteId(step.params["site"]), _job_name(step.params["job"]), ServiceId(step.params["service"]), running=False)
        for step in steps
        if step.action == "service.start" and step.params["service"] in services
    ]


def _stopped(steps: list[ActionStep], services: dict[ServiceId, dict[SiteId, int]], known: set[JobName]) -> list[BackendPlan]:
    """A job that is stopped and is no trainer serves the service that has its traffic there; where none is stopped, one serves unnamed."""
    plans: list[BackendPlan] = []
    for service, weights in services.items():
        home = next(site for site, weight in weights.items() if weight == 100)
        names = [
            _job_name(step.params["job"])
            for step in steps
            if step.action == "job.stop" and step.params.get("site") == home and _job_name(step.params["job"]) not in known
        ]
        name = names[0] if names else JobName(f"{service}-at-{home}")
        known.add(name)
        plans.append(BackendPlan(home, name, service, running=True))
    return plans


def _stored(steps: list[ActionStep]) -> tuple[StoredPlan, ...]:
    """Snapshots that are copied by name."""
    stored: list[StoredPlan] = []
    for step in steps:
        if step.action == "vault.replicate" and step.params.get("snapshot"):
            snapshot, workload = SnapshotId(step.params["snapshot"]), WorkloadId(step.params["workload"])
            stored.append(StoredPlan(SiteId(step.params["source"]), workload, step=0, snapshot=snapshot))
    return tuple(stored)


def _job_name(job: Any) -> JobName:
    """A job is given by its name, or as a whole specification."""
    return JobName(job["name"] if isinstance(job, Mapping) else job)
