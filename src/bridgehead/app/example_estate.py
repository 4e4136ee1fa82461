"""Example estates: two halls of any size with a policy for the move between them, for trials and tests (``bridgehead example``).

The same arguments give the same estate. Everything that planning asks for is there; nothing was measured anywhere.
"""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import msgspec

from bridgehead.app.example_hall import LIQUID_MODEL, MODEL, Hall, gpus_of, racks_for, source_site, target_site
from bridgehead.host.durable import write_durably
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Person, ServiceId, SiteId, WorkloadId
from bridgehead.kernel.streams import stream
from bridgehead.model.estate import (
    Courier,
    CourierId,
    Dataset,
    DatasetId,
    Estate,
    Link,
    LinkId,
    Service,
    Temperature,
    Workload,
    WorkloadKind,
)
from bridgehead.model.estatefile import write_estate
from bridgehead.model.logistics import HOUR_S, Crew, CrewId, Fleet, FleetId, Logistics, Prices
from bridgehead.model.policy import Approval, Limits, Period, Policy, write_policy

SOURCE, TARGET = SiteId("old-hall"), SiteId("new-hall")
_BEGINS_S = 1799020800.0
"""2027-01-04, a Monday."""
_DAY_S = 86_400.0
_SERVICES = (
    ("identity", ()),
    ("dns", ()),
    ("storage-control", ("dns",)),
    ("registry", ("identity", "storage-control")),
    ("monitoring", ("dns", "identity")),
    ("scheduler", ("identity", "dns", "registry")),
)


class Example(msgspec.Struct, frozen=True):
    """An estate and the policy for its move."""

    estate: Estate
    policy: Policy


def example(gpus: int, *, seed: int = 0, hardware: bool = True, used: float = 0.7) -> Example:
    """Make one.

    Args:
        gpus: how many the source has; rounded up to whole racks.
        hardware: whether racks are carried over, or the target has its own.
        used: share of the GPUs that workloads use.

    Raises BAD_USAGE for a size that makes no sense.
    """
    if gpus < 1 or not 0 < used < 1:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="make an example estate",
            subject=f"{gpus} GPUs, {used:g} of them used",
            happened="that is no cluster",
            remedy="Give at least one GPU, and a share between 0 and 1.",
        )
    halls = racks_for(gpus)
    source = source_site(SOURCE, halls)
    target = target_site(TARGET, halls, equipped=not hardware)
    workloads = _workloads(halls, stream(seed, "example", gpus), used)
    datasets = _datasets(gpus)
    workloads = [_with_data(one, datasets, stream(seed, "data", one.id)) for one in workloads]
    serving = [one for one in workloads if one.kind is WorkloadKind.INFERENCE]
    services = [
        Service(
            ServiceId(f"{one.id}-api"),
            (SOURCE, TARGET),
            workload=one.id,
            priority=one.priority,
            endpoints=(f"https://{one.id}.example.org",),
        )
        for one in serving
    ]
    estate = Estate(
        name=f"example-{gpus}",
        sites=(source, target),
        links=_links(gpus),
        couriers=(
            Courier(
                CourierId("drives"),
                (SOURCE, TARGET),
                order_s=24 * HOUR_S,
                devices=8,
                fill_bps=8e9,
                transport_s=12 * HOUR_S,
                unload_bps=8e9,
                verify_bps=40e9,
            ),
        ),
        datasets=tuple(datasets),
        workloads=(*_critical(), *workloads),
        services=tuple(services),
    )
    return Example(estate, _policy(halls, hardware=hardware))


def write_example(made: Example, folder: Path) -> tuple[Path, Path]:
    """Write ``estate.yaml`` and ``policy.yaml``."""
    folder.mkdir(parents=True, exist_ok=True)
    estate, policy = folder / "estate.yaml", folder / "policy.yaml"
    write_durably(str(estate), write_estate(made.estate).encode())
    write_durably(str(policy), write_policy(made.policy).encode())
    return estate, policy


def _critical() -> list[Workload]:
    return [
        Workload(WorkloadId(name), WorkloadKind.SERVICE, SOURCE, priority=10, needs=tuple(needs), warm_up_s=60.0)
        for name, needs in _SERVICES
    ]


def _workloads(halls: Hall, chance: Random, used: float) -> list[Workload]:
    found: list[Workload] = []
    for model in (MODEL, LIQUID_MODEL):
        if not gpus_of(halls, model):
            continue
        total = gpus_of(halls, model)
        count = max(4, round(20 * math.sqrt(max(total, 1) / 500)))
        count = min(count, 200)
        shares = [chance.lognormvariate(0, 1.0) for _ in range(count)]
        largest = 0.1 * sum(shares)
        shares = [min(share, largest) for share in shares]
        for number, share in enumerate(shares):
            gpus = max(1, round(used * total * share / sum(shares)))
            if gpus >= 8:
                gpus -= gpus % 8
            found.append(_workload(f"{'h' if model == MODEL else 'l'}{number:03d}", model, gpus, chance))
    return found


