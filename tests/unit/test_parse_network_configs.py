"""Configurations of SONiC, FRR and NVUE: what must be the same at both sites, in the same words (M8.1, M8.2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import frr_config, mlnx_qos, nvue_config, sonic_config_db
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.switch_config import dscp_of, names_in, numbers_in
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "switch-config"
SONIC = (FIXTURES / "sonic_leaf.json").read_text(encoding="utf-8")
FRR = (FIXTURES / "frr_leaf.conf").read_text(encoding="utf-8")
NVUE = (FIXTURES / "nvue_leaf.yaml").read_text(encoding="utf-8")
ALL = [(sonic_config_db.PARSER, SONIC, "leaf-a-01"), (frr_config.PARSER, FRR, "leaf-a-02"), (nvue_config.PARSER, NVUE, "leaf-a-03")]


def parse(parser: Parser, text: str, *, host: str = "h1") -> Parsed:
    return parser.parse(Capture("f", text.encode(), host))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject.partition("/")[2], fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


def test_M81_all_systems_name_the_overlay_with_the_same_words() -> None:
    sonic, frr, nvue = (facts(parser, text) for parser, text, _ in ALL)
    assert sonic["", "evpn"].value is frr["", "evpn"].value is nvue["", "evpn"].value is True
    assert sonic["", "vnis"].value == ("9900", "10100")
    assert nvue["", "vnis"].value == ("4001", "9900", "10100")
    assert frr["", "vnis-configured"].value == ("4001", "10100")
    assert sonic["", "vni-vlan:10100"].value == nvue["", "vni-vlan:10100"].value == 100
    assert (frr["", "duplicate-address-detection"].value, nvue["", "duplicate-address-detection"].value) == (False, True)
    assert frr["", "ecmp-paths"].value == nvue["", "ecmp-paths"].value == 64  # not that of another VRF
    assert (sonic["", "vxlan-source"].value, nvue["", "vxlan-source"].value) == ("192.0.2.101", "192.0.2.103")


@pytest.mark.parametrize(("parser", "text", "name"), ALL, ids=["sonic", "frr", "nvue"])
def test_the_switch_is_called_as_it_calls_itself(parser: Parser, text: str, name: str) -> None:
    assert {fact.subject.partition("/")[0] for fact in parse(parser, text).facts} == {f"switch:{name}"}
    nameless = text.replace('"hostname": "leaf-a-01", ', "").replace("hostname leaf-a-02\n", "").replace("hostname: leaf-a-03", "x: y")
    assert {fact.subject.partition("/")[0] for fact in parse(parser, nameless).facts} == {"switch:h1"}


def test_M81_bfd_timers() -> None:
    frr, nvue = facts(frr_config.PARSER, FRR), facts(nvue_config.PARSER, NVUE)
    fast = [frr["bfd:fast", name].value for name in ("transmit-interval", "receive-interval", "multiplier")]
    assert fast == [0.01, 0.01, 3]
    assert frr["bfd:fast", "transmit-interval"].unit == "s"
    assert frr["neighbor:underlay", "bfd"].value == "profile fast"
    assert [frr["bfd:192.0.2.77", name].value for name in ("multiplier", "receive-interval", "transmit-interval")] == [4, 0.05, 0.1]
    assert ("bfd:192.0.2.9", "transmit-interval") not in frr  # the default is not shown, and not guessed
    assert [nvue["bfd:swp51", name].value for name in ("multiplier", "receive-interval", "transmit-interval")] == [3, 0.05, 0.05]
    assert nvue["neighbor:swp51", "bfd"].value == "on"


def test_bgp_neighbours() -> None:
    sonic, frr, nvue = (facts(parser, text) for parser, text, _ in ALL)
    assert (sonic["", "bgp-asn"].value, frr["", "bgp-asn"].value, nvue["", "bgp-asn"].value) == (65101, 65102, 65103)
    assert sonic["neighbor:192.0.2.3", "remote-as"].value == "65200"
    assert frr["neighbor:192.0.2.77", "remote-as"].value == "65400"
    assert frr["neighbor:tenant-1.198.51.100.2", "remote-as"].value == "65500"
    assert frr["neighbor:underlay", "evpn"].value is nvue["neighbor:swp51", "evpn"].value is True
    assert nvue["neighbor:swp51", "remote-as"].value == "external"


def test_M82_traffic_classes() -> None:
    sonic, nvue = facts(sonic_config_db.PARSER, SONIC), facts(nvue_config.PARSER, NVUE)
    assert sonic["", "pfc-priorities"].value == sonic["port:Ethernet8", "pfc-priorities"].value == ("3", "4")
    assert nvue["", "pfc-priorities"].value == ("3",)
    assert (sonic["", "ecn-classes"].value, nvue["", "ecn-classes"].value) == (("3", "4"), ("3",))
    assert sonic["dscp-map:AZURE", "traffic-class:26"].value == nvue["dscp-map:default-global", "traffic-class:26"].value == 3
    assert sonic["port:Ethernet0", "dscp-map"].value == "AZURE"  # written as [DSCP_TO_TC_MAP|AZURE]
    assert sonic["class-map:AZURE", "queue:3"].value == 3
    assert nvue["", "roce-mode"].value == "lossless"


def test_M82_marking_thresholds() -> None:
    sonic, nvue = facts(sonic_config_db.PARSER, SONIC), facts(nvue_config.PARSER, NVUE)
    low = sonic["ecn:AZURE_LOSSLESS", "threshold-min"]
    assert (low.value, low.unit, low.source.line) == (1048576, "B", 47)
    assert sonic["ecn:AZURE_LOSSLESS", "threshold-max"].value == 2097152
    assert sonic["ecn:AZURE_LOSSLESS", "mark-probability"].value == 5
    assert nvue["ecn:default-global.3", "threshold-max"].value == 1500000
    assert (nvue["ecn:default-global.3", "ecn"].value, nvue["ecn:default-global.0", "ecn"].value) == ("on", "off")
    assert sonic["port:Ethernet0", "ecn-profile:0"].value == "DROPS"  # which marks nothing, so queue 0 is not in ecn-classes


def test_M82_ports_that_differ_are_a_conflict_of_the_switch() -> None:
    document = json.loads(SONIC)
    document["PORT_QOS_MAP"]["Ethernet8"]["pfc_enable"] = "3"
    parsed = parse(sonic_config_db.PARSER, json.dumps(document))
    told = [fact for fact in parsed.facts if (fact.subject, fact.attribute) == ("switch:leaf-a-01", "pfc-priorities")]
    assert [(fact.status, fact.value) for fact in told] == [(Status.CONFLICT, ("3", "4")), (Status.CONFLICT, ("3",))]
    assert "such as Ethernet8; other ports differ" in told[1].note


def test_ports() -> None:
    sonic, nvue = facts(sonic_config_db.PARSER, SONIC), facts(nvue_config.PARSER, NVUE)
    assert (sonic["port:Ethernet0", "mtu"].value, sonic["port:Ethernet0", "rate-configured"].value) == (9100, 400_000_000_000)
    assert sonic["port:Ethernet16", "mtu"].status is Status.UNKNOWN
    assert sonic["port:Ethernet8", "peer-configured"].value == "switch:spine-a-01/port:Ethernet0"
    for port in ("swp1", "swp2", "swp9"):
        assert (nvue[f"port:{port}", "mtu"].value, nvue[f"port:{port}", "rate-configured"].value) == (9216, 400_000_000_000)
        assert nvue[f"port:{port}", "admin-state"].value == "up"
    assert nvue["port:swp51", "mtu"].value == 9216


@pytest.mark.parametrize(("parser", "text", "name"), ALL, ids=["sonic", "frr", "nvue"])
def test_prompt_and_line_ends(parser: Parser, text: str, name: str) -> None:
    other = f"admin@{name}:~$ show\r\n" + text.replace("\n", "\r\n")
    assert parser.recognises(other.encode())
    assert {key: fact.value for key, fact in facts(parser, other).items()} == {key: fact.value for key, fact in facts(parser, text).items()}


@pytest.mark.parametrize(("parser", "text"), [(frr_config.PARSER, FRR), (nvue_config.PARSER, NVUE)], ids=["frr", "nvue"])
def test_a_cut_anywhere_gives_no_other_number(parser: Parser, text: str) -> None:
    whole = facts(parser, text)
    for cut in range(0, len(text), 19):
        for key, fact in facts(parser, text[:cut]).items():
            if fact.status is Status.KNOWN and not isinstance(fact.value, tuple):
                assert whole[key].value == fact.value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("swp1-3,swp7", ["swp1", "swp2", "swp3", "swp7"]),
        ("swp1,3-4", ["swp1", "swp3", "swp4"]),
        ("swp1s0-1", ["swp1s0", "swp1s1"]),
        ("Ethernet0", ["Ethernet0"]),
        ("swp9-1", ["swp9-1"]),
    ],
)
def test_names_in_ranges(text: str, names: list[str]) -> None:
    assert list(names_in(text)) == names


def test_ranges_are_bounded_and_words_are_no_numbers() -> None:
    assert len(list(names_in("swp1-999999,swp1-999999"))) <= 4097
    assert numbers_in("3-5,7") == ("3", "4", "5", "7")
    assert (numbers_in("none"), numbers_in("all")) == ((), None)
    assert [dscp_of(text) for text in ("26", "af31", "cs6", "EF", "64", "-1", "x", "2.5")] == [26, 26, 48, 46, None, None, None, None]


def test_broken_documents_say_why() -> None:
    assert "the JSON is broken" in parse(sonic_config_db.PARSER, SONIC[:-20]).skipped[0].reason
    assert parse(nvue_config.PARSER, NVUE.replace("evpn:", "evpn: [", 1)).skipped
    assert "nothing is set" in parse(nvue_config.PARSER, "- header:\n    nvue-api-version: nvue_v1\n").skipped[0].reason


def test_sonic_is_recognised_by_the_tables_that_a_large_file_begins_with() -> None:
    neighbors = {f"192.0.2.{number}": {"asn": "65000", "name": "x" * 600} for number in range(200)}
    text = json.dumps({"BGP_NEIGHBOR": neighbors, **{key: table for key, table in json.loads(SONIC).items() if key != "BGP_NEIGHBOR"}})
    assert text.index("DEVICE_METADATA") > 64 << 10
    assert sonic_config_db.PARSER.recognises(text.encode()[: 64 << 10])
    assert facts(sonic_config_db.PARSER, text)["", "vnis"].value == ("9900", "10100")


QOS = (FIXTURES.parent / "mlnx-qos/host_dscp.txt").read_text(encoding="utf-8")


def test_M82_hosts_use_the_words_of_switches() -> None:
    found = facts(mlnx_qos.PARSER, QOS)
    assert found["", "pfc-priorities"].value == ("3",)
    assert found["", "trust-state"].value == "dscp"
    assert found["dscp-map:mlnx-qos", "traffic-class:26"].value == 3
    assert found["dscp-map:mlnx-qos", "traffic-class:0"].value == 0  # printed as 00
    assert found["class-map:mlnx-qos", "queue:3"].value == 3
    assert sum(key[1].startswith("traffic-class:") for key in found) == 64


def test_host_qos_rows_that_do_not_fit_are_unknown() -> None:
    short = facts(mlnx_qos.PARSER, QOS.replace("enabled     0   0   0   1   0", "enabled     0   0   0   1"))
    assert (short["", "pfc-priorities"].status, short["", "pfc-priorities"].note) == (Status.UNKNOWN, "7 cells under 8 priorities")
    odd = parse(mlnx_qos.PARSER, QOS.replace("dscp:07,", "dscp:99,"))
    assert "no code point: '99'" in odd.skipped[0].reason
    cut = facts(mlnx_qos.PARSER, QOS[: QOS.index("enabled") + 30])
    assert ("", "pfc-priorities") not in cut
