"""ipmitool: the draw of a host, sensors with and without a reading, parts (M2, M5.3)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bridgehead.discovery.parsers.ipmitool import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "ipmitool"


def text_of(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(text: str) -> Parsed:
    return PARSER.parse(Capture("f", text.encode(), "h1"))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def test_power_reading() -> None:
    parsed = parse(text_of("dcmi_power.txt"))
    draw = fact(parsed, "node:h1", "power-draw")
    assert (draw.value, draw.unit, draw.source.line) == (2817, "W", 2)
    assert value(parsed, "node:h1", "power-draw-max") == 6120
    assert value(parsed, "node:h1", "power-draw-interval") == 60


@pytest.mark.parametrize(
    "change",
    [("activated", "deactivated"), ("2817 Watts", "0 Watts"), ("2817 Watts", "2817"), ("2817 Watts", "N/A")],
)
def test_power_that_cannot_be_is_unknown(change: tuple[str, str]) -> None:
    draw = fact(parse(text_of("dcmi_power.txt").replace(*change)), "node:h1", "power-draw")
    assert (draw.value, draw.status) == (None, Status.UNKNOWN)


def test_sensors_with_limits_and_without_a_reading() -> None:
    parsed = parse(text_of("sensor.txt"))
    assert value(parsed, "node:h1/sensor:CPU1 Temp", "temperature") == 45
    assert value(parsed, "node:h1/sensor:Inlet Temp", "threshold-lower-critical") == -7
    assert value(parsed, "node:h1/sensor:Inlet Temp", "health-seen") == "Warning"
    assert not [one for one in parsed.facts if one.attribute == "threshold-lower-fatal" and "Inlet" in one.subject]
    assert (value(parsed, "node:h1/sensor:FAN1", "fan-speed"), fact(parsed, "node:h1/sensor:FAN1", "fan-speed").unit) == (8100, "rpm")
    assert fact(parsed, "node:h1/sensor:FAN2", "state-seen").status is Status.UNKNOWN
    assert value(parsed, "node:h1/sensor:PSU1 Input", "power-draw") == 1420
    assert "2 rows with no unit" in parsed.skipped[0].reason  # discrete bits, and an airflow
    off = parse(text_of("sensor.txt").replace("45.000 ", "na     "))
    assert fact(off, "node:h1/sensor:CPU1 Temp", "temperature").status is Status.UNKNOWN


def test_sensors_of_one_name_are_two() -> None:
    parsed = parse(text_of("sdr_elist.txt"))
    assert value(parsed, "node:h1/sensor:Temp", "temperature") == 41
    assert value(parsed, "node:h1/sensor:Temp#2", "temperature") == 43
    assert value(parsed, "node:h1/sensor:PS Redundancy", "state-seen") == "Fully Redundant"
    assert fact(parsed, "node:h1/sensor:GPU9 Temp", "state-seen").status is Status.UNKNOWN


def test_short_list_of_sensors() -> None:
    text = (
        "Temp             | 41 degrees C      | ok\nFan1 RPM         | 7920 RPM          | ok\nPS1 Status       | no reading        | ns\n"
    )
    assert PARSER.recognises(text.encode())
    parsed = parse(text)
    assert value(parsed, "node:h1/sensor:Fan1 RPM", "fan-speed") == 7920
    assert fact(parsed, "node:h1/sensor:PS1 Status", "state-seen").status is Status.UNKNOWN


def test_parts_and_the_host_itself() -> None:
    parsed = parse(text_of("fru.txt"))
    assert (value(parsed, "node:h1", "model"), value(parsed, "node:h1", "serial")) == ("Trainer T8", "T8X0004711")
    assert value(parsed, "node:h1", "board-serial") == "BD000815"
    assert value(parsed, "node:h1/fru:PSU1", "serial") == "PS00017"
    assert "Device not present" in parsed.skipped[0].reason


@pytest.mark.parametrize("name", ["dcmi_power.txt", "sensor.txt", "sdr_elist.txt", "fru.txt"])
def test_variants_say_the_same(name: str) -> None:
    text = text_of(name)
    said = {(one.subject, one.attribute, one.value) for one in parse(text).facts}
    for other in (text.replace("\n", "\r\n"), "$ ipmitool\n" + text):
        assert PARSER.recognises(other.encode())
        assert {(one.subject, one.attribute, one.value) for one in parse(other).facts} == said


def test_a_cut_line_gives_nothing() -> None:
    parsed = parse("Temp             | 0Eh | ok  |  3.1 | 41 degrees C\nTemp             | 0Fh | ok  |  3.2 | 4")
    assert [one.subject for one in parsed.facts if one.attribute == "temperature"] == ["node:h1/sensor:Temp"]
    assert "may be cut off" in parsed.skipped[0].reason


def test_a_long_run_of_blanks_is_looked_through_once() -> None:
    text = "".join(f"Temp | {' ' * blanks}x\n" for blanks in (100_000, 100_000, 100_000))
    began_s = time.process_time()
    PARSER.recognises(text[: 64 << 10].encode())
    assert parse(text).facts == ()
    assert time.process_time() - began_s < 2  # as long as a minute when each blank was tried with each other
