"""ibv_devinfo and ibstat: devices, ports, and what they print where there is no link (M2, M3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import ibstat, ibv_devinfo
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
DEVINFO = (FIXTURES / "ibv_devinfo/virtual_2ib_1eth_verbose.txt").read_text(encoding="utf-8")
IBSTAT = (FIXTURES / "ibstat/five_ports.txt").read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    found = {(fact.subject.removeprefix("node:h1/nic:"), fact.attribute): fact for fact in parse(parser, text).facts}
    assert len(found) == len(parse(parser, text).facts)
    return found


def values(parser: Parser, text: str, nic: str) -> dict[str, object]:
    return {attribute: fact.value for (subject, attribute), fact in facts(parser, text).items() if subject == nic}


def test_ibv_devinfo_of_a_virtual_infiniband_function() -> None:
    assert values(ibv_devinfo.PARSER, DEVINFO, "mlx5_ib0") == {
        "firmware-version": "28.41.1000",
        "guid": "0017aafffe010001",
        "system-image-guid": "a288c20300112230",
        "model": "MT4126",
        "psid": "XYZ0000000001",
        "state": "active",
        "rate": 400_000_000_000,
        "link-layer": "infiniband",
        "lid": 311,
        "subnet-manager-lid": 1,
        "rdma-mtu": 4096,
        "rdma-mtu-max": 4096,
        "physical-state": "linkup",
    }
    assert facts(ibv_devinfo.PARSER, DEVINFO)["mlx5_ib0", "lid"].source.line == 16


def test_ibv_devinfo_ethernet_has_no_lid_and_its_zero_image_guid_is_unknown() -> None:
    found = facts(ibv_devinfo.PARSER, DEVINFO)
    assert found["mlx5_an0", "link-layer"].value == "ethernet"
    image = found["mlx5_an0", "system-image-guid"]
    assert (image.status, "names no one device" in image.note) == (Status.UNKNOWN, True)
    assert found["mlx5_an0", "rdma-mtu"].value == 1024
    assert found["mlx5_an0", "rate"].value == 100_000_000_000
    assert ("mlx5_an0", "lid") not in found


def test_ibv_devinfo_port_that_is_down_has_no_rate_and_no_lid() -> None:
    found = facts(ibv_devinfo.PARSER, DEVINFO)
    assert found["mlx5_ib1", "state"].value == "down"
    assert found["mlx5_ib1", "rate"].status is Status.UNKNOWN
    assert "4X 2.5 Gbps" in found["mlx5_ib1", "rate"].note
    assert found["mlx5_ib1", "lid"].status is Status.UNKNOWN


def test_ibv_devinfo_without_v_says_no_rate() -> None:
    short = "\n".join(line for line in DEVINFO.split("\n") if "active_w" not in line and "active_s" not in line)
    assert not [key for key in facts(ibv_devinfo.PARSER, short) if key[1] == "rate"]


def test_ibstat_ports() -> None:
    assert values(ibstat.PARSER, IBSTAT, "mlx5_0") == {
        "guid": "98039b0300000010",
        "system-image-guid": "98039b0300000010",
        "firmware-version": "28.39.1002",
        "model": "MT4129",
        "state": "active",
        "physical-state": "linkup",
        "rate": 400_000_000_000,
        "link-layer": "infiniband",
        "lid": 42,
        "subnet-manager-lid": 1,
        "port-guid": "98039b0300000011",
    }


def test_ibstat_rate_of_a_port_that_is_down_is_no_rate() -> None:
    found = facts(ibstat.PARSER, IBSTAT)
    assert (found["mlx5_1", "state"].value, found["mlx5_1", "rate"].status) == ("down", Status.UNKNOWN)
    assert found["mlx5_1", "lid"].note == "the tool printed 65535, which is no address"
    assert (found["mlx5_2", "state"].value, found["mlx5_2", "rate"].value) == ("initializing", 200_000_000_000)


def test_ibstat_ports_of_one_device_are_adapters_of_their_own() -> None:
    found = facts(ibstat.PARSER, IBSTAT)
    assert (found["mlx4_3:1", "rate"].value, found["mlx4_3:1", "link-layer"].value) == (56_000_000_000, "infiniband")
    assert (found["mlx4_3:2", "rate"].value, found["mlx4_3:2", "link-layer"].value) == (40_000_000_000, "ethernet")
    assert found["mlx4_3:1", "guid"].value == found["mlx4_3:2", "guid"].value
    assert not [key for key in found if key[0] == "mlx4_3"]


def test_both_tools_use_the_same_words() -> None:
    told = "mlx5_0", DEVINFO.replace("mlx5_ib0", "mlx5_0").replace("LINK_UP", "LinkUp")
    one, other = values(ibv_devinfo.PARSER, told[1], told[0]), values(ibstat.PARSER, IBSTAT, "mlx5_0")
    for attribute in ("state", "rate", "link-layer", "physical-state", "subnet-manager-lid"):
        assert one[attribute] == other[attribute]


@pytest.mark.parametrize(("parser", "text"), [(ibv_devinfo.PARSER, DEVINFO), (ibstat.PARSER, IBSTAT)], ids=["ibv_devinfo", "ibstat"])
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "[root@h1 ~]# tool\n" + text,
        lambda text: "\n".join(line.replace("\t", "    ") for line in text.split("\n")),
        lambda text: text.replace("\n", "\n\n"),
    ],
    ids=["windows", "prompt", "blanks", "empty-lines"],
)
def test_variants_say_the_same(parser: Parser, text: str, change: Callable[[str], str]) -> None:
    assert parser.recognises(change(text).encode())
    assert {key: fact.value for key, fact in facts(parser, change(text)).items()} == {
        key: fact.value for key, fact in facts(parser, text).items()
    }


@pytest.mark.parametrize(("parser", "text"), [(ibv_devinfo.PARSER, DEVINFO), (ibstat.PARSER, IBSTAT)], ids=["ibv_devinfo", "ibstat"])
def test_a_cut_anywhere_says_nothing_else(parser: Parser, text: str) -> None:
    whole = {key: fact.value for key, fact in facts(parser, text).items()}
    for cut in range(0, len(text), 7):
        for (nic, attribute), fact in facts(parser, text[:cut]).items():
            if fact.status is Status.KNOWN:
                assert whole.get((nic, attribute), whole.get((f"{nic}:1", attribute))) == fact.value


def test_a_device_that_lost_its_ports_has_no_state() -> None:
    cut = IBSTAT[: IBSTAT.index("\tPort 1:")]
    assert facts(ibstat.PARSER, cut)["mlx5_0", "state"].status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("state", "status"), [("PORT_NOP (0)", Status.UNKNOWN), ("invalid state (9)", Status.UNKNOWN), ("PORT_ARMED (3)", Status.KNOWN)]
)
def test_states_that_nobody_knows_are_unknown(state: str, status: Status) -> None:
    changed = DEVINFO.replace("PORT_ACTIVE (4)", state)
    found = facts(ibv_devinfo.PARSER, changed)
    assert found["mlx5_ib0", "state"].status is status
    assert found["mlx5_ib0", "rate"].status is status
