"""Placement of several kinds of nodes at once: what is infeasible is proved so, by a bound over all or by trying every way (M5.3)."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.assess import placement
from bridgehead.assess.placement import outcome
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Estate, Site
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import Policy
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN


def node(name: str, *, kw: float, units: int, liquid: float = 0.0, kg: float = 100.0) -> Node:
    return Node(
        NodeId(name), model=f"{kw:g} kW, {units} U", gpus=8, power_w=kw * 1000, power_factor=1.0, supplies=2, supplies_needed=1,
        liquid_share=liquid, weight_kg=kg, units=units,
    )  # fmt: skip


def hall(racks: int, *, va: float = 10_000, units: int = 20, wet: int = 0, source_va: float = 1e6, kg: float = 5_000) -> Site:
    """Racks with two circuits each, on two feeds; the first ``wet`` of them have liquid too."""
    sources = tuple(
        PowerSource(SourceId(f"u{feed}"), SourceKind.UTILITY, rating_va=source_va, active_limit_w=source_va, wiring=Wiring.SINGLE_PHASE,
                    continuous=1.0)
        for feed in "ab"
    )  # fmt: skip
    circuits = tuple(
        Circuit(CircuitId(f"r{number}{feed}"), 250, va / 250, Wiring.SINGLE_PHASE, continuous=1.0, feed=feed, fed_by=SourceId(f"u{feed}"),
                other_load_w=0.0)
        for number in range(racks)
        for feed in "ab"
    )  # fmt: skip
    loops = tuple(
        Loop(LoopId(kind.value), kind, 500_000, 3, 2, flow_m3ps=100, rise_k=12.0, other_load_w=0.0)
        for kind in (LoopKind.AIR, LoopKind.LIQUID)
    )
    reach = (LoopId("air"), LoopId("liquid"))
    return Site(
        SiteId("new"), power_w=1e7, altitude_m=0.0, floor_kg_per_m2=50_000, sources=sources, circuits=circuits, loops=loops,
        racks=tuple(
            Rack(RackId(f"r{number}"), units=units, weight_kg=0, max_weight_kg=kg, footprint_m2=1,
                 loops=reach if number < wet else reach[:1], circuits=(CircuitId(f"r{number}a"), CircuitId(f"r{number}b")))
            for number in range(racks)
        ),
    )  # fmt: skip


def scope(target: Site, *nodes: Node) -> Scope:
    source = Site(SiteId("old"), nodes=nodes)
    return Scope(Estate("e", (source, target)), Policy(name="p", source=source.id, target=target.id), source=source, target=target)


def judged(target: Site, *nodes: Node) -> list[Finding]:
    return list(placement.HARDWARE.run(scope(target, *nodes)))


def many(like: Node, count: int) -> list[Node]:
    return [msgspec.structs.replace(like, id=NodeId(f"{like.id}{number}")) for number in range(count)]


BIG, SMALL = node("b", kw=5, units=8), node("s", kw=3, units=4)


def test_each_kind_alone_fits_and_both_together_have_not_the_power() -> None:
    # A circuit may carry 8 kVA alone: three racks take 24 kVA whatever is lost. 15 and 12 kVA fit, 27 do not.
    target = hall(3)
    assert [one.status for one in judged(target, *many(BIG, 3))] == [PASS]
    assert [one.status for one in judged(target, *many(SMALL, 4))] == [PASS]
    (finding,) = judged(target, *many(BIG, 3), *many(SMALL, 4))
    assert (finding.status, finding.subject, finding.value) == (FAIL, "new/incoming:all", 6)
    assert "3 x 5 kW, 8 U" in finding.text
    assert "24 kVA more together" in finding.text


@pytest.mark.parametrize(("change", "word"), [({"units": 13}, "26 rack units"), ({"kg": 250.0}, "500 kg")])
def test_both_together_have_not_the_room(change: dict[str, float], word: str) -> None:
    target = hall(2, va=100_000, **change)  # type: ignore[arg-type]  # fields by name
    (finding,) = judged(target, *many(BIG, 2), *many(SMALL, 4))
    assert finding.status is FAIL
    assert word in finding.text


def test_both_together_overload_an_element_above() -> None:
    target = hall(6, source_va=20_000)  # 16 kVA each, when the other feed is lost
    assert {one.status for one in judged(target, *many(BIG, 2), *many(SMALL, 2))} == {PASS}
    (finding,) = judged(target, *many(BIG, 2), *many(SMALL, 3))
    assert finding.status is FAIL
    assert "utility ua may carry 16 kVA more" in finding.text


def test_what_the_bounds_allow_and_no_way_gives_is_proved_by_trying_all() -> None:
    # Two racks of 8 kVA: 5 + 3 and 5 + 3 fit; 5 + 5 + 3 + 3 kVA in units of 8 and 4 would, but not where a rack has 10 units.
    assert {one.status for one in judged(hall(2), *many(BIG, 2), *many(SMALL, 2))} == {PASS}
    found = judged(hall(2, units=11), *many(BIG, 1), *many(SMALL, 3))
    assert [one.status for one in found] == [FAIL, FAIL]
    assert all("every way to place all 4 nodes was tried" in one.text for one in found)


def test_every_way_finds_what_the_greedy_search_misses() -> None:
    # Greedy puts the large one where it finds room first: into the only rack with liquid, which the small ones need.
    wet = node("w", kw=3, units=4, liquid=0.5)
    found = judged(hall(2, units=8, wet=1), BIG, *many(wet, 2))
    assert {one.status for one in found} == {PASS}


def test_liquid_nodes_and_racks_without_liquid() -> None:
    wet = node("w", kw=1, units=4, liquid=0.5)
    found = judged(hall(3, units=8, wet=1), *many(wet, 3))
    assert {one.status for one in found} == {FAIL}, "two of them fit into the only rack with liquid"
    assert {one.status for one in judged(hall(3, units=12, wet=1), *many(wet, 3))} == {PASS}


def test_an_upper_bound_of_the_load_proves_nothing() -> None:
    plate = msgspec.structs.replace(SMALL, power_w=None, nameplate_w=9_000)
    (finding,) = judged(hall(1), plate)
    assert finding.status is UNKNOWN


def brute(where: Scope) -> bool:
    """Whether any proposal is accepted, all of them judged by the checks."""
    racks = where.target.racks
    ways = [(rack, pair) for rack in racks for pair in itertools.combinations_with_replacement(rack.circuits, 2)]
    nodes = where.incoming
    for chosen in itertools.product(ways, repeat=len(nodes)):
        placed = [msgspec.structs.replace(one, rack=rack.id, circuits=pair) for one, (rack, pair) in zip(nodes, chosen, strict=True)]
        if placement._judged(where, placed).proved:
            return True
    return False


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_the_answer_is_that_of_judging_every_proposal(seed: int) -> None:
    draw = random.Random(seed)
    target = hall(2, va=draw.choice([5_000, 8_000, 10_000]), units=draw.choice([8, 11, 16]), wet=draw.choice([0, 1, 2]))
    nodes = [
        node(f"n{number}", kw=draw.choice([2, 3, 5]), units=draw.choice([4, 8]), liquid=draw.choice([0.0, 0.0, 0.5]))
        for number in range(draw.choice([1, 2, 2]))
    ]
    where = scope(target, *nodes)
    statuses = {one.status for one in placement.HARDWARE.run(where)}
    assert statuses in ({PASS}, {FAIL}, {PASS, FAIL}), "small and known: it can always be told"
    assert (FAIL not in statuses) == brute(where)
    result = outcome(where)
    assert not result.impossible or not brute(where)
