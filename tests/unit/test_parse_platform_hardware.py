"""Reports of NVIDIA's bare-metal manager: a product that its GPUs contradict, places in the rack, disks by serial number (M2, P23)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.parsers.hardware_info import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "hardware-info"
TRAY, REPORT = "ncx_gb200_compute_tray_1.json", "ncx_dell_site_explorer_report.json"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(text: str, *, host: str = "h1") -> Parsed:
    assert PARSER.recognises(text.encode())
    return PARSER.parse(Capture("f", text.encode(), host))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def test_product_that_its_gpus_contradict_is_reported() -> None:
    parsed = parse(text_of(TRAY))
    product = fact(parsed, "node:h1", "model")
    assert (product.value, product.status, product.source.line) == ("GB200 NVL", Status.CONFLICT, 27)
    assert "NVIDIA H100 PCIe" in product.note
    gpus = [one for one in parsed.facts if one.attribute == "model" and "/gpu:" in one.subject]
    assert [(one.value, one.status) for one in gpus] == [("NVIDIA H100 PCIe", Status.CONFLICT)] * 4


def test_gpus_versions_and_places() -> None:
    parsed = parse(text_of(TRAY))
    assert value(parsed, "node:h1", "gpu-count") == 4
    assert value(parsed, "node:h1", "driver-version") == "530.30.02"
    for index in range(4):
        gpu = f"node:h1/gpu:{index}"
        assert value(parsed, gpu, "vbios-version") == "96.00.30.00.01"
        assert (value(parsed, gpu, "tray-index"), value(parsed, gpu, "slot-number"), value(parsed, gpu, "module-id")) == (0, 0, index)
        assert value(parsed, gpu, "fabric-guid") == f"688ad73d9db488cb1797848{index}"
        assert value(parsed, gpu, "memory-total") == 81559 * 2**20
        assert value(parsed, gpu, "pci-bus-id") == f"0000:17:00.{index}"
    assert value(parsed, "node:h1/nic:ibp178s0f1", "guid") == "946dae03002ac100"
    assert value(parsed, "node:h1/nic:eno8303", "mac-address") == "70:b5:e8:f0:50:28"


def test_partitions_are_no_disks() -> None:
    parsed = parse(text_of(TRAY))
    disks = {one.subject for one in parsed.facts if "/disk:" in one.subject}
    assert disks == {"node:h1/disk:61M0A0D2TCD8", "node:h1/disk:e932d5c34b090010"}
    assert "2 disks of which only partitions are listed" in parsed.skipped[0].reason


@pytest.mark.parametrize(
    ("product", "gpu", "status"),
    [
        ("GB200 NVL", "NVIDIA B200", Status.KNOWN),
        ("GB200 NVL", "NVIDIA GB200", Status.KNOWN),
        ("DGXH100", "NVIDIA H100 80GB HBM3", Status.KNOWN),
        ("DGXH100", "NVIDIA H200", Status.CONFLICT),
        ("PowerEdge XE9680", "NVIDIA H100 80GB HBM3", Status.KNOWN),
    ],
)
def test_names_of_products_and_gpus(product: str, gpu: str, status: Status) -> None:
    parsed = parse(text_of(TRAY).replace("GB200 NVL", product).replace("NVIDIA H100 PCIe", gpu))
    assert fact(parsed, "node:h1", "model").status is status
    assert fact(parsed, "node:h1/gpu:0", "model").status is status


def test_explorer_report_of_a_dell_host() -> None:
    parsed = parse(text_of(REPORT))
    assert value(parsed, "node:h1", "model") == "PowerEdge R750"
    assert value(parsed, "node:h1", "serial") == "MXFC40025U02UX"
    assert value(parsed, "node:h1/bmc-nic:NIC.1", "mac-address") == "c8:4b:d6:7a:a7:64"
    assert value(parsed, "node:h1/adapter:NIC.Slot.5", "model") == "BlueField-2 SmartNIC Main Card"
    assert fact(parsed, "node:h1/adapter:NIC.Embedded.1", "model").status is Status.UNKNOWN
    assert value(parsed, "node:h1/nic:NIC.Slot.5-1", "enabled-seen") is False
    nameless = parse(text_of(REPORT), host="")
    assert value(nameless, "chassis:MXFC40025U02UX", "model") == "PowerEdge R750"


def test_exploration_that_failed_is_said() -> None:
    parsed = parse(text_of(REPORT).replace('"LastExplorationError": null', '"LastExplorationError": {"Type": "Unauthorized"}'))
    assert "Unauthorized" in parsed.skipped[0].reason


def test_module_without_a_size_gives_no_sum() -> None:
    document = json.loads(text_of(TRAY))
    document["memory_devices"][0]["size_mb"] = None
    memory = fact(parse(json.dumps(document)), "node:h1", "memory-installed")
    assert (memory.value, memory.status) == (None, Status.UNKNOWN)
    assert value(parse(text_of(TRAY)), "node:h1", "memory-installed") == 2 * 2**30


def test_cut_report_gives_nothing_but_the_line() -> None:
    text = text_of(TRAY)
    parsed = PARSER.parse(Capture("f", text[: text.index("1754422005699")].encode(), "h1"))
    assert parsed.facts == ()
    assert "broken" in parsed.skipped[0].reason


def test_windows_line_ends_change_nothing() -> None:
    for name in (TRAY, REPORT):
        assert parse(text_of(name).replace("\n", "\r\n")).facts == parse(text_of(name)).facts
