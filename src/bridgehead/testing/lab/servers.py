"""Servers of a lab: Slurm and a vault at each site, a vault at the witness; proxy, Prometheus and PostgreSQL at the hub.

Each place has its own network, so that every server has the port that it has everywhere; nothing is chosen, nothing can collide.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic, haproxy_command
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.drivers.process.procfs import read_stat
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, PortError
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.testing.lab.namespaces import inside, spawn
from bridgehead.testing.lab.needs import POSTGRES, found
from bridgehead.testing.lab.network import hub_address
from bridgehead.testing.lab.record import HUB, SITE_A, SITE_B, SITES, LabFolder, LabRecord, Started
from bridgehead.testing.servers import listens
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan
from bridgehead.vault import Vault

SERVICE: Final = ServiceId("chat")
SLURMCTLD_PORT, SLURMD_PORTS = 6817, (6818, 6819)
VAULT_PORT, BACKEND_PORT, PROXY_PORT, CLIENTS_PORT, PROMETHEUS_PORT, POSTGRES_PORT = 9000, 8000, 8080, 9100, 9090, 5432
PACK_BYTES: Final = 256 << 10
"""Snapshots of a lab are small: in small packs a transfer that is cut in its middle has something to go on from."""
SCRAPE_S: Final = 0.5
READY_S: Final = 30.0
DATABASE_USER: Final = "bridgehead"


def start_site(record: LabRecord, folder: LabFolder, site: SiteId) -> list[Started]:
    """Slurm and the vault of a site; repeated after a loss of the site, they go on from what is on disk. Raises PORT_PERMANENT with logs"""
    cluster = SlurmCluster(slurm_plan(record, site), folder.site(site) / "slurm")
    try:
        cluster.start()
    except (RuntimeError, ValueError) as error:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT,
            tried="set the lab up",
            subject=f"Slurm at {site}",
            happened=str(error),
            remedy="See the logs; a --dir with a shorter path may help.",
        ) from error
    daemons = []
    for daemon in ("munged", "slurmctld", "slurmd"):
        for stat in cluster.named(daemon):
            address = f"{record.lines[site].address}:{SLURMCTLD_PORT}" if daemon == "slurmctld" else ""
            daemons.append(Started(daemon, site, stat.pid, stat.start_ticks, address))
    (folder.site(site) / "control").mkdir(parents=True, exist_ok=True)
    return [*daemons, start_vault(record, folder, site)]


def slurm_plan(record: LabRecord, site: SiteId) -> SlurmPlan:
    """The site's cluster: two nodes with four fake GPUs each."""
    return SlurmPlan(
        name=site,
        nodes=len(SLURMD_PORTS),
        address=record.lines[site].address,
        namespace=record.namespace(site),
        controller_port=SLURMCTLD_PORT,
        node_ports=SLURMD_PORTS,
    )


def start_vault(record: LabRecord, folder: LabFolder, place: str) -> Started:
    """The vault of a site or of the witness, made when there is none, offered to the others over HTTP."""
    directory, address = folder.site(place) / "vault", f"{record.lines[place].address}:{VAULT_PORT}"
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(Conflict):
        Vault.init(LocalBlobs(LocalBlobsOptions(directory=str(directory))), pack_bytes=PACK_BYTES)
    host, _, port = address.rpartition(":")
    command = [
        sys.executable, "-m", "bridgehead.app.blobserver",
        "--directory", str(directory), "--host", host, "--port", port, "--port-file", str(folder.site(place) / "vault.port"),
    ]  # fmt: skip
    return _start(record, folder, place, "vault", command, address=address)


def start_hub(record: LabRecord, folder: LabFolder) -> list[Started]:
    """What both sites share. All three listen where the controller reaches them."""
    folder.site(HUB).mkdir(parents=True, exist_ok=True)
    return [_start_proxy(record, folder), _start_prometheus(record, folder), _start_postgres(record, folder)]


def wait_answering(record: LabRecord, folder: LabFolder, started: list[Started]) -> None:
    """Return when everything that has an address answers there. Raises PORT_PERMANENT, with the log's place, when something does not."""
    deadline_s = time.monotonic() + READY_S
    for one in started:
        while one.address and not listens(one.address):
            if not one.alive or time.monotonic() > deadline_s:
                raise BridgeheadError(
                    ErrorCode.PORT_PERMANENT,
                    tried="set the lab up",
                    subject=f"{one.name} at {one.place}",
                    happened="it ended" if not one.alive else f"it does not answer at {one.address} within {READY_S:g} s",
                    remedy=f"See {folder.log}.",
                )
            time.sleep(0.02)


