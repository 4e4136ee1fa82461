"""Estate: everything, in all sites, that matters for a move: equipment, workloads, services and how they are reached (M5.1, M5.2)."""

from __future__ import annotations

import enum
from typing import Annotated, Any, NewType

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId, WorkloadId
from bridgehead.kernel.quantity import BitsPerSecond, Bytes, EnergyPrice, Kelvin, Metres, Seconds, Share, Watts
from bridgehead.kernel.shape import Keyed, Ref
from bridgehead.model.acceptance import Acceptance
from bridgehead.model.cooling import Loop
from bridgehead.model.equipment import Node, Rack, Store
from bridgehead.model.fabric import Count, Fabric, Switch
from bridgehead.model.power import Circuit, PowerSource

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
        shell: where hooks of its applications are run; without it, on the controller's machine.
    """

    scheduler: Connection | None = None
    training: Connection | None = None
    vault: Connection | None = None
    shell: Connection | None = None


class HeadroomRule(enum.StrEnum):
    """How a load is held against a circuit (rules section 3); the report shows all three beside each other."""

    CONTINUOUS = "continuous"
    """Load at most (1 - margin) of what may flow for hours: the default."""
    RATING = "rating"
    """Load at most what may flow for hours, and at most (1 - margin) of the breaker's rating."""
    NEED = "need"
    """What may flow for hours is at least (1 + margin) times the load."""


class Quarter(msgspec.Struct, frozen=True):
    """What jobs used of a site's GPUs in three months, from scheduler accounting (P18).

    Attributes:
        id: ``2026-Q3``.
        used_gpu_hours: GPU-hours that jobs had.
        offered_gpu_hours: GPU-hours that were there for them.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-Q[1-4]$")]
    used_gpu_hours: Annotated[float, msgspec.Meta(ge=0)]
    offered_gpu_hours: Annotated[float, msgspec.Meta(gt=0)] | None = None


class Site(msgspec.Struct, frozen=True):
    """A datacenter, colocation hall or cloud region.

    Attributes:
        name: what people call it.
        region: where it is.
        power_w: usable power of the whole site; circuits are what counts (M5.3).
        electrical_rules: the national rule set that it declares (``NEC``, ``IEC``); we compute, an electrician signs.
        headroom: how the margin of the policy is applied to circuits.
        energy_price: price of energy.
        pue: total power divided by IT power.
        altitude_m: above the sea; thin air carries less heat.
        ambient_k: highest temperature outside for which the cooling is meant.
        floor_kg_per_m2: what the raised floor carries.
        sources: what feeds the circuits, up to the utility.
        loops: cooling.
        spare_gpus: GPUs that stand ready as spares (M10.1).
        gpu_hours_per_interruption: GPU-hours between two unexpected interruptions of jobs, from its own records.
        usage: what jobs used of its GPUs, quarter by quarter.
        acceptance: results of tests.
    """

    id: SiteId
    name: str = ""
    region: str = ""
    power_w: Watts | None = None
    electrical_rules: str = ""
    headroom: HeadroomRule = HeadroomRule.CONTINUOUS
    energy_price: EnergyPrice | None = None
    pue: Annotated[float, msgspec.Meta(ge=1)] | None = None
    altitude_m: Metres | None = None
    ambient_k: Kelvin | None = None
    floor_kg_per_m2: Annotated[float, msgspec.Meta(gt=0)] | None = None
    sources: Annotated[tuple[PowerSource, ...], Keyed("source")] = ()
    circuits: Annotated[tuple[Circuit, ...], Keyed("circuit")] = ()
    loops: Annotated[tuple[Loop, ...], Keyed("loop")] = ()
    racks: Annotated[tuple[Rack, ...], Keyed("rack")] = ()
    fabrics: Annotated[tuple[Fabric, ...], Keyed("fabric")] = ()
    switches: Annotated[tuple[Switch, ...], Keyed("switch")] = ()
    nodes: Annotated[tuple[Node, ...], Keyed("node")] = ()
    stores: Annotated[tuple[Store, ...], Keyed("store")] = ()
    spare_gpus: Count | None = None
    gpu_hours_per_interruption: Annotated[float, msgspec.Meta(gt=0)] | None = None
    usage: Annotated[tuple[Quarter, ...], Keyed("quarter")] = ()
    acceptance: Annotated[tuple[Acceptance, ...], Keyed("acceptance")] = ()
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
        path: the ducts and buildings that it goes through; two links that share one are not diverse.
        measured_bps: rate that was received in a test, never the one that was sent.
        flows: flows of that test.
        loss: share of packets that are lost.
        mtu: largest packet in bytes; a plain number.
        window_bytes: largest window of one flow.
        used_bps: what production already takes at its busiest.
        failover_s: measured time until traffic is on another link when this one fails.
    """

    id: LinkId
    between: tuple[SiteRef, SiteRef]
    rate_bps: BitsPerSecond
    delay_s: Seconds | None = None
    carrier: str = ""
    path: tuple[str, ...] | None = None
    measured_bps: BitsPerSecond | None = None
    flows: Annotated[int, msgspec.Meta(ge=1)] | None = None
    loss: Annotated[Share, msgspec.Meta(ge=0, le=1)] | None = None
    mtu: Annotated[int, msgspec.Meta(ge=1)] | None = None
    window_bytes: Bytes | None = None
    used_bps: BitsPerSecond | None = None
    failover_s: Seconds | None = None


CourierId = NewType("CourierId", str)


