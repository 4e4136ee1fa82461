"""Switchboard: the ports of all sites and services of one estate, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.recovery import DatabaseEngine
from bridgehead.ports.admission import Admission
from bridgehead.ports.bubbles import Bubbles
from bridgehead.ports.captures import Captures
from bridgehead.ports.hooks import Hooks
from bridgehead.ports.machines import Machines
from bridgehead.ports.metrics import Metrics
from bridgehead.ports.preflight import Preflight
from bridgehead.ports.quiesce import Quiesce
from bridgehead.ports.scheduler import Scheduler
from bridgehead.ports.serving import Serving
from bridgehead.ports.traffic import Traffic
from bridgehead.ports.training import TrainingControl
from bridgehead.ports.vaults import Vaults

K = TypeVar("K")
V = TypeVar("V")


class Switchboard(msgspec.Struct, frozen=True):
    """What actions are given. Look-ups raise NotFound, naming what the estate does connect."""

    schedulers: Mapping[SiteId, Scheduler]
    trainings: Mapping[SiteId, TrainingControl]
    traffics: Mapping[ServiceId, Traffic]
    servings: Mapping[ServiceId, Serving]
    metrics: Metrics
    vaults: Vaults
    bubbles: Bubbles | None = None
    """Of drills; other runs have none."""
    preflight: Preflight | None = None
    databases: Mapping[DatabaseEngine, Quiesce] = {}
    hooks: Hooks | None = None
    captures: Captures | None = None
    admissions: Mapping[SiteId, Admission] = {}
    """Of schedulers that have nodes and a queue."""
    rooms: Mapping[SiteId, Machines] = {}
    """Bare metal of sites, where it is rebuilt."""

    def database(self, engine: DatabaseEngine) -> Quiesce:
        """What holds and copies databases of an engine."""
        return _find(self.databases, engine, "driver of databases")

    def machines(self, site: SiteId) -> Machines:
        """The nodes of a site as bare metal."""
        return _find(self.rooms, site, "netboot folder")

    def admission(self, site: SiteId) -> Admission:
        """The doors of a site's scheduler."""
        return _find(self.admissions, site, "scheduler with nodes to close and jobs to hold")

    def scheduler(self, site: SiteId) -> Scheduler:
        """The scheduler of a site."""
        return _find(self.schedulers, site, "scheduler")

    def training(self, site: SiteId) -> TrainingControl:
        """The training control of a site."""
        return _find(self.trainings, site, "training control")

    def traffic(self, service: ServiceId) -> Traffic:
        """The proxy in front of a service."""
        return _find(self.traffics, service, "proxy")

    def serving(self, service: ServiceId) -> Serving:
        """The health of a service's backends."""
        return _find(self.servings, service, "serving health")


def _find(ports: Mapping[K, V], key: K, what: str) -> V:
    if key not in ports:
        known = ", ".join(sorted(str(name) for name in ports)) or "none"
        raise NotFound(f"no {what} is connected there", tried=f"find the {what}", subject=str(key), remedy=f"The estate connects: {known}.")
    return ports[key]
