"""ibnetdiscover, full and line mode: links at both ends, GUIDs as keys, SHARP nodes, scans that were cut (M2, M3; F03, F04)."""

from __future__ import annotations

import collections
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.discovery.infiniband import guid, lanes
from bridgehead.discovery.parsers import ibnetdiscover, ibnetdiscover_ports
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "ibnetdiscover"
Facts = dict[tuple[str, str], Fact]


def parse(parser: Parser, data: bytes | str) -> Parsed:
    return parser.parse(Capture("f", data.encode() if isinstance(data, str) else data, "h1"))


def by_key(parsed: Parsed) -> Facts:
    found = {(fact.subject, fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)  # nothing is said twice
    return found


def full(name: str) -> Facts:
    return by_key(parse(ibnetdiscover.PARSER, (FIXTURES / name).read_bytes()))


@pytest.fixture(scope="module")
def gb200() -> Facts:
    return full("topograph_gb200_ndr_full.out")


SCAN = "scan:e09d730300156ff6"


def test_gb200_counts(gb200: Facts) -> None:
    counts = {attribute: fact.value for (subject, attribute), fact in gb200.items() if subject == SCAN}
    assert counts == {
        "switches-seen": 40,
        "adapters-seen": 582,
        "aggregation-nodes-seen": 40,
        "links-seen": 1114,
        "one-sided-links-seen": 0,
        "scan-seen": "complete",
    }


def test_gb200_every_link_stands_at_both_ports_with_its_rate(gb200: Facts) -> None:
    peers = {subject: str(fact.value) for (subject, attribute), fact in gb200.items() if attribute == "peer"}
    assert len(peers) == 2228
    assert all(peers[peer] == port for port, peer in peers.items())
    assert {gb200[port, "rate"].value for port in peers} == {400_000_000_000}
    assert {gb200[port, "width"].value for port in peers} == {4}
    assert {gb200[port, "speed"].value for port in peers} == {"NDR"}
    assert {gb200[port, "state"].value for port in peers} == {"up"}
    assert gb200["switch:2c5eab0300b87b40/port:1", "peer"].source.line == 11
    assert not [key for key in gb200 if key[1] == "one-sided-seen"]


def test_gb200_switches_are_of_one_model_and_have_their_ports(gb200: Facts) -> None:
    names = {subject: str(fact.value) for (subject, attribute), fact in gb200.items() if attribute == "name"}
    assert len(names) == 40
    assert collections.Counter("SPINE" if "IBSPINE" in name else "LEAF" for name in names.values()) == {"LEAF": 31, "SPINE": 9}
    assert {gb200[switch, "model"].value for switch in names} == {"MQM9701"}
    assert {gb200[switch, "port-count"].value for switch in names} == {65}
    assert names["switch:2c5eab0300b87b40"] == "A09-P1-IBLEAF-04-04"


def test_F03_gb200_aggregation_nodes_are_no_hosts(gb200: Facts) -> None:
    nodes = [subject for (subject, attribute), fact in gb200.items() if (attribute, fact.value) == ("role", "aggregation-node")]
    assert len(nodes) == 40
    assert {str(gb200[f"{node}/port:1", "peer"].value).rpartition("/")[2] for node in nodes} == {"port:65"}
    assert not [node for node in nodes if (node, "host") in gb200]


def test_F03_gb200_adapters_with_a_default_name_stay_apart(gb200: Facts) -> None:
    named = [subject for (subject, _), fact in gb200.items() if fact.value == "MT4129 ConnectX7   Mellanox Technologies"]
    assert len(named) == len(set(named)) == 69
    assert {gb200[adapter, "host"].status for adapter in named} == {Status.UNKNOWN}
    assert len({gb200[adapter, "system-image-guid"].value for adapter in named}) > 1
    known = gb200["adapter:e09d7303007a4bd8", "host"]
    assert (known.value, gb200["adapter:e09d7303007a4bd8", "device-name"].value) == ("a08-p1-dgx-04-c01", "mlx5_5")


def test_F03_gb200_localhost_is_no_host(gb200: Facts) -> None:
    unnamed = gb200["adapter:e09d73030037317c", "host"]
    assert (unnamed.status, "hosts without a name" in unnamed.note) == (Status.UNKNOWN, True)
    assert gb200["adapter:c470bd0300a4943e", "host"].status is Status.UNKNOWN


def test_FB3_gb200_oversubscription_can_be_computed_from_the_facts(gb200: Facts) -> None:
    ports = collections.defaultdict(lambda: [0, 0])
    sharp = {subject for (subject, attribute) in gb200 if attribute == "role"}
    for (subject, attribute), fact in gb200.items():
        if attribute == "peer" and subject.startswith("switch:"):
            peer = str(fact.value).partition("/")[0]
            if peer not in sharp:
                ports[subject.partition("/")[0]][peer.startswith("switch:")] += 1
    ratios = [down / up for switch, (down, up) in ports.items() if "LEAF" in str(gb200[switch, "name"].value)]
    assert [round(one, 3) for one in (min(ratios), statistics.median(ratios), max(ratios))] == [0.889, 1.0, 1.2]
    with_sharp = collections.Counter((down + 1, up) for switch, (down, up) in ports.items() if "LEAF" in str(gb200[switch, "name"].value))
    assert with_sharp[19, 18] == 10
    assert with_sharp[18, 18] == 5


def test_header_only_scan_is_reported_incomplete() -> None:
    parsed = parse(ibnetdiscover.PARSER, (FIXTURES / "topograph_header_only_bad.out").read_bytes())
    facts = by_key(parsed)
    assert facts["adapter:b8e92403009ca838", "host"].value == "dgx-gb200-n01-c1"
    assert facts["adapter:b8e92403009ca838", "device-name"].value == "HCA-1"
    assert facts["adapter:b8e92403009ca838/port:?", "peer"].status is Status.UNKNOWN
    assert facts["scan:b8e92403009ca838", "switches-seen"].value == 0
    assert facts["scan:b8e92403009ca838", "adapters-seen"].value == 1
    assert facts["scan:b8e92403009ca838", "scan-seen"].value == "incomplete"
    assert "the scan is incomplete: 0 switches" in parsed.skipped[0].reason


def lines(name: str) -> Facts:
    return by_key(parse(ibnetdiscover_ports.PARSER, (FIXTURES / name).read_bytes()))


def test_F04_line_mode_counts_links_once_and_names_the_one_sided_one() -> None:
    facts = lines("line_mode_edr_unknown_speed.out")
    peers = {subject: str(fact.value) for (subject, attribute), fact in facts.items() if attribute == "peer"}
    assert all(peers[peer] == port for port, peer in peers.items())
    pairs = {frozenset(pair) for pair in peers.items()}
    assert len(pairs) == 4
    assert sum(any(port.startswith("adapter:") for port in pair) for pair in pairs) == 3
    silent = {subject for (subject, attribute) in facts if attribute == "one-sided-seen"}
    assert silent == {"switch:7cfe9003009ce5b0/port:1", "switch:7cfe900300b07320/port:1"}
    assert facts["switch:7cfe900300b07320", "description"].value == "ib-i1l2s01"
    assert (facts["adapter:7cfe9003003b4bde", "host"].value, facts["adapter:7cfe9003003b4bde/port:1", "lid"].value) == ("o0001", 134)


@pytest.mark.parametrize(
    ("name", "port", "printed"),
    [
        ("line_mode_edr_unknown_speed.out", "switch:506b4b03005c2740/port:37", "4x ???"),
        ("line_mode_edr_unknown_speed.out", "switch:08c0eb0300add20e/port:80", "4x SDR"),
        ("line_mode_unquoted_name.out", "switch:0002c9020040f161/port:22", "4x QDR"),
    ],
)
def test_F04_a_port_without_a_link_has_no_rate(name: str, port: str, printed: str) -> None:
    facts = lines(name)
    assert facts[port, "state"].value == "down"
    assert (facts[port, "rate"].status, printed in facts[port, "rate"].note) == (Status.UNKNOWN, True)
    assert (port, "peer") not in facts


def test_line_mode_takes_a_name_without_quotes_whole() -> None:
    assert lines("line_mode_unquoted_name.out")["switch:0002c9020040f161", "description"].value == "Infiniscale-IV Mellanox Technologies"


SMALL = """\
#
# Topology file: generated on Mon Nov 30 11:00:00 2026
#
# Initiated from node 98039b0300aa0010 port 98039b0300aa0010

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x98039b0300ff0000
switchguid=0x98039b0300ff0000(98039b0300ff0000)
Switch	41 "S-98039b0300ff0000"		# "MF0;leaf-a 1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
[1]	"H-98039b0300aa0010"[1](98039b0300aa0011) 		# "n1 HCA-1" lid 7 2xHDR
[2]	"S-98039b0300ff0040"[5]		# "odd (\\"name\\") - 'x'" lid 9 4xFDR10
[40][ext 20]	"S-98039b0300ff0080"[5][ext 3]		# "MF0;core:CS7520/L01/U1" lid 9 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x0
caguid=0x98039b0300aa0010
Ca	2 "H-98039b0300aa0010"		# "n1 HCA-1"
[1](98039b0300aa0011) 	"S-98039b0300ff0000"[1]		# lid 7 lmc 0 "MF0;leaf-a 1:MQM8700/U1" lid 3 2xHDR
"""


def test_other_shapes_of_lines() -> None:
    facts = by_key(parse(ibnetdiscover.PARSER, SMALL))
    assert facts["switch:98039b0300ff0000/port:1", "peer"].value == "adapter:98039b0300aa0010/port:1"
    assert facts["switch:98039b0300ff0000/port:1", "rate"].value == 100_000_000_000  # two lanes of a splitter
    assert facts["adapter:98039b0300aa0010/port:1", "port-guid"].value == "98039b0300aa0011"
    assert facts["adapter:98039b0300aa0010", "system-image-guid"].status is Status.UNKNOWN
    assert facts["switch:98039b0300ff0000/port:2", "rate"].value == 40_000_000_000
    assert facts["switch:98039b0300ff0040", "description"].value == "odd (\\\"name\\\") - 'x'"
    assert facts["switch:98039b0300ff0000/port:40", "peer"].value == "switch:98039b0300ff0080/port:5"
    assert facts["switch:98039b0300ff0080", "name"].value == "core"
    assert facts["scan:98039b0300aa0010", "scan-seen"].value == "incomplete"  # of two switches nothing but their names is there


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "root@ufm1:~# ibnetdiscover\n" + text,
        lambda text: text.replace("\t\t#", "  #").replace("\t", " "),
        lambda text: "\n".join(text.split("\n\n")[:1] + text.split("\n\n")[:0:-1]) + "\n",
    ],
    ids=["windows", "prompt", "blanks", "other-order"],
)
def test_variants_say_the_same(change: Callable[[str], str]) -> None:
    plain, other = parse(ibnetdiscover.PARSER, SMALL), parse(ibnetdiscover.PARSER, change(SMALL))
    assert {(one.subject, one.attribute, one.value) for one in other.facts} == {
        (one.subject, one.attribute, one.value) for one in plain.facts
    }


