"""Properties of the network, workload, storage and acceptance families: unknown never passes, order and names of things change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib import import_module

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.assess.scope import Scope
from bridgehead.assess.verdict import verdict
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.acceptance import Acceptance, Scale
from bridgehead.model.equipment import Node, Rack, Store, StoreKind
from bridgehead.model.estate import Courier, Estate, Grace, Link, Site, Workload, WorkloadKind
from bridgehead.model.fabric import Fabric, FabricKind, FabricPurpose, Medium, Nic, Qos, Stretch, Switch, SwitchRole, Uplink
from bridgehead.model.finding import Finding, FindingStatus, Verdict
from bridgehead.model.policy import Objective, Period, Policy

FAMILIES = [
    "acceptance",
    "cables",
    "data_moves",
    "equivalence",
    "fabric",
    "fabric_settings",
    "firmware",
    "generations",
    "interconnect",
    "reserve",
    "storage",
    "stretched",
    "wan",
    "workloads",
]
CHECKS = [check for name in FAMILIES for check in import_module(f"bridgehead.assess.{name}").CHECKS]


def judged(estate: Estate, policy: Policy) -> list[Finding]:
    source, target = sorted(estate.sites, key=lambda site: site.id)
    scope = Scope(estate, policy, source=source, target=target)
    return [finding for check in CHECKS for finding in check.run(scope)]


def maybe(draw: random.Random, value: object, chance: float = 0.93) -> object:
    return value if draw.random() < chance else None


def picker(draw: random.Random, good: float) -> Callable[..., object]:
    """Mostly the first of its arguments, else one of the others, or nothing."""
    return lambda usual, *odd: usual if draw.random() < good else maybe(draw, draw.choice(odd or (usual,)), 0.7)


def fabrics_of(draw: random.Random, good: float) -> tuple[Fabric, ...]:
    pick = picker(draw, good)
    return (
        Fabric(
            "rails",
            pick(FabricKind.ROCE) or FabricKind.ROCE,
            FabricPurpose.COMPUTE,
            mtu=pick(9000, 1500),
            partitions=pick(("a", "b"), ("a",)),
            subnet_managers=pick(2, 1),
            free_addresses=pick(100, 1),
            qos=Qos(pfc=pick((3,), (4,)), ecn=pick((3,), (4,)), dscp=pick({"26": 3}, {"26": 4})),
            stretch=Stretch(
                vnis=pick((7,), (), (8,)),
                evpn=pick(True, False),
                loop_prevention=pick(True, False),
                ecmp=pick(2, 1, 4),
                bfd_interval_s=pick(0.01, 0.05),
                bfd_multiplier=pick(3, 5),
                reroute_s=pick(0.01, 0.03),
            ),
        ),
    )


def nodes_of(draw: random.Random, good: float) -> tuple[Node, ...]:
    pick = picker(draw, good)
    return tuple(
        Node(
            f"n{number}",
            model=pick("dgx", "") or "",
            rack=pick(f"r{number}"),
            gpus=draw.choice((2, 2, 2, 1)) if draw.random() > good else 2,
            gpus_expected=pick(2),
            gpu_model=pick("H100 SXM5", "A100-SXM4-40GB", "") or "",
            gpu_addresses=pick(("0:1", "0:2"), ("0:1",)) or (),
            gpu_links=pick((18, 18), (18, 17), (18,)) or (),
            memory_bytes=pick(10**12, 10**11),
            firmware={"driver": pick("535.1", "535.2", "525") or "", "bios": pick("1", "2") or ""},
            nics=tuple(
                Nic(
                    f"mlx5_{gpu}",
                    4e11,
                    "rails",
                    switch=pick(f"leaf-{gpu}{number % 2}", "leaf-00"),
                    gpu=pick(gpu, 0),
                    model=pick("cx7") or "",
                    firmware=pick("28.1", "28.2") or "",
                    medium=pick(Medium.COPPER, Medium.MULTIMODE),
                    length_m=pick(2.0, 40.0),
                    active=pick(True, False),
                )
                for gpu in range(draw.choice((2, 2, 1)) if draw.random() > good else 2)
            ),
        )
        for number in range(3)
    )


def site(draw: random.Random, name: str, *, good: float) -> Site:
    pick = picker(draw, good)
    fabrics = fabrics_of(draw, good)
    leaves = [
        Switch(
            f"leaf-{plane}{pod}",
            "rails",
            SwitchRole.LEAF,
            plane=pick(plane, 5),
            model=pick("q", "") or "",
            ports=pick(8, 4),
            port_rate_bps=pick(4e11, 2e11),
            uplinks=(
                Uplink("spine", draw.choice((4, 4, 2)), 4e11, medium=pick(Medium.MULTIMODE_OM4, Medium.COPPER), length_m=pick(20.0, 90.0)),
            ),
            firmware=pick("1.2", "1.3") or "",
        )
        for plane in (0, 1)
        for pod in (0, 1)
    ]
    switches = (*leaves, Switch("spine", "rails", SwitchRole.SPINE, model=pick("q", "") or "", ports=64, firmware=pick("1.2") or ""))
    nodes = nodes_of(draw, good)
    stores = (
        Store(
            "s",
            StoreKind.FILESYSTEM,
            10**15,
            used_bytes=pick(10**13, 9 * 10**14),
            protocol=pick("lustre", "nfs") or "",
            servers=pick(4, 1),
            read_bps=pick(1e11, 1e10),
            write_bps=pick(1e11, 1e8),
            change_bps=pick(1e8, 1e12),
        ),
    )
    acceptance = tuple(
        Acceptance(
            scale.value,
            "nccl-all-reduce",
            scale,
            nodes=pick(3, 1),
            measured_bps=pick(1e12, 1e11),
            expected_bps=pick(9e11),
            wrong=pick(0, 1),
        )
        for scale in Scale
    )
    racks = tuple(Rack(f"r{number}") for number in range(3))
    return Site(
        SiteId(name),
        racks=racks,
        fabrics=fabrics,
        switches=switches,
        nodes=nodes,
        stores=stores,
        acceptance=acceptance,
        spare_gpus=pick(2, 0),
        gpu_hours_per_interruption=pick(1e5, 10.0),
    )


def estate(draw: random.Random) -> Estate:
    good = draw.choice((1.0, 0.97, 0.85))

    pick = picker(draw, good)
    links = tuple(
        Link(
            name,
            (SiteId("a"), SiteId("b")),
            1e11,
            delay_s=pick(0.005),
            carrier=pick(name, "one") or "",
            path=pick((f"{name} duct",), ("duct",)),
            measured_bps=pick(9e10, 1e9),
            flows=pick(8),
            loss=pick(1e-6, 1e-2),
            mtu=pick(9100, 1500),
            window_bytes=pick(2 * 10**8, 10**5),
            used_bps=pick(1e9, 9e10),
            failover_s=pick(0.02, 2.0),
        )
        for name in ("north", "south")
    )
    couriers = (
        Courier(
            "van",
            (SiteId("a"), SiteId("b")),
            order_s=3600.0,
            devices=pick(4),
            fill_bps=3e9,
            transport_s=pick(7200.0),
            unload_bps=pick(3e9, 1e7),
            verify_bps=1e10,
        ),
    )
    workloads = tuple(
        Workload(
            WorkloadId(name),
            WorkloadKind.TRAINING,
            SiteId("a"),
            gpus=3,
            min_gpus=pick(2, 9),
            gpu_model=pick("H100", "A100", "") or "",
            checkpoint_bytes=pick(10**12, 10**15),
            parameters=pick(1e9),
            bytes_per_parameter=pick(14.0),
            checkpoint_every_s=pick(3600.0, 1e6),
            save_s=pick(20.0, 900.0),
            restore_s=pick(60.0, 9000.0),
            warm_up_s=pick(30.0),
            graces=(Grace("kill", 120.0), Grace("signal", draw.choice((60.0, 5.0)))),
            store=pick("s") or "",
            seeded=pick(True, False),
            objective=pick("o"),
        )
        for name in ("lm", "vision")
    )
    return Estate(
        name="e", sites=(site(draw, "a", good=good), site(draw, "b", good=good)), links=links, couriers=couriers, workloads=workloads
    )


POLICY = Policy(
    name="p",
    source=SiteId("a"),
    target=SiteId("b"),
    windows=(Period(0.0, 360_000.0),),
    objectives=(Objective("o", rpo_s=7200.0, rto_s=3600.0),),
)
KEPT = {"id", "endpoints", "needs", "graces", "row", "position", "region", "name", "electrical_rules"}


def without_one_fact(value: object) -> Iterator[tuple[str, object]]:
    """The value with one optional fact removed, in each possible way."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if field.name in KEPT or field.required:
                children: list[tuple[str, object]] = list(without_one_fact(held)) if isinstance(held, tuple | msgspec.Struct) else []
            else:
                children = list(without_one_fact(held)) if isinstance(held, tuple | msgspec.Struct | dict) else []
                if field.default is None and held is not None:
                    children.append(("", None))
                elif isinstance(held, str) and type(held) is str and held and field.default == "":
                    children.append(("", ""))
                elif isinstance(held, tuple) and held and not isinstance(held[0], msgspec.Struct) and field.default == ():
                    children.append(("", ()))
            for path, child in children:
                yield f".{field.name}{path}", msgspec.structs.replace(value, **{field.name: child})
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for path, child in without_one_fact(item):
                yield f"[{index}]{path}", (*value[:index], child, *value[index + 1 :])
    elif isinstance(value, dict):
        for key in value:
            yield f".{key}", {name: held for name, held in value.items() if name != key}


