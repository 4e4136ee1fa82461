"""Commands: the programs of the demo and their options, as jobs for a scheduler."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from bridgehead.app.demo.places import SERVICE, Places, Ports
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, WorkloadId
from bridgehead.ports.scheduler import JobSpec

QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Training(msgspec.Struct, frozen=True):
    """How the demo trains. ``pace_per_s`` 0 is flat out; the demo paces trainers so that two cores carry the traffic too."""

    seed: int
    until: int
    pace_per_s: float
    save_every: int
    ignore_orders: bool = False


def trainer(
    places: Places, training: Training, name: JobName, *, site: SiteId, workload: WorkloadId, standby: bool = False, nice: int = 0
) -> JobSpec:
    """A trainer at a site. ``nice``: how far it steps back for everything else on this machine."""
    command = [
        *(["nice", "-n", str(nice)] if nice else []),
        sys.executable, "-m", "bridgehead.app.demo.trainer",
        "--seed", str(training.seed),
        "--until", str(training.until),
        "--pace", str(training.pace_per_s),
        "--losses", str(places.losses(name)),
    ]  # fmt: skip
    if training.ignore_orders:
        command.append("--ignore-orders")
    env = {
        **QUIET,
        "BRIDGEHEAD_VAULT": str(places.vault(site)),
        "BRIDGEHEAD_WORKLOAD": workload,
        "BRIDGEHEAD_SITE": site,
        "BRIDGEHEAD_CONTROL": str(places.control(site) / name),
        "BRIDGEHEAD_EPOCH": "0",
        "BRIDGEHEAD_STANDBY": "1" if standby else "0",
        "BRIDGEHEAD_SAVE_EVERY_STEPS": str(training.save_every),
    }
    return JobSpec(name=name, command=tuple(command), env=env, grace_s=10.0)


def backend(places: Places, ports: Ports, name: JobName, site: SiteId, snapshot: SnapshotId, *, wrong: bool = False) -> JobSpec:
    """An inference server at a site."""
    command = [
        sys.executable, "-m", "bridgehead.app.demo.server",
        "--site", site,
        "--service", SERVICE,
        "--port", str(ports.backend[site]),
        "--vault", str(places.vault(site)),
        "--snapshot", snapshot,
    ]  # fmt: skip
    if wrong:
        command.append("--wrong")
    return JobSpec(name=name, command=tuple(command), env=QUIET, grace_s=20.0)


def load(places: Places, ports: Ports, snapshot: SnapshotId, vault: Path, *, rate_per_s: float, seed: int) -> JobSpec:
    """The load generator, which is also the probe that gates read."""
    command = (
        sys.executable, "-m", "bridgehead.app.demo.load",
        "--url", f"http://127.0.0.1:{ports.web}",
        "--vault", str(vault),
        "--snapshot", snapshot,
        "--metrics-port", str(ports.probe),
        "--rate", str(rate_per_s),
        "--seed", str(seed),
        "--out", str(places.load),
    )  # fmt: skip
    return JobSpec(name=JobName("load"), command=command, env=QUIET, grace_s=30.0)


def blob_server(directory: Path, port_file: Path) -> JobSpec:
    """Serves a vault's directory to the other site."""
    command = (
        sys.executable,
        "-m",
        "bridgehead.app.blobserver",
        "--directory",
        str(directory),
        "--port",
        "0",
        "--port-file",
        str(port_file),
    )
    return JobSpec(name=JobName("blobs"), command=command, env=QUIET, grace_s=5.0)


def relay(places: Places, to: str, *, rate_bps: float) -> JobSpec:
    """The line between the sites: can be slowed and cut, and counts bytes."""
    command = [
        sys.executable, "-m", "bridgehead.testing.relay",
        "--listen-port-file", str(places.wan / "port"),
        "--to", to,
        "--cut-file", str(places.cut_file),
        "--status-file", str(places.wan / "status.json"),
    ]  # fmt: skip
    if rate_bps:
        command += ["--rate", str(rate_bps)]
    return JobSpec(name=JobName("wan"), command=tuple(command), env=QUIET, grace_s=5.0)
