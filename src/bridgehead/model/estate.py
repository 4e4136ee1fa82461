"""Estate: everything, in all sites, that matters for a move: equipment, workloads, services and how they are reached (M5.1, M5.2)."""

from __future__ import annotations

import enum
from typing import Annotated, Any, NewType

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId, WorkloadId
from bridgehead.kernel.quantity import BitsPerSecond, Bytes, EnergyPrice, Seconds, Watts
from bridgehead.kernel.shape import Keyed, Ref
from bridgehead.model.equipment import Circuit, Count, Fabric, Node, Rack, Store

LinkId = NewType("LinkId", str)
ObjectiveId = NewType("ObjectiveId", str)
SiteRef = Annotated[SiteId, Ref(("site",))]
WorkloadRef = Annotated[WorkloadId, Ref(("workload",))]
NeedRef = Annotated[str, Ref(("workload", "service"))]


class Connection(msgspec.Struct, frozen=True):
    """Which driver reaches something, and the driver's own options (plain values, SI)."""

    driver: str
    options: dict[str, Any] = {}

    def flat(self) -> dict[str, Any]:
        """Driver and options in one mapping, as wiring takes it."""
        return {"driver": self.driver, **self.options}


class SiteConnections(msgspec.Struct, frozen=True):
    """How a site is reached.

    Attributes:
        scheduler: starts and stops its jobs.
        training: asks its trainers for checkpoints.
        vault: keeps its snapshots.
    """

    scheduler: Connection | None = None
    training: Connection | None = None
    vault: Connection | None = None


class Site(msgspec.Struct, frozen=True):
    """A datacenter, colocation hall or cloud region.

    Attributes:
        name: what people call it.
        region: where it is.
        power_w: usable power of the whole site; circuits are what counts (M5.3).
        energy_price: price of energy.
        pue: total power divided by IT power.
    """

    id: SiteId
    name: str = ""
    region: str = ""
    power_w: Watts | None = None
    energy_price: EnergyPrice | None = None
    pue: Annotated[float, msgspec.Meta(ge=1)] | None = None
    circuits: Annotated[tuple[Circuit, ...], Keyed("circuit")] = ()
    racks: Annotated[tuple[Rack, ...], Keyed("rack")] = ()
    fabrics: Annotated[tuple[Fabric, ...], Keyed("fabric")] = ()
    nodes: Annotated[tuple[Node, ...], Keyed("node")] = ()
    stores: Annotated[tuple[Store, ...], Keyed("store")] = ()
    connections: SiteConnections = SiteConnections()

    @property
    def gpus(self) -> int:
        """GPUs of all its nodes."""
        return sum(node.gpus for node in self.nodes)


class Link(msgspec.Struct, frozen=True):
    """A line between two sites (M7.1, M10.2).

    Attributes:
        between: the two sites.
        rate_bps: line rate.
        delay_s: one way.
        carrier: who runs it; two links of one carrier are not diverse.
    """

    id: LinkId
    between: tuple[SiteRef, SiteRef]
    rate_bps: BitsPerSecond
    delay_s: Seconds | None = None
    carrier: str = ""


class WorkloadKind(enum.StrEnum):
    """What kind of work it is."""

    TRAINING = "training"
    INFERENCE = "inference"
    BATCH = "batch"
    SERVICE = "service"


class Workload(msgspec.Struct, frozen=True):
    """Something that the estate is for (M5.2).

    Attributes:
        site: where it runs now.
        gpus: GPUs that it uses.
        min_gpus: the fewest with which it still makes sense (minimum viable configuration, M13).
        gpu_model: the model that it needs; empty when any will do.
        checkpoint_bytes: size of one checkpoint, of all GPUs together.
        checkpoint_per_gpu_bytes: size of one checkpoint for each GPU; only one of the two is given (M8.3).
        restore_s: measured time to restore.
        objective: the id of its objective in the policy.
        priority: a higher number goes over, and is recovered, earlier.
        pausable: whether it may stand still for a while.
        needs: workloads and services without which it cannot work.
        endpoints: addresses by which others reach it.
        data_class: the class of its data.
    """

    id: WorkloadId
    kind: WorkloadKind
    site: SiteRef
    gpus: Count = 0
    min_gpus: Count | None = None
    gpu_model: str = ""
    checkpoint_bytes: Bytes | None = None
    checkpoint_per_gpu_bytes: Bytes | None = None
    restore_s: Seconds | None = None
    objective: ObjectiveId | None = None
    priority: Count = 0
    pausable: bool = False
    needs: tuple[NeedRef, ...] = ()
    endpoints: tuple[str, ...] = ()
    data_class: str = ""

    @property
    def total_checkpoint_bytes(self) -> int | None:
        """One checkpoint of all GPUs together; None while unknown."""
        if self.checkpoint_per_gpu_bytes is not None:
            return self.checkpoint_per_gpu_bytes * self.gpus
        return self.checkpoint_bytes


class Service(msgspec.Struct, frozen=True):
    """Something that answers requests behind a proxy.

    Attributes:
        sites: where it has, or can have, a backend.
        workload: the workload whose result it serves.
        objective: the id of its objective in the policy.
        priority: a higher number goes over, and is recovered, earlier.
        needs: workloads and services without which it cannot work.
        endpoints: addresses that clients use.
        traffic: the proxy that spreads its requests.
        metrics: the source of its counters.
        serving: how the health of its backends is asked.
    """

    id: ServiceId
    sites: Annotated[tuple[SiteRef, ...], msgspec.Meta(min_length=1)]
    workload: WorkloadRef | None = None
    objective: ObjectiveId | None = None
    priority: Count = 0
    needs: tuple[NeedRef, ...] = ()
    endpoints: tuple[str, ...] = ()
    traffic: Connection | None = None
    metrics: Connection | None = None
    serving: Connection | None = None


class Estate(msgspec.Struct, frozen=True):
    """All of it. Files are read by ``bridgehead.model.estatefile``."""

    name: str = msgspec.field(name="estate")
    sites: Annotated[tuple[Site, ...], Keyed("site")]
    links: Annotated[tuple[Link, ...], Keyed("link")] = ()
    workloads: Annotated[tuple[Workload, ...], Keyed("workload")] = ()
    services: Annotated[tuple[Service, ...], Keyed("service")] = ()

    def connections(self) -> dict[str, Any]:
        """``{"sites": {site: {port: {driver, options...}}}, "services": {...}}``: what wiring connects and a run's journal keeps."""
        sites = {site.id: _flat(site.connections, ("scheduler", "training", "vault")) for site in self.sites}
        return {"sites": sites, "services": {one.id: _flat(one, ("traffic", "metrics", "serving")) for one in self.services}}


def _flat(owner: SiteConnections | Service, ports: tuple[str, ...]) -> dict[str, Any]:
    given = ((port, getattr(owner, port)) for port in ports)
    return {port: connection.flat() for port, connection in given if connection is not None}
