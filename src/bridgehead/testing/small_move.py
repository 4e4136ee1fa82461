"""SmallMove: a move that a person can follow on paper, with a plan made by hand that keeps every rule; for tests of what judges plans.

Four racks with 16 GPUs each and two with control nodes go over in three waves while four workloads and two services go on; or nothing is
carried and the target has its own nodes. All numbers are chosen so that the limits are near: of 64 GPUs 40 are used, and the source and the
target keep their reserve only because two workloads shrink in between.
"""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack, Store, StoreId, StoreKind
from bridgehead.model.estate import Courier, CourierId, Dataset, DatasetId, Estate, Link, LinkId, Site, Temperature, Workload, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import DAY_S, HOUR_S, BridgeheadShare, Crew, CrewId, Fleet, FleetId, Logistics, PhaseLengths, Spares
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Limits, LossBudget, Period, Policy
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring
from bridgehead.testing.small_plan import small_plan

SOURCE, TARGET = SiteId("old"), SiteId("new")
GPU = "H100"
BEGINS_S = 1799020800.0
"""2027-01-04, a Monday."""
_TB = 10**12


class SmallMove(msgspec.Struct, frozen=True):
    """An estate, a policy, and a plan for both that keeps every rule."""

    estate: Estate
    policy: Policy
    plan: Plan


def small_move(*, hardware: bool = True) -> SmallMove:
    """Make it. ``hardware``: whether racks are carried, or the target has nodes of its own."""
    estate = Estate(
        name="small",
        sites=(_source(), _target(equipped=not hardware)),
        links=(Link(LinkId("north"), (SOURCE, TARGET), 100e9, measured_bps=90e9, used_bps=10e9),),
        couriers=(
            Courier(
                CourierId("drives"),
                (SOURCE, TARGET),
                order_s=DAY_S,
                devices=4,
                fill_bps=8e9,
                transport_s=12 * HOUR_S,
                unload_bps=8e9,
                verify_bps=40e9,
            ),
        ),
        datasets=(
            Dataset(DatasetId("corpus"), SOURCE, 20 * _TB, store="scratch", change_bps=0.0),
            Dataset(DatasetId("events"), SOURCE, _TB, store="scratch", change_bps=1e9, temperature=Temperature.HOT),
            Dataset(DatasetId("archive"), SOURCE, 100 * _TB, store="cold", change_bps=0.0, temperature=Temperature.COLD),
        ),
        workloads=_workloads(),
    )
    policy = _policy(hardware=hardware)
    return SmallMove(estate, policy, small_plan(estate, policy))


def _workloads() -> tuple[Workload, ...]:
    return (
        Workload(WorkloadId("dns"), WorkloadKind.SERVICE, SOURCE),
        Workload(WorkloadId("auth"), WorkloadKind.SERVICE, SOURCE, needs=("dns",)),
        Workload(
            WorkloadId("serve"), WorkloadKind.INFERENCE, SOURCE, 8, gpu_model=GPU, checkpoint_bytes=_TB // 10,
            priority=5, needs=("auth",), store="scratch",
        ),
        Workload(
            WorkloadId("train"), WorkloadKind.TRAINING, SOURCE, 16, 8, GPU, checkpoint_bytes=8 * _TB // 10, checkpoint_every_s=1800.0,
            save_s=20.0, restore_s=60.0, priority=2, needs=("auth", "tune"), store="scratch", datasets=(DatasetId("corpus"),),
        ),
        Workload(
            WorkloadId("tune"), WorkloadKind.TRAINING, SOURCE, 8, 8, GPU, checkpoint_bytes=8 * _TB // 100, priority=3,
            needs=("auth",), store="scratch", datasets=(DatasetId("events"),),
        ),
        Workload(WorkloadId("batch"), WorkloadKind.BATCH, SOURCE, 8, 8, GPU, checkpoint_every_s=1800.0, pausable=True, needs=("dns",)),
    )  # fmt: skip


def _source() -> Site:
    racks: list[Rack] = []
    nodes: list[Node] = []
    for number in range(1, 5):
        wet = number <= 2
        rack = RackId(f"r{number}")
        racks.append(Rack(rack, units=42, weight_kg=200.0, pod="p1" if wet else "p2", nvlink_domain="nvl-1" if wet else ""))
        nodes += [_node(rack, at, wet=wet) for at in (1, 2)]
    for number in (1, 2):
        rack = RackId(f"c{number}")
        racks.append(Rack(rack, units=24, weight_kg=150.0, apart_from=(RackId(f"c{3 - number}"),)))
        nodes.append(_control(rack))
    stores = (
        Store(StoreId("scratch"), StoreKind.FILESYSTEM, 200 * _TB, 25 * _TB, read_bps=200e9, write_bps=100e9, change_bps=1.2e9),
        Store(StoreId("cold"), StoreKind.OBJECT, 500 * _TB, 100 * _TB, change_bps=0.0),
    )
    return Site(SOURCE, racks=tuple(racks), nodes=tuple(nodes), stores=stores)


