"""Models of topograph: switches, nodes on them, NVLink domains (M2, M3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.topograph_model import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "topograph-models"
ROOT = "topology-model:default"


def parse(data: bytes | str) -> Parsed:
    raw = data if isinstance(data, bytes) else data.encode()
    assert PARSER.recognises(raw)
    return PARSER.parse(Capture("f", raw))


def values(parsed: Parsed, subject: str) -> dict[str, Any]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def test_four_domains_of_eighteen_nodes_below_two_spines() -> None:
    parsed = parse((FIXTURES / "nvl72.yaml").read_bytes())
    assert values(parsed, ROOT) == {"domain-count": 4, "node-count": 72, "block-sizes": ("18", "36", "72")}
    assert values(parsed, f"{ROOT}/switch:core")["children"] == ("spine-1", "spine-2")
    leaves = [values(parsed, f"{ROOT}/switch:leaf-{spine}-{leaf}") for spine in (1, 2) for leaf in (1, 2)]
    assert [leaf["parent"] for leaf in leaves] == ["spine-1", "spine-1", "spine-2", "spine-2"]
    assert [leaf["node-count"] for leaf in leaves] == [18] * 4
    assert [leaf["nvlink-domain"] for leaf in leaves] == ["nvl-1-1", "nvl-1-2", "nvl-2-1", "nvl-2-2"]
    domain = values(parsed, f"{ROOT}/domain:nvl-2-2")
    assert (domain["nodes"][0], domain["nodes"][-1], domain["node-count"]) == ("node2201", "node2218", 18)


def test_small_tree_with_zones() -> None:
    parsed = parse((FIXTURES / "medium.yaml").read_bytes())
    assert values(parsed, ROOT) == {"domain-count": 4, "node-count": 8}
    assert values(parsed, f"{ROOT}/switch:sw22") == {
        "children": ("sw13", "sw14"),
        "parent": "sw3",
        "label:topology.kubernetes.io/zone": "zone2",
    }
    assert values(parsed, f"{ROOT}/switch:sw14") == {
        "parent": "sw22",
        "nodes": ("1401", "1402"),
        "node-count": 2,
        "nvlink-domain": "nvl4",
    }


def test_blocks_that_cannot_be_read_and_a_switch_below_two() -> None:
    parsed = parse(
        "switches:\n  a:\n    switches:\n    - leaf\n  b:\n    switches:\n    - leaf\n"
        "blocks:\n- switch: leaf\n  nodes:\n  - n[1-\n- nodes:\n  - n1\n- switch: other\n"
    )
    assert [fact.status for fact in parsed.facts if fact.subject == f"{ROOT}/switch:leaf"] == [
        Status.KNOWN,
        Status.CONFLICT,
        Status.UNKNOWN,
    ]
    assert values(parsed, f"{ROOT}/switch:other") == {}
    assert [skipped.reason for skipped in parsed.skipped] == ["a block without a switch"]
    assert values(parsed, ROOT) == {}


@pytest.mark.parametrize("name", ["nvl72.yaml", "medium.yaml"])
def test_a_cut_model_has_no_totals_and_not_the_last_block(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    parsed = parse(whole[:-3])
    assert "node-count" not in values(parsed, ROOT)
    assert any("cut off" in skipped.reason for skipped in parsed.skipped)


@pytest.mark.parametrize("name", ["nvl72.yaml", "medium.yaml"])
def test_line_ends_change_nothing(name: str) -> None:
    whole = (FIXTURES / name).read_bytes()
    plain = [(one.subject, one.attribute, one.value, one.source.line) for one in parse(whole).facts]
    assert [(one.subject, one.attribute, one.value, one.source.line) for one in parse(whole.replace(b"\n", b"\r\n")).facts] == plain
