"""What a node takes at most, by what was said of it, and what counts as a fact (E06, M5.3; decision 0015)."""

from __future__ import annotations

import pytest

from bridgehead.assess import interconnect, power_facts, workloads
from bridgehead.assess.loads import Reading, load_of
from bridgehead.assess.scope import Scope
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Estate, Site, Workload, WorkloadKind
from bridgehead.model.finding import FindingStatus
from bridgehead.model.policy import Policy


def scope(node: Node, *works: Workload) -> Scope:
    site = Site(SiteId("s"), nodes=(node,))
    return Scope(Estate("e", (site,), workloads=works), Policy(name="p", source=SiteId("-"), target=site.id), source=None, target=site)


@pytest.mark.parametrize(
    ("power", "measured", "nameplate", "low", "high", "reading"),
    [
        (None, None, None, 0.0, None, Reading.NONE),
        (9.0, None, None, 9.0, 9.0, Reading.DECLARED),
        (9.0, 4.0, 12.0, 9.0, 9.0, Reading.DECLARED),
        (9.0, 10.0, 12.0, 10.0, 10.0, Reading.ABOVE),
        (None, 4.0, None, 4.0, None, Reading.MEASURED),
        (None, 4.0, 12.0, 4.0, 12.0, Reading.NAMEPLATE),
        (None, None, 12.0, 0.0, 12.0, Reading.NAMEPLATE),
        (None, 14.0, 12.0, 14.0, None, Reading.MEASURED),
    ],
)
def test_E06_each_statement_narrows_the_load(
    power: float | None, measured: float | None, nameplate: float | None, low: float, high: float | None, reading: Reading
) -> None:
    found = load_of(Node(NodeId("n"), power_w=power, measured_w=measured, nameplate_w=nameplate))
    assert (found.low_w, found.high_w, found.reading) == (low, high, reading)
    assert found.known_w == (low if high is None else high)


@pytest.mark.parametrize(
    ("node", "status"),
    [
        (Node(NodeId("n"), power_w=9_000), FindingStatus.PASS),
        (Node(NodeId("n"), power_w=9_000, measured_w=4_000), FindingStatus.PASS),
        (Node(NodeId("n"), power_w=9_000, measured_w=9_500), FindingStatus.FAIL),
        (Node(NodeId("n"), measured_w=2_000), FindingStatus.UNKNOWN),
        (Node(NodeId("n"), nameplate_w=12_000), FindingStatus.UNKNOWN),
    ],
)
def test_a_reading_of_an_idle_node_proves_no_peak_and_one_above_what_is_declared_is_told(node: Node, status: FindingStatus) -> None:
    (found,) = power_facts.LOAD.run(scope(node))
    assert found.status is status


def test_links_declared_against_the_data_sheet_are_judged_as_declared_and_the_contradiction_is_told() -> None:
    node = Node(NodeId("n"), gpus=1, gpu_model="NVIDIA A100-SXM4-40GB", gpu_links=(12,), gpu_links_expected=16)
    (found,) = interconnect.NVLINKS.run(scope(node))
    assert found.status is FindingStatus.FAIL
    assert "the data sheet of its model says 12" in found.text


@pytest.mark.parametrize(("model", "status"), [("H100", FindingStatus.PASS), ("B200", FindingStatus.FAIL), ("", FindingStatus.UNKNOWN)])
def test_workload_without_a_model_does_not_pass_by_the_gpus_of_any(model: str, status: FindingStatus) -> None:
    work = Workload(WorkloadId("w"), WorkloadKind.INFERENCE, SiteId("s"), gpus=8, min_gpus=4, gpu_model=model)
    (found,) = workloads.MINIMUM.run(scope(Node(NodeId("n"), gpus=8, gpu_model="H100"), work))
    assert found.status is status
