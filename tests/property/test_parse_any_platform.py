"""Parsers of platforms: no bytes make them raise, and a capture that is cut gives no number that the whole one does not give (D05)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers import (
    dmidecode,
    hardware_info,
    imbue_health_checks,
    ipmitool,
    lsblk,
    lspci,
    mounts,
    netbox,
    nhc_conf,
    redfish,
)
from bridgehead.discovery.parsing import Capture, Parser
from bridgehead.discovery.tables import json_documents, yaml_document
from bridgehead.model.fact import Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery"
CASES: dict[str, Parser] = {
    "redfish/hp_power.json": redfish.PARSER,
    "redfish/dell_power.json": redfish.PARSER,
    "redfish/dmtf_1U_thermal.json": redfish.PARSER,
    "redfish/rackpdu_branch_circuit_A.json": redfish.PARSER,
    "netbox/device-type_plates_below_comment.yaml": netbox.PARSER,
    "netbox/single_feed_two_loads.yaml": netbox.PARSER,
    "netbox/power_feeds_api.json": netbox.PARSER,
    "netbox/cables_import.csv": netbox.PARSER,
    "lspci/lspci_nn_a100.txt": lspci.PARSER,
    "dmidecode/two_sockets.txt": dmidecode.PARSER,
    "ipmitool/dcmi_power.txt": ipmitool.PARSER,
    "ipmitool/sensor.txt": ipmitool.PARSER,
    "ipmitool/sdr_elist.txt": ipmitool.PARSER,
    "ipmitool/fru.txt": ipmitool.PARSER,
    "storage/lsblk_3.json": lsblk.PARSER,
    "mounts/proc_mounts.txt": mounts.PARSER,
    "hardware-info/ncx_gb200_compute_tray_1.json": hardware_info.PARSER,
    "hardware-info/ncx_dell_site_explorer_report.json": hardware_info.PARSER,
    "expected-config/imbue_health_checks_config.json": imbue_health_checks.PARSER,
    "nhc-conf/azure_nd96isr_h100_v5.conf": nhc_conf.PARSER,
}
PARSERS = {parser.tool: parser for parser in CASES.values()}
COUNTED = re.compile(r".*-count(?:-pci)?(?::.*)?|pci-count:.*")
"""Attributes that count lines, which a cut at the end of a line cannot tell."""
SUMMED = {("device-type:Acme/Trainer 8 GPU", name) for name in ("nameplate-power", "power-declared")}
"""A sum, of which the same holds, and the comment that contradicts it only while all parts of the sum are there."""


@pytest.mark.parametrize("tool", PARSERS)
@given(data=st.binary(max_size=2000) | st.text(max_size=500).map(str.encode))
def test_any_bytes(tool: str, data: bytes) -> None:
    PARSERS[tool].recognises(data)
    merge(PARSERS[tool].parse(Capture("f", data)).facts)


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_any_cut_and_any_damage(name: str, data: st.DataObject) -> None:
    whole = (FIXTURES / name).read_bytes()
    start, end = sorted(data.draw(st.lists(st.integers(0, len(whole)), min_size=2, max_size=2)))
    wreck = whole[:start] + data.draw(st.binary(max_size=20)) + whole[end:]
    CASES[name].recognises(wreck)
    merge(CASES[name].parse(Capture("f", wreck)).facts)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", [name for name in CASES if name.endswith(".json")])
@given(data=st.data())
def test_any_value_in_the_place_of_another(name: str, data: st.DataObject) -> None:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    places = list(re.finditer(r": (\"[^\"\n]*\"|[\d.]+|null|true|false|[\[{])", text))
    place = data.draw(st.sampled_from(places))
    if place[1] in "[{":
        return  # what follows would not fit; whole lists and tables are replaced by the cases of damage
    value = msgspec.json.encode(data.draw(JSON_VALUES)).decode()
    merge(CASES[name].parse(Capture("f", (text[: place.start(1)] + value + text[place.end(1) :]).encode())).facts)


def numbers(parser: Parser, data: bytes) -> dict[tuple[str, str], object]:
    return {
        (fact.subject, fact.attribute): fact.value
        for fact in parser.parse(Capture("f", data, "h1")).facts
        if fact.status is Status.KNOWN and isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    }


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_what_is_cut_off_gives_no_other_number(name: str, data: st.DataObject) -> None:
    whole = (FIXTURES / name).read_bytes()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    full = numbers(CASES[name], whole)
    for key, value in numbers(CASES[name], cut).items():
        assert COUNTED.fullmatch(key[1]) or key in SUMMED or value == full[key], key


@given(data=st.binary(max_size=300) | st.text(alphabet='{}[]":,\n 01a-', max_size=60).map(str.encode))
def test_documents_of_any_bytes(data: bytes) -> None:
    list(json_documents(Capture("f", data)))
    yaml_document(Capture("f", data))


@given(value=JSON_VALUES)
def test_a_document_is_what_it_was(value: object) -> None:
    document = {"a": value, "b": [value]}
    raw = msgspec.json.format(msgspec.json.encode(document), indent=2)
    assert list(json_documents(Capture("f", raw))) == [msgspec.json.decode(raw)]
