"""lldpctl in its JSON shapes and XML: neighbours by name, once each (M2, M3; D18)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import lldpctl, lldpctl_xml
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "lldp"
DPU = (FIXTURES / "ncx_dpu_lldpctl.json").read_text(encoding="utf-8")
XML = (FIXTURES / "two_switches.xml").read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject.removeprefix("node:h1/nic:"), fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


def values(parser: Parser, text: str) -> dict[tuple[str, str], object]:
    return {key: fact.value for key, fact in facts(parser, text).items()}


def test_dpu_interfaces_all_name_one_switch_and_port() -> None:
    found = facts(lldpctl.PARSER, DPU)
    assert {key[0] for key in found} == {"oob_net0", "p0", "p1"}
    for interface in ("oob_net0", "p0", "p1"):
        assert found[interface, "neighbor"].value == "RNO1-M03-B17-IPMI-01"
        assert found[interface, "neighbor-port"].value == "swp7"
        assert found[interface, "peer"].value == "switch:RNO1-M03-B17-IPMI-01/port:swp7"
        assert found[interface, "peer"].note == "3 interfaces of this host name this one port"


def test_dpu_chassis_addresses_differ_and_are_no_key() -> None:
    found = values(lldpctl.PARSER, DPU)
    chassis = [found[interface, "neighbor-chassis-id"] for interface in ("oob_net0", "p0", "p1")]
    assert chassis == ["0c:29:ef:d9:1c:20", "0c:29:ef:d9:1c:21", "0c:29:ef:e9:1c:20"]


def test_dpu_management_address_is_a_text_or_a_list() -> None:
    found = values(lldpctl.PARSER, DPU)
    assert found["oob_net0", "neighbor-addresses"] == ("10.180.253.66",)
    assert found["p0", "neighbor-addresses"] == ("10.180.253.67", "fe80::e29:efef:fed9:1c20")


def test_dpu_port_description_and_lines() -> None:
    found = facts(lldpctl.PARSER, DPU)
    assert found["p1", "neighbor-port-description"].value == "RNO1-M03-B17-CPU-10:B17:15:DPU/BMC"
    assert ("oob_net0", "neighbor-port-description") not in found
    assert [found[interface, "peer"].source.line for interface in ("oob_net0", "p0", "p1")] == [4, 36, 72]


def as_list(document: dict[str, object]) -> dict[str, object]:
    """The shape where interfaces are a list of objects with one key."""
    return {"lldp": {"interface": [{name: entry} for name, entry in document["lldp"]["interface"].items()]}}


def as_json0(document: dict[str, object]) -> dict[str, object]:
    """The shape where everything is a list."""
    interfaces = []
    for name, entry in document["lldp"]["interface"].items():
        [(system, chassis)] = entry["chassis"].items()
        addresses = chassis["mgmt-ip"] if isinstance(chassis["mgmt-ip"], list) else [chassis["mgmt-ip"]]
        port = {"id": [entry["port"]["id"]]}
        if "descr" in entry["port"]:
            port["descr"] = [{"value": entry["port"]["descr"]}]
        interfaces.append(
            {
                "name": name,
                "via": "LLDP",
                "chassis": [
                    {
                        "id": [chassis["id"]],
                        "name": [{"value": system}],
                        "descr": [{"value": chassis["descr"]}],
                        "mgmt-ip": [{"value": one} for one in addresses],
                        "capability": chassis["capability"],
                    }
                ],
                "port": [port],
            }
        )
    return {"lldp": [{"interface": interfaces}]}


@pytest.mark.parametrize("shape", [as_list, as_json0])
def test_all_shapes_of_json_say_the_same(shape: object) -> None:
    text = json.dumps(shape(json.loads(DPU)), indent=1)
    assert lldpctl.PARSER.recognises(text.encode())
    assert values(lldpctl.PARSER, text) == values(lldpctl.PARSER, DPU)


def test_variants_of_the_frame() -> None:
    for text in ("root@h1:~# lldpctl -f json\n" + DPU, DPU.replace("\n", "\r\n"), "\ufeff" + DPU, json.dumps(json.loads(DPU))):
        assert lldpctl.PARSER.recognises(text.encode())
        assert values(lldpctl.PARSER, text) == values(lldpctl.PARSER, DPU)


def test_D18_a_neighbour_that_is_listed_several_times_is_one() -> None:
    document = json.loads(DPU)
    entry = document["lldp"]["interface"]["p0"]
    text = json.dumps({"lldp": {"interface": [{"p0": entry}, {"p0": entry}, {"p0": [entry]}]}})
    assert values(lldpctl.PARSER, text)["p0", "neighbor"] == "RNO1-M03-B17-IPMI-01"


def test_several_neighbours_of_an_interface_are_a_conflict() -> None:
    text = DPU.replace('"p1"', '"p0"', 1).replace("swp7", "swp8", 1)
    one = json.loads(DPU)["lldp"]["interface"]
    other = json.loads(DPU.replace("IPMI-01", "IPMI-02"))["lldp"]["interface"]
    parsed = parse(lldpctl.PARSER, json.dumps({"lldp": {"interface": [{"p0": one["p0"]}, {"p0": other["p0"]}]}}))
    named = [fact for fact in parsed.facts if fact.attribute == "neighbor"]
    assert [(fact.status, fact.value) for fact in named] == [
        (Status.CONFLICT, "RNO1-M03-B17-IPMI-01"),
        (Status.CONFLICT, "RNO1-M03-B17-IPMI-02"),
    ]
    assert parse(lldpctl.PARSER, text).facts  # a key that stands twice is not a fault of the parser


def test_a_chassis_without_a_name_is_known_by_its_address_and_says_so() -> None:
    entry = {"chassis": {"id": {"type": "mac", "value": "02:00:5e:00:00:07"}}, "port": {"id": {"type": "local", "value": "7"}}}
    found = facts(lldpctl.PARSER, json.dumps({"lldp": {"interface": {"eth0": entry}}}))
    assert found["eth0", "neighbor"].status is Status.UNKNOWN
    assert found["eth0", "peer"].value == "switch:02:00:5e:00:00:07/port:7"


def test_a_neighbour_that_is_a_station_is_a_host() -> None:
    text = DPU.replace('"Bridge"', '"Station"').replace('"Router"', '"Station"')
    assert values(lldpctl.PARSER, text)["p0", "peer"] == "node:RNO1-M03-B17-IPMI-01/nic:swp7"


def test_json_that_is_cut_says_nothing_but_why() -> None:
    parsed = parse(lldpctl.PARSER, DPU[:-40])
    assert (parsed.facts, "the JSON is broken" in parsed.skipped[0].reason) == ((), True)
    assert "no neighbour is in it" in parse(lldpctl.PARSER, '{"lldp": {}}').skipped[0].reason


def test_xml() -> None:
    found = facts(lldpctl_xml.PARSER, XML)
    eth0 = {attribute: fact.value for (interface, attribute), fact in found.items() if interface == "eth0"}
    assert eth0 == {
        "neighbor": "mgmt-sw-1",
        "neighbor-port": "swp12",
        "neighbor-port-description": "gpu-07:eth0",
        "neighbor-chassis-id": "02:00:5e:10:00:01",
        "neighbor-description": "Cumulus Linux version 5.9.1 running on Mellanox SN2201 & friends",
        "neighbor-addresses": ("192.0.2.11", "2001:db8::11"),
        "neighbor-capabilities": ("bridge",),
        "neighbor-frame-size": 9236,
        "peer": "switch:mgmt-sw-1/port:swp12",
    }
    assert found["ens3f0np0", "neighbor-port"].value == "Ethernet1/7"  # the id is an address, the description is its name
    assert found["ens3f0np0", "peer"].source.line == 20


def test_xml_that_is_cut_gives_the_whole_interfaces_only() -> None:
    whole = values(lldpctl_xml.PARSER, XML)
    for cut in range(0, len(XML), 11):
        assert set(values(lldpctl_xml.PARSER, XML[:cut]).items()) <= set(whole.items())
    half = parse(lldpctl_xml.PARSER, XML[: XML.index("Ethernet1/7")])
    assert {fact.subject for fact in half.facts} == {"node:h1/nic:eth0"}
    assert "read up to this place" in half.skipped[0].reason


def test_xml_with_entities_is_refused() -> None:
    parsed = parse(lldpctl_xml.PARSER, XML.replace("<lldp ", '<!DOCTYPE lldp [<!ENTITY a "b">]>\n<lldp ', 1))
    assert (parsed.facts, "refused" in parsed.skipped[0].reason) == ((), True)


def test_xml_of_an_encoding_that_does_not_exist_is_skipped() -> None:
    parsed = parse(lldpctl_xml.PARSER, XML.replace("UTF-8", "UDF-8"))
    assert (parsed.facts, "unknown encoding" in parsed.skipped[0].reason) == ((), True)
