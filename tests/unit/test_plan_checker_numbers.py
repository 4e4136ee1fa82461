"""The checker's numbers, each worked out by hand (rules sections 1, 2, 4, 7 and the table of docs/reference/plan-files.md)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.plan import SwingMode
from bridgehead.model.power import Circuit, CircuitId, Lines, PowerSource, SourceId, SourceKind, Wiring
from bridgehead.planning.check_capacity import check_reserve_source
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_power_lines import line_amperes
from bridgehead.planning.check_power_states import Wires, draws
from bridgehead.planning.check_spares import spares_for
from bridgehead.planning.check_swing_cost import price
from bridgehead.planning.check_waves import in_shift
from bridgehead.planning.checker import check
from bridgehead.testing.small_move import BEGINS_S, SmallMove, small_move

replace = msgspec.structs.replace
HARD = small_move()


def finding(move: SmallMove, code: str, subject: str) -> Finding:
    return next(one for one in check(move.plan, move.estate, move.policy) if (one.code, one.subject) == (code, subject))


def test_PW_survivor_carries_all_of_two_nodes() -> None:
    """Two nodes of 5 kW at 0.95 hang on two circuits; with one lost the other carries 10.526 kVA, of 17.664 kVA (PW7, margin 20 %)."""
    found = finding(HARD, "PLAN-POWER", "circuit:t3-a")
    assert found.value == pytest.approx(10_000 / 0.95)
    assert found.limit == pytest.approx(17_664)
    assert "with circuit t3-b lost" in found.text


def test_the_panel_that_lives_carries_the_whole_hall() -> None:
    """Eight nodes of 5 kW and two of 0.5 kW, when the other feed is lost anywhere above."""
    found = finding(HARD, "PLAN-POWER", "source:panel-a")
    assert found.value == pytest.approx(41_000 / 0.95)
    assert found.limit == pytest.approx(48_000)


def test_liquid_loop_with_one_of_three_units_lost() -> None:
    """80 % of four nodes of 5 kW into two units of 12 kW, of which a fifth is margin."""
    found = finding(HARD, "PLAN-COOLING", "loop:liquid")
    assert (found.value, found.limit) == (pytest.approx(16_000), pytest.approx(19_200))


def test_RD3_a_node_with_too_few_supplies_left_is_named() -> None:
    """Four of six supplies are needed; with three on each circuit, three live."""
    move = HARD
    at = move.estate.sites[0]
    nodes = tuple(replace(one, supplies=6, supplies_needed=4) if one.id == "r3-n1" else one for one in at.nodes)
    move = replace(move, estate=replace(move.estate, sites=(replace(at, nodes=nodes), move.estate.sites[1])))
    found = finding(move, "PLAN-POWER", "place:t3")
    assert found.status is FindingStatus.FAIL
    assert (found.value, found.limit) == (3, 4)
    assert "r3-n1 has 3 supplies left" in found.text


def test_a_transfer_switch_lives_while_one_of_its_feeds_does() -> None:
    sources = (
        PowerSource(SourceId("grid"), SourceKind.UTILITY),
        PowerSource(SourceId("gen"), SourceKind.GENERATOR),
        PowerSource(SourceId("ats"), SourceKind.TRANSFER_SWITCH, (SourceId("grid"), SourceId("gen"))),
    )
    circuit = Circuit(CircuitId("c"), 230.0, 16.0, Wiring.SINGLE_PHASE, 1.0, fed_by=SourceId("ats"), other_load_w=0.0)
    node = Node(NodeId("n"), rack=RackId("r"), power_w=950.0, power_factor=0.95, supplies=1, supplies_needed=1)
    site = Site("s", sources=sources, circuits=(circuit,), racks=(Rack(RackId("r"), circuits=(circuit.id,)),), nodes=(node,))
    wires = Wires(site, draws(site, [], path="x"))
    starved = {state.name: len(state.starved) for state in wires.lost()}
    assert starved == {
        "with circuit c lost": 1,
        "with utility grid lost": 0,
        "with generator gen lost": 0,
        "with transfer-switch ats lost": 1,
    }
    assert wires.normal.sources == {name: (950.0, pytest.approx(1000.0)) for name in ("grid", "gen", "ats")}


@pytest.mark.parametrize(
    ("amperes", "fullest"),
    [((10, 10, 10), 17.32), ((10, 0, 0), 10.0), ((10, 8, 6), 15.62), ((16, 16, 0), 27.71)],
    ids=["PW11", "PW12", "PW13", "PW14"],
)
def test_PW11_to_PW14_fullest_line(amperes: tuple[float, float, float], fullest: float) -> None:
    panel = PowerSource(SourceId("p"), SourceKind.PANEL, wiring=Wiring.THREE_PHASE_LINE_TO_LINE, voltage_v=208.0, current_a=60.0)
    lines = (Lines.L1_L2, Lines.L2_L3, Lines.L3_L1)
    circuits = tuple(
        Circuit(CircuitId(str(line)), 208.0, 30.0, Wiring.SINGLE_PHASE, 0.8, fed_by=panel.id, lines=line, other_load_w=0.0)
        for line in lines
    )
    nodes = tuple(
        Node(NodeId(f"n{line}"), power_w=208.0 * load, power_factor=1.0, supplies=1, supplies_needed=1, circuits=(CircuitId(str(line)),))
        for line, load in zip(lines, amperes, strict=True)
    )
    site = Site("s", sources=(panel,), circuits=circuits, nodes=nodes)
    wires = Wires(site, draws(site, [], path="x"))
    assert line_amperes(wires, panel.id, wires.normal) == pytest.approx(fullest, abs=0.005)


@pytest.mark.parametrize(("mean", "target", "least"), [(2.025, 0.95, 5), (0.0, 0.95, 0), (2.025, 0.94, 4), (1e5, 0.95, 100_520)])
def test_CK6_spares(mean: float, target: float, least: int) -> None:
    assert spares_for(mean, target) == least


def test_spares_of_any_mean_end() -> None:
    assert spares_for(1e12, 0.999) == pytest.approx(1e12, rel=1e-5)
    assert spares_for(5.0, 1 - 1e-16) < 1000
    assert spares_for(float("nan"), 0.9) == 0


@pytest.mark.parametrize(
    ("name", "mode", "lost_s", "length_s"),
    [
        ("serve", SwingMode.CANARY, 0.0, 2400.0),
        ("train", SwingMode.PRECOPY, 20 + 160 + 15 + 5, 600 + 480 + 200),
        ("train", SwingMode.RESTART, 20 + 160 + 60 + 300, 600 + 480 + 540),
        ("tune", SwingMode.RESTART, 6.4 + 16 + 3.2 + 300, 600 + 48 + 325.6),
        ("batch", SwingMode.REQUEUE, 900.0, 1500.0),
    ],
)
def test_what_a_swing_costs(name: str, mode: SwingMode, lost_s: float, length_s: float) -> None:
    ground = Ground(HARD.plan, HARD.estate, HARD.policy)
    found = price(ground, ground.workloads[name], mode)
    assert (found.lost_s, found.length_s) == (pytest.approx(lost_s), pytest.approx(length_s))


def test_a_lane_is_half_of_the_line_over_the_lanes() -> None:
    ground = Ground(HARD.plan, HARD.estate, HARD.policy)
    assert (ground.line_bps, ground.lane_bps) == (40e9, 10e9)
    wide = replace(HARD.policy, limits=replace(HARD.policy.limits, rate_bps=None))
    assert Ground(HARD.plan, HARD.estate, wide).line_bps == 80e9


def test_reserve_is_held_against_each_moment_and_says_by_how_much() -> None:
    """Without the shrink 40 less 8 GPUs run when the second wave leaves 32: with the reserve 35.2 are asked for."""
    plan = replace(HARD.plan, shrinks=tuple(one for one in HARD.plan.shrinks if one.site == "new"))
    (found,) = check_reserve_source(Ground(plan, HARD.estate, HARD.policy))
    assert found.status is FindingStatus.FAIL
    assert (found.value, found.limit) == (pytest.approx(35.2), 32)
    assert "2027-01-16 06:00Z" in found.text
    assert "wave-2 leaves" in found.text


def test_periods_hold_up_to_and_without_their_end() -> None:
    course = Course()
    course.add(3, 10.0, 20.0)
    course.add(4, 20.0, 30.0)
    course.add(9, 40.0, 35.0)
    assert list(steps(course)) == [(float("-inf"), (0.0,)), (10.0, (3.0,)), (20.0, (4.0,)), (30.0, (0.0,))]
    assert list(steps(course, begins_s=15.0, ends_s=30.0)) == [(15.0, (3.0,)), (20.0, (4.0,))]


@pytest.mark.parametrize(
    ("begins_h", "ends_h", "inside"),
    [(7, 17, True), (6.9, 8, False), (16, 17.1, False), (31, 41, True), (5, 6, False), (17, 17, True)],
)
def test_shifts(begins_h: float, ends_h: float, inside: bool) -> None:
    assert HARD.policy.logistics is not None
    crew = HARD.policy.logistics.crews[0]
    task = replace(HARD.plan.waves[0].tasks[1], begins_s=BEGINS_S + begins_h * 3600, ends_s=BEGINS_S + ends_h * 3600)
    assert in_shift(crew, task) is inside


def test_a_shift_over_midnight() -> None:
    assert HARD.policy.logistics is not None
    crew = replace(HARD.policy.logistics.crews[0], begins_s=22 * 3600.0, shift_s=8 * 3600.0)
    task = replace(HARD.plan.waves[0].tasks[1], begins_s=BEGINS_S + 23 * 3600, ends_s=BEGINS_S + 30 * 3600)
    assert in_shift(crew, task)
