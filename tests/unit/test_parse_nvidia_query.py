"""nvidia-smi -q as text and XML of all generations, and --query-gpu as CSV (M2, D05, D08, D10, D15)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.merge import merge
from bridgehead.discovery.nvidia_readings import fabric_ready
from bridgehead.discovery.parsers import nvidia_smi_csv, nvidia_smi_q, nvidia_smi_xml
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
NODE = "node:h1"
MIB = 2**20


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str, *, host: str = "h1") -> Parsed:
    assert recognised_by(text.encode(), parsers()) == (parser,)
    return parser.parse(Capture("f", text.encode(), host))


def xml(name: str, *, host: str = "h1") -> Parsed:
    return parse(nvidia_smi_xml.PARSER, text_of(f"nvidia-smi-xml/{name}.xml"), host=host)


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def measure(parsed: Parsed, subject: str, attribute: str) -> tuple[object, str]:
    found = fact(parsed, subject, attribute)
    return (found.value, found.unit)


def said(parsed: Parsed) -> set[tuple[str, str, object, str]]:
    return {(one.subject, one.attribute, one.value, one.unit) for one in parsed.facts}


A100 = f"{NODE}/gpu:0000:01:00.0"


def test_xml_v12_that_describes_one_of_four_gpus_warns() -> None:
    parsed = xml("a100-sxm4-v12")
    count = fact(parsed, NODE, "gpu-count")
    assert (count.status, count.value, count.source.line) == (Status.CONFLICT, 4, 7)
    assert "4 are said to be attached, 1 described" in count.note
    assert any("4 are said to be attached, 1 described" in one.reason for one in parsed.skipped)
    assert (value(parsed, NODE, "driver-version"), value(parsed, NODE, "cuda-version")) == ("535.54.03", "12.2")


def test_xml_v12_readings_of_the_gpu() -> None:
    parsed = xml("a100-sxm4-v12")
    assert value(parsed, A100, "model") == "NVIDIA A100-SXM4-80GB"
    assert value(parsed, A100, "pci-bus-id") == "0000:01:00.0"
    assert value(parsed, A100, "serial") == "1650522003820"
    assert value(parsed, A100, "vbios-version") == "92.00.36.00.02"
    assert measure(parsed, A100, "memory-total") == (81920 * MIB, "B")
    assert measure(parsed, A100, "power-draw") == (67.03, "W")
    assert measure(parsed, A100, "power-limit") == (500, "W")
    assert (value(parsed, A100, "pcie-generation-seen"), value(parsed, A100, "pcie-width-seen")) == (4, 16)


def test_D10_xml_instances_are_no_gpus() -> None:
    parsed = xml("a100-sxm4-v12")
    assert (value(parsed, A100, "mig-mode"), value(parsed, A100, "mig-instances")) == ("Enabled", 4)
    for index, instance in enumerate((3, 4, 5, 6)):
        assert value(parsed, f"{A100}/mig:{index}", "gpu-instance-id") == instance
        assert measure(parsed, f"{A100}/mig:{index}", "memory-total") == (19968 * MIB, "B")
    assert {one.subject.split("/")[1] for one in parsed.facts if "/" in one.subject} == {"gpu:0000:01:00.0"}


def test_xml_of_a_virtual_machine_has_a_placeholder_serial_and_an_idle_link() -> None:
    parsed = xml("a10g")
    gpu = f"{NODE}/gpu:0"
    assert value(parsed, NODE, "driver-version") == "515.105.01"
    assert value(parsed, NODE, "gpu-count") == 1
    assert value(parsed, gpu, "model") == "NVIDIA A10G"
    assert value(parsed, gpu, "pci-bus-id") == "0000:00:1e.0"
    assert (measure(parsed, gpu, "power-draw"), measure(parsed, gpu, "power-limit")) == ((25.58, "W"), (300, "W"))
    serial = fact(parsed, gpu, "serial")
    assert (serial.status, "placeholder" in serial.note) == (Status.UNKNOWN, True)
    assert fact(parsed, gpu, "mig-mode").status is Status.UNKNOWN
    # The link is slow because it idles: it is a reading, and no property of the machine.
    assert (value(parsed, gpu, "pcie-generation-seen"), value(parsed, gpu, "pcie-width-seen")) == (1, 8)


def test_xml_of_two_machines_differs_by_the_uuid_alone() -> None:
    one, two = xml("a10g", host="vm1"), xml("tesla-t4", host="vm2")
    assert value(two, "node:vm2/gpu:0", "model") == "Tesla T4"
    assert measure(two, "node:vm2/gpu:0", "memory-total") == (15360 * MIB, "B")
    assert value(one, "node:vm1/gpu:0", "pci-bus-id") == value(two, "node:vm2/gpu:0", "pci-bus-id")
    assert fact(two, "node:vm2/gpu:0", "serial").status is Status.UNKNOWN
    uuids = {value(one, "node:vm1/gpu:0", "uuid"), value(two, "node:vm2/gpu:0", "uuid")}
    assert len(uuids) == 2
    assert None not in uuids


def test_xml_v13_draws_under_their_new_names_and_words_that_are_no_state() -> None:
    parsed = xml("rtx-3080-v13")
    gpu = next(one.subject for one in parsed.facts if one.attribute == "power-draw")
    assert (value(parsed, NODE, "driver-version"), value(parsed, NODE, "cuda-version")) == ("595.58.03", "13.2")
    assert measure(parsed, gpu, "power-draw") == (139.62, "W")
    assert measure(parsed, gpu, "power-draw-instant") == (142.33, "W")
    state, serial = fact(parsed, gpu, "power-state-seen"), fact(parsed, gpu, "serial")
    assert (state.status, "deprecated" in state.note) == (Status.UNKNOWN, True)
    assert (serial.status, "REDACTED" in serial.note) == (Status.UNKNOWN, True)


@pytest.mark.parametrize("name", ["a100-sxm4-v12", "a10g", "rtx-3080-v13", "tesla-t4"])
def test_xml_variants_and_lines(name: str) -> None:
    text = text_of(f"nvidia-smi-xml/{name}.xml")
    plain = xml(name)
    for other in (text.replace("\n", "\r\n"), text.replace("\t", "  "), "root@h1:~# nvidia-smi -q -x\n" + text):
        assert said(parse(nvidia_smi_xml.PARSER, other)) == said(plain)
    lines = text.splitlines()
    for one in plain.facts:
        if one.attribute in ("model", "uuid", "vbios-version", "driver-version", "sm-clock-max"):
            assert str(one.value).removesuffix("000000") in lines[one.source.line - 1]


def test_xml_cut_gives_what_stands_before_and_no_other_number() -> None:
    text = text_of("nvidia-smi-xml/a10g.xml")
    whole = {(one.attribute, one.value) for one in xml("a10g").facts}
    for length in range(0, len(text), 61):
        parsed = nvidia_smi_xml.PARSER.parse(Capture("f", text[:length].encode(), "h1"))
        for one in parsed.facts:
            assert one.value is None or (one.attribute, one.value) in whole
        assert parsed.skipped
    middle = parse(nvidia_smi_xml.PARSER, text[: text.index("<fb_memory_usage>") + 30])
    assert value(middle, f"{NODE}/gpu:0", "uuid") == value(xml("a10g"), f"{NODE}/gpu:0", "uuid")
    assert any("ends or is broken" in one.reason for one in middle.skipped)


def test_xml_text_with_an_angle_bracket_is_read_all_the_same() -> None:
    text = text_of("nvidia-smi-xml/tesla-t4.xml")
    for name in ("T4 > T3", "> 7", "7>", ">>7"):
        parsed = parse(nvidia_smi_xml.PARSER, text.replace("<product_name>Tesla T4</", f"<product_name>{name}</"))
        assert value(parsed, "node:h1/gpu:0", "model") == name
        assert len(parsed.facts) == len(xml("tesla-t4").facts)


def test_xml_a_long_run_of_angle_brackets_is_looked_through_once() -> None:
    text = text_of("nvidia-smi-xml/tesla-t4.xml").replace("<product_name>Tesla T4</", f"<product_name>{'>' * 300_000}</")
    began_s = time.process_time()
    nvidia_smi_xml.PARSER.parse(Capture("f", text.encode(), "h1"))
    assert time.process_time() - began_s < 5  # half a minute when each was tried as the beginning of the text


def test_xml_with_entities_is_refused() -> None:
    doctype = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "b">]>'
    text = f'<?xml version="1.0"?>\n{doctype}\n<nvidia_smi_log><driver_version>&a;</driver_version></nvidia_smi_log>\n'
    parsed = parse(nvidia_smi_xml.PARSER, text)
    assert (parsed.facts, "entities" in parsed.skipped[0].reason) == ((), True)


Q = "nvidia-smi-q/retired_pages_8gpu_bad.txt"


def test_q_eight_gpus_of_eight_pci_domains_and_pages_that_wait() -> None:
    parsed = parse(nvidia_smi_q.PARSER, text_of(Q))
    assert (value(parsed, NODE, "driver-version"), value(parsed, NODE, "gpu-count")) == ("535.86.10", 8)
    assert [value(parsed, f"{NODE}/gpu:{gpu}", "pci-bus-id") for gpu in range(8)] == [f"000{gpu + 1}:00:00.0" for gpu in range(8)]
    pending = {one.subject for one in parsed.facts if one.attribute == "retired-pages-pending" and one.value == "Yes"}
    assert pending == {f"{NODE}/gpu:{gpu}" for gpu in (1, 3, 5, 7)}
    assert value(parsed, f"{NODE}/gpu:1", "retired-pages-double-bit-seen") == 61
    assert value(parsed, f"{NODE}/gpu:7", "retired-pages-single-bit-seen") == 8
    assert parsed.skipped == ()


def test_D15_fabric_completed_without_resources_is_not_ready() -> None:
    parsed = parse(nvidia_smi_q.PARSER, text_of("nvidia-smi-q/fabric_no_resources.txt"))
    gpu = f"{NODE}/gpu:?"
    assert value(parsed, gpu, "fabric-state") == "Completed"
    assert value(parsed, gpu, "fabric-status") == "Insufficient Resources"
    assert value(parsed, gpu, "fabric-clique-id") == "0"
    assert value(parsed, gpu, "fabric-cluster-uuid") == "00000000-0000-0000-0000-000000000000"
    assert value(parsed, gpu, "fabric-ready") is False


@pytest.mark.parametrize(
    ("state", "status", "clique", "cluster", "ready"),
    [
        ("Completed", "Success", "0", "6f1c3a52-0000-4444-8888-1234567890ab", True),
        ("Completed", "Success", "0", "00000000-0000-0000-0000-000000000000", None),
        ("Completed", "Success", "0", "N/A", None),
        ("Completed", "Success", "", "6f1c3a52-0000-4444-8888-1234567890ab", None),
        ("Completed", "", "0", "6f1c3a52-0000-4444-8888-1234567890ab", None),
        ("Completed", "Insufficient Resources", "0", "6f1c3a52-0000-4444-8888-1234567890ab", False),
        ("In Progress", "N/A", "0", "6f1c3a52-0000-4444-8888-1234567890ab", False),
        ("N/A", "N/A", "N/A", "N/A", None),
    ],
)
def test_D15_fabric_is_ready_only_with_all_four(state: str, status: str, clique: str, cluster: str, ready: bool | None) -> None:
    assert fabric_ready(state, status, clique, cluster) is ready


WHOLE = """\
==============NVSMI LOG==============

