"""The table that nvidia-smi prints for people (M2, D05, D06, D10)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.parsers.nvidia_smi_table import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "nvidia-smi-table"
NODE = "node:h1"
MIG = (FIXTURES / "a100_mig_lost.txt").read_text(encoding="utf-8")
ERR = (FIXTURES / "v100_power_err.txt").read_text(encoding="utf-8")


def parse(text: str) -> Parsed:
    assert recognised_by(text.encode(), parsers()) == (PARSER,)
    return PARSER.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def said(parsed: Parsed) -> set[tuple[str, str, object, str]]:
    return {(one.subject, one.attribute, one.value, one.unit) for one in parsed.facts}


def test_D06_power_that_is_ERR_is_unknown_and_the_limit_known() -> None:
    parsed = parse(ERR)
    draw = fact(parsed, f"{NODE}/gpu:3", "power-draw")
    assert (draw.status, draw.value, draw.unit, draw.note) == (Status.UNKNOWN, None, "W", "the tool printed 'ERR!'")
    limit = fact(parsed, f"{NODE}/gpu:3", "power-limit")
    assert (limit.value, limit.unit, limit.source.line) == (300, "W", 3)
    assert fact(parsed, f"{NODE}/gpu:3", "memory-total").value == 32510 * 2**20
    assert fact(parsed, f"{NODE}/gpu:3", "temperature").value == 33
    assert not [one for one in parsed.facts if one.attribute == "state"]  # one bad sample is no lost GPU
    name = fact(parsed, f"{NODE}/gpu:3", "model")
    assert (name.status, "leaves out the end" in name.note) == (Status.UNKNOWN, True)


def test_versions_gpus_and_what_is_in_their_cells() -> None:
    parsed = parse(MIG)
    assert fact(parsed, NODE, "driver-version").value == "535.129.03"
    assert fact(parsed, NODE, "cuda-version").value == "12.2"
    assert fact(parsed, NODE, "captured-local-time-seen").value == "Mon Nov 30 09:44:07 2026"
    first = f"{NODE}/gpu:0"
    assert fact(parsed, first, "model").value == "NVIDIA A100-SXM4-40GB"
    assert fact(parsed, first, "pci-bus-id").value == "0000:07:00.0"
    assert fact(parsed, first, "persistence-mode").value == "Enabled"
    assert fact(parsed, first, "memory-used").value == 812 * 2**20
    assert (fact(parsed, first, "utilization").value, fact(parsed, first, "utilization").unit) == (3, "%")
    assert fact(parsed, first, "compute-mode").value == "Exclusive_Process"
    assert fact(parsed, first, "mig-mode").value == "Disabled"
    assert fact(parsed, first, "fan-speed").status is Status.UNKNOWN
    assert parsed.skipped == ()


def test_D08_gpu_of_which_all_is_ERR_is_unreachable_and_has_no_number() -> None:
    parsed = parse(MIG)
    lost = [one for one in parsed.facts if one.subject == f"{NODE}/gpu:2"]
    assert fact(parsed, f"{NODE}/gpu:2", "state").value == "unreachable"
    assert not [one for one in lost if isinstance(one.value, int | float)]
    assert fact(parsed, f"{NODE}/gpu:2", "memory-total").note == "the tool printed 'Unknown Error'"


def test_D10_instances_belong_to_one_gpu() -> None:
    parsed = parse(MIG)
    assert fact(parsed, f"{NODE}/gpu:1", "mig-mode").value == "Enabled"
    assert fact(parsed, f"{NODE}/gpu:1", "mig-instances").value == 2
    assert fact(parsed, f"{NODE}/gpu:1/mig:1", "gpu-instance-id").value == 5
    assert fact(parsed, f"{NODE}/gpu:1/mig:1", "memory-total").value == 9856 * 2**20
    assert fact(parsed, f"{NODE}/gpu:1/mig:0", "multiprocessor-count").value == 42
    assert {found[1] for one in parsed.facts if (found := re.fullmatch(r"node:h1/gpu:(\d+)", one.subject))} == {"0", "1", "2"}


def test_D10_list_of_instances_that_is_cut_has_no_count() -> None:
    cut = parse(MIG[: MIG.index("|  1    5   0   1  |")])
    count = fact(cut, f"{NODE}/gpu:1", "mig-instances")
    assert (count.status, count.note) == (Status.UNKNOWN, "at least 1: the output ends within their list")


def test_damaged_inforom_is_told_by_address() -> None:
    state = fact(parse(MIG), f"{NODE}/gpu:0000:0f:00.0", "inforom-state")
    assert (state.value, state.source.line) == ("corrupted", 43)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "user@h1:~$ nvidia-smi\n" + text + "user@h1:~$ \n",
        lambda text: "Every 2.0s: nvidia-smi\n\n" + text,
        lambda text: text.replace("  |", "     |"),
        lambda text: "".join(f"    {line}" for line in text.splitlines(keepends=True)).replace("    |", "|"),
        lambda text: text.replace("Driver Version:", "KMD Version:").replace("CUDA Version:", "CUDA UMD Version:"),
    ],
    ids=["windows", "prompt", "watch", "wide", "indented", "new-banner"],
)
def test_variants_say_the_same(change) -> None:
    assert said(parse(change(MIG))) == said(parse(MIG))


def test_looped_output_gives_the_last_table() -> None:
    later = MIG.replace("54W", "91W").replace("07 2026", "09 2026")
    assert said(parse(MIG + later)) == said(parse(later))


def test_windows_driver_models_and_pending_mig_modes() -> None:
    parsed = parse(
        MIG.replace("A100-SXM4-40GB          On  | 00000000:07", "A100-SXM4-40GB         TCC  | 00000000:07").replace(
            "Disabled |", "Disabled*|"
        )
    )
    assert fact(parsed, f"{NODE}/gpu:0", "driver-model").value == "TCC"
    assert fact(parsed, f"{NODE}/gpu:0", "mig-mode").value == "Disabled"
    assert fact(parsed, f"{NODE}/gpu:0", "mig-mode-pending").value == "Enabled"


def test_cut_anywhere_gives_no_other_value() -> None:
    whole = said(parse(MIG))
    for length in range(len(MIG)):
        for one in PARSER.parse(Capture("f", MIG[:length].encode(), "h1")).facts:
            assert one.status is not Status.KNOWN or (one.subject, one.attribute, one.value, one.unit) in whole


def test_lost_line_before_the_table_is_told_as_well() -> None:
    parsed = parse("Unable to determine the device handle for GPU0: 0000:07:00.0: GPU is lost.\n" + ERR)
    assert fact(parsed, f"{NODE}/gpu:0", "state").value == "lost"
    assert fact(parsed, f"{NODE}/gpu:3", "power-limit").value == 300