def test_ends_that_contradict_each_other_are_a_conflict() -> None:
    crossed = SMALL.replace('"S-98039b0300ff0000"[1]\t\t# lid 7', '"S-98039b0300ff0000"[9]\t\t# lid 7')
    one = by_key(parse(ibnetdiscover.PARSER, crossed))["switch:98039b0300ff0000/port:1", "peer"]
    assert (one.status, one.value) == (Status.CONFLICT, "adapter:98039b0300aa0010/port:1")
    assert "says that it is linked to switch:98039b0300ff0000/port:9 (line 20)" in one.note


def test_a_cut_anywhere_gives_nothing_that_the_whole_does_not_say(gb200: Facts) -> None:
    whole, chance = SMALL.encode(), random.Random(7)
    said = {(fact.subject, fact.attribute, fact.value) for fact in parse(ibnetdiscover.PARSER, whole).facts}
    for _ in range(60):
        cut = parse(ibnetdiscover.PARSER, whole[: chance.randrange(len(whole))])
        others = {(fact.subject, fact.attribute, fact.value) for fact in cut.facts if fact.status is Status.KNOWN} - said
        assert {(subject, attribute) for subject, attribute, _ in others if not subject.startswith("scan:")} <= {
            (subject, "one-sided-seen") for subject, _, _ in others
        }
        assert not [one for one in others if one[2] == "complete"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("4xNDR", (4, "NDR")), ("4X 25.78125", (4, "EDR")), ("12x SDR", (12, "SDR"))]
    + [(text, None) for text in ("4x ???", "??? ???", "4xWARP", "0xNDR", "", "4x", "-4xEDR")],
)
def test_D05_only_known_speeds_are_speeds(text: str, found: tuple[int, str] | None) -> None:
    assert lanes(text) == found


def test_guids_have_one_form_and_zero_is_none() -> None:
    assert guid("0015:5DFF:fe34:0033") == guid("0x00155dfffe340033") == "00155dfffe340033"
    assert guid("0000:0000:0000:0000") is guid("0x0") is guid("15dfe") is None