class Courier(msgspec.Struct, frozen=True):
    """Drives that are carried from one site to another (M9.3).

    Attributes:
        between: the two sites.
        order_s: until empty drives are at the source.
        devices: drives that are filled, and later read, at the same time.
        fill_bps: rate of filling one of them with the real mix of files.
        transport_s: door to door.
        unload_bps: rate of reading one of them; ``fill_bps`` is a guess for it.
        verify_bps: rate of checking what came, all drives together.
    """

    id: CourierId
    between: tuple[SiteRef, SiteRef]
    order_s: Seconds | None = None
    devices: Annotated[int, msgspec.Meta(ge=1)] | None = None
    fill_bps: BitsPerSecond | None = None
    transport_s: Seconds | None = None
    unload_bps: BitsPerSecond | None = None
    verify_bps: BitsPerSecond | None = None


DatasetId = NewType("DatasetId", str)
DatasetRef = Annotated[DatasetId, Ref(("dataset",))]


class Temperature(enum.StrEnum):
    """How often data is used: cold data goes first, hot data last (M9.2)."""

    COLD = "cold"
    WARM = "warm"
    HOT = "hot"


class Dataset(msgspec.Struct, frozen=True):
    """Data that has to be at the target before what uses it (M9.1, M9.2).

    Attributes:
        site: where it lies now.
        size_bytes: all of it.
        store: the store that holds it.
        change_bps: unique bytes that change, as a rate; 0 for data that is never written again.
        temperature: how often it is used.
        critical: whether it is metadata that is replicated synchronously (M7.2).
    """

    id: DatasetId
    site: SiteRef
    size_bytes: Bytes
    store: str = ""
    change_bps: BitsPerSecond | None = None
    temperature: Temperature = Temperature.WARM
    critical: bool = False


class WorkloadKind(enum.StrEnum):
    """What kind of work it is."""

    TRAINING = "training"
    INFERENCE = "inference"
    BATCH = "batch"
    SERVICE = "service"


class Grace(msgspec.Struct, frozen=True):
    """One link of the chain of grace periods between "please stop" and the kill (M5.2).

    Attributes:
        id: who waits: ``slurm-killwait``, ``pod-termination``, ``pre-stop``, ``signal-lead``.
        lasts_s: how long.
    """

    id: str
    lasts_s: Seconds


class Workload(msgspec.Struct, frozen=True):
    """Something that the estate is for (M5.2).

    Attributes:
        site: where it runs now.
        gpus: GPUs that it uses.
        min_gpus: the fewest with which it still makes sense (minimum viable configuration, M13).
        gpu_model: the model that it needs; without it, whether another one will do is unknown.
        checkpoint_bytes: size of one checkpoint, of all GPUs together.
        checkpoint_per_gpu_bytes: size of one checkpoint for each GPU; only one of the two is given (M8.3).
        parameters: of the model, all experts counted; with ``bytes_per_parameter`` a guess where nobody measured the size.
        bytes_per_parameter: of weights and optimizer together (rules section 7).
        checkpoint_every_s: time between two checkpoints.
        save_s: measured time of one save.
        restore_s: measured time to restore.
        warm_up_s: time from restored to useful work.
        graces: periods of grace, from the outermost to the process; the shortest decides.
        store: the store at its site that its checkpoints are written to.
        memory_bytes: main memory that it needs in all.
        seeded: whether its seeds and records allow it to be repeated (P23).
        objective: the id of its objective in the policy.
        priority: a higher number goes over, and is recovered, earlier.
        pausable: whether it may stand still for a while.
        needs: workloads and services without which it cannot work.
        endpoints: addresses by which others reach it.
        data_class: the class of its data.
        datasets: data that must be where it runs.
    """

    id: WorkloadId
    kind: WorkloadKind
    site: SiteRef
    gpus: Count = 0
    min_gpus: Count | None = None
    gpu_model: str = ""
    checkpoint_bytes: Bytes | None = None
    checkpoint_per_gpu_bytes: Bytes | None = None
    parameters: Annotated[float, msgspec.Meta(gt=0)] | None = None
    bytes_per_parameter: Annotated[float, msgspec.Meta(gt=0)] | None = None
    checkpoint_every_s: Seconds | None = None
    save_s: Seconds | None = None
    restore_s: Seconds | None = None
    warm_up_s: Seconds | None = None
    graces: Annotated[tuple[Grace, ...], Keyed("grace")] = ()
    store: str = ""
    memory_bytes: Bytes | None = None
    seeded: bool | None = None
    objective: ObjectiveId | None = None
    priority: Count = 0
    pausable: bool = False
    needs: tuple[NeedRef, ...] = ()
    endpoints: tuple[str, ...] = ()
    data_class: str = ""
    datasets: tuple[DatasetRef, ...] = ()

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
    couriers: Annotated[tuple[Courier, ...], Keyed("courier")] = ()
    datasets: Annotated[tuple[Dataset, ...], Keyed("dataset")] = ()
    workloads: Annotated[tuple[Workload, ...], Keyed("workload")] = ()
    services: Annotated[tuple[Service, ...], Keyed("service")] = ()

    def connections(self) -> dict[str, Any]:
        """``{"sites": {site: {port: {driver, options...}}}, "services": {...}}``: what wiring connects and a run's journal keeps."""
        sites = {site.id: _flat(site.connections, ("scheduler", "training", "vault", "shell")) for site in self.sites}
        return {"sites": sites, "services": {one.id: _flat(one, ("traffic", "metrics", "serving")) for one in self.services}}


def _flat(owner: SiteConnections | Service, ports: tuple[str, ...]) -> dict[str, Any]:
    given = ((port, getattr(owner, port)) for port in ports)
    return {port: connection.flat() for port, connection in given if connection is not None}
