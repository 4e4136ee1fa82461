"""Adapters are compared with siblings that are surely alike: what nobody knows of a neighbour proves nothing (D09)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app.assess import assess
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import FindingStatus

NODE = "{{model: dgx, gpus: 8, gpu_model: '{gpu}', nics: {{mlx5_0: {{fabric: ib, rate: 400 Gbps}}}}}}"


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [("H100", "H100", FindingStatus.PASS), ("H100", "A100", FindingStatus.UNKNOWN), ("H100", "", FindingStatus.UNKNOWN),
     ("", "", FindingStatus.UNKNOWN)],
)  # fmt: skip
def test_D09_a_neighbour_whose_gpu_nobody_knows_proves_no_pass(first: str, second: str, status: FindingStatus) -> None:
    text = (
        "estate: t\nsites:\n  a:\n    fabrics:\n      ib: {kind: infiniband, purpose: compute}\n    nodes:\n"
        f"      n1: {NODE.format(gpu=first or 'H100')}\n      n2: {NODE.format(gpu=second or 'H100')}\n"
    )
    estate = read_estate(text, file="estate.yaml")
    site = estate.sites[0]
    nodes = tuple(msgspec.structs.replace(node, gpu_model=gpu) for node, gpu in zip(site.nodes, (first, second), strict=True))
    estate = msgspec.structs.replace(estate, sites=(msgspec.structs.replace(site, nodes=nodes),))
    found = assess(estate).findings
    assert [one.status for one in found if one.code == "INT-ADAPTERS"] == [status]
