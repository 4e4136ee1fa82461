"""Placement: the trap of M5.3 (twenty 5 kW circuits sold as 100 kW), what fits, what does not, and what cannot be told."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.assess import gpus, placement, power_facts
from bridgehead.assess.placement import outcome
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Estate, HeadroomRule, Site, Workload, WorkloadKind
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import Policy
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
SYSTEM = Node(
    NodeId("s1"), model="DGX", gpus=8, gpu_model="H100", power_w=10_200, power_factor=1.0, supplies=6, supplies_needed=4, liquid_share=0.0,
    weight_kg=130, units=8,
)  # fmt: skip


def systems(count: int, like: Node = SYSTEM) -> tuple[Node, ...]:
    return tuple(msgspec.structs.replace(like, id=NodeId(f"s{number}")) for number in range(1, count + 1))


def trap(*, rating_va: float = 5_000, f: float = 1.0, rule: HeadroomRule = HeadroomRule.CONTINUOUS, racks: int = 1) -> Site:
    """Twenty circuits, each with a feed and a utility of its own, so that any one of them may fail and nothing else."""
    names = [f"c{number:02}" for number in range(20)]
    sources = [
        PowerSource(
            SourceId(f"u-{name}"), SourceKind.UTILITY, rating_va=1e6, active_limit_w=1e6, wiring=Wiring.SINGLE_PHASE, continuous=1.0
        )
        for name in names
    ]
    circuits = [
        Circuit(
            CircuitId(name),
            250,
            rating_va / 250,
            Wiring.SINGLE_PHASE,
            continuous=f,
            feed=name,
            fed_by=SourceId(f"u-{name}"),
            other_load_w=0.0,
        )
        for name in names
    ]
    each = 20 // racks
    return Site(
        SiteId("colo"), power_w=1e6, headroom=rule, altitude_m=0.0, floor_kg_per_m2=5_000, sources=tuple(sources), circuits=tuple(circuits),
        loops=(Loop(LoopId("air"), LoopKind.AIR, 100_000, 5, 4, flow_m3ps=100, rise_k=12.0, other_load_w=0.0),),
        racks=tuple(
            Rack(
                RackId(f"r{number}"), units=200, weight_kg=100, max_weight_kg=5_000, footprint_m2=2, loops=(LoopId("air"),),
                circuits=tuple(CircuitId(name) for name in names[number * each : (number + 1) * each]),
            )
            for number in range(racks)
        ),
    )  # fmt: skip


def move(target: Site, nodes: tuple[Node, ...], margin: float = 0.2) -> Scope:
    source = Site(SiteId("old"), nodes=nodes)
    policy = Policy(name="move", source=source.id, target=target.id, margin=margin)
    return Scope(Estate("e", (source, target)), policy, source=source, target=target)


def hardware(scope: Scope) -> Finding:
    (finding,) = placement.HARDWARE.run(scope)
    return finding


@pytest.mark.parametrize(
    ("count", "f", "rating_va", "rule", "status", "fit"),
    [
        pytest.param(5, 1.0, 5_000, HeadroomRule.CONTINUOUS, PASS, None, id="five-default"),
        pytest.param(6, 1.0, 5_000, HeadroomRule.CONTINUOUS, FAIL, 5, id="six-default"),
        pytest.param(6, 0.8, 6_250, HeadroomRule.RATING, PASS, None, id="six-alternative"),
        pytest.param(7, 0.8, 6_250, HeadroomRule.RATING, FAIL, 6, id="seven-alternative"),
        pytest.param(9, 1.0, 5_000, HeadroomRule.CONTINUOUS, FAIL, 5, id="nine-as-sold"),
    ],
)
def test_RD6_twenty_circuits_of_5_kW(
    count: int, f: float, rating_va: float, rule: HeadroomRule, status: FindingStatus, fit: int | None
) -> None:
    finding = hardware(move(trap(rating_va=rating_va, f=f, rule=rule), systems(count)))
    assert (finding.status, finding.value if fit is not None else None) == (status, fit), finding.text
    if status is FAIL:
        assert "circuit c00 may carry" in finding.text, "the binding constraint is the circuit"


def test_M5_3_one_circuit_a_rack_takes_no_system_at_all() -> None:
    finding = hardware(move(trap(racks=20), systems(1)))
    assert (finding.status, finding.value) == (FAIL, 0)
    assert "circuit c00" in finding.text


def test_M5_3_the_hall_has_power_enough_and_still_it_fails() -> None:
    scope = move(msgspec.structs.replace(trap(), power_w=120_000), systems(9))
    (site,) = (one for one in power_facts.SITE.run(scope) if one.subject == "colo")
    assert (site.status, hardware(scope).status) == (PASS, FAIL)


@pytest.mark.parametrize(
    "change",
    [
        {"supplies": None}, {"supplies_needed": None}, {"power_w": None}, {"power_factor": None}, {"liquid_share": None}, {"units": None},
        {"weight_kg": None},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_is_not_known_of_a_node_cannot_pass(change: dict[str, None]) -> None:
    scope = move(trap(), systems(2, msgspec.structs.replace(SYSTEM, **change)))
    finding = hardware(scope)
    assert finding.status is UNKNOWN
    assert finding.measurement in {one.measurement for one in placement.INPUTS.run(scope)}


def test_what_is_not_known_of_the_target_is_all_asked_for_at_once() -> None:
    bare = Rack(RackId("r1"), circuits=trap().racks[0].circuits)
    scope = move(msgspec.structs.replace(trap(), racks=(bare,), floor_kg_per_m2=None), systems(1))
    assert hardware(scope).status is UNKNOWN
    assert len({one.measurement for one in placement.INPUTS.run(scope)}) >= 4


@pytest.mark.parametrize(
    ("rack", "word"), [({"units": 15}, "room"), ({"max_weight_kg": 300}, "weight"), ({"units": 200, "max_weight_kg": 5_000}, "")]
)
def test_room_and_weight_of_racks(rack: dict[str, float], word: str) -> None:
    target = trap()
    changed = msgspec.structs.replace(target, racks=(msgspec.structs.replace(target.racks[0], **rack),))
    finding = hardware(move(changed, systems(2)))
    assert (finding.status is FAIL) == bool(word)
    assert word in finding.text


def test_heat_is_a_bound_too() -> None:
    target = trap()
    weak = msgspec.structs.replace(target.loops[0], unit_capacity_w=10_000, units=2)
    finding = hardware(move(msgspec.structs.replace(target, loops=(weak,)), systems(1)))
    assert (finding.status, finding.value) == (FAIL, 0)
    assert "air loops" in finding.text


def test_a_supply_that_may_not_fail_is_named() -> None:
    finding = hardware(move(trap(), systems(1, msgspec.structs.replace(SYSTEM, supplies_needed=6))))
    assert finding.status is FAIL
    assert "cannot lose one" in finding.text


def test_names_that_the_target_has_already_do_not_hide_a_node() -> None:
    target = trap()
    standing = msgspec.structs.replace(SYSTEM, rack=RackId("r0"), circuits=tuple(one.id for one in target.circuits[:6]), model="own")
    scope = move(msgspec.structs.replace(target, nodes=(standing,)), systems(1))
    scope = Scope(scope.estate, msgspec.structs.replace(scope.policy, hardware=True), source=scope.source, target=scope.target)
    assert [node.id for node in outcome(scope).placed] == ["s1.moved"]
    assert hardware(scope).status is PASS


def test_an_element_of_the_tree_that_carries_all_when_the_other_is_lost() -> None:
    target = trap()
    tree = tuple(
        PowerSource(SourceId(name), SourceKind.UTILITY, rating_va=20_000, active_limit_w=20_000, wiring=Wiring.SINGLE_PHASE, continuous=1.0)
        for name in "ab"
    )
    circuits = tuple(
        msgspec.structs.replace(one, current_a=100.0, fed_by=tree[number % 2].id, feed="ab"[number % 2])
        for number, one in enumerate(target.circuits)
    )
    changed = msgspec.structs.replace(target, sources=tree, circuits=circuits)
    kind = msgspec.structs.replace(SYSTEM, supplies_needed=3)
    assert hardware(move(changed, systems(1, kind))).status is PASS
    finding = hardware(move(changed, systems(2, kind)))
    assert (finding.status, finding.value) == (FAIL, 1)
    assert "utility a" in finding.text


def workloads(*needs: tuple[int, str]) -> tuple[Workload, ...]:
    return tuple(
        Workload(WorkloadId(f"w{number}"), WorkloadKind.TRAINING, SiteId("old"), gpus=count, gpu_model=model)
        for number, (count, model) in enumerate(needs)
    )


@pytest.mark.parametrize(
    ("needs", "there", "statuses"),
    [
        pytest.param(((125, "H100"),), {"H100": 138}, {"H100": PASS}, id="reserve-of-13"),
        pytest.param(((125, "H100"),), {"H100": 137}, {"H100": FAIL}, id="one-too-few"),
        pytest.param(((8, "H100"),), {"A100": 800}, {"H100": FAIL}, id="another-model"),
        pytest.param(((8, ""),), {"A100": 800}, {"H100": UNKNOWN}, id="model-not-named-and-not-there"),
        pytest.param(((8, ""),), {"H100": 16}, {"H100": PASS}, id="model-not-named-and-there"),
    ],
)
def test_M10_1_gpus_by_model(needs: tuple[tuple[int, str], ...], there: dict[str, int], statuses: dict[str, FindingStatus]) -> None:
    source = Site(SiteId("old"), nodes=(Node(NodeId("n"), gpus=1_000, gpu_model="H100"),))
    nodes = tuple(Node(NodeId(model), gpus=count, gpu_model=model) for model, count in there.items())
    target = Site(SiteId("new"), nodes=nodes)
    policy = Policy(name="move", source=source.id, target=target.id)
    scope = Scope(Estate("e", (source, target), workloads=workloads(*needs)), policy, source=source, target=target)
    found = {one.subject: one.status for one in gpus.GPUS.run(scope) if one.subject.startswith("new/")}
    assert found == {f"new/gpus:{model}": status for model, status in statuses.items()}
