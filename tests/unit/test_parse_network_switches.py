"""ibswinfo, perfquery and UFM link events (M2, M3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.discovery.parsers import ibswinfo, perfquery, ufm_events
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(parser: Parser, text: str) -> Parsed:
    return parser.parse(Capture("f", text.encode(), "h1"))


def facts(parser: Parser, text: str) -> dict[tuple[str, str], Fact]:
    parsed = parse(parser, text)
    found = {(fact.subject, fact.attribute): fact for fact in parsed.facts}
    assert len(found) == len(parsed.facts)
    return found


SWITCH = "switch:1c34da0300010540"


def test_ibswinfo_inventory_power_and_a_fan_error() -> None:
    found = facts(ibswinfo.PARSER, text_of("ibswinfo/ok_qm8700.out"))
    expected = {
        "description": "SwitchIB Mellanox Technologies",
        "part-number": "MSB7790-ES2F",
        "serial": "MT1943X00498",
        "product-name": "Scorpion IB EDR Unmanaged",
        "revision": "AN",
        "port-count": 36,
        "psid": "MT_1880110032",
        "firmware-version": "11.2008.2102",
        "uptime": 160 * 86400 + 10 * 3600 + 38 * 60 + 53,
        "temperature": 45,
        "temperature-max": 57,
        "fan-status": "ERROR",
    }
    assert {attribute: fact.value for (subject, attribute), fact in found.items() if subject == SWITCH} == expected
    assert found[f"{SWITCH}/psu:0", "power-draw"].value == 72
    assert found[f"{SWITCH}/psu:1", "power-draw"].value == 71
    assert found[f"{SWITCH}/psu:0", "fan-status"].value == "OK"
    assert found[f"{SWITCH}/fan:8", "fan-speed"].value == 7232
    assert found[SWITCH, "fan-status"].source.line == 31


def test_ibswinfo_a_word_instead_of_a_power_is_an_unknown_field_and_the_others_are_kept() -> None:
    found = facts(ibswinfo.PARSER, text_of("ibswinfo/error_values.out"))
    power = found[f"{SWITCH}/psu:0", "power-draw"]
    assert (power.status, power.note, power.unit) == (Status.UNKNOWN, "the tool printed 'foo'", "W")
    assert found[f"{SWITCH}/psu:1", "power-draw"].value == 71
    assert found[f"{SWITCH}/psu:0", "serial"].value == "MT1944X10558"
    assert found[SWITCH, "fan-status"].value == "OK"


def test_ibswinfo_missing_rows_are_unknown_and_not_zero() -> None:
    found = facts(ibswinfo.PARSER, text_of("ibswinfo/missing_fields.out"))
    unknown = {key for key, fact in found.items() if fact.status is Status.UNKNOWN}
    assert unknown == {
        (f"{SWITCH}/psu:0", "dc-power"),
        (f"{SWITCH}/psu:0", "fan-status"),
        (f"{SWITCH}/psu:0", "power-draw"),
        (f"{SWITCH}/psu:1", "status"),
        (f"{SWITCH}/fan:1", "fan-speed"),
        (SWITCH, "temperature"),
        (SWITCH, "fan-status"),
    }
    assert found[f"{SWITCH}/psu:0", "status"].value == "OK"


def test_ibswinfo_of_two_switches_in_one_file_and_windows_line_ends() -> None:
    one = text_of("ibswinfo/ok_qm8700.out")
    both = facts(ibswinfo.PARSER, (one + one.replace("0x1c34da0300010540", "0x1c34da0300010666")).replace("\n", "\r\n"))
    assert both[SWITCH, "temperature"].value == both["switch:1c34da0300010666", "temperature"].value == 45
    assert both["switch:1c34da0300010666", "temperature"].source.line == 68


@pytest.mark.parametrize("name", ["ibswinfo/ok_qm8700.out", "perfquery/switch_two_ports.out", "ufm-events/link_events.log"])
def test_a_cut_anywhere_gives_no_other_value(name: str) -> None:
    parser = {"ib": ibswinfo.PARSER, "pe": perfquery.PARSER, "uf": ufm_events.PARSER}[name[:2]]
    text = text_of(name)
    counts = ("link-down-seen", "link-up-seen")
    whole = facts(parser, text)
    for cut in range(0, len(text), 13):
        for (subject, attribute), fact in facts(parser, text[:cut]).items():
            if fact.status is Status.KNOWN and "?" not in subject and not attribute.startswith(counts):
                assert whole[subject, attribute].value == fact.value


def test_perfquery_two_ports_in_one_file() -> None:
    found = facts(perfquery.PARSER, text_of("perfquery/switch_two_ports.out"))
    assert {subject for subject, _ in found} == {"lid:1719/port:1", "lid:1719/port:2"}
    sent = found["lid:1719/port:1", "data-sent-seen"]
    assert (sent.value, sent.unit, sent.source.line) == (36298026860928 * 4, "B", 4)
    assert found["lid:1719/port:2", "data-received-seen"].value == 39078804993378 * 4
    assert found["lid:1719/port:1", "transmit-wait-seen"].value == 22730501
    assert found["lid:1719/port:2", "packets-sent-seen"].value == 122978948297
    assert found["lid:1719/port:2", "symbol-errors-seen"].value == 0


def test_D11_perfquery_counters_that_have_stopped_are_unknown() -> None:
    text = (
        "# Port counters: Lid 12 port 255 (CapMask: 0x1400)\nPortSelect:......................255\n"
        "SymbolErrorCounter:..............65535\nLinkDownedCounter:...............255\nLinkErrorRecoveryCounter:........254\n"
        "PortXmitData:....................4294967295\nPortXmitPkts:....................N/A\nNewCounter:....................7\n"
    )
    found = facts(perfquery.PARSER, text)
    for name in ("symbol-errors-seen", "link-downed-seen", "data-sent-seen", "packets-sent-seen"):
        assert found["lid:12/port:all", name].status is Status.UNKNOWN
    assert found["lid:12/port:all", "link-recoveries-seen"].value == 254
    assert "an unknown counter: 'NewCounter'" in parse(perfquery.PARSER, text).skipped[0].reason
    extended = text.replace("# Port counters", "# Port extended counters")
    assert facts(perfquery.PARSER, extended)["lid:12/port:all", "data-sent-seen"].value == 4294967295 * 4


LEAF, SPINE = "switch:98039b0300ff0700", "switch:98039b0300ff0200"


def test_ufm_events_of_both_ends_with_the_cable() -> None:
    found = facts(ufm_events.PARSER, text_of("ufm-events/link_events.log"))
    for own, peer in ((f"{LEAF}/port:22", f"{SPINE}/port:5"), (f"{SPINE}/port:5", f"{LEAF}/port:22")):
        assert found[own, "peer-seen"].value == peer
        assert found[own, "cable-serial-seen"].value == "XX2611FT00042"
        assert found[own, "link-down-seen"].value == 2
        assert found[own, "link-up-seen"].value == 1
        assert found[own, "link-down-seen-first"].value == "2026-11-30 10:15:02.117"
        assert found[own, "link-down-seen-last"].value == "2026-11-30 11:02:44.001"
    assert (found[LEAF, "name"].value, found[f"{LEAF}/port:22", "label"].value) == ("leaf-a-07", "1/11/2")
    assert found["adapter:98039b0300aa0310", "description"].value == "gpu-07 HCA-3"
    assert found["adapter:98039b0300aa0310/port:1", "peer-seen"].value == f"{LEAF}/port:1"
    assert ("adapter:98039b0300aa0310/port:1", "cable-serial-seen") not in found


def test_ufm_event_that_is_cut_in_the_serial_number_says_none() -> None:
    line = text_of("ufm-events/link_events.log").split("\n")[0]
    cut = facts(ufm_events.PARSER, line[:-2])
    assert cut[f"{LEAF}/port:22", "link-down-seen"].value == 1
    assert (f"{LEAF}/port:22", "cable-serial-seen") not in cut
    nothing = parse(ufm_events.PARSER, line[: line.index(", cable")])
    assert (nothing.facts, "cut off" in nothing.skipped[0].reason) == ((), True)
