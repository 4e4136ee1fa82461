"""Jobs of the lab's work: a training of two ranks and a server of its model at either site, and clients that check every answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from bridgehead.app.demo.commands import QUIET
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, WorkloadId
from bridgehead.ports.scheduler import JobSpec
from bridgehead.testing.lab.record import HUB, LabFolder, LabRecord
from bridgehead.testing.lab.servers import BACKEND_PORT, CLIENTS_PORT, PROXY_PORT, SERVICE, VAULT_PORT

TRAINING: Final = WorkloadId("lm")
MODEL: Final = WorkloadId("chat-model")
"""What is served: the state of an earlier training, kept in the vaults under its own name."""
RANKS: Final = 2
SEED: Final = 1
NEVER: Final = 1_000_000
MODEL_PLACE: Final = "{snapshot}"
"""In recovery files: the snapshot that is served, whichever it is then."""


def trainer_name(site: SiteId) -> JobName:
    """The training's job at a site."""
    return JobName(f"lm-{site}")


def backend_name(site: SiteId) -> JobName:
    """The server's job at a site."""
    return JobName(f"chat-{site}")


def losses_of(folder: LabFolder, job: JobName) -> str:
    """Where a trainer logs a line for each step."""
    return str(folder.log / f"{job}.losses.jsonl")


def program(script: Path | None, *, python: str = sys.executable) -> tuple[str, ...]:
    """What starts all ranks of a training on one node: numpy's, or torchrun with a script."""
    if script is None:
        return (python, "-m", "bridgehead.app.demo.ranks", "--ranks", str(RANKS))
    return (python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), str(script))


def trainer(folder: LabFolder, site: SiteId, *, pace_per_s: float, save_every: int, script: Path | None = None) -> JobSpec:
    """The training at a site. ``script``: another one, for torchrun, with the same options as ``examples/lab/fsdp.py``."""
    name = trainer_name(site)
    command = (
        *program(script),
        "--seed", str(SEED),
        "--until", str(NEVER),
        "--pace", str(pace_per_s),
        "--losses", losses_of(folder, name),
    )  # fmt: skip
    env = {
        **QUIET,
        "BRIDGEHEAD_VAULT": str(folder.site(site) / "vault"),
        "BRIDGEHEAD_WORKLOAD": TRAINING,
        "BRIDGEHEAD_SITE": site,
        "BRIDGEHEAD_CONTROL": str(folder.site(site) / "control" / name),
        "BRIDGEHEAD_SAVE_EVERY_STEPS": str(save_every),
    }
    return JobSpec(name=name, command=command, env=env, grace_s=6.0)


def backend(record: LabRecord, folder: LabFolder, site: SiteId, snapshot: SnapshotId | str) -> JobSpec:
    """The server at a site."""
    command = (
        sys.executable, "-m", "bridgehead.app.demo.server",
        "--site", site,
        "--service", SERVICE,
        "--host", record.lines[site].address,
        "--port", str(BACKEND_PORT),
        "--vault", str(folder.site(site) / "vault"),
        "--snapshot", snapshot,
    )  # fmt: skip
    return JobSpec(name=backend_name(site), command=command, env=QUIET, grace_s=6.0)


def clients(record: LabRecord, folder: LabFolder, site: SiteId, snapshot: SnapshotId, *, rate_per_s: float) -> tuple[str, ...]:
    """The clients, who stand at the hub; ``site``: whose vault tells them what a right answer is."""
    return (
        sys.executable, "-m", "bridgehead.app.demo.load",
        "--url", f"http://{record.net}.2:{PROXY_PORT}",
        "--vault", str(folder.site(site) / "vault"),
        "--snapshot", snapshot,
        "--metrics-port", str(CLIENTS_PORT),
        "--rate", str(rate_per_s),
        "--seed", str(SEED),
        "--out", str(folder.site(HUB) / "clients"),
    )  # fmt: skip


def copies(record: LabRecord, folder: LabFolder, source: SiteId, target: SiteId) -> tuple[str, ...]:
    """What keeps the vault of ``target`` up to date with that of ``source``; it stands at ``target``."""
    return (
        sys.executable, "-m", "bridgehead.app.lab.copies",
        "--source", f"http://{record.lines[source].address}:{VAULT_PORT}",
        "--target", str(folder.site(target) / "vault"),
        "--site", target,
    )  # fmt: skip