Timestamp                                 : Mon Nov 30 09:44:07 2026
Driver Version                            : 550.90.07
CUDA Version                              : 12.4

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 40448 MiB
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 3
        Compute Instance ID               : 0
        FB Memory Usage
            Total                         : 40448 MiB
    GPU UUID                              : GPU-0a1b2c3d-1111-2222-3333-444455556660
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : [Unknown Error]
    GPU Power Readings
        Power Draw                        : ERR!
        Current Power Limit               : 700.00 W
    Temperature
        GPU Current Temp                  : 31 C
    Processes
        Process ID                        : 4711
        Used GPU Memory                   : 512 MiB
"""


def test_D05_D10_q_text_with_instances_errors_and_processes() -> None:
    parsed = parse(nvidia_smi_q.PARSER, WHOLE)
    gpu = f"{NODE}/gpu:0"
    assert (value(parsed, gpu, "mig-instances"), value(parsed, NODE, "gpu-count")) == (2, 1)
    assert value(parsed, f"{gpu}/mig:1", "gpu-instance-id") == 3
    assert measure(parsed, f"{gpu}/mig:1", "memory-total") == (40448 * MIB, "B")
    assert measure(parsed, gpu, "memory-total") == (81559 * MIB, "B")
    used, draw = fact(parsed, gpu, "memory-used"), fact(parsed, gpu, "power-draw")
    assert (used.status, used.note) == (Status.UNKNOWN, "the tool printed '[Unknown Error]'")
    assert (draw.status, draw.note) == (Status.UNKNOWN, "the tool printed 'ERR!'")
    assert measure(parsed, gpu, "power-limit") == (700, "W")
    assert measure(parsed, gpu, "temperature") == (31, "degC")
    assert not [one for one in parsed.facts if one.value == 4711]


def test_q_variants_and_every_cut() -> None:
    plain = said(parse(nvidia_smi_q.PARSER, WHOLE))
    for other in (WHOLE.replace("\n", "\r\n"), "$ nvidia-smi -q\n" + WHOLE, re.sub(r" +:", " :", WHOLE), WHOLE.replace("    ", "\t")):
        assert said(parse(nvidia_smi_q.PARSER, other)) == plain
    numbers = {one.value for one in parse(nvidia_smi_q.PARSER, WHOLE).facts} | {0, 1, 2}
    for length in range(len(WHOLE)):
        for one in nvidia_smi_q.PARSER.parse(Capture("f", WHOLE[:length].encode(), "h1")).facts:
            assert one.value is None or isinstance(one.value, str) or one.value in numbers


def test_text_and_xml_of_one_gpu_agree() -> None:
    root = (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>550.90.07</driver_version>\n<attached_gpus>1</attached_gpus>\n'
        '<gpu id="00000000:1B:00.0">\n<product_name>NVIDIA H100 80GB HBM3</product_name>\n'
        "<uuid>GPU-0a1b2c3d-1111-2222-3333-444455556660</uuid>\n<fb_memory_usage><total>81559 MiB</total></fb_memory_usage>\n"
        "<gpu_power_readings><current_power_limit>700.00 W</current_power_limit></gpu_power_readings>\n</gpu>\n</nvidia_smi_log>\n"
    )
    facts = (*parse(nvidia_smi_xml.PARSER, root).facts, *parse(nvidia_smi_q.PARSER, WHOLE).facts)
    views = merge(facts)
    assert not [view for view in views if view.status is Status.CONFLICT]
    [limit] = [view for view in views if view.attribute == "power-limit"]
    assert len(limit.claims[0].sources) == 2


def test_csv_units_of_the_heading() -> None:
    parsed = parse(nvidia_smi_csv.PARSER, text_of("nvidia-smi-csv/h200_3gpu.csv"))
    assert value(parsed, NODE, "driver-version") == "570.86.15"
    for gpu in range(3):
        assert value(parsed, f"{NODE}/gpu:{gpu}", "model") == "NVIDIA H200"
        assert measure(parsed, f"{NODE}/gpu:{gpu}", "memory-total") == (143771 * MIB, "B")
        assert value(parsed, f"{NODE}/gpu:{gpu}", "compute-capability") == "9.0"
    plain = text_of("nvidia-smi-csv/h200_3gpu.csv").replace(" MiB,", ",")
    assert said(parse(nvidia_smi_csv.PARSER, plain)) == said(parsed)


def test_csv_na_in_brackets_is_unknown() -> None:
    parsed = parse(nvidia_smi_csv.PARSER, text_of("nvidia-smi-csv/l40s_no_mig.csv"))
    mode = fact(parsed, f"{NODE}/gpu:1", "mig-mode")
    assert (mode.status, mode.note) == (Status.UNKNOWN, "the tool printed '[N/A]'")
    assert value(parsed, f"{NODE}/gpu:1", "compute-mode") == "Exclusive_Process"


def test_csv_gpu_that_requires_a_reset_is_not_idle() -> None:
    parsed = parse(nvidia_smi_csv.PARSER, text_of("nvidia-smi-csv/one_requires_reset.csv"))
    bad = f"{NODE}/gpu:1"
    assert value(parsed, bad, "state") == "requires-reset"
    for attribute, unit in (("temperature", "degC"), ("utilization", "%"), ("memory-used", "B")):
        found = fact(parsed, bad, attribute)
        assert (found.status, found.unit) == (Status.UNKNOWN, unit)
    assert "0 MiB" in fact(parsed, bad, "memory-used").note
    assert measure(parsed, f"{NODE}/gpu:0", "memory-used") == (12 * MIB, "B")
    assert not [one for one in parsed.facts if one.subject == f"{NODE}/gpu:0" and one.attribute == "state"]


def test_csv_other_order_missing_columns_and_rows_that_do_not_fit() -> None:
    text = "memory.total [MiB], uuid, index\n81559 MiB, GPU-0a1b2c3d-1111-2222-3333-444455556667, 7\n81559 MiB, 6\n"
    parsed = parse(nvidia_smi_csv.PARSER, text)
    assert measure(parsed, f"{NODE}/gpu:7", "memory-total") == (81559 * MIB, "B")
    assert "2 cells for 3 columns" in parsed.skipped[0].reason
    looped = parse(nvidia_smi_csv.PARSER, "index, power.draw [W]\n0, 71.00 W\n0, 93.50 W\n")
    assert measure(looped, f"{NODE}/gpu:0", "power-draw") == (93.5, "W")


@pytest.mark.parametrize("name", ["h200_3gpu", "l40s_no_mig", "one_requires_reset"])
def test_csv_variants_and_every_cut(name: str) -> None:
    text = text_of(f"nvidia-smi-csv/{name}.csv")
    plain = parse(nvidia_smi_csv.PARSER, text)
    for other in (text.replace("\n", "\r\n"), text.replace(", ", ","), text.replace(", ", ",\t"), "\ufeff" + text):
        assert said(parse(nvidia_smi_csv.PARSER, other)) == said(plain)
    whole = said(plain)
    for length in range(text.index("\n") + 1, len(text)):
        for one in nvidia_smi_csv.PARSER.parse(Capture("f", text[:length].encode(), "h1")).facts:
            assert one.value is None or (one.subject, one.attribute, one.value, one.unit) in whole
