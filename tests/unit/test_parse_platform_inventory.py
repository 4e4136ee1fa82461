"""lspci and dmidecode: what is on the bus and in the slots, virtual parts and placeholders told apart (M2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.discovery.parsers import dmidecode, lspci
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


PCI = "lspci/lspci_nn_a100.txt"


def test_lspci_gpus_switches_and_virtual_functions() -> None:
    parsed = parse(lspci.PARSER, text_of(PCI))
    assert value(parsed, "node:h1", "gpu-count-pci") == 8
    assert value(parsed, "node:h1", "pci-count:10de:20b2") == 8
    assert value(parsed, "node:h1", "nvswitch-count-pci") == 6
    assert value(parsed, "node:h1", "pci-count:10de:1af1") == 6
    virtual = {one.subject for one in parsed.facts if one.attribute == "virtual-function"}
    assert len(virtual) == 9  # eight of InfiniBand, one of Ethernet
    assert value(parsed, "node:h1/pci:0101:00:00.0", "pci-id") == "15b3:101c"
    assert value(parsed, "node:h1/pci:000e:00:00.0", "model") == "NVIDIA Corporation GA100 [A100 SXM4 80GB]"
    assert len({one.subject.split(":")[2] for one in parsed.facts if one.value == "10de:20b2"}) == 8  # a PCI domain each
    assert value(parsed, "node:h1", "pci-count:1414:b111") == 8
    assert parsed.skipped == ()


def test_lspci_without_domains_and_with_details() -> None:
    text = (
        "00:00.0 Host bridge [0600]: Acme Bridge [8086:09a2] (rev 04)\n"
        "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n"
        "\tSubsystem: NVIDIA Corporation Device [10de:16c1]\n"
        "\tNUMA node: 1\n"
        "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
        "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n"
        "\tKernel driver in use: nvidia\n"
        "03:00.0 VGA compatible controller [0300]: ASPEED Technology, Inc. Graphics [1a03:2000] (rev 41)\n"
    )
    parsed = parse(lspci.PARSER, text)
    gpu = "node:h1/pci:0000:17:00.0"
    assert value(parsed, gpu, "numa-node") == 1
    assert value(parsed, gpu, "kernel-driver") == "nvidia"
    assert (value(parsed, gpu, "pcie-generation-max"), value(parsed, gpu, "pcie-width-max")) == (5, 16)
    assert (value(parsed, gpu, "pcie-generation-seen"), value(parsed, gpu, "pcie-width-seen")) == (1, 8)
    assert value(parsed, "node:h1", "gpu-count-pci") == 1  # the graphics of the management controller is no GPU
    assert parsed.skipped[0].reason == "1 devices of other kinds, such as bridges"


def test_D09_lspci_device_that_fell_off_the_bus_is_not_counted() -> None:
    parsed = parse(lspci.PARSER, text_of(PCI).replace("[10de:20b2] (rev a1)", "[10de:20b2] (rev ff)", 1) + "\n")
    assert value(parsed, "node:h1", "gpu-count-pci") == 7
    assert value(parsed, "node:h1/pci:0001:00:00.0", "state") == "lost"


def test_lspci_that_is_cut_counts_nothing() -> None:
    text = text_of(PCI)
    parsed = parse(lspci.PARSER, text[: text.index("000d:00:00.0") + 60])
    count = fact(parsed, "node:h1", "gpu-count-pci")
    assert (count.value, count.status) == (None, Status.UNKNOWN)
    assert "at least 6" in count.note
    assert "cut off" in parsed.skipped[0].reason


def test_lspci_without_numbers_asks_for_them() -> None:
    parsed = parse(
        lspci.PARSER, "17:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n18:00.0 Bridge: NVIDIA Corporation X (rev a1)\n"
    )
    assert parsed.facts == ()
    assert "run lspci -nn" in parsed.skipped[0].reason


def test_lspci_windows_ends_and_a_prompt() -> None:
    text = text_of(PCI)
    prompt = "$ lspci -nn\n" + text
    assert lspci.PARSER.recognises(prompt.encode())
    for other in (text.replace("\n", "\r\n"), prompt):
        assert {(one.subject, one.attribute, one.value) for one in parse(lspci.PARSER, other).facts} == {
            (one.subject, one.attribute, one.value) for one in parse(lspci.PARSER, text).facts
        }


DMI = "dmidecode/two_sockets.txt"


def test_dmidecode_host_memory_and_supplies() -> None:
    parsed = parse(dmidecode.PARSER, text_of(DMI))
    node = "node:h1"
    assert (value(parsed, node, "model"), value(parsed, node, "serial"), value(parsed, node, "units")) == ("Trainer T8", "T8X0004711", 8)
    assert value(parsed, node, "bios-version") == "2.14.1"
    assert (value(parsed, node, "cpu-sockets"), value(parsed, node, "cpu-cores"), value(parsed, node, "cpu-threads")) == (2, 112, 224)
    memory = fact(parsed, node, "memory-installed")
    assert (memory.value, memory.unit) == (128 * 2**30, "B")  # 64 GB and 65536 MB are the same
    assert (value(parsed, node, "memory-slot-count"), value(parsed, node, "memory-module-count")) == (3, 2)
    assert value(parsed, f"{node}/supply:PSU1", "nameplate-power") == 3000
    assert fact(parsed, f"{node}/supply:PSU2", "nameplate-power").status is Status.UNKNOWN


def test_dmidecode_placeholders_are_no_values() -> None:
    parsed = parse(dmidecode.PARSER, text_of(DMI).replace("T8X0004711", "0123456789"))
    for attribute in ("serial", "sku", "asset-tag"):
        assert fact(parsed, "node:h1", attribute).status is Status.UNKNOWN


def test_dmidecode_module_of_unknown_size_gives_no_sum() -> None:
    parsed = parse(dmidecode.PARSER, text_of(DMI).replace("Size: 64 GB", "Size: Unknown"))
    memory = fact(parsed, "node:h1", "memory-installed")
    assert (memory.value, memory.status, memory.note) == (None, Status.UNKNOWN, "of 2 parts only 1 say it")


@pytest.mark.parametrize("end", ["A2", "Locator: A3", "Handle 0x1102", "End Of Table"])
def test_dmidecode_that_is_cut_gives_no_sum(end: str) -> None:
    text = text_of(DMI)
    parsed = parse(dmidecode.PARSER, text[: text.index(end)])
    for attribute in ("memory-installed", "cpu-cores"):
        assert fact(parsed, "node:h1", attribute).status is Status.UNKNOWN


def test_dmidecode_of_one_kind_needs_no_end_mark() -> None:
    text = text_of(DMI)
    memory = "# dmidecode 3.3\n\n" + text[text.index("Handle 0x1100") : text.index("Handle 0x2700")]
    assert value(parse(dmidecode.PARSER, memory), "node:h1", "memory-installed") == 128 * 2**30
    assert value(parse(dmidecode.PARSER, memory.replace("\n", "\r\n")), "node:h1", "memory-installed") == 128 * 2**30


def test_first_of_two_processors_says_no_version() -> None:
    text = """# dmidecode 3.3
Getting SMBIOS data from sysfs.
SMBIOS 3.3.0 present.

Handle 0x0000, DMI type 0, 26 bytes
BIOS Information
\tVendor: Acme

Handle 0x0040, DMI type 4, 48 bytes
Processor Information
\tStatus: Populated, Enabled
\tCore Count: 8

Handle 0x0041, DMI type 4, 48 bytes
Processor Information
\tVersion: Acme CPU 9000
\tStatus: Populated, Enabled
\tCore Count: 8

"""
    facts = {fact.attribute: fact for fact in dmidecode.PARSER.parse(Capture("f", text.encode(), "n1")).facts}
    assert (facts["cpu-model"].value, facts["cpu-model"].source.line) == ("Acme CPU 9000", 16)
