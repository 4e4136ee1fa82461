"""Redfish: load is not nameplate, percent is not speed, and readings that disagree are shown (M2, M5.3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.discovery.merge import merge
from bridgehead.discovery.parsers.redfish import PARSER
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.model.fact import Fact, Status

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "discovery" / "redfish"


def data(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def read(name: str, *, host: str = "") -> Parsed:
    return PARSER.parse(Capture(name, data(name), host))


def parse(document: object, *, host: str = "") -> Parsed:
    return PARSER.parse(Capture("f", json.dumps(document, indent=1).encode(), host))


def fact(parsed: Parsed, subject: str, attribute: str) -> Fact:
    [found] = [one for one in parsed.facts if one.subject == subject and one.attribute == attribute]
    return found


def value(parsed: Parsed, subject: str, attribute: str) -> object:
    return fact(parsed, subject, attribute).value


def test_E06_dell_live_load_is_429_W_and_900_W_is_a_nameplate() -> None:
    parsed = read("dell_power.json")
    chassis, supply = "chassis:System.Embedded.1", "chassis:System.Embedded.1/supply:PSU.Slot.1"
    draw = fact(parsed, chassis, "power-draw")
    assert (draw.value, draw.unit, draw.status, draw.source.line) == (429, "W", Status.KNOWN, 18)
    assert value(parsed, chassis, "power-capacity") == 1628
    printed = fact(parsed, supply, "power-draw-input")
    assert (printed.value, printed.status) == (900, Status.CONFLICT)
    assert "429 W" in printed.note
    bound = fact(parsed, supply, "nameplate-power-input")
    assert (bound.value, bound.status) == (900, Status.KNOWN)
    assert value(parsed, supply, "power-draw-output") == 203  # LastPowerOutputWatts is null
    assert value(parsed, supply, "line-voltage-seen") == 206
    assert not [one for one in parsed.facts if one.attribute == "power-draw" and one.value == 900]
    assert "flags and no voltages" in parsed.skipped[0].reason


def test_dell_limit_below_the_draw_and_efficiency_below_one_percent_are_not_believed() -> None:
    parsed = read("dell_power.json")
    limit = fact(parsed, "chassis:System.Embedded.1", "power-limit")
    assert (limit.value, limit.status) == (348, Status.CONFLICT)
    efficiency = fact(parsed, "chassis:System.Embedded.1/supply:PSU.Slot.1", "efficiency")
    assert (efficiency.value, efficiency.status) == (None, Status.UNKNOWN)


def test_broken_json_is_named_by_file_and_line_and_other_documents_are_read() -> None:
    parsed = read("dell_power_invalid.json")
    assert parsed.facts == ()
    [skipped] = parsed.skipped
    assert (skipped.file, skipped.line) == ("dell_power_invalid.json", 71)
    assert "broken" in skipped.reason
    both = PARSER.parse(Capture("f", b"$ curl one\n" + data("dell_power_invalid.json") + b"\n# two\n" + data("hp_power.json")))
    assert value(both, "chassis:1", "power-draw") == 221
    assert fact(both, "chassis:1", "power-draw").source.line == 1 + data("dell_power_invalid.json").count(b"\n") + 2 + 43
    assert [one.line for one in both.skipped] == [72]


def test_dell_system_inventory() -> None:
    parsed = read("dell_systems.json")
    node = "node:tpa-hostname"
    assert value(parsed, node, "powered-by") == ("PSU.Slot.1", "PSU.Slot.2")
    cooled = value(parsed, node, "cooled-by")
    assert isinstance(cooled, tuple)
    assert len(cooled) == 16
    assert value(parsed, node, "model") == "PowerEdge R640"
    assert value(parsed, node, "cpu-threads") == 80
    assert value(parsed, node, "memory-installed") == pytest.approx(476.837376 * 2**30)
    assert value(read("dell_systems.json", host="gpu01"), "node:gpu01", "hostname") == "tpa-hostname"


def test_dell_fans_turn_and_temperatures_have_limits() -> None:
    parsed = read("dell_thermal.json")
    fan = fact(parsed, "chassis:System.Embedded.1/fan:System Board Fan1A", "fan-speed")
    assert (fan.value, fan.unit) == (17760, "rpm")
    assert len([one for one in parsed.facts if one.attribute == "fan-speed"]) == 16
    cpu = "chassis:System.Embedded.1/sensor:CPU1 Temp"
    assert (value(parsed, cpu, "temperature"), value(parsed, cpu, "threshold-upper-critical")) == (40, 93)


def test_two_sources_that_disagree_about_one_chassis_are_both_kept() -> None:
    one, other = read("dmtf_1U_power.json"), read("dmtf_1U_environmentmetrics.json")
    assert value(one, "chassis:1U", "power-draw") == 344
    assert value(one, "chassis:1U", "power-capacity") == 800
    assert value(other, "chassis:1U", "power-draw") == 374
    assert value(other, "chassis:1U", "power-limit") == 500
    [view] = [view for view in merge((*one.facts, *other.facts)) if (view.subject, view.attribute) == ("chassis:1U", "power-draw")]
    assert view.status is Status.CONFLICT
    assert [claim.value for claim in view.claims] == [344, 374]
    [limit] = [view for view in merge((*one.facts, *other.facts)) if (view.subject, view.attribute) == ("chassis:1U", "power-limit")]
    assert limit.value == 500


def test_dmtf_supply_in_warning_on_a_low_line() -> None:
    parsed = read("dmtf_1U_power.json")
    supply = "chassis:1U/supply:0"
    assert value(parsed, supply, "health-seen") == "Warning"
    assert value(parsed, supply, "power-draw-output") == 325
    assert value(parsed, supply, "line-voltage-seen") == 120
    assert value(parsed, supply, "nameplate-power:100-120") == 800
    assert value(parsed, supply, "nameplate-power:200-240") == 1300


def test_dmtf_sensor_that_is_disabled_is_unknown_and_not_0() -> None:
    parsed = read("dmtf_1U_thermal.json")
    off = fact(parsed, "chassis:1U/sensor:CPU2 Temp", "temperature")
    assert (off.value, off.status) == (None, Status.UNKNOWN)
    assert "Disabled" in off.note
    assert value(parsed, "chassis:1U", "inlet-temperature") == 25


def test_hp_control_counts_and_an_idle_supply_is_shown() -> None:
    parsed = read("hp_power.json")
    assert value(parsed, "chassis:1", "power-draw") == 221
    assert value(parsed, "chassis:1", "power-capacity") == 1600
    assert [value(parsed, f"chassis:1/supply:{n}", "nameplate-power") for n in (0, 1)] == [800, 800]
    assert [value(parsed, f"chassis:1/supply:{n}", "power-draw-output") for n in (0, 1)] == [0, 90]
    assert [value(parsed, f"chassis:1/supply:{n}", "shares-load-seen") for n in (0, 1)] == [False, True]
    together = fact(parsed, "chassis:1", "supplies-draw-output")
    assert (together.value, together.status) == (90, Status.CONFLICT)
    assert "221 W" in together.note


def test_ilo4_percent_is_no_speed() -> None:
    parsed = read("hp_thermal_ilo4.json")
    duty = fact(parsed, "chassis:1/fan:Fan 1", "fan-duty")
    assert (duty.value, duty.unit) == (17, "%")
    assert not [one for one in parsed.facts if one.attribute == "fan-speed"]
    assert value(parsed, "chassis:1", "inlet-temperature") == 19
    assert value(parsed, "chassis:1/sensor:44-P%2FS 2 Zone", "temperature") == 34


def test_pdu_circuit_that_contradicts_itself_is_reported_and_nothing_is_derived() -> None:
    parsed = read("rackpdu_branch_circuit_A.json")
    branch = "pdu:1/circuit:A"
    assert value(parsed, branch, "amperage") == 16
    assert value(parsed, branch, "phase-wiring") == "TwoPhase3Wire"
    assert value(parsed, branch, "voltage-seen:L1-N") == 118.2
    assert value(parsed, branch, "voltage-seen:L1-L2") == 203.5
    assert value(parsed, branch, "current-seen") == 5.19
    draw = fact(parsed, branch, "power-draw")
    assert (draw.value, draw.status) == (937.4, Status.CONFLICT)
    assert "613.5 VA" in draw.note
    assert "1056.2 VA" in draw.note
    assert not {613, 1056} & {round(one.value) for one in parsed.facts if isinstance(one.value, int | float)}


def test_pdu_circuit_that_agrees_with_itself_is_known() -> None:
    text = data("rackpdu_branch_circuit_A.json").decode().replace("937.4", "1056.2")
    parsed = PARSER.parse(Capture("f", text.encode(), "pdu-a1"))
    draw = fact(parsed, "pdu:pdu-a1-1/circuit:A", "power-draw")
    assert (draw.value, draw.status) == (1056.2, Status.KNOWN)


def test_three_lines_are_added_up_before_they_are_judged() -> None:
    lines = {f"Line{n}": {"Reading": amps} for n, amps in ((1, 10), (2, 12), (3, 8))}
    voltages = {f"Line{n}ToNeutral": {"Reading": 230} for n in (1, 2, 3)}
    circuit = {
        "@odata.type": "#Circuit.v1_7_0.Circuit",
        "@odata.id": "/redfish/v1/PowerEquipment/RackPDUs/2/Mains/AC1",
        "PolyPhaseCurrentAmps": lines,
        "PolyPhaseVoltage": voltages,
        "PowerWatts": {"Reading": 6800, "ApparentVA": 6900},
    }
    assert fact(parse(circuit), "pdu:2/mains:AC1", "power-draw").status is Status.KNOWN
    circuit["PowerWatts"] = {"Reading": 2300, "ApparentVA": 2300}  # what one line alone would give
    assert fact(parse(circuit), "pdu:2/mains:AC1", "power-draw").status is Status.CONFLICT


def test_E08_supplies_that_are_listed_twice_count_once() -> None:
    document = json.loads(data("hp_power.json"))
    again = [dict(one, MemberId=f"{number + 2}") for number, one in enumerate(document["PowerSupplies"])]
    again[1]["@odata.id"] += "x"  # another address, but the serial number of the second
    document["PowerSupplies"] += again
    parsed = parse(document)
    assert value(parsed, "chassis:1", "supply-count") == 2
    assert value(parsed, "chassis:1", "supplies-draw-output") == 90
    assert len([one for one in parsed.skipped if "listed twice" in one.reason]) == 2


def test_empty_bays_are_no_supplies() -> None:
    document = json.loads(data("hp_power.json"))
    document["PowerSupplies"].append({"MemberId": "2", "Status": {"State": "Absent"}, "LastPowerOutputWatts": None})
    parsed = parse(document)
    assert value(parsed, "chassis:1", "supply-count") == 2
    assert fact(parsed, "chassis:1/supply:2", "power-draw-output").status is Status.UNKNOWN


def test_new_dialect_supply_and_its_metrics_are_one_supply() -> None:
    bay = "/redfish/v1/Chassis/1U/PowerSubsystem/PowerSupplies/Bay1"
    documents = [
        {"@odata.type": "#PowerSupply.v1_5_0.PowerSupply", "@odata.id": bay, "PowerCapacityWatts": 400, "EfficiencyPercent": 96},
        {
            "@odata.type": "#PowerSupplyMetrics.v1_1_0.PowerSupplyMetrics",
            "@odata.id": f"{bay}/Metrics",
            "InputPowerWatts": {"Reading": 374},
            "InputVoltage": {"Reading": None},
        },
    ]
    parsed = parse(documents, host="gpu01")
    supply = "node:gpu01/supply:Bay1"
    assert value(parsed, supply, "nameplate-power") == 400
    assert value(parsed, supply, "efficiency") == 0.96
    assert value(parsed, supply, "power-draw-input") == 374
    assert fact(parsed, supply, "line-voltage-seen").status is Status.UNKNOWN


def test_a_part_of_a_machine_does_not_speak_for_the_machine() -> None:
    metrics = {"@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics", "PowerWatts": {"Reading": 700}}
    parts = {
        "Chassis/HGX_GPU_SXM_1": "node:gpu01/chassis:HGX_GPU_SXM_1",
        "Systems/HGX_Baseboard_0/Processors/GPU_SXM_1": "node:gpu01/processor:GPU_SXM_1",
        "Chassis/System.Embedded.1": "node:gpu01",
    }
    for address, subject in parts.items():
        parsed = parse({**metrics, "@odata.id": f"/redfish/v1/{address}/EnvironmentMetrics"}, host="gpu01")
        assert value(parsed, subject, "power-draw") == 700


def test_chassis_weight_of_0_was_never_entered() -> None:
    chassis = {"@odata.type": "#Chassis.v1_14_0.Chassis", "@odata.id": "/redfish/v1/Chassis/1", "WeightKg": 0, "HeightMm": 44.45}
    parsed = parse(chassis)
    assert fact(parsed, "chassis:1", "weight").status is Status.UNKNOWN
    assert value(parsed, "chassis:1", "height") == 0.04445


def test_collections_of_links_and_foreign_resources_are_named_as_skipped() -> None:
    links = {"@odata.id": "/redfish/v1/Chassis", "@odata.type": "#ChassisCollection.ChassisCollection", "Members": [{"@odata.id": "/x"}]}
    assert "members are links" in parse(links).skipped[0].reason
    foreign = {"@odata.type": "#LogService.v1_0_0.LogService", "@odata.id": "/redfish/v1/Managers/1/LogServices/SEL"}
    assert "LogService" in parse(foreign).skipped[0].reason


@pytest.mark.parametrize(
    "change", [lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: b"\xef\xbb\xbf" + raw, lambda raw: b"$ curl\n" + raw]
)
def test_variants_say_the_same(change: object) -> None:
    plain, other = read("hp_power.json"), PARSER.parse(Capture("f", change(data("hp_power.json"))))
    assert [(one.subject, one.attribute, one.value) for one in other.facts] == [
        (one.subject, one.attribute, one.value) for one in plain.facts
    ]


def test_order_of_keys_changes_nothing() -> None:
    document = json.loads(data("hp_power.json"))
    turned = parse(dict(reversed(document.items())))
    assert {(one.subject, one.attribute, one.value) for one in turned.facts} == {
        (one.subject, one.attribute, one.value) for one in read("hp_power.json").facts
    }
