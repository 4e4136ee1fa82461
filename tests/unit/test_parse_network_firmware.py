"""flint, mlxfwmanager and iblinkinfo (M2, M3; F03, F04)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.discovery.parsers import flint, iblinkinfo, mlxfwmanager
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
FLINT = (FIXTURES / "firmware/flint_query_bf2.txt").read_text(encoding="utf-8")
CARDS = (FIXTURES / "firmware/mlxfwmanager_two_cards.txt").read_text(encoding="utf-8")
LINKS = (FIXTURES / "iblinkinfo/leaf_two_hosts.txt").read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject, fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


def of(parser: Parser, text: str, subject: str) -> dict[str, object]:
    return {attribute: fact.value for (one, attribute), fact in facts(parser, text).items() if one == subject}


BLUEFIELD = "adapter:b83fd20300909694"


def test_flint_query_of_a_bluefield() -> None:
    found = of(flint.PARSER, FLINT, BLUEFIELD)
    assert found["firmware-version"] == "24.35.2000"
    assert found["psid"] == "MT_0000000768"
    assert found["mac-address"] == "b83fd2909694"
    assert found["guid"] == "b83fd20300909694"
    assert found["part-number"] == "MBF2H536C-CECO_Ax_Bx"
    assert str(found["product-description"]).startswith("BlueField-2 P-Series DPU 100GbE Dual-Port")  # not the head of the table below
    assert (found["life-cycle"], found["security-attributes"], found["found-on"]) == ("GA SECURED", "secure-fw", "node:h1")


def test_flint_rom_info_goes_over_several_lines() -> None:
    found = of(flint.PARSER, FLINT, BLUEFIELD)
    assert found["boot-codes"] == (
        "type=UEFI Virtio net version=21.4.10 cpu=AMD64,AARCH64",
        "type=UEFI Virtio blk version=22.4.10 cpu=AMD64,AARCH64",
        "type=UEFI version=14.28.16 cpu=AMD64,AARCH64",
        "type=PXE version=3.6.805 cpu=AMD64",
    )
    assert (found["uefi-version"], found["pxe-version"]) == ("14.28.16", "3.6.805")
    indented = FLINT.replace("\ntype=", "\n                       type=")
    assert of(flint.PARSER, indented, BLUEFIELD) == found


def test_flint_of_two_devices_in_one_file() -> None:
    both = facts(flint.PARSER, FLINT + FLINT.replace("b83fd20300909694", "b83fd20300909777").replace("b83fd2909694", "b83fd2909777"))
    assert {subject for subject, _ in both} == {BLUEFIELD, "adapter:b83fd20300909777"}


def test_mlxfwmanager_takes_the_current_version_and_not_the_available_one() -> None:
    assert of(mlxfwmanager.PARSER, CARDS, "adapter:98039b0300aa0310") == {
        "guid": "98039b0300aa0310",
        "mac-address": "98039baa0310",
        "found-on": "node:h1",
        "pci-bus-id": "0000:1a:00.0",
        "product-name": "ConnectX7",
        "part-number": "MCX75310AAS-NEA_Ax",
        "product-description": "NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB (default mode); Single-port OSFP; PCIe 5.0 x16",
        "psid": "MT_0000000838",
        "firmware-version": "28.39.1002",
        "firmware-available-seen": "28.43.1014",
        "firmware-status-seen": "Update required",
        "pxe-version": "3.7.201",  # as flint writes it
        "uefi-version": "14.32.12",
    }


def test_mlxfwmanager_card_without_a_guid_is_known_by_its_mac_address() -> None:
    found = facts(mlxfwmanager.PARSER, CARDS)
    assert found["adapter:98039baa0488", "firmware-version"].value == "22.36.1010"
    assert found["adapter:98039baa0488", "firmware-available-seen"].status is Status.UNKNOWN
    assert found["adapter:98039baa0488", "part-number"].status is Status.UNKNOWN
    assert found["adapter:98039baa0488", "product-description"].status is Status.UNKNOWN
    assert found["adapter:98039baa0488", "device-file"].value == "/dev/mst/mt4125_pciconf0"


LEAF = "switch:98039b0300ff0100"


def test_iblinkinfo_finds_the_other_end_by_its_address() -> None:
    found = facts(iblinkinfo.PARSER, LINKS)
    pairs = {subject: str(fact.value) for (subject, attribute), fact in found.items() if attribute == "peer" and fact.value}
    assert all(pairs[peer] == port for port, peer in pairs.items())
    assert pairs[f"{LEAF}/port:1"] == "adapter:98039b0300aa0710/port:1"
    assert found[f"{LEAF}/port:1", "rate"].value == 400_000_000_000
    assert (found[LEAF, "name"].value, found[LEAF, "lid"].value) == ("leaf-a-01", 3)
    assert found["adapter:98039b0300aa0710", "host"].value == "gpu-07"


def test_F03_iblinkinfo_aggregation_nodes_are_no_hosts() -> None:
    found = facts(iblinkinfo.PARSER, LINKS)
    assert found["adapter:98039b0300ff0108", "role"].value == "aggregation-node"
    assert ("adapter:98039b0300ff0108", "host") not in found
    assert found["adapter:98039b0300aa0810", "host"].status is Status.UNKNOWN


def test_F04_iblinkinfo_an_end_that_is_not_described_and_ports_that_are_down() -> None:
    found = facts(iblinkinfo.PARSER, LINKS)
    silent = found[f"{LEAF}/port:3", "peer"]
    assert (silent.status, "port 7 of LID 41, 'MF0;spine-a-01" in silent.note) == (Status.UNKNOWN, True)
    assert found[f"{LEAF}/port:3", "state"].value == "up"
    for port, physical in (("4", "polling"), ("5", "disabled")):
        assert found[f"{LEAF}/port:{port}", "state"].value == "down"
        assert found[f"{LEAF}/port:{port}", "rate"].status is Status.UNKNOWN
        assert found[f"{LEAF}/port:{port}", "physical-state"].value == physical


def test_iblinkinfo_link_that_is_below_its_best_says_so() -> None:
    found = facts(iblinkinfo.PARSER, LINKS)
    assert found[f"{LEAF}/port:2", "degraded-seen"].value == "Could be 4X"
    assert (found[f"{LEAF}/port:2", "width"].value, found[f"{LEAF}/port:2", "rate"].value) == (2, 200_000_000_000)
    assert (f"{LEAF}/port:1", "degraded-seen") not in found


def test_iblinkinfo_one_line_a_link_does_not_tell_switches_from_adapters() -> None:
    line = (
        '0x98039b0300ff0100 "     MF0;leaf-a-01:MQM9700/U1"    3    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==> '
        '0x98039b0300aa0710    7    1[  ] "gpu-07 HCA-1" ( )\n'
    )
    parsed = parse(iblinkinfo.PARSER, line)
    assert iblinkinfo.PARSER.recognises(line.encode())
    assert (parsed.facts, "without -l tells it" in parsed.skipped[0].reason) == ((), True)


@pytest.mark.parametrize(
    ("parser", "text"),
    [(flint.PARSER, FLINT), (mlxfwmanager.PARSER, CARDS), (iblinkinfo.PARSER, LINKS)],
    ids=["flint", "mlxfwmanager", "iblinkinfo"],
)
def test_cuts_and_line_ends(parser: Parser, text: str) -> None:
    whole = facts(parser, text)
    windows = facts(parser, "# tool\r\n" + text.replace("\n", "\r\n"))
    assert {key: fact.value for key, fact in windows.items()} == {key: fact.value for key, fact in whole.items()}
    counted = ("one-sided-seen", "boot-codes")
    for cut in range(0, len(text), 17):
        for (subject, attribute), fact in facts(parser, text[:cut]).items():
            if fact.status is Status.KNOWN and "?" not in subject and attribute not in counted and (subject, attribute) in whole:
                assert whole[subject, attribute].value == fact.value
