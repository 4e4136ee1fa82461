"""NetQ: compute nodes of an NVLink domain, and the topology graph (M2, M3)."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

from bridgehead.discovery.parsers import netq_compute_nodes, netq_topology
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "netq"
NODES = (FIXTURES / "computeNodes.json").read_text(encoding="utf-8")
GRAPH = (FIXTURES / "topologyGraph.json").read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), ""))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject, fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


def test_two_nodes_of_one_nvlink_domain_with_eight_gpus() -> None:
    found = facts(netq_compute_nodes.PARSER, NODES)
    domain = "3fbfc98b-7f95-4749-ab11-bd351a2aab3e"
    assert found["node:node1", "nvlink-domain"].value == found["node:node2", "nvlink-domain"].value == domain
    assert found[f"nvlink-domain:{domain}", "nodes"].value == ("node1", "node2")
    ids = [one for node in ("node1", "node2") for one in found[f"node:{node}", "netq-gpu-ids"].value or ()]
    assert len(ids) == len(set(ids)) == 8


def test_places_of_nodes() -> None:
    found = facts(netq_compute_nodes.PARSER, NODES)
    places = {
        node: [found[f"node:{node}", name].value for name in ("nvlink-chassis", "slot-number", "tray-index")] for node in ("node1", "node2")
    }
    assert places == {"node1": [1, 5, 4], "node2": [1, 22, 12]}
    assert found["node:node2", "nvlink-chassis-serial"].value == "1825024170029"
    assert found["node:node2", "health-seen"].source.line == 28


def test_a_node_without_a_place_and_without_gpus_is_unknown() -> None:
    document: list[dict[str, Any]] = json.loads(NODES)
    document[0]["GpuIDList"] = None
    del document[0]["LocationInfo"]
    found = facts(netq_compute_nodes.PARSER, json.dumps(document))
    assert found["node:node1", "netq-gpu-count-seen"].status is Status.UNKNOWN
    assert found["node:node1", "tray-index"].status is Status.UNKNOWN
    assert found["node:node2", "tray-index"].value == 12


def test_graph_has_every_link_at_both_ports() -> None:
    found = facts(netq_topology.PARSER, GRAPH)
    peers = {subject: str(fact.value) for (subject, attribute), fact in found.items() if attribute == "peer"}
    assert all(peers[peer] == port for port, peer in peers.items())
    assert len(peers) == 2 * (8 * 4 + 28 + 19)
    assert peers["switch:net-unit-l2/port:swp17s0"] == "node:dgx-05/nic:ens4f0np0"
    lines = GRAPH.split("\n")
    assert '"interface": "swp17s0"' in lines[found["switch:net-unit-l2/port:swp17s0", "peer"].source.line - 1]
    assert '"interface": "ens4f0np0"' in lines[found["node:dgx-05/nic:ens4f0np0", "peer"].source.line - 1]


def test_graph_tells_leaves_from_spines_and_hosts() -> None:
    found = facts(netq_topology.PARSER, GRAPH)
    tiers = {subject: fact.value for (subject, attribute), fact in found.items() if attribute == "tier"}
    assert tiers == {"switch:net-unit-l1": 1, "switch:net-unit-l2": 1, "switch:net-unit-s1": 2}
    kinds = collections.Counter(fact.value for (_, attribute), fact in found.items() if attribute == "netq-device-type")
    assert kinds == {"switch": 3, "discovered_via_lldp": 8}
    uplinks = collections.Counter(
        subject.partition("/")[0]
        for (subject, attribute), fact in found.items()
        if attribute == "peer" and str(fact.value).startswith("switch:net-unit-s1") and subject.startswith("switch:")
    )
    assert uplinks == {"switch:net-unit-l1": 28, "switch:net-unit-l2": 19}


def test_devices_of_one_name_stay_apart() -> None:
    text = GRAPH.replace('"name": "dgx-04"', '"name": "dgx-05"')
    parsed = parse(netq_topology.PARSER, text)
    peers = {fact.subject: fact.value for fact in parsed.facts if fact.attribute == "peer"}
    assert len(peers) == 2 * (8 * 4 + 28 + 19)
    assert any(subject.startswith("node:dgx-05#node") for subject in peers)
    assert "two devices are called 'dgx-05'" in parsed.skipped[0].reason


def test_links_that_are_missing_or_name_one_port_are_reported() -> None:
    document = json.loads(GRAPH)
    document[0]["links"][0]["compounded_links"][0]["interfaces"].pop()
    document[0]["links"][1]["compounded_links"].pop()
    reasons = [one.reason for one in parse(netq_topology.PARSER, json.dumps(document)).skipped]
    assert any("does not name two ports" in reason for reason in reasons)
    assert any("says that it has 4 links and lists 3" in reason for reason in reasons)


def test_frame_and_cuts() -> None:
    for parser, text in ((netq_compute_nodes.PARSER, NODES), (netq_topology.PARSER, GRAPH)):
        whole = facts(parser, text)
        other = facts(parser, "\ufeff" + json.dumps(json.loads(text)).replace(", ", ",\r\n"))
        assert {key: fact.value for key, fact in other.items()} == {key: fact.value for key, fact in whole.items()}
        cut = parse(parser, text[: len(text) // 2])
        assert (cut.facts, "the JSON is broken" in cut.skipped[0].reason) == ((), True)
