"""nvidia-smi nvlink, and messages of nvidia-smi that stand alone or before other output (M2, D08, D13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.parsers import nvidia_smi_csv, nvidia_smi_error, nvidia_smi_nvlink, nvidia_smi_q, nvidia_smi_topo, nvidia_smi_xml
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
NODE = "node:h1"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def links(text: str) -> Parsed:
    assert nvidia_smi_nvlink.PARSER.recognises(text.encode())
    return parse(nvidia_smi_nvlink.PARSER, text)


def counts(parsed: Parsed, gpu: int) -> tuple[object, object]:
    """Active and total."""
    return (fact(parsed, f"{NODE}/gpu:{gpu}", "nvlinks-active").value, fact(parsed, f"{NODE}/gpu:{gpu}", "nvlinks-total").value)


def test_nvlink_status_of_eight_gpus() -> None:
    parsed = links(text_of("nvidia-smi-nvlink/a100_status_all.txt"))
    assert [counts(parsed, gpu) for gpu in range(8)] == [(12, 12)] * 8
    rates = [one for one in parsed.facts if one.attribute == "bandwidth"]
    assert {(one.value, one.unit) for one in rates} == {(25_000_000_000, "B/s")}
    assert len(rates) == 96
    last = fact(parsed, f"{NODE}/gpu:7/nvlink:11", "active")
    assert (last.value, last.source.line) == (True, 104)
    assert fact(parsed, f"{NODE}/gpu:3", "uuid").value == "GPU-6e4fbadc-10d9-a63a-8988-9a0d320ff1a0"
    assert fact(parsed, f"{NODE}/gpu:3", "model").value == "NVIDIA A100-SXM4-80GB"
    assert parsed.skipped == ()


def test_nvlink_twelve_good_links() -> None:
    parsed = links(text_of("nvidia-smi-nvlink/good_12_links_a100.txt"))
    assert counts(parsed, 7) == (12, 12)
    assert {one.value for one in parsed.facts if one.attribute == "bandwidth"} == {25_000_000_000}


def test_D13_all_links_inactive_is_none_active_of_unknown() -> None:
    parsed = links(text_of("nvidia-smi-nvlink/all_links_inactive_a100.txt"))
    assert counts(parsed, 6) == (0, None)
    total = fact(parsed, f"{NODE}/gpu:6", "nvlinks-total")
    assert total.status is Status.UNKNOWN
    assert "all links are inactive" in total.note


def test_nvlink_two_of_six_inactive() -> None:
    parsed = links(text_of("nvidia-smi-nvlink/v100_two_inactive.txt"))
    assert counts(parsed, 5) == (4, 6)
    down = {one.subject for one in parsed.facts if one.attribute == "active" and one.value is False}
    assert down == {f"{NODE}/gpu:5/nvlink:0", f"{NODE}/gpu:5/nvlink:4"}
    assert not [one for one in parsed.facts if one.attribute == "bandwidth" and one.subject in down]


def test_nvlink_variants_say_the_same() -> None:
    text = text_of("nvidia-smi-nvlink/v100_two_inactive.txt")
    said = {(one.subject, one.attribute, one.value) for one in links(text).facts}
    for other in (text.replace("\n", "\r\n"), text.replace("         ", "\t "), "$ nvidia-smi nvlink -s\n\n" + text):
        assert {(one.subject, one.attribute, one.value) for one in links(other).facts} == said


def test_nvlink_list_that_is_cut_gives_no_count_of_its_last_gpu() -> None:
    text = text_of("nvidia-smi-nvlink/good_12_links_a100.txt")
    cut = links(text[: text.index("Link 9") + len("Link 9: 25 GB/s")])
    assert counts(cut, 7) == (None, None)
    assert fact(cut, f"{NODE}/gpu:7/nvlink:9", "active").value is True
    inside = links(text[: text.index("Link 11") + len("Link 11: 2")])
    assert counts(inside, 7) == (None, None)
    assert not [one for one in inside.facts if "nvlink:11" in one.subject]
    # Where the cut falls between two lines, only the other GPUs tell.
    eight = text_of("nvidia-smi-nvlink/a100_status_all.txt").splitlines(keepends=True)
    assert counts(links("".join(eight[:100])), 7) == (None, None)
    assert counts(links("".join(eight[:100])), 6) == (12, 12)


def test_nvlink_counters_peers_and_capabilities() -> None:
    head = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
    errors = links(head + "\t Link 0: Replay Errors: 3\n\t Link 0: CRC Errors: N/A\n")
    assert fact(errors, f"{NODE}/gpu:0/nvlink:0", "counter-seen:replay-errors").value == 3
    assert fact(errors, f"{NODE}/gpu:0/nvlink:0", "counter-seen:crc-errors").status is Status.UNKNOWN
    assert not [one for one in errors.facts if one.attribute.startswith("nvlinks")]
    peer = links(head + "\t Link 4: Remote Device 00000008:00:00.0: Link 15\n")
    assert fact(peer, f"{NODE}/gpu:0/nvlink:4", "peer-pci-bus-id").value == "0008:00:00.0"
    assert fact(peer, f"{NODE}/gpu:0/nvlink:4", "peer-link").value == 15
    able = links(head + "\t Link 0, P2P is supported: true\n\t Link 0, SLI is supported: false\n")
    assert fact(able, f"{NODE}/gpu:0/nvlink:0", "capability:p2p").value is True
    assert fact(able, f"{NODE}/gpu:0/nvlink:0", "capability:sli").value is False


def test_nvlink_that_the_tool_cannot_read_is_unknown() -> None:
    head = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
    parsed = links(head + "\t Link 0: 26.562 GB/s\n\t Link 1: [Unknown Error]\n")
    assert fact(parsed, f"{NODE}/gpu:0/nvlink:1", "active").status is Status.UNKNOWN
    assert counts(parsed, 0) == (None, None)


def test_D08_unknown_error_names_the_gpu() -> None:
    text = text_of("nvidia-smi-error/handle_unknown.txt")
    parsed = parse(nvidia_smi_error.PARSER, text)
    assert fact(parsed, f"{NODE}/gpu:5", "state").value == "unreachable"
    assert fact(parsed, f"{NODE}/gpu:5", "pci-bus-id").value == "0000:9c:00.0"


def test_D08_lost_gpu_is_named_by_its_address() -> None:
    parsed = parse(nvidia_smi_error.PARSER, text_of("nvidia-smi-error/lost.txt"))
    state = fact(parsed, f"{NODE}/gpu:0000:4b:00.0", "state")
    assert (state.value, state.source.line) == ("lost", 1)
    assert "Reboot" in state.note


@pytest.mark.parametrize(
    ("text", "attribute", "value"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is "
         "installed and running.\n\n", "driver-state", "not-reachable"),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n", "driver-state", "version-mismatch"),
        ("Failed to initialize NVML: Unknown Error\r\n", "driver-state", "not-initialised"),
        ("$ nvidia-smi\nNo devices were found\n", "gpu-count", None),
    ],
)  # fmt: skip
def test_messages_about_the_whole_node(text: str, attribute: str, value: object) -> None:
    [parser] = recognised_by(text.encode(), parsers())
    assert parser is nvidia_smi_error.PARSER
    parsed = parse(parser, text)
    assert fact(parsed, NODE, attribute).value == value
    assert parsed.skipped == ()


LOST = "Unable to determine the device handle for GPU 0000:4B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
OTHERS = {
    nvidia_smi_csv.PARSER: "index, memory.total [MiB]\n0, 81559 MiB\n",
    nvidia_smi_q.PARSER: "==============NVSMI LOG==============\n\nDriver Version                            : 550.1\n",
    nvidia_smi_topo.PARSER: "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n",
    nvidia_smi_xml.PARSER: "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n<driver_version>550.1</driver_version>\n</nvidia_smi_log>\n",
    nvidia_smi_nvlink.PARSER: "GPU 0: NVIDIA H100 80GB HBM3\n\t Link 0: 26.562 GB/s\n",
}  # fmt: skip


@pytest.mark.parametrize("parser", OTHERS, ids=lambda parser: parser.tool)
def test_D08_lost_gpu_before_other_output_leaves_the_others_their_facts(parser: Parser) -> None:
    text = LOST + OTHERS[parser]
    assert recognised_by(text.encode(), parsers()) == (parser,)
    parsed, alone = parse(parser, text), parse(parser, OTHERS[parser])
    state = fact(parsed, f"{NODE}/gpu:0000:4b:00.0", "state")
    assert (state.value, state.source.line) == ("lost", 1)
    said = {(one.subject, one.attribute, one.value) for one in parsed.facts}
    assert {(one.subject, one.attribute, one.value) for one in alone.facts} <= said


def test_words_about_errors_are_no_messages() -> None:
    for text in ("GPU is lost\n", "the device handle\n", "", "No devices\n"):
        assert not nvidia_smi_error.PARSER.recognises(text.encode())
