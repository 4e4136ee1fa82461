"""Vectors PW, RD and HR of the engineering rules, on the formulas and on the flow of whole sites."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.assess.power_flow import NORMAL, Flow
from bridgehead.assess.power_math import apparent_va, headroom, line_currents, per_supply, spares
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId, Lines, PowerSource, SourceId, SourceKind, Wiring

ONE, LL, LN, DC = Wiring.SINGLE_PHASE, Wiring.THREE_PHASE_LINE_TO_LINE, Wiring.THREE_PHASE_LINE_TO_NEUTRAL, Wiring.DC


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-3)


def circuit(
    name: str, voltage_v: float = 208.0, current_a: float = 30.0, wiring: Wiring = LL, f: float | None = 0.8, **more: object
) -> Circuit:
    base = Circuit(CircuitId(name), voltage_v, current_a, wiring, continuous=f, feed=name[0].upper(), other_load_w=0.0)
    return msgspec.structs.replace(base, **more)


def node(name: str, power_w: float, cords: str, needed: int = 1, **more: object) -> Node:
    names = tuple(CircuitId(one) for one in cords.split())
    base = Node(
        NodeId(name), rack=RackId("r1"), power_w=power_w, power_factor=0.95, supplies=len(names), supplies_needed=needed, circuits=names
    )
    return msgspec.structs.replace(base, **more)


def site(circuits: list[Circuit], nodes: list[Node], sources: list[PowerSource] | None = None) -> Site:
    rack = Rack(RackId("r1"), circuits=tuple(one.id for one in circuits))
    return Site(SiteId("hall"), circuits=tuple(circuits), nodes=tuple(nodes), sources=tuple(sources or ()), racks=(rack,))


def states(flow: Flow, name: str, part: int = 1) -> dict[str, float]:
    return {state: high[part] for state, _, high in flow.circuits[CircuitId(name)].states()}


@pytest.mark.parametrize(
    ("voltage_v", "current_a", "wiring", "f", "lasting"),
    [
        pytest.param(120, 20, ONE, 0.8, 1_920, id="PW1"),
        pytest.param(240, 30, ONE, 0.8, 5_760, id="PW2"),
        pytest.param(208, 30, ONE, 0.8, 4_992, id="PW3"),
        pytest.param(208, 30, LL, 0.8, 8_646, id="PW4"),
        pytest.param(208, 60, LL, 0.8, 17_293, id="PW5"),
        pytest.param(230, 32, ONE, 1.0, 7_360, id="PW6"),
        pytest.param(230, 32, LN, 1.0, 22_080, id="PW7"),
        pytest.param(230, 63, LN, 1.0, 43_470, id="PW8"),
        pytest.param(400, 32, LL, 1.0, 22_170, id="PW9"),
        pytest.param(50, 2_400, DC, 1.0, 120_000, id="PW10"),
    ],
)
def test_PW1_to_PW10_what_may_flow_for_hours(voltage_v: float, current_a: float, wiring: Wiring, f: float, lasting: float) -> None:
    assert circuit("a1", voltage_v, current_a, wiring, f).continuous_va == near(lasting)


def test_PW4_watts_at_a_power_factor() -> None:
    assert apparent_va(8_214, power_factor=0.95) == near(8_646)


def test_PW7_taken_as_line_to_line() -> None:
    assert circuit("a1", 230, 32, LL, 1.0).continuous_va == near(12_748)


@pytest.mark.parametrize(
    ("loads", "currents"),
    [
        pytest.param((10, 10, 10), (17.32, 17.32, 17.32), id="PW11"),
        pytest.param((10, 0, 0), (10, 10, 0), id="PW12"),
        pytest.param((10, 8, 6), (14.00, 15.62, 12.17), id="PW13"),
        pytest.param((16, 16, 0), (16.00, 27.71, 16.00), id="PW14"),
    ],
)
def test_PW11_to_PW14_line_currents(loads: tuple[float, ...], currents: tuple[float, ...]) -> None:
    pairs = dict(zip((Lines.L1_L2, Lines.L2_L3, Lines.L3_L1), loads, strict=True))
    assert line_currents(pairs) == pytest.approx(currents, rel=1e-3, abs=1e-9)


def test_line_currents_of_equal_loads_to_neutral_are_those_loads() -> None:
    assert line_currents({Lines.L1_N: 7.0, Lines.L2_N: 7.0, Lines.L3_N: 7.0}, balanced_a=3.0) == near((10.0, 10.0, 10.0))


def test_PW15_E04_the_sub_breaker_is_the_tightest() -> None:
    feed = PowerSource(SourceId("feed"), SourceKind.BREAKER, voltage_v=230, current_a=32, wiring=ONE, continuous=1.0)
    subs = [circuit(name, 230, 16, ONE, 1.0, fed_by=SourceId("feed")) for name in ("s1", "s2")]
    flow = Flow(site(subs, [node("n", 4_000, "s1", power_factor=1.0)], [feed]))
    assert flow.sources[SourceId("feed")].high[1] / 7_360 == near(0.543)
    assert flow.circuits[CircuitId("s1")].high[1] / 3_680 == near(1.087)
    assert flow.circuits[CircuitId("s2")].high[1] == 0


def test_PW16_E05_nothing_is_rounded_before_the_ratio() -> None:
    flow = Flow(site([circuit("a1", 120, 12, ONE, 1.0)], [node("n", 400, "a1", power_factor=1.0)]))
    assert flow.circuits[CircuitId("a1")].high[1] / 1_440 == pytest.approx(0.27777777)


@pytest.mark.parametrize(("power_w", "survivor_va"), [pytest.param(6_000, 6_316, id="RD1"), pytest.param(7_000, 7_368, id="RD2")])
def test_RD1_RD2_the_survivor_carries_all(power_w: float, survivor_va: float) -> None:
    flow = Flow(site([circuit("a1"), circuit("b1")], [node("n", power_w, "a1 b1")]))
    assert states(flow, "a1")[NORMAL] == near(survivor_va / 2)
    assert states(flow, "a1")["feed B lost"] == near(survivor_va)
    assert survivor_va / 8_646 == near({6_000: 0.7305, 7_000: 0.8522}[int(power_w)])
    room = headroom(circuit("a1").rating_va, continuous=0.8, margin=0.2)
    assert (survivor_va <= room.continuous, survivor_va <= room.rating) == (power_w == 6_000, True)


def test_RD3_RD5_six_supplies_on_two_feeds() -> None:
    flow = Flow(site([circuit("a1"), circuit("b1")], [node("n", 10_200, "a1 a1 a1 b1 b1 b1", 4)]))
    assert flow.survival[NodeId("n")].live == 3, "RD3: 3 of 4; RD5 with 3 needed lives"
    assert states(flow, "a1", 0)["feed B lost"] == near(10_200)


def test_RD4_three_feeds() -> None:
    flow = Flow(site([circuit("a1"), circuit("b1"), circuit("c1")], [node("n", 10_200, "a1 a1 b1 b1 c1 c1", 4)]))
    assert flow.survival[NodeId("n")].live == 4
    assert per_supply(10_200, live=4) == near(2_550)
    assert states(flow, "a1", 0)["feed B lost"] == near(5_100)


@pytest.mark.parametrize(
    ("load_va", "verdicts", "need"),
    [
        pytest.param(6_900, (True, True, True), 8_280, id="HR1"),
        pytest.param(7_000, (False, True, True), 8_400, id="HR2"),
        pytest.param(7_500, (False, True, False), 9_000, id="HR3"),
    ],
)
def test_HR1_to_HR3_three_readings(load_va: float, verdicts: tuple[bool, ...], need: float) -> None:
    room = headroom(circuit("a1").rating_va, continuous=0.8, margin=0.2)
    assert (room.continuous, room.rating) == (near(6_917), near(8_646))
    assert (load_va <= room.continuous, load_va <= room.rating, load_va <= room.need) == verdicts
    assert load_va * 1.2 == near(need)


def test_HR_where_all_may_flow_for_hours_two_readings_coincide() -> None:
    room = headroom(22_080, continuous=1.0, margin=0.2)
    assert room.continuous == room.rating == near(17_664)


def test_M10_1_spares_are_rounded_up() -> None:
    assert (spares(125, share=0.1), spares(130, share=0.1), spares(0, share=0.1)) == (13, 13, 0)
