"""NetBox: nameplates that its own comment contradicts, feeds whose wiring it does not say, and everything's place (M5.1, M5.3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.netbox_types import watts_in_words, weight_in_words
from bridgehead.discovery.parsers.netbox import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "netbox"


def data(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def read(name: str) -> Parsed:
    return PARSER.parse(Capture(name, data(name)))


def parse(text: str | bytes) -> Parsed:
    raw = text.encode() if isinstance(text, str) else text
    assert PARSER.recognises(raw)
    return PARSER.parse(Capture("f", raw))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def test_device_type_whose_comment_contradicts_its_plates() -> None:
    parsed = read("device-type_plates_below_comment.yaml")
    kind = "device-type:Acme/Trainer 8 GPU"
    plates, said = fact(parsed, kind, "nameplate-power"), fact(parsed, kind, "power-declared")
    assert (plates.value, plates.status) == (3200, Status.CONFLICT)
    assert (said.value, said.status, said.source.line) == (10_200, Status.CONFLICT, 8)
    assert "10.2kW" in plates.note
    assert value(parsed, f"{kind}/supply:Inlet 2", "nameplate-power") == 1600
    assert value(parsed, kind, "supply-count") == 2
    assert value(parsed, kind, "units") == 8
    assert value(parsed, kind, "weight") == pytest.approx(130.4532, rel=1e-5)
    assert value(parsed, kind, "interface-count:100gbase-x-qsfp28") == 2


def test_plates_that_cover_the_comment_are_a_bound() -> None:
    text = data("device-type_plates_below_comment.yaml").decode().replace("1600", "6600")
    plates = fact(parse(text), "device-type:Acme/Trainer 8 GPU", "nameplate-power")
    assert (plates.value, plates.status) == (13_200, Status.KNOWN)
    assert "never the load" in plates.note


def test_a_supply_without_a_plate_gives_no_sum() -> None:
    text = data("device-type_plates_below_comment.yaml").decode().replace("    maximum_draw: 1600\n", "", 1)
    assert not [one for one in parse(text).facts if one.attribute == "nameplate-power" and "/supply:" not in one.subject]


def test_switch_tray_without_inlet_belongs_to_its_rack() -> None:
    parsed = read("device-type_fed_by_busbar.yaml")
    powered = fact(parsed, "device-type:Acme/Link Switch Tray", "powered")
    assert powered.value is False
    assert "rack" in powered.note
    assert not [one for one in parsed.facts if one.unit == "W"]


def test_E05_share_of_a_feed_needs_no_rounding() -> None:
    parsed = read("single_feed_two_loads.yaml")
    feed = "site:hall-1/panel:P1/feed:F1"
    volts, amps, share = (value(parsed, feed, name) for name in ("voltage", "amperage", "max-utilization"))
    assert (volts, amps, share) == (120, 15, 0.8)
    assert value(parsed, feed, "wiring") == "single-phase"
    assert value(parsed, "site:hall-1/device:rail-1/supply:In", "connected-to") == feed
    assert value(parsed, "site:?/device:node-1/supply:PS1", "connected-to") == "site:hall-1/device:rail-1/outlet:Out 1"
    load = value(parsed, "site:?/device:node-1/supply:PS1", "power-allocated")
    assert isinstance(load, int)
    assert 100 * load / (volts * amps * share) == pytest.approx(27.777_777)
    assert [one.reason for one in parsed.skipped] == ["'expected_upstream' is no list of objects that are read"]


def test_E03_voltage_of_three_phases_may_be_to_neutral() -> None:
    parsed = read("three_phase_230.yaml")
    feed = "site:?/panel:pp/feed:f-a"
    assert (value(parsed, feed, "voltage"), value(parsed, feed, "amperage"), value(parsed, feed, "phase")) == (230, 32, "three-phase")
    wiring = fact(parsed, feed, "wiring")
    assert (wiring.value, wiring.status) == (None, Status.UNKNOWN)
    assert "22,080 VA" in wiring.note
    assert "12,748 VA" in wiring.note
    assert value(parsed, "site:?/device:pdu-a/outlet:out-1", "feed-leg") == "A"


def test_answers_of_the_api() -> None:
    parsed = read("power_feeds_api.json")
    feed = "site:?/panel:PP-A/feed:A-12"
    assert value(parsed, feed, "rack") == "R12"
    assert fact(parsed, feed, "voltage").source.line == 17
    assert value(parsed, feed, "max-utilization") == 0.8
    assert fact(parsed, feed, "wiring").status is Status.UNKNOWN
    other = "site:?/panel:PP-B/feed:B-12"
    assert (value(parsed, other, "voltage"), value(parsed, other, "wiring")) == (-48, "dc")
    assert value(parsed, other, "feed-type") == "redundant"
    assert not [one for one in parsed.facts if one.subject == other and one.attribute == "max-utilization"]
    assert "2 of 3 objects" in parsed.skipped[0].reason


def test_bundle_of_answers_places_feeds_ports_and_devices() -> None:
    url = "https://n/api/dcim"
    site = {"id": 1, "url": f"{url}/sites/1/", "name": "site-a"}
    panel = {"id": 2, "url": f"{url}/power-panels/2/", "name": "PP-A", "site": site}
    feed = {"id": 7, "url": f"{url}/power-feeds/7/", "name": "A-12", "power_panel": {"name": "PP-A"}, "voltage": 230, "amperage": 32}
    rack = {"id": 4, "url": f"{url}/racks/4/", "name": "R1", "site": site, "u_height": 48, "max_weight": 1500}
    rack |= {"weight": 300, "weight_unit": {"value": "lb", "label": "Pounds"}}
    kind = {"manufacturer": {"name": "Acme"}, "model": "T8"}
    device = {"id": 5, "url": f"{url}/devices/5/", "name": "gpu01", "site": site, "rack": {"name": "R1"}, "position": 12.0}
    device |= {"device_type": kind, "face": {"value": "front"}}
    port = {"id": 6, "url": f"{url}/power-ports/6/", "device": {"name": "gpu01"}, "name": "PSU1", "maximum_draw": 3300}
    port |= {"connected_endpoints": [{"name": "A-12", "power_panel": {"name": "PP-A"}}]}
    parsed = parse(json.dumps([port, device, feed, rack, panel, site], indent=1))
    assert value(parsed, "site:site-a/panel:PP-A/feed:A-12", "voltage") == 230
    assert value(parsed, "site:site-a/rack:R1", "units") == 48
    assert value(parsed, "site:site-a/rack:R1", "weight") == pytest.approx(136.077711)
    assert value(parsed, "site:site-a/rack:R1", "max-weight") == pytest.approx(680.388555)
    node = "site:site-a/device:gpu01"
    assert (value(parsed, node, "rack"), value(parsed, node, "position"), value(parsed, node, "device-type")) == ("R1", 12, "Acme/T8")
    assert value(parsed, f"{node}/supply:PSU1", "connected-to") == "site:site-a/panel:PP-A/feed:A-12"


def test_panels_of_one_name_at_two_sites_say_no_site() -> None:
    parsed = parse(
        "power_panels:\n  - {site: a, name: P}\n  - {site: b, name: P}\npower_feeds:\n  - {name: F, power_panel: P, voltage: 208}\n"
    )
    assert value(parsed, "site:?/panel:P/feed:F", "voltage") == 208


def test_cables_of_the_import_form() -> None:
    parsed = read("cables_import.csv")
    first = "cable:C-0001"
    assert (value(parsed, first, "length"), fact(parsed, first, "length").unit) == (2.5, "m")
    assert (value(parsed, first, "end-a"), value(parsed, first, "end-b")) == (("leaf-01:swp1",), ("gpu01:ens1f0",))
    assert (value(parsed, first, "type"), value(parsed, first, "status")) == ("dac-active", "connected")
    assert value(parsed, "cable:leaf-01:swp2--gpu02:ens1f0", "length") == pytest.approx(4.8768)
    unit = fact(parsed, "cable:C-0003", "length")
    assert (unit.value, unit.status, unit.source.line) == (None, Status.UNKNOWN, 4)


def test_cables_of_the_api() -> None:
    def end(device: str) -> list[object]:
        return [{"object_type": "dcim.interface", "object_id": 3, "object": {"name": "e0", "device": {"name": device}}}]

    cable = {"id": 9, "url": "/api/dcim/cables/9/", "a_terminations": end("n1"), "b_terminations": end("leaf"), "length": 300}
    parsed = parse(json.dumps(cable | {"length_unit": {"value": "cm", "label": "Centimeters"}, "status": {"value": "connected"}}))
    assert (value(parsed, "cable:9", "length"), value(parsed, "cable:9", "end-b")) == (3, ("leaf:e0",))


def test_exported_tables_and_their_words() -> None:
    devices = "Name,Status,Tenant,Site,Location,Rack,Role,Manufacturer,Type,IP Address\r\ngpu01,Active,,site-a,,R1,gpu,Acme,T8,10.0.0.1\r\n"
    parsed = parse(devices)
    assert value(parsed, "site:site-a/device:gpu01", "device-type") == "Acme/T8"
    assert value(parsed, "site:site-a/device:gpu01", "status") == "active"
    racks = parse("Name,Site,Location,Status,Role,Height,Space\nR1,site-a,,Active,gpu,48U,10 %\nR2,site-a\n")
    assert value(racks, "site:site-a/rack:R1", "units") == 48
    assert "2 cells under 7 columns" in racks.skipped[0].reason
    feeds = parse("name;power_panel;site;voltage;amperage;phase\nF;P;site-a;400;63;Three-phase\n")
    assert value(feeds, "site:site-a/panel:P/feed:F", "amperage") == 63
    assert fact(feeds, "site:site-a/panel:P/feed:F", "wiring").status is Status.UNKNOWN


def test_lines_that_are_cut_give_nothing() -> None:
    cut = data("cables_import.csv").rpartition(b",m\n")[0]  # inside the first length
    assert not [one for one in PARSER.parse(Capture("f", cut)).facts if one.attribute == "length"]
    short = parse(data("three_phase_230.yaml").replace(b"32,", b"3"))
    assert short.skipped
    yaml = b"manufacturer: Acme\nmodel: T8\nslug: t8\npower-ports:\n  - name: P\n    maximum_draw: 16"
    parsed = parse(yaml)
    assert not [one for one in parsed.facts if one.unit == "W"]
    assert "may be cut off" in parsed.skipped[0].reason


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("6.5kW max", 6500),
        ("draws 1,200 W, 900 W idle", 1200),
        ("2200 watts", 2200),
        ("v2.5kWh", None),
        ("1.5.2 W", None),
        ("no power", None),
    ],
)
def test_watts_in_a_comment(text: str, watts: float | None) -> None:
    found = watts_in_words(text)
    assert (found and found[0]) == watts


def test_weights_in_a_comment() -> None:
    assert weight_in_words("271.5 lbs (123.16 kgs) max") == (pytest.approx(123.150328), "271.5 lbs")
    assert weight_in_words("80 kg, with rails 95 kg") is None


def test_windows_line_ends_change_nothing() -> None:
    for name in ("device-type_plates_below_comment.yaml", "cables_import.csv", "power_feeds_api.json"):
        assert parse(data(name).replace(b"\n", b"\r\n")).facts == PARSER.parse(Capture("f", data(name))).facts
