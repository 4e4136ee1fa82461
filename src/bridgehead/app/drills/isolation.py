"""Isolation: the connections and jobs of a bubble, made from those of the site whose place it takes (R13).

A job's command and environment name folders and ports of production. In the bubble each text has, in their place:

- a folder in which jobs of the site find its vault → the view of it
- the folder of the site's training control → the bubble's own
- each folder that the recovery file lists under ``drills: own`` → one of the bubble
- the port of the service's backend at the site → a free one (in a network namespace the port stays, since it is free there)
"""

from __future__ import annotations

import enum
import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import JobName, ServiceId, SiteId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Recovery
from bridgehead.ports.scheduler import JobSpec

PREFIXES: Final = ("drill-", "drill2-")
"""Of the names of jobs in a bubble; the second is of what is recovered a second time."""
_URL_PORT: Final = re.compile(r"^(https?://[^/:]+):(\d+)")


class Network(enum.StrEnum):
    """What network the jobs of a bubble have."""

    AUTO = "auto"
    """Their own where that can be had, else the site's."""
    OWN = "own"
    """A network namespace that reaches nothing."""
    SHARED = "shared"
    """The site's; what keeps traffic away is that no proxy knows of the bubble."""


class Isolation(msgspec.Struct, frozen=True):
    """A bubble's own world.

    Attributes:
        tag: ends the names of its jobs and its network, so that no two drills name one alike.
        folder: of the bubble; its jobs see it under the same path.
        production: connections of the estate, with absolute paths.
        network: name of a network namespace; "" for none.
        ports: for each service, the port of production and the one in the bubble.
        vaults: folders in which jobs of the site find its vault.
        own: folders that the bubble has its own of.
    """

    tag: str
    folder: Path
    site: SiteId
    production: Mapping[str, Any]
    network: str
    ports: Mapping[ServiceId, tuple[int, int]]
    vaults: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def view(self) -> Path:
        """The vault of the bubble."""
        return self.folder / "vault"

    def connections(self) -> dict[str, Any]:
        """As ``wiring.connect`` takes them. No proxy: nothing in a bubble can get traffic."""
        site = {
            "scheduler": self._scheduler(),
            "vault": {"driver": "view", "directory": str(self.view)},
            "training": {"driver": "files", "directory": str(self.folder / "control")},
        }
        services = {service: self._service(service) for service in self.ports}
        bubbles = {"driver": "local", "directory": str(self.folder.parent)}
        return {"sites": {self.site: site}, "services": services, "bubbles": bubbles}

    def job(self, one: Protected, *, prefix: str = PREFIXES[0]) -> JobSpec:
        """The workload's job in the bubble; it is told that it is one (BRIDGEHEAD_DRILL)."""
        there = one.job(self.site)
        name = JobName(f"{prefix}{there.name}-{self.tag}")
        env = {key: self._moved(value, one.service) for key, value in there.env.items()}
        told = {"BRIDGEHEAD_VAULT": str(self.view), "BRIDGEHEAD_SITE": self.site, "BRIDGEHEAD_DRILL": self.folder.name}
        if one.computes:
            told |= {"BRIDGEHEAD_CONTROL": str(self.folder / "control" / name), "BRIDGEHEAD_WORKLOAD": one.id}
        if one.kind is WorkloadKind.TRAINING:
            told |= {"BRIDGEHEAD_STANDBY": "1"}
        command = tuple(self._moved(word, one.service) for word in there.command)
        if self.network:
            from bridgehead.drivers.bubble.namespaces import ip_program

            command = (ip_program() or "ip", "netns", "exec", self.network, *command)
        return JobSpec(name=name, command=command, env={**env, **told}, workdir=there.workdir, grace_s=there.grace_s)

    @property
    def folders(self) -> tuple[Path, ...]:
        """What jobs expect to be there."""
        return tuple(self.folder / "own" / str(number) for number in range(len(self.own)))

    def _scheduler(self) -> dict[str, Any]:
        there = self.production["sites"][self.site]["scheduler"]
        jobs = str(self.folder / "jobs")
        match there["driver"]:
            case "process":
                return {**there, "directory": jobs}
            case _:
                asked = {f"{prefix}{name}-{self.tag}": asks for prefix in PREFIXES for name, asks in there.get("jobs", {}).items()}
                return {**there, "state": jobs, "jobs": asked}

    def _service(self, service: ServiceId) -> dict[str, Any]:
        serving = self.production["services"][service]["serving"]
        _, port = self.ports[service]
        url = _URL_PORT.sub(
            lambda match: f"{'http://127.0.0.1' if self.network else match[1]}:{port}", backend_url(serving, service, self.site)
        )
        moved = {**serving, "backends": {service: {self.site: url}}}
        return {"serving": {**moved, "namespace": self.network} if self.network else moved}

    def _moved(self, text: str, service: ServiceId | None) -> str:
        control = self.production["sites"][self.site].get("training", {}).get("directory")
        places = dict.fromkeys(self.vaults, self.view) | dict(zip(self.own, self.folders, strict=True))
        if control:
            places[control] = self.folder / "control"
        for before in sorted(places, key=len, reverse=True):
            parts = re.split(rf"(?<![\w.-]){re.escape(before)}(?=/|$|[\s:,;'\"])", text)
            text = str(places[before]).join(parts)
        if service is not None and service in self.ports:
            known, port = self.ports[service]
            text = re.sub(rf"(?<![\w.]){known}(?![\w.])", str(port), text)
        return text


