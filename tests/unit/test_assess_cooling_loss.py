"""The loss of a whole cooling loop: what it strands, what it overloads, air and liquid each for itself (M5.3; rules sections 2 and 4)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.assess import cooling_loss
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Estate, Site
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import Policy

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN


def loop(name: str, kind: LoopKind = LoopKind.AIR, *, kw: float | None = 50, units: int = 2) -> Loop:
    return Loop(LoopId(name), kind, None if kw is None else kw * 1000, units, other_load_w=0.0)


def rack(name: str, *loops: str) -> Rack:
    return Rack(RackId(name), loops=tuple(LoopId(one) for one in loops))


def node(name: str, at: str, *, kw: float | None = 30.0, liquid: float | None = 0.0) -> Node:
    return Node(NodeId(name), rack=RackId(at), gpus=8, power_w=None if kw is None else kw * 1000, liquid_share=liquid)


def found(loops: tuple[Loop, ...], racks: tuple[Rack, ...], nodes: tuple[Node, ...]) -> dict[str, Finding]:
    site = Site(SiteId("s"), loops=loops, racks=racks, nodes=nodes)
    scope = Scope(Estate("e", (site,)), Policy(name="p", source=SiteId("-"), target=site.id), source=None, target=site)
    return {one.subject.partition(":")[2]: one for one in cooling_loss.LOSS.run(scope)}


def test_racks_without_another_loop_are_stranded_and_named() -> None:
    said = found((loop("x"), loop("y")), (rack("r1", "x"), rack("r2", "x", "y")), (node("n1", "r1"), node("n2", "r2")))
    assert (said["x"].status, said["y"].status) == (FAIL, PASS)
    assert "1 rack with 8 GPUs (r1)" in said["x"].text
    assert said["x"].state == "loop x lost"


def test_a_loop_that_takes_over_has_all_its_units_and_keeps_the_margin() -> None:
    racks, nodes = (rack("r1", "x", "y"),), (node("n1", "r1", kw=80),)
    assert found((loop("x"), loop("y")), racks, nodes)["x"].status is PASS  # 80 kW of 0.8 · 2 · 50 kW
    over = found((loop("x"), loop("y", kw=49)), racks, nodes)
    assert over["x"].status is FAIL
    assert "loop y would get 80 kW and may carry 78.4 kW" in over["x"].text
    assert over["y"].status is PASS


def test_three_loops_share_what_was_on_the_lost_one() -> None:
    loops = tuple(loop(name, kw=38, units=1) for name in "xyz")
    racks, nodes = (rack("r1", "x", "y", "z"),), (node("n1", "r1", kw=60),)
    assert {one.status for one in found(loops, racks, nodes).values()} == {PASS}  # 30 kW each of 0.8 · 38 kW
    assert {one.status for one in found(loops, racks, (node("n1", "r1", kw=62),)).values()} == {FAIL}


def test_air_does_not_stand_in_for_liquid() -> None:
    loops = (loop("a"), loop("b"), loop("w", LoopKind.LIQUID))
    said = found(loops, (rack("r1", "a", "b", "w"),), (node("n1", "r1", liquid=0.8),))
    assert (said["a"].status, said["b"].status, said["w"].status) == (PASS, PASS, FAIL)
    said = found(loops, (rack("r1", "a", "b", "w"),), (node("n1", "r1", liquid=0.0),))
    assert said["w"].status is PASS


def test_what_is_not_known_never_passes() -> None:
    two, racks = (loop("x"), loop("y")), (rack("r1", "x", "y"),)
    assert found(two, racks, (node("n1", "r1", kw=None),))["x"].status is UNKNOWN
    assert found((loop("x"), loop("y", kw=None)), racks, (node("n1", "r1"),))["x"].status is UNKNOWN
    assert found(two, (rack("r1"),), (node("n1", "r1"),))["x"].status is UNKNOWN
    one = (loop("w", LoopKind.LIQUID), loop("x"), loop("y"))
    assert found(one, (rack("r1", "w", "x", "y"),), (node("n1", "r1", liquid=None),))["w"].status is UNKNOWN
    assert found(two, (), ())["x"].text == "nothing hangs on air loop x"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from("xyz"), min_size=1), min_size=1, max_size=4),
    st.lists(st.floats(1, 90), min_size=4, max_size=4),
    st.integers(0, 3),
    st.floats(0, 60),
)
def test_more_load_never_turns_a_loss_that_fails_into_one_that_passes(
    reach: list[set[str]], loads: list[float], which: int, more: float
) -> None:
    loops = tuple(loop(name) for name in "xyz")
    racks = tuple(rack(f"r{number}", *sorted(at)) for number, at in enumerate(reach))

    def nodes(extra: float) -> tuple[Node, ...]:
        return tuple(
            node(f"n{number}", f"r{number}", kw=loads[number] + (extra if number == which % len(racks) else 0.0))
            for number in range(len(racks))
        )

    before, after = found(loops, racks, nodes(0.0)), found(loops, racks, nodes(more))
    assert all(after[name].status is not PASS for name, one in before.items() if one.status is not PASS)
