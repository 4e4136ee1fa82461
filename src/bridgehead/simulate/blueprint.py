"""Blueprint: what a simulated world consists of, before anything happens in it. Plain values; times in seconds, rates per second."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.simulate.machines import MachinePlan


class TrainerPlan(msgspec.Struct, frozen=True):
    """A trainer that may run at a site under a job name.

    Attributes:
        running: it computes since before the beginning, in epoch 0 (else it begins when the job is started).
        step_s: time that one step takes.
        save_every_steps: a snapshot is begun after each multiple of this step.
        save_s: from the end of a step to the committed snapshot.
        load_s: from the start of the process, or from an order to load, to warm.
        ignores_orders: it never looks at orders, and not at a request to stop either (only a kill ends it).
        snapshot_bytes: size of a snapshot.
    """

    site: SiteId
    job: JobName
    workload: WorkloadId
    running: bool
    step_s: float = 0.1
    save_every_steps: int = 50
    save_s: float = 0.2
    load_s: float = 1.0
    ignores_orders: bool = False
    snapshot_bytes: int = 200_000_000
    first_step: int = 0


class BackendPlan(msgspec.Struct, frozen=True):
    """An inference backend that may run at a site under a job name.

    Attributes:
        warm_s: from the start of the process to warm.
        stop_s: how long it takes to end when it is asked to.
        model: content hash of the weights it loads, ``snapshot`` where they come from.
        wrong_share: share of its answers that are wrong although its model has the right name.
        capacity_rps: what it can serve.
    """

    site: SiteId
    job: JobName
    service: ServiceId
    running: bool
    warm_s: float = 2.0
    stop_s: float = 0.1
    model: str = "model-a"
    snapshot: str = ""
    wrong_share: float = 0.0
    capacity_rps: float = 400.0


class ServicePlan(msgspec.Struct, frozen=True):
    """A service behind a proxy.

    Attributes:
        weights: in force at the beginning, percent.
        lag_s: how long the proxy takes to put new weights in force.
        stream_share: share of requests that stay open for ``stream_s``.
        floor_rps: capacity that must stand behind weights above 0 at every moment.
        model: content hash that is right.
    """

    service: ServiceId
    weights: dict[SiteId, int]
    rate_rps: float = 200.0
    lag_s: float = 0.1
    stream_share: float = 0.2
    stream_s: float = 3.0
    floor_rps: float = 300.0
    model: str = "model-a"


class StoredPlan(msgspec.Struct, frozen=True):
    """A snapshot of epoch 0 that a site's vault holds since before the beginning; named by its content unless ``snapshot`` is given."""

    site: SiteId
    workload: WorkloadId
    step: int
    size_bytes: int = 50_000_000
    snapshot: SnapshotId | None = None


class Blueprint(msgspec.Struct, frozen=True):
    """The whole world. Jobs that no plan names do nothing, and end when asked to.

    Attributes:
        jobs: such jobs that run since before the beginning: where, and their names.
        link_bps: bytes per second between sites.
        machines: nodes that can be rebuilt, by site.
        image_bps: bytes per second that a site's server of images gives.
        voters: sites, and a witness, a majority of which decides who may write; none: each vault speaks for its own site.
    """

    sites: tuple[SiteId, ...]
    trainers: tuple[TrainerPlan, ...] = ()
    backends: tuple[BackendPlan, ...] = ()
    services: tuple[ServicePlan, ...] = ()
    stored: tuple[StoredPlan, ...] = ()
    jobs: tuple[tuple[SiteId, JobName], ...] = ()
    link_bps: float = 200_000_000.0
    voters: tuple[SiteId, ...] = ()
    machines: tuple[tuple[SiteId, tuple[MachinePlan, ...]], ...] = ()
    image_bps: float = 1_250_000_000.0
