"""ip link, ethtool and perftest: interfaces of hosts, and what was measured between them (M2, M5.3, M8.1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import ethtool, ip_link, perftest
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
LINKS = (FIXTURES / "ip-link/host_roce.json").read_text(encoding="utf-8")
ETHTOOL = (FIXTURES / "ethtool/three_ports.txt").read_text(encoding="utf-8")
BANDWIDTH = (FIXTURES / "perftest/ib_write_bw_gbits.txt").read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject.removeprefix("node:h1/"), fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


def test_ip_link_hardware() -> None:
    found = facts(ip_link.PARSER, LINKS)
    mtu = found["nic:ens3f0np0", "mtu"]
    assert (mtu.value, mtu.unit, mtu.source.line) == (9216, "B", 2)
    assert found["nic:ens3f0np0", "pci-bus-id"].value == "0000:1a:00.0"
    assert (found["nic:ens3f0np0", "state"].value, found["nic:ens3f1np1", "state"].value) == ("up", "down")
    assert (found["nic:ens3f0np0", "link-layer"].value, found["nic:ib0", "link-layer"].value) == ("ethernet", "infiniband")
    assert found["nic:ens3f1np1", "master"].value == "bond0"


def test_M81_ip_link_vxlan_is_an_interface_and_no_adapter() -> None:
    found = facts(ip_link.PARSER, LINKS)
    assert found["interface:vxlan10100", "vni"].value == 10100
    assert found["interface:vxlan10100", "mtu"].value == 9166
    assert found["interface:vxlan10100", "vxlan-learning"].value is False
    assert found["interface:vxlan10100", "state"].status is Status.UNKNOWN
    assert {subject for subject, _ in found if subject.startswith("nic:")} == {"nic:ens3f0np0", "nic:ens3f1np1", "nic:ib0"}
    assert "1 interfaces of containers" in parse(ip_link.PARSER, LINKS).skipped[0].reason


def test_ip_link_without_an_mtu_and_broken() -> None:
    document = json.loads(LINKS)
    del document[1]["mtu"]
    assert facts(ip_link.PARSER, json.dumps(document))["nic:ens3f0np0", "mtu"].status is Status.UNKNOWN
    cut = parse(ip_link.PARSER, LINKS[:-30])
    assert (cut.facts, "the JSON is broken" in cut.skipped[0].reason) == ((), True)


def test_ethtool_rates() -> None:
    found = facts(ethtool.PARSER, ETHTOOL)
    assert (found["nic:ens3f0np0", "rate"].value, found["nic:ens3f0np0", "rate"].unit) == (200_000_000_000, "bit/s")
    assert found["nic:ens3f0np0", "port-type"].value == "Direct Attach Copper"
    assert found["nic:ens3f1np1", "state"].value == "down"
    assert (found["nic:ens3f1np1", "rate"].status, found["nic:ens3f1np1", "duplex"].status) == (Status.UNKNOWN, Status.UNKNOWN)


def test_ethtool_speed_without_a_link_is_no_rate() -> None:
    found = facts(ethtool.PARSER, ETHTOOL)
    assert (found["nic:eth7", "rate"].status, "25000Mb/s" in found["nic:eth7", "rate"].note) == (Status.UNKNOWN, True)
    cut = facts(ethtool.PARSER, ETHTOOL[: ETHTOOL.index("\tLink detected")])
    assert cut["nic:ens3f0np0", "rate"].status is Status.UNKNOWN


RUN = "perftest:rdma-write-bw@mlx5_3"


def test_perftest_rates_of_each_size() -> None:
    found = facts(perftest.PARSER, BANDWIDTH)
    average = found[RUN, "measured-rate-average:65536"]
    assert (average.value, average.unit, average.source.line) == (391_520_000_000, "bit/s", 23)
    assert found[RUN, "measured-rate-average:8388608"].value == 392_610_000_000
    assert found[RUN, "measured-message-rate:65536"].value == 746_765
    assert (found[RUN, "queue-pairs"].value, found[RUN, "rdma-mtu"].value, found[RUN, "link-layer"].value) == (4, 4096, "infiniband")


def test_perftest_peak_of_zero_was_not_measured() -> None:
    assert facts(perftest.PARSER, BANDWIDTH)[RUN, "measured-rate-peak:8388608"].status is Status.UNKNOWN


@pytest.mark.parametrize(("unit", "rate"), [("MB/sec", 391.52 * 8 * 2**20), ("MiB/sec", 391.52 * 8 * 2**20), ("GB/fortnight", None)])
def test_perftest_units_are_taken_from_the_head_of_the_table(unit: str, rate: float | None) -> None:
    found = facts(perftest.PARSER, BANDWIDTH.replace("Gb/sec", unit))[RUN, "measured-rate-average:65536"]
    assert found.value == (None if rate is None else pytest.approx(rate, rel=1e-12))


def test_perftest_latency_and_repeated_runs() -> None:
    text = (
        "                    Send Latency Test\n Device         : mlx5_0\n"
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
        "99% percentile[usec]   99.9% percentile[usec]\n"
        " 2       1000          1.05           5.21         1.08               1.10           0.05            1.30           5.21\n"
    )
    found = facts(perftest.PARSER, text + text.replace("1.05", "1.06"))
    run = "perftest:send-latency@mlx5_0"
    assert found[run, "measured-delay-min:2"].value == 1.05e-6
    assert found[run, "measured-delay-p99:2"].value == 1.3e-6
    assert found[f"{run}#2", "measured-delay-min:2"].value == 1.06e-6


def test_perftest_broken_off_and_rows_that_are_no_rows() -> None:
    cut = BANDWIDTH[: BANDWIDTH.index(" 65536")]
    assert facts(perftest.PARSER, cut)[RUN, "measured-rate-average"].status is Status.UNKNOWN
    inside = facts(perftest.PARSER, BANDWIDTH[: BANDWIDTH.index("0.746765") + 4])
    assert (RUN, "measured-rate-average:65536") not in inside
    comma = parse(perftest.PARSER, BANDWIDTH.replace("391.52", "391,52"))
    assert "not a whole row" in comma.skipped[0].reason


@pytest.mark.parametrize(
    ("parser", "text"),
    [(ethtool.PARSER, ETHTOOL), (perftest.PARSER, BANDWIDTH), (ip_link.PARSER, LINKS)],
    ids=["ethtool", "perftest", "ip-link"],
)
def test_line_ends_and_prompt_change_nothing(parser: Parser, text: str) -> None:
    other = "root@h1:~# tool\r\n" + text.replace("\n", "\r\n")
    assert parser.recognises(other.encode())
    assert {key: fact.value for key, fact in facts(parser, other).items()} == {key: fact.value for key, fact in facts(parser, text).items()}


@pytest.mark.parametrize(("parser", "text"), [(ethtool.PARSER, ETHTOOL), (perftest.PARSER, BANDWIDTH)], ids=["ethtool", "perftest"])
def test_a_cut_anywhere_gives_no_other_value(parser: Parser, text: str) -> None:
    whole = facts(parser, text)
    for cut in range(0, len(text), 7):
        for key, fact in facts(parser, text[:cut]).items():
            if fact.status is Status.KNOWN:
                assert whole[key].value == fact.value