def by_key(findings: list[Finding]) -> dict[tuple[str, str, str], FindingStatus]:
    keys = [(one.code, one.subject, one.state) for one in findings]
    assert len(keys) == len(set(keys)), "a finding is said once"
    return dict(zip(keys, (one.status for one in findings), strict=True))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_removing_a_fact_never_makes_anything_pass(seed: int) -> None:
    draw = random.Random(seed)
    whole = estate(draw)
    before = judged(whole, POLICY)
    had, overall = by_key(before), verdict(before)
    ways = list(without_one_fact(whole))
    assert len(ways) > 100
    for path, less in draw.sample(ways, 25):
        assert isinstance(less, Estate)
        after = judged(less, POLICY)
        for key, status in by_key(after).items():
            if status is FindingStatus.PASS:
                assert had.get(key, FindingStatus.PASS) is FindingStatus.PASS, f"{key} passes without {path}"
        if overall is not Verdict.GO:
            assert verdict(after) is not Verdict.GO, f"go without {path}"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_order_changes_nothing(seed: int) -> None:
    draw = random.Random(seed)
    whole = estate(draw)

    def shuffled(value: object) -> object:
        if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            items = [shuffled(item) for item in value]
            draw.shuffle(items)
            return tuple(items)
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **{field: shuffled(getattr(value, field)) for field in value.__struct_fields__})
        return value

    other = shuffled(whole)
    assert isinstance(other, Estate)
    said = [{(one.code, one.subject, one.state): one.text for one in judged(found, POLICY)} for found in (whole, other)]
    assert said[0] == said[1]


def test_a_whole_estate_can_pass() -> None:
    """The generator is able to build an estate of which no blocking check fails: so the properties above are not empty."""
    seeds = (
        seed
        for seed in range(200)
        if not [f for f in judged(estate(random.Random(seed)), POLICY) if f.status is not FindingStatus.PASS and f.severity == "blocking"]
    )
    assert next(seeds, None) is not None