def _node(rack: RackId, at: int, *, wet: bool) -> Node:
    return Node(
        NodeId(f"{rack}-n{at}"), "EXA", rack, gpus=8, gpu_model=GPU, power_w=5_000.0, power_factor=0.95, supplies=4, supplies_needed=2,
        liquid_share=0.8 if wet else 0.0, weight_kg=120.0, units=8,
    )  # fmt: skip


def _control(rack: RackId) -> Node:
    return Node(
        NodeId(f"{rack}-n1"), "CTL", rack, power_w=500.0, power_factor=0.95, supplies=2, supplies_needed=1, liquid_share=0.0,
        weight_kg=20.0, units=1,
    )  # fmt: skip


class _Spot(msgspec.Struct, frozen=True):
    """One place of the target."""

    pod: str
    wet: bool = False
    current_a: float = 32.0
    units: int = 42
    max_kg: float = 900.0


_SPOTS = {
    "t1": _Spot("A", wet=True), "t2": _Spot("A", wet=True), "t3": _Spot("B"), "t4": _Spot("B"), "t5": _Spot("B", current_a=6.0),
    "t6": _Spot("B", current_a=6.0), "t7": _Spot("C"), "t8": _Spot("A"), "t9": _Spot("B", units=20), "t10": _Spot("B", max_kg=300.0),
}  # fmt: skip
"""The last four, and t5 and t6, each lack one thing that some racks need."""


def _target(*, equipped: bool) -> Site:
    racks, circuits = [], []
    for name, spot in _SPOTS.items():
        names = tuple(CircuitId(f"{name}-{feed}") for feed in "ab")
        circuits += [
            Circuit(
                one, 230.0, spot.current_a, Wiring.THREE_PHASE_LINE_TO_NEUTRAL, 1.0, one[-1].upper(), SourceId(f"panel-{one[-1]}"),
                other_load_w=0.0,
            )
            for one in names
        ]  # fmt: skip
        loops = (LoopId("air"), LoopId("liquid")) if spot.wet else (LoopId("air"),)
        racks.append(
            Rack(RackId(name), units=spot.units, max_weight_kg=spot.max_kg, footprint_m2=0.7, circuits=names, loops=loops, pod=spot.pod)
        )
    nodes = [_node(RackId(f"t{number}"), at, wet=number <= 2) for number in range(1, 5) for at in (1, 2)] if equipped else []
    return Site(
        TARGET,
        floor_kg_per_m2=2_000.0,
        sources=tuple(one for feed in "ab" for one in _feed(feed)),
        circuits=tuple(circuits),
        loops=(
            Loop(LoopId("air"), LoopKind.AIR, 30_000.0, 3, other_load_w=0.0),
            Loop(LoopId("liquid"), LoopKind.LIQUID, 12_000.0, 3, other_load_w=0.0),
        ),
        racks=tuple(racks),
        nodes=tuple(nodes),
        stores=(Store(StoreId("scratch"), StoreKind.FILESYSTEM, 500 * _TB, 0, read_bps=200e9, write_bps=100e9, change_bps=0.0),),
    )


def _feed(feed: str) -> tuple[PowerSource, ...]:
    grid, ups = SourceId(f"grid-{feed}"), SourceId(f"ups-{feed}")
    return (
        PowerSource(grid, SourceKind.UTILITY, rating_va=1e6, continuous=1.0),
        PowerSource(ups, SourceKind.UPS, (grid,), rating_va=60_000.0, active_limit_w=60_000.0, continuous=1.0),
        PowerSource(SourceId(f"panel-{feed}"), SourceKind.PANEL, (ups,), rating_va=60_000.0, continuous=1.0),
    )


def _policy(*, hardware: bool) -> Policy:
    nights = tuple(Period(BEGINS_S + (day * 24 + 20) * HOUR_S, BEGINS_S + (day * 24 + 30) * HOUR_S, "night") for day in range(60))
    logistics = Logistics(
        crews=(Crew(CrewId("packers"), SOURCE, 2), Crew(CrewId("fitters"), TARGET, 2)),
        fleet=Fleet(FleetId("truck"), 2, 3, payload_kg=1_200.0, insured=1.5e6),
        dock_places=3,
        gpu_values={GPU: 40_000.0},
    )
    return Policy(
        name="small",
        source=SOURCE,
        target=TARGET,
        hardware=hardware,
        windows=nights,
        blackouts=(Period(BEGINS_S + 40 * DAY_S, BEGINS_S + 42 * DAY_S, "end of the quarter"),),
        limits=Limits(2, 40e9),
        compute_loss=LossBudget(3600.0, 8_000.0),
        begins_s=BEGINS_S,
        ends_s=BEGINS_S + 50 * DAY_S,
        phases=PhaseLengths(5 * DAY_S, 5 * DAY_S, 5 * DAY_S, 30 * DAY_S),
        bridgehead=BridgeheadShare(0.1, 0.3),
        logistics=logistics if hardware else None,
        spares=Spares(gpu_hours_per_fault=82_944.0),
    )
