"""Slurm's topologies and the lines of exporters: names that repeat, host lists, and lines that are broken (M2, M3, D16)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers import slurm_exporter, slurm_topology
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
TOPOLOGIES = sorted(path.name for path in (FIXTURES / "slurm-topology").iterdir())
CONF = "slurm-topology:default"


def topology(data: bytes | str) -> Parsed:
    raw = data if isinstance(data, bytes) else data.encode()
    assert slurm_topology.PARSER.recognises(raw)
    return slurm_topology.PARSER.parse(Capture("f", raw))


def read(name: str) -> Parsed:
    return topology((FIXTURES / "slurm-topology" / name).read_bytes())


def exported(data: bytes | str) -> Parsed:
    raw = data if isinstance(data, bytes) else data.encode()
    assert slurm_exporter.PARSER.recognises(raw)
    return slurm_exporter.PARSER.parse(Capture("f", raw))


def values(parsed: Parsed, subject: str) -> dict[str, Any]:
    return {view.attribute: view.value for view in merge(parsed.facts) if view.subject == subject and view.status is Status.KNOWN}


def test_twelve_blocks_of_eight_nodes() -> None:
    parsed = read("block_dra.conf")
    blocks = sorted({fact.subject for fact in parsed.facts if "/block:" in fact.subject})
    assert len(blocks) == 12
    assert {values(parsed, block)["node-count"] for block in blocks} == {8}
    assert values(parsed, CONF) == {"kind": "block", "block-count": 12, "block-sizes": ("8", "16", "32")}
    rack = values(parsed, f"{CONF}/block:rack62")
    assert rack["nodes"] == tuple(f"srv{number}" for number in range(6201, 6209))
    assert rack["name"] == "nvl-6-2"  # from the comment


def test_tree_of_one_core_six_spines_and_twelve_leaves() -> None:
    parsed = read("tree_oci_sim.conf")
    assert values(parsed, CONF) == {"kind": "tree", "switch-count": 19, "roots": ("switch.3.1",)}
    core = values(parsed, f"{CONF}/switch:switch.3.1")
    assert core == {"children": tuple(f"switch.2.{number}" for number in range(1, 7)), "name": "core"}
    spines = [values(parsed, f"{CONF}/switch:{name}") for name in core["children"]]
    assert {spine["parent"] for spine in spines} == {"switch.3.1"}
    leaves = [leaf for spine in spines for leaf in spine["children"]]
    assert len(leaves) == 12
    assert {values(parsed, f"{CONF}/switch:{leaf}")["node-count"] for leaf in leaves} == {8}
    assert values(parsed, f"{CONF}/switch:switch.1.12")["name"] == "leaf-6-2"


def test_block_names_repeat_between_topologies() -> None:
    parsed = read("topology_block.yaml")
    assert values(parsed, "slurm-topology:topo1/block:block1")["nodes"] == ("Node104", "Node105")
    assert values(parsed, "slurm-topology:topo2/block:block1")["nodes"] == ("Node301", "Node303")
    assert [values(parsed, f"slurm-topology:topo{number}")["default"] for number in (1, 2)] == [True, False]
    assert values(parsed, "slurm-topology:topo1")["block-sizes"] == ("2",)


def test_trees_with_lists_and_ranges() -> None:
    parsed = read("topology_tree.yaml")
    assert values(parsed, "slurm-topology:topo1/switch:S2") == {"nodes": ("Node201", "Node205"), "node-count": 2, "parent": "S1"}
    assert values(parsed, "slurm-topology:topo2/switch:S3")["nodes"] == ("Node304", "Node305")
    assert values(parsed, "slurm-topology:topo2")["roots"] == ("S1",)


def test_conf_in_other_case_over_two_lines_and_with_faults() -> None:
    parsed = topology(
        "switchname=top LinkSpeed=40 switches=a,b,ghost\n"
        "SwitchName=a \\\n  Nodes=n[1-2]\n"
        "SwitchName=b Nodes=n[3-\n"
        "SwitchName=a Nodes=n9\n"
        "SwitchName=other Switches=a\n"
        "nonsense\n"
    )
    assert values(parsed, f"{CONF}/switch:a") == {"nodes": ("n1", "n2"), "node-count": 2}
    [parent] = [view for view in merge(parsed.facts) if view.subject == f"{CONF}/switch:a" and view.attribute == "parent"]
    assert parent.status is Status.CONFLICT
    assert values(parsed, f"{CONF}/switch:b") == {"parent": "top"}
    reasons = " ".join(skipped.reason for skipped in parsed.skipped)
    assert "'ghost' below 'top' is not defined" in reasons
    assert "switch 'a' is defined again" in reasons
    assert "no line of a topology: 'nonsense'" in reasons


def test_a_cut_conf_has_no_counts() -> None:
    whole = (FIXTURES / "slurm-topology" / "tree_oci_sim.conf").read_bytes()
    parsed = topology(whole[:-4])
    assert "switch-count" not in values(parsed, CONF)
    assert "cut off" in parsed.skipped[0].reason
    assert values(parsed, f"{CONF}/switch:switch.1.12") == {}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_line_ends_change_nothing(name: str) -> None:
    whole = (FIXTURES / "slurm-topology" / name).read_bytes()
    plain = [(fact.subject, fact.attribute, fact.value, fact.source.line) for fact in read(name).facts]
    other = topology(whole.replace(b"\n", b"\r\n"))
    assert [(fact.subject, fact.attribute, fact.value, fact.source.line) for fact in other.facts] == plain


def test_six_good_records_of_an_exporter_and_two_that_are_broken() -> None:
    parsed = exported((FIXTURES / "slurm-text" / "squeue_jsonl_broken.txt").read_bytes())
    assert len({fact.subject for fact in parsed.facts}) == 6
    assert [skipped.line for skipped in parsed.skipped] == [7, 8, 9]
    assert values(parsed, "job:26515966") == {
        "account": "account1",
        "end-time-local": "2023-09-21T00:21:42",
        "state": "RUNNING",
        "partition": "hw-h",
        "cpu-count": 1,
        "memory-requested": 128 * 2**30,
        "nodes": ("cs10",),
    }
    assert values(parsed, "job:51447052")["state-reason"] == "(ReqNodeNotAvail, UnavailableNodes:cs[100,101,102])"
    assert "end-time-local" not in values(parsed, "job:51447051")  # N/A
    assert "end-time-local" not in values(parsed, "job:18804")  # NONE
    assert values(parsed, "job:50580016")["memory-requested"] == 62.5 * 2**30


def test_node_lines_of_an_exporter() -> None:
    parsed = exported(
        '{"s": "drained*", "mem": 128000, "n": "cs7", "l": "0.50", "p": "hw", "fmem": "N/A", "cstate": "0/0/64/64", "w": 1}\n'
        '{"s": "idle", "mem": 128000, "n": "cs8", "l": "N/A", "p": "hw", "fmem": "1000", "cstate": "cut'
    )
    assert values(parsed, "node:cs7") == {
        "scheduler-state-brief": "drained",
        "memory": 128000 * 2**20,
        "cpu-load": 0.5,
        "scheduler-cpus-used": 0,
        "scheduler-cpu-count": 64,
        "scheduler-weight": 1,
    }
    assert values(parsed, "node:cs8") == {}