def haproxy_options(record: LabRecord, folder: LabFolder) -> HaproxyOptions:
    """The proxy in front of the service: everything to site-a at first."""
    place = folder.site(HUB)
    service = HaproxyService(
        listen=f"{hub_address(record)}:{PROXY_PORT}",
        sites={site: f"{record.lines[site].address}:{BACKEND_PORT}" for site in SITES},
        initial={SITE_A: 100, SITE_B: 0},
    )
    return HaproxyOptions(
        socket=str(place / "haproxy.sock"),
        state_file=str(place / "weights.json"),
        services={SERVICE: service},
        config_file=str(place / "haproxy.cfg"),
    )


def database_url(record: LabRecord, database: str = "postgres") -> str:
    """Where PostgreSQL is; whoever reaches it may do everything."""
    return f"postgresql://{DATABASE_USER}@{hub_address(record)}:{POSTGRES_PORT}/{database}"


def prometheus_url(record: LabRecord) -> str:
    """Where Prometheus is."""
    return f"http://{hub_address(record)}:{PROMETHEUS_PORT}"


def _start(record: LabRecord, folder: LabFolder, place: str, name: str, command: list[str], *, address: str) -> Started:
    log = folder.log / f"{name}-{place}.log"
    return spawn(record.namespace(place), command, name=name, place=place, log=log, address=address)


def _start_proxy(record: LabRecord, folder: LabFolder) -> Started:
    options = haproxy_options(record, folder)
    HaproxyTraffic(options).install()
    started = _start(record, folder, HUB, "haproxy", haproxy_command(options), address=f"{hub_address(record)}:{PROXY_PORT}")
    _until(lambda: _quietly(lambda: bool(HaproxyTraffic(options).read(SERVICE))), started, folder)
    return started


def _start_prometheus(record: LabRecord, folder: LabFolder) -> Started:
    place, address = folder.site(HUB), f"{hub_address(record)}:{PROMETHEUS_PORT}"
    every = f"{round(SCRAPE_S * 1000)}ms"
    jobs = {
        "clients": [f"127.0.0.1:{CLIENTS_PORT}"],
        "backends": [f"{record.lines[site].address}:{BACKEND_PORT}" for site in SITES],
    }
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": targets}]} for job, targets in jobs.items()
        ],
    }
    (place / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        found("prometheus") or "prometheus",
        f"--config.file={place / 'prometheus.yml'}",
        f"--storage.tsdb.path={place / 'tsdb'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    return _start(record, folder, HUB, "prometheus", command, address=address)


def _start_postgres(record: LabRecord, folder: LabFolder) -> Started:
    """PostgreSQL refuses root, and its other user may not enter the lab's folder: its files lie in ``record.places``."""
    data, address = Path(record.places[0]), hub_address(record)
    user = pwd.getpwnam("nobody")
    data.mkdir(mode=0o700, exist_ok=True)
    os.chown(data, user.pw_uid, user.pw_gid)
    nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    initdb = [found("initdb") or "initdb", "-D", str(data / "data"), "-U", DATABASE_USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    with open(folder.log / "initdb.log", "wb") as log:
        subprocess.run(
            inside(record.namespace(HUB), [*nobody, *initdb, "--no-sync", "--no-instructions"]), check=True, stdout=log, stderr=log, cwd="/"
        )
    with open(data / "data" / "pg_hba.conf", "a", encoding="utf-8") as rules:
        rules.write(f"host all all {record.net}.0/24 trust\n")
    options = [
        "-c", f"listen_addresses={address}", "-c", f"port={POSTGRES_PORT}", "-c", f"unix_socket_directories={data}",
        "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "fsync=off",
    ]  # fmt: skip
    command = [*nobody, found(POSTGRES) or POSTGRES, "-D", str(data / "data"), *options]
    return _start(record, folder, HUB, POSTGRES, command, address=f"{address}:{POSTGRES_PORT}")


def _until(ready: Callable[[], bool], started: Started, folder: LabFolder) -> None:
    deadline_s = time.monotonic() + READY_S
    while not ready():
        if time.monotonic() > deadline_s or read_stat(started.pid) is None:
            happened = f"{started.name} is not ready within {READY_S:g} s"
            raise BridgeheadError(
                ErrorCode.PORT_PERMANENT, tried="set the lab up", subject=started.name, happened=happened, remedy=f"See {folder.log}."
            )
        time.sleep(0.02)


def _quietly(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except PortError:
        return False