def _workload(name: str, model: str, gpus: int, chance: Random) -> Workload:
    draw, scheduler = chance.random(), ("identity", "scheduler")
    size = round(gpus * chance.uniform(0.6, 6.0)) * 10**9
    if draw < 0.25:
        return Workload(
            WorkloadId(f"serve-{name}"),
            WorkloadKind.INFERENCE,
            SOURCE,
            gpus=gpus,
            min_gpus=max(1, gpus * 3 // 4),
            gpu_model=model,
            checkpoint_bytes=size,
            restore_s=90.0,
            warm_up_s=60.0,
            priority=chance.randint(6, 9),
            needs=("identity", "dns"),
            store="scratch",
        )
    if draw < 0.85:
        elastic = chance.random() < 0.5
        return Workload(
            WorkloadId(f"train-{name}"),
            WorkloadKind.TRAINING,
            SOURCE,
            gpus=gpus,
            min_gpus=max(1, gpus // 2) if elastic else gpus,
            gpu_model=model,
            checkpoint_bytes=size,
            checkpoint_every_s=chance.choice((900.0, 1800.0, 3600.0)),
            save_s=chance.uniform(5, 45),
            restore_s=chance.uniform(60, 300),
            warm_up_s=chance.uniform(30, 180),
            priority=chance.randint(1, 6),
            pausable=elastic and chance.random() < 0.3,
            needs=scheduler,
            store="scratch",
        )
    return Workload(
        WorkloadId(f"batch-{name}"),
        WorkloadKind.BATCH,
        SOURCE,
        gpus=gpus,
        min_gpus=0,
        gpu_model=model,
        priority=0,
        pausable=True,
        checkpoint_every_s=chance.choice((1800.0, 3600.0)),
        needs=scheduler,
        store="scratch",
    )


def _datasets(gpus: int) -> list[Dataset]:
    scale = max(1, gpus // 100) * 10**12
    return [
        Dataset(DatasetId("archive"), SOURCE, 30 * scale, store="scratch", change_bps=0.0, temperature=Temperature.COLD),
        Dataset(DatasetId("corpus"), SOURCE, 10 * scale, store="scratch", change_bps=0.0, temperature=Temperature.WARM),
        Dataset(DatasetId("images"), SOURCE, 6 * scale, store="scratch", change_bps=0.0, temperature=Temperature.WARM),
        Dataset(DatasetId("events"), SOURCE, 2 * scale, store="scratch", change_bps=2e9, temperature=Temperature.HOT),
        Dataset(DatasetId("metadata"), SOURCE, scale // 10, store="scratch", change_bps=1e8, temperature=Temperature.HOT, critical=True),
    ]


def _with_data(workload: Workload, datasets: list[Dataset], chance: Random) -> Workload:
    if workload.kind is WorkloadKind.INFERENCE:
        return workload
    names = sorted({chance.choice(datasets).id for _ in range(2)})
    return msgspec.structs.replace(workload, datasets=tuple(names))


def _links(gpus: int) -> tuple[Link, ...]:
    rate = 400e9 * max(1, math.ceil(gpus / 4000))
    return tuple(
        Link(
            LinkId(name),
            (SOURCE, TARGET),
            rate,
            delay_s=delay_s,
            carrier=carrier,
            path=(path,),
            measured_bps=0.92 * rate,
            flows=32,
            loss=0.0,
            mtu=9000,
            window_bytes=10**9,
            used_bps=0.08 * rate,
            failover_s=0.04,
        )
        for name, delay_s, carrier, path in (("north", 0.004, "Nordlys", "duct-7"), ("south", 0.006, "Arcnet", "duct-12"))
    )


def _policy(halls: Hall, *, hardware: bool) -> Policy:
    racks = halls.racks
    teams = max(4, math.ceil(racks / 22))
    nights = tuple(Period(_BEGINS_S + day * _DAY_S + 20 * HOUR_S, _BEGINS_S + day * _DAY_S + 30 * HOUR_S, "night") for day in range(26 * 7))
    frozen = tuple(Period(_BEGINS_S + day * _DAY_S, _BEGINS_S + (day + 2) * _DAY_S, why) for day, why in ((86, "end of the quarter"),))
    fleet = Fleet(
        FleetId("truck"),
        vehicles=max(2, math.ceil(racks / 60)),
        racks=6,
        payload_kg=12_000.0,
        insured=12e6,
        transit_s=4 * HOUR_S,
        trip_cost=9_000.0,
    )
    logistics = Logistics(
        crews=(Crew(CrewId("old-hands"), SOURCE, teams, day_cost=1_400.0), Crew(CrewId("new-hands"), TARGET, teams, day_cost=1_400.0)),
        fleet=fleet,
        dock_places=max(8, math.ceil(racks / 6)),
        gpu_values={MODEL: 32_000.0, LIQUID_MODEL: 40_000.0},
    )
    return Policy(
        name="to-the-new-hall",
        source=SOURCE,
        target=TARGET,
        hardware=hardware,
        begins_s=_BEGINS_S,
        windows=nights,
        blackouts=frozen,
        limits=Limits(concurrent_moves=4, rate_bps=0.5 * 400e9 * max(1, math.ceil(racks / 125))),
        approvals=(Approval("cut-over", (Person("lee"), Person("kim"))),),
        logistics=logistics if hardware else None,
        prices=Prices(
            gpu_hour=2.5,
            target_site_day=racks * 90.0,
            source_site_day=racks * 120.0,
            link_day=4_000.0,
            courier_trip=6_000.0,
            planning_hour=110.0,
            insurance_share=0.002,
            outage_hour=560.0 * racks,
            saved_year=racks * 60_000.0,
        ),
    )
