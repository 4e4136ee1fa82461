"""Nothing described is nothing known: no verdict of go for an empty estate (M5.1, M5.2)."""

from __future__ import annotations

import pytest

from bridgehead.app.assess import assess
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import FindingStatus, Verdict
from bridgehead.model.policy import Policy

NODE = "nodes: {n1: {gpus: 8, gpu_model: H100}}"
WORK = "workloads: {lm: {kind: training, site: a, gpus: 8}}"


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("sites: {a: {}, b: {}}", {"EST-NODES a", "EST-NODES b", "EST-WORKLOADS a"}),
        (f"sites: {{a: {{{NODE}}}, b: {{{NODE}}}}}", {"EST-WORKLOADS a"}),
        (f"sites: {{a: {{{NODE}}}, b: {{}}}}\n{WORK}", set()),  # the hardware itself moves
        (f"sites: {{a: {{{NODE}}}, b: {{power: 1 MW}}}}\n{WORK}\n", set()),
        (f"sites: {{a: {{}}, b: {{{NODE}}}}}\n{WORK}", {"EST-NODES a"}),
    ],
)
def test_what_is_not_described_is_asked_for(text: str, unknown: set[str]) -> None:
    estate = read_estate(f"estate: x\n{text}\n", file="x")
    found = assess(estate, policy=Policy(name="p", source="a", target="b"), now_s=0.0)  # ids as text
    assert found.verdict is not Verdict.GO
    asked = {f"{one.code} {one.subject}" for one in found.findings if one.code.startswith("EST") and one.status is FindingStatus.UNKNOWN}
    assert asked == unknown


def test_site_as_it_stands_needs_no_workloads() -> None:
    estate = read_estate("estate: x\nsites: {a: {}}\n", file="x")
    assert {one.code for one in assess(estate, now_s=0.0).findings if one.code.startswith("EST")} == {"EST-NODES"}
