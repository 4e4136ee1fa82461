"""Files of a lab, as a user would write them: the estate that connects it, and how it is recovered."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.app import wiring
from bridgehead.app.lab import jobs
from bridgehead.kernel.ids import SiteId
from bridgehead.model import estatefile
from bridgehead.model.estate import Connection, Estate, Link, LinkId, Service, Site, SiteConnections, Workload, WorkloadKind
from bridgehead.model.recovery import Deadlines, Drills, Pattern, Protected, Ramp, Recovery, SiteJob
from bridgehead.model.recoveryfile import write_recovery
from bridgehead.ports.scheduler import JobSpec
from bridgehead.testing.lab.record import SITE_A, SITE_B, SITES, WITNESS, LabFolder, LabRecord
from bridgehead.testing.lab.servers import BACKEND_PORT, SERVICE, VAULT_PORT, haproxy_options, prometheus_url

SLURM_TIMEOUT_S = 2.0
"""Slurm's clients try for 4 s to reach a controller that is dead; here an answer takes some milliseconds."""
COUNTERS = ("requests_total", "errors_total", "wrong_total", "latency_seconds_sum", "latency_seconds_count")


class WorkOptions(msgspec.Struct, frozen=True):
    """How the lab's work goes: steps a second of the training, steps between two checkpoints, requests a second.

    ``script``: a training for torchrun in place of numpy's.
    """

    pace_per_s: float = 10.0
    save_every: int = 20
    rate_per_s: float = 150.0
    script: Path | None = None


def estate(record: LabRecord, folder: LabFolder) -> Estate:
    """Two sites with Slurm, trainers and vaults, a witness with nothing but a vault, and the service behind its proxy."""
    links = tuple(
        Link(LinkId(f"to-{place}"), (SITE_A, SITE_B), rate_bps=line.rate_bps or 10e9, delay_s=2 * line.delay_s)
        for place, line in record.lines.items()
        if place == SITE_B
    )
    service = Service(
        SERVICE,
        SITES,
        workload=jobs.MODEL,
        traffic=Connection("haproxy", msgspec.to_builtins(haproxy_options(record, folder))),
        metrics=Connection("prometheus", _metrics(record)),
        serving=Connection("http", {"backends": {SERVICE: {site: _backend_url(record, site) for site in SITES}}}),
    )
    workloads = (
        Workload(jobs.TRAINING, WorkloadKind.TRAINING, SITE_A, gpus=jobs.RANKS),
        Workload(jobs.MODEL, WorkloadKind.INFERENCE, SITE_A, gpus=1),
    )
    sites = [*(_site(record, folder, site) for site in SITES), Site(WITNESS, connections=SiteConnections(vault=_vault(record, WITNESS)))]
    return Estate(name="lab", sites=tuple(sites), links=links, workloads=workloads, services=(service,))


def recovery(record: LabRecord, folder: LabFolder, options: WorkOptions) -> Recovery:
    """Both sites protect each other, the witness makes a majority; the training before the service that needs nothing."""
    ends = {site: trainer(folder, site, options) for site in SITES}
    training = Protected(
        jobs.TRAINING,
        WorkloadKind.TRAINING,
        SITE_A,
        SITE_B,
        jobs=tuple(_site_job(site, spec) for site, spec in ends.items()),
        pattern=Pattern.PILOT_LIGHT,
        gpus=jobs.RANKS,
        patience_s=20.0,
    )
    serving = Protected(
        jobs.MODEL,
        WorkloadKind.INFERENCE,
        SITE_A,
        SITE_B,
        jobs=tuple(_site_job(site, jobs.backend(record, folder, site, jobs.MODEL_PLACE)) for site in SITES),
        pattern=Pattern.PILOT_LIGHT,
        service=SERVICE,
        gpus=1,
    )
    return Recovery(
        name="lab",
        sites=SITES,
        workloads=(training, serving),
        witness=WITNESS,
        ramp=Ramp(step=0.5, lost_step=1.0, every_s=1.0, patience_s=60.0),
        deadlines=Deadlines(step_s=60.0, restore_s=120.0, copy_s=120.0, return_s=600.0),
        drills=Drills(own=(str(folder.log),)),
    )


def trainer(folder: LabFolder, site: SiteId, options: WorkOptions) -> JobSpec:
    """The training at a site, as these options have it."""
    return jobs.trainer(folder, site, pace_per_s=options.pace_per_s, save_every=options.save_every, script=options.script)


def write_estate(record: LabRecord, folder: LabFolder) -> None:
    """``estate.yaml`` in the lab's folder."""
    text = estatefile.write_estate(estate(record, folder), drivers=wiring.driver_options())
    (folder.root / "estate.yaml").write_text(f"# The lab in this folder; written by `bridgehead lab up`.\n{text}")


def write_recovery_file(record: LabRecord, folder: LabFolder, options: WorkOptions) -> None:
    """``recovery.yaml`` in the lab's folder."""
    (folder.root / "recovery.yaml").write_text(write_recovery(recovery(record, folder, options)))


def _site(record: LabRecord, folder: LabFolder, site: SiteId) -> Site:
    place = folder.site(site)
    slurm = {
        "cluster": site,
        "timeout_s": SLURM_TIMEOUT_S,
        "state": str(place / "jobs"),
        "conf": str(place / "slurm" / "slurm.conf"),
        "jobcomp": str(place / "slurm" / "log" / "jobcomp.txt"),
        "jobs": {
            "lm-*": {"partition": "train", "gpus_per_node": jobs.RANKS, "cpus_per_task": jobs.RANKS},
            "chat-*": {"partition": "serve", "gpus_per_node": 1},
        },
    }
    return Site(
        site,
        connections=SiteConnections(
            scheduler=Connection("slurm", slurm),
            training=Connection("files", {"directory": str(place / "control")}),
            vault=_vault(record, site),
        ),
    )


def _vault(record: LabRecord, place: str) -> Connection:
    return Connection("http", {"url": f"http://{record.lines[place].address}:{VAULT_PORT}"})


def _backend_url(record: LabRecord, site: SiteId) -> str:
    return f"http://{record.lines[site].address}:{BACKEND_PORT}"


def _metrics(record: LabRecord) -> dict[str, object]:
    """What the clients saw, as Prometheus has it."""
    queries = {name: f'{name}{{job="clients",service="{{service}}",site="{{site}}"}}' for name in COUNTERS}
    return {"url": prometheus_url(record), "sites": {SERVICE: list(SITES)}, "queries": queries}


def _site_job(site: SiteId, spec: JobSpec) -> SiteJob:
    return SiteJob(site=site, name=spec.name, command=spec.command, env=spec.env, grace_s=spec.grace_s)
