"""Power, cooling and space of random sites: taking away a fact never makes a finding pass, and more load never gives more room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridgehead.assess import commissioning, cooling, phases, power, power_facts, space
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Estate, Site
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import FindingStatus
from bridgehead.model.policy import Policy
from bridgehead.model.power import Circuit, CircuitId, Lines, PowerSource, SourceId, SourceKind, Wiring

CHECKS = [check for family in (commissioning, cooling, phases, power, power_facts, space) for check in family.CHECKS]
THREE = Wiring.THREE_PHASE_LINE_TO_LINE
OPTIONAL = {
    # The two readings of a node's load stand for each other, so the random nodes have one of them only.
    "circuits": {"continuous": None, "feed": "", "fed_by": None, "lines": None, "other_load_w": None},
    "sources": {"rating_va": None, "continuous": None, "fed_by": ()},
    "loops": {"unit_capacity_w": None, "units": None, "units_needed": None, "flow_m3ps": None, "rise_k": None, "other_load_w": None},
    "racks": {"units": None, "weight_kg": None, "max_weight_kg": None, "footprint_m2": None, "loops": ()},
    "nodes": {
        "rack": None, "power_w": None, "measured_w": None, "power_factor": None, "supplies": None, "supplies_needed": None, "circuits": (),
        "liquid_share": None, "weight_kg": None, "units": None,
    },
}  # fmt: skip


def scope(site: Site) -> Scope:
    return Scope(Estate("e", (site,)), Policy(name="p", source=SiteId("-"), target=site.id), source=None, target=site)


def results(site: Site) -> dict[tuple[str, str], list[tuple[FindingStatus, float | None]]]:
    found: dict[tuple[str, str], list[tuple[FindingStatus, float | None]]] = {}
    here = scope(site)
    for check in CHECKS:
        for finding in check.run(here):
            found.setdefault((finding.code, finding.subject), []).append((finding.status, finding.margin))
    return found


@st.composite
def sites(draw: st.DrawFn) -> Site:
    wide = draw(st.floats(0.3, 3.0))
    up = draw(st.sampled_from([("ut-a", "ut-b"), ("ut-a", "ut-a")]))
    sources = [
        PowerSource(SourceId(name), SourceKind.UTILITY, rating_va=60_000 * wide, wiring=THREE, voltage_v=400, continuous=1.0)
        for name in ("ut-a", "ut-b")
    ]
    sources += [
        PowerSource(
            SourceId(f"p{side}"),
            SourceKind.PANEL,
            (SourceId(parent),),
            rating_va=30_000 * wide,
            wiring=THREE,
            voltage_v=400,
            continuous=1.0,
        )
        for side, parent in zip("ab", up, strict=True)
    ]
    feeds = draw(st.sampled_from(["ab", "aa"]))
    circuits = [
        Circuit(
            CircuitId(f"{side}{number}"), 400, 32 * wide, Wiring.SINGLE_PHASE, continuous=0.8, feed=feeds[place],
            fed_by=SourceId(f"p{side}"),
            lines=draw(st.sampled_from(list(Lines)[:3])), other_load_w=draw(st.sampled_from([0.0, 2_000.0])),
        )
        for place, side in enumerate("ab") for number in (1, 2)
    ]  # fmt: skip
    loops = (
        Loop(LoopId("air"), LoopKind.AIR, 20_000 * wide, 3, draw(st.integers(1, 3)), flow_m3ps=2 * wide, rise_k=12.0, other_load_w=0.0),
        Loop(
            LoopId("wet"),
            LoopKind.LIQUID,
            15_000 * wide,
            2,
            draw(st.integers(1, 2)),
            flow_m3ps=0.0005 * wide,
            rise_k=10.0,
            other_load_w=0.0,
        ),
    )
    racks = tuple(
        Rack(RackId(f"r{n}"), units=20, weight_kg=100, max_weight_kg=400 * wide, footprint_m2=1,
             circuits=(CircuitId(f"a{n}"), CircuitId(f"b{n}")),
             loops=draw(st.sampled_from([(LoopId("air"), LoopId("wet")), (LoopId("air"),)])))
        for n in (1, 2)
    )  # fmt: skip
    nodes = tuple(draw(_node(number)) for number in range(draw(st.integers(1, 4))))
    return Site(
        SiteId("s"), power_w=40_000 * wide, altitude_m=0.0, floor_kg_per_m2=600, sources=tuple(sources), circuits=tuple(circuits),
        loops=loops, racks=racks, nodes=nodes,
    )  # fmt: skip


@st.composite
def _node(draw: st.DrawFn, number: int) -> Node:
    rack = draw(st.sampled_from("12"))
    supplies = draw(st.integers(1, 4))
    cords = draw(st.lists(st.sampled_from([f"a{rack}", f"b{rack}"]), min_size=supplies, max_size=supplies))
    load = draw(st.floats(500, 9_000))
    reading = draw(st.sampled_from(["power_w", "measured_w"]))
    return Node(
        NodeId(f"n{number}"), rack=RackId(f"r{rack}"), power_factor=draw(st.floats(0.5, 1)), supplies=supplies,
        supplies_needed=draw(st.integers(1, supplies)), circuits=tuple(CircuitId(one) for one in cords),
        liquid_share=draw(st.sampled_from([0.0, 0.7])), weight_kg=120, units=8, **{reading: load},
    )  # fmt: skip


def removals(site: Site) -> Iterator[tuple[str, Site]]:
    for place, fields in OPTIONAL.items():
        things = getattr(site, place)
        for number, thing in enumerate(things):
            for field, nothing in fields.items():
                if getattr(thing, field) != nothing:
                    changed: Any = msgspec.structs.replace(thing, **{field: nothing})
                    yield (
                        f"{place}.{thing.id}.{field}",
                        msgspec.structs.replace(site, **{place: (*things[:number], changed, *things[number + 1 :])}),
                    )
    for field in ("power_w", "altitude_m", "floor_kg_per_m2"):
        yield field, msgspec.structs.replace(site, **{field: None})


def all_pass(found: list[tuple[FindingStatus, float | None]]) -> bool:
    return all(status is FindingStatus.PASS for status, _ in found)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(sites())
def test_removing_a_fact_never_makes_anything_pass(site: Site) -> None:
    before = results(site)
    for name, less in removals(site):
        for key, found in results(less).items():
            if key in before and not all_pass(before[key]):
                assert not all_pass(found), f"{key} passes without {name}"


@settings(max_examples=25, deadline=None)
@given(sites(), st.data())
def test_more_load_never_gives_more_room(site: Site, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(site.nodes) - 1))
    node = site.nodes[number]
    field = "power_w" if node.power_w is not None else "measured_w"
    more = msgspec.structs.replace(node, **{field: getattr(node, field) * data.draw(st.floats(1.0, 3.0))})
    after = results(msgspec.structs.replace(site, nodes=(*site.nodes[:number], more, *site.nodes[number + 1 :])))
    for key, found in results(site).items():
        for (_, margin), (_, then) in zip(found, after.get(key, []), strict=False):
            assert margin is None or then is None or then <= margin + 1e-9, key


@settings(max_examples=15, deadline=None)
@given(sites())
def test_order_changes_nothing(site: Site) -> None:
    turned = msgspec.structs.replace(site, **{place: tuple(reversed(getattr(site, place))) for place in OPTIONAL})
    assert results(turned).keys() == results(site).keys()
    for key, found in results(site).items():
        assert [status for status, _ in results(turned)[key]] == [status for status, _ in found], key
