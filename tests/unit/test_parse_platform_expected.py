"""What hosts are expected to be: Node Health Check of Azure, and imbue's golden versions (M5.1, P5, P23)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.discovery.parsers import imbue_health_checks, nhc_conf
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
NHC, GOLDEN = "nhc-conf/azure_nd96isr_h100_v5.conf", "expected-config/imbue_health_checks_config.json"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


@pytest.mark.parametrize(
    ("attribute", "number", "unit"),
    [
        ("gpu-count", 8, ""),
        ("nvme-count", 8, ""),
        ("infiniband-device-count", 8, ""),
        ("cpu-sockets", 2, ""),
        ("cpu-cores", 96, ""),
        ("memory-min", 1_915_071 * 2**20, "B"),
        ("memory-max", 1_915_071 * 2**20, "B"),
        ("memory-tolerance", 0.05, "1"),
        ("gpu-host-bandwidth-min", 48e9, "B/s"),
        ("gpu-peer-bandwidth-min", 335e9, "B/s"),
        ("nccl-all-reduce-bus-bandwidth-min:17179869184", 460e9, "B/s"),
        ("rdma-gpu-bandwidth-min", 380e9, "bit/s"),
    ],
)
def test_nhc_expectations_of_a_host(attribute: str, number: float, unit: str) -> None:
    found = fact(parse(nhc_conf.PARSER, text_of(NHC)), "expected:*", attribute)
    assert (found.value, found.unit) == (number, unit)


def test_nhc_adapters_and_checks_without_an_amount() -> None:
    parsed = parse(nhc_conf.PARSER, text_of(NHC))
    rates = [one.value for one in parsed.facts if one.attribute == "rate"]
    assert rates == [400e9] * 8
    assert value(parsed, "expected:*/nic:mlx5_ib7", "port") == 1
    assert value(parsed, "expected:*/nic:docker0", "present") is True
    assert value(parsed, "expected:*", "check:check_nvlink_status") is True
    assert value(parsed, "expected:*", "check:check_gpu_ecc") == "20000000 10000"
    assert parsed.skipped == ()


def test_nhc_masks_units_and_lines_that_are_no_checks() -> None:
    text = (
        "# a comment || check_gpu_count 4\n"
        "* || export PATH=/usr/bin\n"
        "gpu[01-08] || check_gpu_count 8 # eight\n"
        "/^cpu/ || check_hw_physmem 64GB 128GB\n"
        "{io[1-2]}\t||\tcheck_hw_physmem lots 1TB 0.1\n"
        "* || check_fs_mount_rw -f /home\n"
    )
    assert nhc_conf.PARSER.recognises(text.encode())
    parsed = parse(nhc_conf.PARSER, text)
    assert value(parsed, "expected:gpu[01-08]", "gpu-count") == 8
    assert value(parsed, "expected:%2F^cpu%2F", "memory-max") == 128 * 2**30
    least = fact(parsed, "expected:{io[1-2]}", "memory-min")
    assert (least.value, least.status) == (None, Status.UNKNOWN)
    assert value(parsed, "expected:{io[1-2]}", "memory-tolerance") == 0.1
    assert value(parsed, "expected:*", "check:check_fs_mount_rw") == "-f /home"
    assert [(one.line, one.reason) for one in parsed.skipped] == [(2, "1 lines that are no checks")]


def test_nhc_cut_windows_ends_and_shell_scripts() -> None:
    text = text_of(NHC)
    cut = parse(nhc_conf.PARSER, text[: text.index("1915071MB 5%")] + "19")
    assert not [one for one in cut.facts if one.attribute.startswith("memory")]
    assert "may be cut off" in cut.skipped[0].reason
    assert parse(nhc_conf.PARSER, text.replace("\n", "\r\n")).facts == parse(nhc_conf.PARSER, text).facts
    assert not nhc_conf.PARSER.recognises(b"#!/bin/sh\nset -e\nprobe || check_it\nexit 0\n")


def test_golden_versions() -> None:
    parsed = parse(imbue_health_checks.PARSER, text_of(GOLDEN))
    assert value(parsed, "expected:*", "ofed-version") == "23.10-1.1.9.0"
    assert value(parsed, "expected:*", "driver-version") == "535.129.03"
    assert value(parsed, "expected:*/gpu:*", "vbios-version") == "96.00.99.00.01"
    firmware = [one.value for one in parsed.facts if one.attribute == "firmware-version"]
    assert firmware == ["28.39.1002"] * 2  # once with a v before it, once without
    assert "expected:*" not in {one.subject for one in parsed.facts if one.value == ""}


def test_golden_adapters_are_eight_and_not_numbered_0_to_7() -> None:
    parsed = parse(imbue_health_checks.PARSER, text_of(GOLDEN))
    names = value(parsed, "expected:*", "infiniband-devices")
    assert names == tuple(f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 9, 10, 11))
    assert value(parsed, "expected:*", "infiniband-device-count") == 8
    assert value(parsed, "expected:*/nic:mlx5_11", "interface") == "ibp220s0"


def test_golden_lists_that_differ_are_a_conflict() -> None:
    text = text_of(GOLDEN)
    for other in (text.replace('"active_devices": "8"', '"active_devices": "9"'), text.replace('"mlx5_10": "ibp204s0",', "")):
        devices = fact(parse(imbue_health_checks.PARSER, other), "expected:*", "infiniband-devices")
        assert devices.status is Status.CONFLICT
    assert (
        "active_devices is 9"
        in fact(parse(imbue_health_checks.PARSER, other.replace('"8"', '"9"')), "expected:*", "infiniband-devices").note
    )


def test_golden_cut_and_windows_ends() -> None:
    text = text_of(GOLDEN)
    cut = parse(imbue_health_checks.PARSER, text[:900])
    assert cut.facts == ()
    assert "broken" in cut.skipped[0].reason
    assert parse(imbue_health_checks.PARSER, text.replace("\n", "\r\n")).facts == parse(imbue_health_checks.PARSER, text).facts