def vaults_of(production: Mapping[str, Any], recovery: Recovery, site: SiteId) -> tuple[str, ...]:
    """Folders in which jobs of ``site`` find its vault: that of the connection, and what their environment says."""
    told = (job.env.get("BRIDGEHEAD_VAULT", "") for one in recovery.workloads for job in one.jobs if job.site == site)
    found = [str(production["sites"][site]["vault"].get("directory", "")), *told]
    return tuple(dict.fromkeys(path.rstrip("/") for path in found if path.startswith("/")))


def ports_of(
    production: Mapping[str, Any], services: Iterable[ServiceId], site: SiteId, *, network: bool
) -> dict[ServiceId, tuple[int, int]]:
    """For each service whose health can be asked at ``site`` over HTTP: its port, and a free one for the bubble."""
    found = {}
    for service in services:
        serving = production["services"].get(service, {}).get("serving")
        match = _URL_PORT.match(backend_url(serving, service, site)) if serving else None
        if match is not None:
            port = int(match[2])
            found[service] = (port, port if network else _free_port())
    return found


def has_own_network(production: Mapping[str, Any], site: SiteId, wanted: Network) -> bool:
    """Whether the bubble gets a network namespace. Raises BAD_USAGE when one is wanted and cannot be had."""
    if wanted is Network.SHARED:
        return False
    missing = _missing_for_network(production["sites"][site])
    if missing and wanted is Network.OWN:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="drill in a network namespace",
            subject=str(site),
            happened=f"that needs {missing}",
            remedy="Drill with --network shared: the bubble then has its own vault view, fences and folders, and no proxy sends to it.",
        )
    return not missing


def bubble_folder(production: Mapping[str, Any], site: SiteId, *, name: str, home: Path) -> Path:
    """Where the bubble is: jobs of Slurm see it beside the records of their driver. Raises BAD_USAGE for what is out of reach from here."""
    scheduler = production["sites"][site]["scheduler"]
    match scheduler["driver"]:
        case "process":
            return home / name
        case "slurm" if not scheduler.get("ssh"):
            return Path(scheduler["state"]) / "drills" / name
        case "slurm":
            happened = "its Slurm is reached over ssh, and a bubble is a folder that this machine and the site's nodes see alike"
            remedy = "Give the command on a machine of that site, with an estate file whose scheduler has no 'ssh'."
        case driver:
            happened = f"jobs of the scheduler '{driver}' see no folder of this machine, which a bubble is"
            remedy = "Drills are played where the process or the Slurm scheduler starts the jobs."
    raise BridgeheadError(ErrorCode.BAD_USAGE, tried="prepare a drill", subject=str(site), happened=happened, remedy=remedy)


def backend_url(serving: Mapping[str, Any], service: ServiceId, site: SiteId) -> str:
    """Where a backend answers; "" when that is not known."""
    return str(serving.get("backends", {}).get(service, {}).get(site, ""))


def _missing_for_network(site: Mapping[str, Any]) -> str:
    from bridgehead.drivers.bubble.namespaces import ip_program

    for port, driver, what in (("vault", "localfs", "a vault in a directory"), ("scheduler", "process", "the process scheduler")):
        if site.get(port, {}).get("driver") != driver:
            return f"{what} on this machine: jobs in a namespace reach nothing else"
    if os.geteuid() != 0:
        return "root"
    return "" if ip_program() else "the program 'ip' (Debian: iproute2)"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
