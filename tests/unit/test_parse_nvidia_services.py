"""DCGM exporter and the log of the Fabric Manager (M2, D10, D11)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from bridgehead.app.parsers import parsers
from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers import dcgm_exporter, fabric_manager_log
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import recognised_by
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str, *, host: str = "") -> Parsed:
    assert recognised_by(text.encode()[: 64 << 10], parsers()) == (parser,)
    return parser.parse(Capture("f", text.encode(), host))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def said(parsed: Parsed) -> set[tuple[str, str, object]]:
    return {(one.subject, one.attribute, one.value) for one in parsed.facts}


MIG = "dcgm-exporter/a100_two_instances.prom"
GPU = "node:gpu21/gpu:2"


def test_D10_instances_are_of_one_gpu_and_its_power_counts_once() -> None:
    parsed = parse(dcgm_exporter.PARSER, text_of(MIG))
    assert value(parsed, GPU, "mig-instances") == 2
    assert value(parsed, f"{GPU}/gpu-instance:1", "profile") == "3g.40gb"
    power = fact(parsed, GPU, "power-draw")
    assert (power.value, power.unit, power.source.line) == (88.25, "W", 4)
    assert [one.subject for one in parsed.facts if one.attribute == "power-draw"] == ["node:gpu21/gpu:1", GPU]
    assert value(parsed, f"{GPU}/gpu-instance:2", "memory-used") == 200 * 2**20
    gpus = {found[0] for one in parsed.facts if (found := re.match(r"node:gpu21/gpu:\d+", one.subject))}
    assert gpus == {"node:gpu21/gpu:1", GPU}
    assert not [view for view in merge(parsed.facts) if view.status is Status.CONFLICT]


def test_exporter_identity_comes_from_labels_once() -> None:
    parsed = parse(dcgm_exporter.PARSER, text_of(MIG))
    assert value(parsed, GPU, "uuid") == "GPU-0a1b2c3d-1111-2222-3333-444455556662"
    assert value(parsed, GPU, "model") == "NVIDIA A100-SXM4-80GB"
    assert value(parsed, GPU, "pci-bus-id") == "0000:12:00.0"
    assert value(parsed, "node:gpu21", "driver-version") == "550.90.07"
    assert value(parsed, "node:gpu21/gpu:1", "dcgm-seen:prof-nvlink-rx-bytes") == 12345678
    assert [one.reason for one in parsed.skipped] == [
        "1 series that are not DCGM's, or name no GPU, switch or CPU",
        "1 lines are no samples with labels",
    ]


def test_D11_sentinels_are_unknown() -> None:
    parsed = parse(dcgm_exporter.PARSER, text_of("dcgm-exporter/sentinels.prom"), host="h1")
    unknown = {one.attribute for one in parsed.facts if one.status is Status.UNKNOWN}
    assert unknown == {
        "dcgm-seen:dev-reliability-violation", "dcgm-seen:dev-enc-util", "power-draw", "sm-clock-seen", "dcgm-seen:dev-thermal-violation",
        "memory-utilization", "dcgm-seen:dev-dec-util",
    }  # fmt: skip
    assert "9223372036854775794" in fact(parsed, "node:h1/gpu:3", "dcgm-seen:dev-reliability-violation").note
    assert value(parsed, "node:h1/gpu:3", "utilization") == 12
    assert value(parsed, "node:h1/gpu:3", "pcie-replays-seen") == 4
    assert value(parsed, "node:h1/gpu:3", "temperature") == 41


def test_exporter_in_a_pod_is_of_the_folders_host() -> None:
    text = text_of(MIG)
    pod = parse(dcgm_exporter.PARSER, text.replace('"gpu21"', '"nvidia-dcgm-exporter-x7k2p"'), host="gpu21")
    assert value(pod, GPU, "power-draw") == 88.25
    domain = parse(dcgm_exporter.PARSER, text, host="gpu21.example.org")
    assert value(domain, "node:gpu21.example.org/gpu:2", "power-draw") == 88.25
    other = parse(dcgm_exporter.PARSER, text, host="monitor1")  # a page that was fetched from elsewhere
    assert value(other, GPU, "power-draw") == 88.25


def test_exporter_switches_cpus_and_links_are_no_gpus() -> None:
    parsed = parse(
        dcgm_exporter.PARSER,
        'DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="2",Hostname="n1"} 44\n'
        'DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT{cpu="1",Hostname="n1"} 31.427\n'
        'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT{gpu="0",nvlink="3",Hostname="n1"} 6 1796025600000\n',
    )
    assert value(parsed, "node:n1/nvswitch:2", "dcgm-seen:dev-nvswitch-temperature-current") == 44
    assert value(parsed, "node:n1/cpu:1", "dcgm-seen:dev-cpu-power-util-current") == 31.427
    assert value(parsed, "node:n1/gpu:0/nvlink:3", "dcgm-seen:dev-nvlink-replay-error-count") == 6


@pytest.mark.parametrize("name", [MIG, "dcgm-exporter/sentinels.prom"])
def test_exporter_variants_say_the_same(name: str) -> None:
    text = text_of(name)
    plain = said(parse(dcgm_exporter.PARSER, text, host="h1"))
    for other in (text.replace("\n", "\r\n"), text.replace("} ", "}\t"), text.replace('",', '" , ')):
        assert said(parse(dcgm_exporter.PARSER, other, host="h1")) == plain


def test_exporter_page_that_is_cut_gives_no_other_number() -> None:
    text = text_of(MIG)
    numbers = {one.value for one in parse(dcgm_exporter.PARSER, text).facts if isinstance(one.value, int | float)}
    for length in range(len(text)):
        for one in dcgm_exporter.PARSER.parse(Capture("f", text[:length].encode())).facts:
            assert not isinstance(one.value, int | float) or one.value in numbers or one.attribute == "mig-instances"
    cut = parse(dcgm_exporter.PARSER, text[: text.index("88.25") + 2])
    assert not [one for one in cut.facts if one.attribute == "power-draw" and one.subject == GPU]


def test_exporter_labels_of_a_kind_that_backtracks_take_linear_time() -> None:
    line = 'DCGM_FI_DEV_GPU_TEMP{a="' + '\\"' * 9_000 + "} 4\n"
    start = time.process_time()
    parse(dcgm_exporter.PARSER, line * 50)
    assert time.process_time() - start < 2


LOG = "fabricmanager/fabricmanager.log"
PORT = "node:h1/nvswitch:0000:86:00.0/port:61"


def test_fabric_manager_error_of_a_switch() -> None:
    parsed = parse(fabric_manager_log.PARSER, text_of(LOG), host="h1")
    error = fact(parsed, PORT, "nvswitch-error-seen:12028")
    assert (error.value, error.source.line) == (1, 100)
    assert value(parsed, PORT, "nvswitch-error-seen-severity:12028") == "non-fatal"
    assert value(parsed, PORT, "nvswitch-error-seen-first:12028") == "Feb 27 2025 15:10:02"
    assert value(parsed, "node:h1/nvswitch:0000:86:00.0", "physical-id") == 3
    assert value(parsed, "node:h1", "fabric-manager-errors-seen") == 1
    assert parsed.skipped == ()


def test_fabric_manager_time_and_multicast_groups() -> None:
    parsed = parse(fabric_manager_log.PARSER, text_of(LOG), host="h1")
    assert value(parsed, "node:h1", "fabric-manager-seen-first") == "Feb 25 2025 13:59:45"
    assert value(parsed, "node:h1", "fabric-manager-seen-last") == "Feb 27 2025 15:10:02"
    assert value(parsed, "node:h1", "multicast-groups-seen") == 2  # 0 and 1 of the afternoon, which nobody freed
    assert value(parsed, "node:h1", "multicast-gpus-seen") == 8


def test_fabric_manager_start_faults_and_lines_that_are_cut() -> None:
    text = (
        "[Nov 30 2026 09:44:01] [INFO] [tid 7] Fabric Manager version is : 570.133.20\n"
        "[Nov 30 2026 09:44:09] [INFO] [tid 7] Successfully configured all the available NVSwitches to route GPU NVLink traffic.\n"
        "[Nov 30 2026 09:45:00] [ERROR] [tid 7] detected NVSwitch fatal error 20034 on NodeId 0 on NVSwitch pci bus id 00000000:08:00.0 "
        "physical id 1 port 33\n"
        "[Nov 30 2026 09:46:00] [ERROR] [tid 7] detected NVSwitch fatal error 20034 on NodeId 0 on NVSwitch pci bus id 00000000:08:00.0 "
        "physical id 1 port 33\n"
    )
    parsed = parse(fabric_manager_log.PARSER, text, host="h1")
    port = "node:h1/nvswitch:0000:08:00.0/port:33"
    assert value(parsed, "node:h1", "fabric-manager-version") == "570.133.20"
    assert value(parsed, "node:h1", "fabric-configured-seen") is True
    assert (value(parsed, port, "nvswitch-error-seen:20034"), value(parsed, port, "nvswitch-error-seen-severity:20034")) == (2, "fatal")
    assert value(parsed, port, "nvswitch-error-seen-last:20034") == "Nov 30 2026 09:46:00"
    cut = parse(fabric_manager_log.PARSER, text[:-2], host="h1")
    assert value(cut, port, "nvswitch-error-seen:20034") == 1
    assert "may be cut" in cut.skipped[0].reason
    again = parse(fabric_manager_log.PARSER, text + text[: text.index("\n") + 1], host="h1")
    assert not [one for one in again.facts if one.attribute == "fabric-configured-seen"]


def test_fabric_manager_variants_say_the_same() -> None:
    text = text_of(LOG)
    assert said(parse(fabric_manager_log.PARSER, text.replace("\n", "\r\n"))) == said(parse(fabric_manager_log.PARSER, text))
    strange = parse(fabric_manager_log.PARSER, "words\n" + text)
    assert [one.reason for one in strange.skipped] == ["1 lines do not begin like a line of the log"]
