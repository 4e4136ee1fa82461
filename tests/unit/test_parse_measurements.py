"""nccl-tests, iperf3 and kernel logs: what they say, and what they do not say (M2, M5.3)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.discovery.parsers import iperf3, kernel_log, nccl_tests
from bridgehead.discovery.parsing import Capture, Parsed, Parser, number_in
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"


def read(parser: Parser, name: str, *, host: str = "h1") -> Parsed:
    return parser.parse(Capture(name, (FIXTURES / name).read_bytes(), host))


def parse(parser: Parser, text: str, *, host: str = "h1") -> Parsed:
    return parser.parse(Capture("f", text.encode(), host))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("9223372036854775794", 9223372036854775794), ("-1.5", -1.5), ("1e3", 1000), (" 2 ", 2)]
    + [(text, None) for text in ("", "1_000", "1,5", "nan", "inf", "1e999", "0x1f", "٣", "1 2", "N/A", "5 W")],
)
def test_D05_only_plain_numbers_are_numbers(text: str, number: float | None) -> None:
    assert number_in(text) == number


def test_scaled_numbers_are_rounded_once() -> None:
    assert number_in("476.967", scale=1e9) == 476_967_000_000
    assert number_in("36283", scale=1e-6) == 0.036283


NCCL = "nccl-tests/h100_4gpu_allreduce.txt"
RUN = "node:gpu01/nccl:all_reduce_perf@4"


def test_nccl_ranks_sizes_and_average() -> None:
    parsed = read(nccl_tests.PARSER, NCCL)
    assert parsed.skipped == ()
    assert value(parsed, "node:gpu01/gpu:3", "model") == "NVIDIA H100 80GB HBM3"
    assert value(parsed, RUN, "ranks") == 4
    assert value(parsed, RUN, "nccl-version") == "2.21.5+cuda12.4"
    last = fact(parsed, RUN, "measured-bus-bandwidth-in-place:4294967296")
    assert (last.value, last.unit, last.source.line) == (356_970_000_000, "B/s", 16)
    assert value(parsed, RUN, "measured-bus-bandwidth-peak-out-of-place") == 356_910_000_000
    assert value(parsed, RUN, "measured-bus-bandwidth-average") == 350_703_000_000
    assert value(parsed, RUN, "measured-verdict") == "ok"


def test_nccl_na_errors_are_unknown_and_the_peak_is_not_the_average() -> None:
    parsed = read(nccl_tests.PARSER, "nccl-tests/alltoall_na_wrong.txt")
    run = "node:h1/nccl:alltoall_perf"
    wrong = fact(parsed, run, "measured-wrong-in-place:1073741824")
    assert (wrong.status, wrong.note) == (Status.UNKNOWN, "the tool printed 'N/A'")
    assert value(parsed, run, "measured-wrong-out-of-place:1073741824") == 0
    assert value(parsed, run, "measured-bus-bandwidth-peak-in-place") == 18_110_000_000
    assert value(parsed, run, "measured-bus-bandwidth-average") == 10_913_300_000


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "$ ./build/all_reduce_perf -b 1G -e 4G -f 2 -g 4\n" + text,
        lambda text: "".join(f"[1,0]<stdout>:{line}" for line in text.splitlines(keepends=True)),
        lambda text: "".join(f"0: {line}" for line in text.splitlines(keepends=True)),
        lambda text: text.replace("    ", "\t"),
        lambda text: text.replace("     sum      -1", "            "),  # versions that leave operation and root out
    ],
    ids=["windows", "prompt", "mpirun", "srun", "tabs", "no-root"],
)
def test_nccl_variants_say_the_same(change: Callable[[str], str]) -> None:
    plain, other = parse(nccl_tests.PARSER, text_of(NCCL)), parse(nccl_tests.PARSER, change(text_of(NCCL)))
    assert {(one.subject, one.attribute, one.value) for one in other.facts} == {
        (one.subject, one.attribute, one.value) for one in plain.facts
    }


def test_nccl_cut_and_foreign_rows_give_no_number() -> None:
    text = text_of(NCCL)
    cut = text[: text.index("356.97") + 5]  # inside the last bandwidth
    parsed = parse(nccl_tests.PARSER, cut)
    assert not [one for one in parsed.facts if "4294967296" in one.attribute]
    assert fact(parsed, "node:gpu01/nccl:all_reduce_perf@4", "measured-bus-bandwidth-average").status is Status.UNKNOWN
    assert "may be cut off" in parsed.skipped[0].reason
    comma = parse(nccl_tests.PARSER, text.replace("356.97", "356,97"))
    assert not [one for one in comma.facts if "4294967296" in one.attribute]
    assert "not a whole row" in comma.skipped[0].reason


def test_nccl_hosts_and_repeated_runs_are_told_apart() -> None:
    text = text_of(NCCL)
    two = parse(nccl_tests.PARSER, text.replace("on      gpu01 device  2", "on      gpu02 device  0").replace("device  3", "device  7"))
    assert value(two, "cluster:?/nccl:all_reduce_perf@4:gpu01+1", "hosts") == ("gpu01", "gpu02")
    again = parse(nccl_tests.PARSER, text + text.replace("350.703", "351.001"))
    assert value(again, RUN, "measured-bus-bandwidth-average") == 350_703_000_000
    assert value(again, f"{RUN}#2", "measured-bus-bandwidth-average") == 351_001_000_000


IPERF = "iperf3/wan_two_streams.json"
PATH = "node:h1/path-to:198.51.100.4"


def test_iperf_totals_and_round_trips() -> None:
    parsed = read(iperf3.PARSER, IPERF)
    sent = fact(parsed, PATH, "measured-rate-sent")
    assert (sent.value, sent.unit, sent.source.at_s) == (10000100004.5, "bit/s", 1796025600.0)
    assert text_of(IPERF).splitlines()[sent.source.line - 1].strip().startswith('"bits_per_second": 10000100004.5')
    assert value(parsed, PATH, "measured-rate-received") == 9800000000.25
    assert value(parsed, PATH, "measured-retransmits") == 15
    assert value(parsed, PATH, "measured-duration") == 10.0004  # test_start says 0, since it ran by bytes
    assert value(parsed, PATH, "measured-round-trip-mean:1") == 0.040456
    assert fact(parsed, PATH, "measured-round-trip-mean:2").status is Status.UNKNOWN


def test_iperf_without_a_folder_is_the_address_that_it_prints() -> None:
    assert read(iperf3.PARSER, IPERF, host="").facts[0].subject == "node:192.0.2.7/path-to:198.51.100.4"


def test_iperf_broken_json_names_the_line_and_states_nothing() -> None:
    text = text_of(IPERF)
    broken = parse(iperf3.PARSER, text.replace('"retransmits": 15', '"retransmits": fifteen'))
    assert broken.facts == ()
    line = next(number for number, one in enumerate(text.splitlines(), 1) if '"retransmits": 15' in one)
    assert (broken.skipped[0].line, "the JSON is broken" in broken.skipped[0].reason) == (line, True)
    assert parse(iperf3.PARSER, text[: len(text) // 2]).facts == ()


def test_iperf_that_could_not_connect_is_unknown() -> None:
    refused = json.dumps(
        {"start": {"connected": [], "version": "iperf 3.9", "connecting_to": {"host": "far"}}, "error": "unable to connect"}
    )
    assert iperf3.PARSER.recognises(refused.encode())
    sent = fact(parse(iperf3.PARSER, refused), "node:h1/path-to:far", "measured-rate-sent")
    assert (sent.status, sent.note) == (Status.UNKNOWN, "the tool says: unable to connect")


def test_iperf_run_that_was_broken_off_has_no_rate() -> None:
    document = json.loads(text_of(IPERF))
    document["end"] = {}
    parsed = parse(iperf3.PARSER, json.dumps(document))
    assert fact(parsed, PATH, "measured-rate-received").status is Status.UNKNOWN


def test_iperf_reverse_datagrams_and_streams_of_events() -> None:
    document = json.loads(text_of(IPERF))
    document["start"]["test_start"] |= {"reverse": 1, "protocol": "UDP"}
    document["end"] = {"streams": [], "sum": {"seconds": 9.5, "bytes": 10, "bits_per_second": 8.5, "jitter_ms": 0.25, "lost_percent": 1.5}}
    parsed = parse(iperf3.PARSER, json.dumps(document))
    back = "node:h1/path-from:198.51.100.4"
    assert (value(parsed, back, "measured-jitter"), value(parsed, back, "measured-loss")) == (0.00025, 0.015)
    events = "\n".join(json.dumps({"event": name, "data": document[name]}) for name in ("start", "end"))
    assert iperf3.PARSER.recognises(events.encode())
    assert value(parse(iperf3.PARSER, events + "\n"), back, "measured-rate-sent") == 8.5


def test_xid_of_a_log_with_left_out_lines_is_a_lower_bound() -> None:
    parsed = read(kernel_log.PARSER, "syslog/dmesg_xid_119.log")
    card = "node:h1/pci:0000:9b:00"
    count = fact(parsed, card, "xid-seen:119")
    assert (count.status, count.note) == (Status.UNKNOWN, "at least 5: the driver stopped writing every one (printing 1 of every 30)")
    assert value(parsed, card, "xid-seen-at-least:119") == 5
    assert value(parsed, card, "driver-index") == 4
    assert value(parsed, card, "uuid") == "GPU-509665ad-b600-ac93-3616-d754b23d636d"
    assert value(parsed, card, "xid-seen-first:119") == "Sun Feb 23 16:24:18 2025"
    assert "Timeout after 6s of waiting for RPC response from GPU4 GSP" in str(value(parsed, card, "xid-seen-message:119"))


def test_carriers_are_counted_on_the_host_that_the_log_names() -> None:
    port = "node:jplc7eb7-vm-0/nic:ib6"
    parsed = read(kernel_log.PARSER, "syslog/ib_link_flap_6x.log")
    assert (value(parsed, port, "carrier-lost-seen"), value(parsed, port, "carrier-gained-seen")) == (6, 6)
    here = read(kernel_log.PARSER, "syslog/ib_link_flap_6x.log", host="jplc7eb7-vm-0.example.org")
    assert value(here, "node:jplc7eb7-vm-0.example.org/nic:ib6", "carrier-lost-seen") == 6


LINES = {
    "since": "[   81.400233] NVRM: Xid (PCI:0000:43:00): 79, pid=7, GPU has fallen off the bus.",
    "date": "[Mon Nov 30 09:44:07 2026] NVRM: Xid (PCI:0000:43:00): 79, pid=7, GPU has fallen off the bus.",
    "syslog": "Nov 30 09:44:07 h1 kernel: [   81.400233] NVRM: Xid (PCI:0000:43:00): 79, pid=7, GPU has fallen off the bus.",
    "iso": "2026-11-30T09:44:07.400233+01:00 h1 kernel: NVRM: Xid (PCI:0000:43:00): 79, pid=7, GPU has fallen off the bus.",
    "old": "kern  :err   : [Mon Nov 30 09:44:07 2026] NVRM: Xid (0000:43:00): 79, pid=7, GPU has fallen off the bus.",
}


@pytest.mark.parametrize("name", LINES)
def test_xid_lines_of_all_kinds_of_logs(name: str) -> None:
    text = LINES[name] + "\r\n"
    assert kernel_log.PARSER.recognises(text.encode())
    parsed = parse(kernel_log.PARSER, text)
    assert value(parsed, "node:h1/pci:0000:43:00", "xid-seen:79") == 1
    assert value(parsed, "node:h1/pci:0000:43:00", "xid-seen-message:79") == "pid=7, GPU has fallen off the bus."


def test_xid_that_is_cut_inside_its_number_is_none() -> None:
    line = LINES["date"]
    parsed = parse(kernel_log.PARSER, line[: line.index(": 79,") + 3])
    assert parsed.facts == ()
    assert "cut off" in parsed.skipped[0].reason


def test_switch_faults_and_links_of_drivers() -> None:
    text = (
        "[    5.000001] nvidia-nvswitch0: SXid (PCI:0000:84:00.0): 12028, Non-fatal, Link 38 egress error\n"
        "[    6.000001] mlx5_core 0000:40:00.0 ibp64s0: Link down\n"
        "[    7.000001] igb 0000:01:00.0 eno1: NIC Link is Up 1000 Mbps Full Duplex\n"
    )
    parsed = parse(kernel_log.PARSER, text)
    assert value(parsed, "node:h1/pci:0000:84:00.0", "sxid-seen:12028") == 1
    assert value(parsed, "node:h1/nic:ibp64s0", "carrier-lost-seen") == 1
    assert value(parsed, "node:h1/nic:eno1", "carrier-gained-seen") == 1


def test_other_texts_are_no_logs() -> None:
    for text in ("", "words\n", "[Feb 25 2025 13:59:45] [INFO] [tid 1803] Received\n", '{"a": "Aug 17 06:18:01"}\n'):
        assert not kernel_log.PARSER.recognises(text.encode())
