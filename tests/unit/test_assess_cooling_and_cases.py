"""Vectors CL of the rules, and the cases E01, E02, E03, E06, E07 and M12 on whole sites."""

from __future__ import annotations

import pytest

from bridgehead.assess import commissioning, power, power_facts
from bridgehead.assess.cooling_math import air_m3ps, btu_per_h, liquid_m3ps, pressure_ratio
from bridgehead.assess.power_flow import Flow
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import Person, SiteId
from bridgehead.model.cooling import Gate, Loop, LoopId, LoopKind, Record
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Estate, Site
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import FindingStatus
from bridgehead.model.policy import Policy
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring

CFM = 0.028316846592 / 60
A, B = CircuitId("a"), CircuitId("b")


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-3)


def scope(**parts: object) -> Scope:
    site = Site(SiteId("s"), **parts)  # type: ignore[arg-type]  # fields by name
    return Scope(Estate("e", (site,)), Policy(name="p", source=SiteId("-"), target=site.id), source=None, target=site)


def two(rating_a: float, *, main_va: float = 1e6) -> dict[str, object]:
    circuits = tuple(
        Circuit(name, 230, rating_a, Wiring.SINGLE_PHASE, continuous=1.0, feed=name, fed_by=SourceId("main"), other_load_w=0.0)
        for name in (A, B)
    )
    main = PowerSource(SourceId("main"), SourceKind.UTILITY, rating_va=main_va, continuous=1.0, wiring=Wiring.SINGLE_PHASE)
    node = Node(NodeId("n"), power_w=4_000, power_factor=1.0, supplies=2, supplies_needed=1, circuits=(A, B))
    return {"circuits": circuits, "sources": (main,), "nodes": (node,)}


def test_CL1_to_CL4_air() -> None:
    assert btu_per_h(10_200) == near(34_802)
    assert air_m3ps(10_200, rise_k=25 / 1.8) / CFM == near(1_283)
    assert air_m3ps(10_200, rise_k=20 / 1.8) / CFM == near(1_604)
    assert air_m3ps(4_000, rise_k=20 / 1.8) / CFM == near(629)
    ratio = pressure_ratio(6_000 * 0.3048)
    assert ratio == near(0.80)
    assert air_m3ps(10_200, rise_k=20 / 1.8, pressure=0.80) / CFM == near(2_005)
    assert pressure_ratio(4_000) is None


def test_CL5_CL6_liquid() -> None:
    assert liquid_m3ps(120_000, rise_k=10) * 60_000 == pytest.approx(172.5, rel=1e-2)
    assert liquid_m3ps(120_000, rise_k=20) * 60_000 == pytest.approx(86.3, rel=1e-2)
    assert liquid_m3ps(120_000 * 0.85, rise_k=10) * 60_000 == pytest.approx(146.6, rel=1e-2)
    assert air_m3ps(120_000 * 0.15, rise_k=25 / 1.8) / CFM == near(2_264)


def test_E01_a_device_on_two_feeds_counts_once() -> None:
    flow = Flow(scope(**two(32)).target)
    assert flow.circuits[A].high[0] + flow.circuits[B].high[0] == flow.sources[SourceId("main")].high[0] == near(4_000)


def test_E02_ratings_of_branches_are_never_added() -> None:
    (main,) = power.SOURCE.run(scope(**two(450, main_va=23_000)))
    assert (main.status, main.value) == (FindingStatus.PASS, near(4_000))


@pytest.mark.parametrize(("rating_a", "status"), [(32, FindingStatus.PASS), (16, FindingStatus.FAIL)])
def test_E07_each_side_carries_all_when_the_other_is_lost(rating_a: float, status: FindingStatus) -> None:
    assert {one.status for one in power.CIRCUIT.run(scope(**two(rating_a)))} == {status}


def test_both_paths_share_an_element() -> None:
    (node,) = power.REDUNDANT.run(scope(**two(32)))
    assert (node.status, node.state) == (FindingStatus.FAIL, "main lost")


@pytest.mark.parametrize("voltage_v", [120, 220, 230, 240, 400, 208])
def test_E03_PW7_a_voltage_that_is_hardly_ever_between_lines_is_warned_about(voltage_v: float) -> None:
    circuit = Circuit(A, voltage_v, 32, Wiring.THREE_PHASE_LINE_TO_LINE)
    (found,) = power_facts.VOLTAGE.run(scope(circuits=(circuit,)))
    assert (found.status is FindingStatus.FAIL) == (voltage_v not in (400, 208))


@pytest.mark.parametrize(("plate_w", "load_w", "status"), [(900, 429, FindingStatus.PASS), (2_142, 6_500, FindingStatus.FAIL)])
def test_E06_a_nameplate_is_a_bound_and_not_the_load(plate_w: float, load_w: float, status: FindingStatus) -> None:
    (found,) = power_facts.PLATE.run(scope(nodes=(Node(NodeId("n"), measured_w=load_w, nameplate_w=plate_w),)))
    assert (found.status, found.value, found.limit) == (status, load_w, plate_w)


def test_M12_only_a_signed_record_that_passed_counts() -> None:
    records = (Record(Gate.FLUSH, True, Person("ada")), Record(Gate.FILTER, True), Record(Gate.LOAD_BANK, False, Person("ada")))
    loop = Loop(LoopId("w"), LoopKind.LIQUID, records=records)
    found = {one.state: one.status.value for one in commissioning.GATES.run(scope(loops=(loop,)))}
    assert (found["flush"], found["filter"], found["load-bank"], found["dew-point"]) == ("pass", "unknown", "fail", "unknown")


def test_M12_records_that_are_read_from_a_file_count() -> None:
    gates = "".join(f"{gate.value}: {{passed: true, signed_by: ada}}, " for gate in Gate)
    text = f"estate: e\nsites:\n  s:\n    loops:\n      w: {{kind: liquid, records: {{{gates}}}}}\n"
    estate = read_estate(text, file="e.yaml")
    policy = Policy(name="p", source=SiteId("-"), target=SiteId("s"))
    found = list(commissioning.GATES.run(Scope(estate, policy, source=None, target=estate.sites[0])))
    assert [one.status for one in found] == [FindingStatus.PASS] * len(Gate)
