"""dcgmi discovery, diag, dmon and nvlink (M2, D07, D11, D12, D13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.dcgm import is_blank
from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers import dcgmi_diag, dcgmi_discovery, dcgmi_dmon, dcgmi_nvlink
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "dcgmi"
NODE = "node:h1"
OF = {
    "diag_wrapped_fail.txt": dcgmi_diag.PARSER,
    "diag_v4_per_gpu.txt": dcgmi_diag.PARSER,
    "discovery_2_gpus.txt": dcgmi_discovery.PARSER,
    "dmon_old_zero.txt": dcgmi_dmon.PARSER,
    "dmon_new_na.txt": dcgmi_dmon.PARSER,
    "nvlink_down.txt": dcgmi_nvlink.PARSER,
}


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str, *, at_s: float | None = None, file: str = "f") -> Parsed:
    assert recognised_by(text.encode(), parsers()) == (parser,)
    return parser.parse(Capture(file, text.encode(), "h1", at_s))


def read(name: str) -> Parsed:
    return parse(OF[name], text_of(name))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def said(parsed: Parsed) -> set[tuple[str, str, object]]:
    return {(one.subject, one.attribute, one.value) for one in parsed.facts}


def test_diag_versions_devices_and_verdicts() -> None:
    parsed = read("diag_wrapped_fail.txt")
    assert value(parsed, NODE, "dcgm-version") == "3.3.5"
    assert value(parsed, NODE, "driver-version") == "535.161.08"
    assert value(parsed, NODE, "gpu-device-ids") == ("2330",) * 4
    verdicts = {
        one.attribute.partition(":")[2]: one.value
        for one in parsed.facts
        if one.attribute.startswith("diag-result") and one.subject == NODE
    }
    assert verdicts == {
        "denylist": "pass", "nvml-library": "pass", "cuda-main-library": "pass", "persistence-mode": "fail", "graphics-processes": "pass",
        "inforom": "skip", "pcie": "pass", "gpu-memory": "fail",
    }  # fmt: skip
    assert parsed.skipped == ()


def test_diag_message_in_pieces_is_one_text() -> None:
    error = fact(read("diag_wrapped_fail.txt"), NODE, "diag-error-seen:persistence-mode")
    assert error.value == (
        "Persistence mode for GPU 2 is off. The diagnosis needs persistence mode, please turn it on with the option -pm 1 of nvidia-smi as "
        "root, and start again."
    )
    assert error.source.line == 14
    assert value(read("diag_wrapped_fail.txt"), NODE, "diag-warning-seen:gpu-memory") == "GPU 2 has rows that wait to be remapped"


def test_diag_of_one_gpu_is_told_of_that_gpu() -> None:
    old, new = read("diag_wrapped_fail.txt"), read("diag_v4_per_gpu.txt")
    assert [value(old, f"{NODE}/gpu:{gpu}", "diag-result-seen:gpu-memory") for gpu in range(4)] == ["pass", "pass", "fail", "pass"]
    assert value(new, f"{NODE}/gpu:1", "diag-result-seen:memory") == "fail"
    assert value(new, f"{NODE}/gpu:1", "diag-result-seen:software") == "pass"
    assert value(new, NODE, "diag-result-seen:memory") == "fail"
    assert value(new, NODE, "gpu-device-ids") == ("2901",) * 10


def test_diag_without_its_end_is_incomplete() -> None:
    text = text_of("diag_wrapped_fail.txt")
    cut = parse(dcgmi_diag.PARSER, text[: text.index("| Graphics Processes        | Pa") + 32])
    assert not [one for one in cut.facts if "graphics" in one.attribute]
    assert any("incomplete" in one.reason for one in cut.skipped)
    assert value(cut, NODE, "diag-result-seen:persistence-mode") == "fail"


def test_discovery_names_addresses_and_counts() -> None:
    parsed = read("discovery_2_gpus.txt")
    assert value(parsed, f"{NODE}/gpu:1", "pci-bus-id") == "0000:43:00.0"
    assert value(parsed, f"{NODE}/gpu:1", "uuid") == "GPU-0a1b2c3d-1111-2222-3333-444455556661"
    assert value(parsed, f"{NODE}/gpu:0", "model") == "NVIDIA H100 80GB HBM3"
    assert value(parsed, NODE, "gpu-count-dcgm") == 2
    assert value(parsed, NODE, "nvswitch-count-dcgm") == 1
    assert value(parsed, f"{NODE}/nvswitch:8", "present-dcgm") is True
    assert value(parsed, NODE, "cpu-count-dcgm") == 0
    assert parsed.skipped == ()


def test_discovery_that_lacks_a_gpu_is_a_conflict() -> None:
    text = text_of("discovery_2_gpus.txt")
    parsed = parse(dcgmi_discovery.PARSER, text[: text.index("| 1      |")])
    count = fact(parsed, NODE, "gpu-count-dcgm")
    assert (count.status, count.note) == (Status.CONFLICT, "2 are said to be found, 1 are listed")
    active = parse(dcgmi_discovery.PARSER, text.replace("2 GPUs found.", "2 GPUs found (Active)."))
    assert value(active, NODE, "gpu-count-dcgm") == 2


def test_dmon_last_sample_in_base_units() -> None:
    parsed = read("dmon_old_zero.txt")
    power = fact(parsed, f"{NODE}/gpu:0", "power-draw")
    assert (power.value, power.unit, power.source.line) == (72.375, "W", 5)
    assert (value(parsed, f"{NODE}/gpu:0", "temperature"), fact(parsed, f"{NODE}/gpu:0", "temperature").unit) == (33, "degC")
    assert value(parsed, f"{NODE}/gpu:0", "memory-used") == 512 * 2**20


def test_D11_sentinel_is_no_power() -> None:
    power = fact(read("dmon_old_zero.txt"), f"{NODE}/gpu:1", "power-draw")
    assert (power.status, power.value) == (Status.UNKNOWN, None)
    assert "9223372036854775794" in power.note


def test_D12_zero_of_an_old_release_is_no_value_and_a_newer_tool_no_change() -> None:
    old = read("dmon_old_zero.txt")
    for attribute in ("xid-last-seen", "dcgm-seen:viutl", "dcgm-seen:clkpcns"):
        assert fact(old, f"{NODE}/gpu:1", attribute).status is Status.UNKNOWN
    assert "before 4.5" in fact(old, f"{NODE}/gpu:1", "xid-last-seen").note
    before = parse(dcgmi_dmon.PARSER, text_of("dmon_old_zero.txt"), at_s=1.0, file="old")
    after = parse(dcgmi_dmon.PARSER, text_of("dmon_new_na.txt"), at_s=2.0, file="new")
    views = {view.attribute: view for view in merge((*before.facts, *after.facts)) if view.subject == f"{NODE}/gpu:1"}
    assert not [view for view in views.values() if view.status is Status.CONFLICT]
    assert views["xid-last-seen"].status is Status.UNKNOWN
    alone = {view.attribute: view.value for view in merge(after.facts)}
    assert alone["xid-last-seen"] == views["xid-last-seen"].value


def test_dmon_zero_is_believed_where_another_sample_has_a_value() -> None:
    text = text_of("dmon_old_zero.txt") + "GPU 0     71.250            33           0            N/A               0                 0\n"
    assert value(parse(dcgmi_dmon.PARSER, text), f"{NODE}/gpu:0", "memory-used") == 0


def test_dmon_row_that_is_cut_or_has_other_columns_is_left_out() -> None:
    text = text_of("dmon_new_na.txt")
    cut = parse(dcgmi_dmon.PARSER, text + "GPU 1     71.250            33           0            N/A               0                 1")
    assert value(cut, f"{NODE}/gpu:1", "power-draw") == 70.625
    short = parse(dcgmi_dmon.PARSER, text.replace("70.625 ", ""))
    assert short.facts == ()
    named = parse(dcgmi_dmon.PARSER, "#Entity   DVNAM                        TMPTR\nID\nGPU 0     NVIDIA H100 80GB HBM3        40\n")
    assert value(named, f"{NODE}/gpu:0", "temperature") == 40


def test_D13_links_that_are_all_down_are_counted() -> None:
    parsed = read("nvlink_down.txt")
    counts = {one.subject: (one.attribute, one.value) for one in parsed.facts if one.attribute == "nvlinks-active"}
    assert counts == {
        f"{NODE}/gpu:0": ("nvlinks-active", 0),
        f"{NODE}/gpu:1": ("nvlinks-active", 11),
        f"{NODE}/nvswitch:9": ("nvlinks-active", 3),
    }
    assert value(parsed, f"{NODE}/gpu:0", "nvlinks-total") == 12
    assert value(parsed, f"{NODE}/gpu:1/nvlink:10", "active") is False
    assert "disabled" in fact(parsed, f"{NODE}/gpu:1/nvlink:10", "active").note
    assert not [one for one in parsed.facts if one.subject.endswith("gpu:1/nvlink:12")]


def test_nvlink_row_that_is_cut_has_no_count() -> None:
    text = text_of("nvlink_down.txt")
    parsed = parse(dcgmi_nvlink.PARSER, text[: text.index("U U U U U") + 9])
    assert fact(parsed, f"{NODE}/gpu:1", "nvlinks-active").status is Status.UNKNOWN
    assert value(parsed, f"{NODE}/gpu:0", "nvlinks-active") == 0


@pytest.mark.parametrize("name", OF)
def test_variants_say_the_same(name: str) -> None:
    text = text_of(name)
    for other in (text.replace("\n", "\r\n"), f"root@h1:~# dcgmi ...\n{text}root@h1:~# \n", "\ufeff" + text):
        assert said(parse(OF[name], other)) == said(read(name))


@pytest.mark.parametrize("name", OF)
def test_cut_anywhere_gives_no_other_number(name: str) -> None:
    text = text_of(name)
    numbers = {one.value for one in read(name).facts if isinstance(one.value, int | float)} | {0, 1, 70.5, 71.25, 33, 31}
    for length in range(len(text)):
        for one in OF[name].parse(Capture("f", text[:length].encode(), "h1")).facts:
            assert one.status is not Status.KNOWN or not isinstance(one.value, int | float) or one.value in numbers


@pytest.mark.parametrize(
    "number",
    [
        2147483632,
        2147483634,
        9223372036854775792,
        9223372036854775795,
        9.223372036854776e18,
        140737488355328.0,
        140737488355330,
        4294967295,
    ],
)
def test_D11_sentinels(number: float) -> None:
    assert is_blank(number)


@pytest.mark.parametrize("number", [0, 1, 2147483631, 4294967294, 140737488355327, 140737488355332, 0.5, 9.2e18, -1])
def test_D11_numbers_that_are_none(number: float) -> None:
    assert not is_blank(number)
