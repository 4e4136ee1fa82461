"""Redfish, the rest: thermal readings, environment metrics, chassis and systems (M2). Pure.

The dialect of iLO4 calls a fan's speed ``CurrentReading`` and its unit ``Units``: 17 there is a percentage and no speed.
"""

from __future__ import annotations

from typing import Final

from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.redfish_power import HEALTH, links, redundancy, unique
from bridgehead.discovery.tables import Field, Kind, Table, path_part, plain_number, state, take

_N: Final = Kind.NUMBER
THRESHOLDS: Final = tuple(
    (f"{side}Threshold{level}", f"threshold-{side.lower()}-{level.lower()}")
    for side in ("Upper", "Lower")
    for level in ("NonCritical", "Critical", "Fatal")
)
"""Keys of limits, and their attributes."""
ENVIRONMENT: Final = (
    Field("PowerWatts.Reading", "power-draw", "what it takes in now", "W", _N),
    Field("PowerLimitWatts.SetPoint", "power-limit", "limit in force", "W", _N),
    Field("PowerLimitWatts.AllowableMin", "power-limit-min", "lowest limit that can be set", "W", _N),
    Field("PowerLimitWatts.AllowableMax", "power-limit-max", "highest limit that can be set", "W", _N),
    Field("TemperatureCelsius.Reading", "temperature", "temperature now", "degC", _N),
    Field("HumidityPercent.Reading", "humidity-seen", "relative humidity", "%", _N),
    Field("EnergykWh.Reading", "energy-used", "energy since the counter began", "J", _N, 3.6e6),
)
MADE_BY: Final = (
    Field("Manufacturer", "manufacturer", "maker"),
    Field("Model", "model", "model"),
    Field("SerialNumber", "serial", "serial number"),
    Field("PartNumber", "part-number", "part number"),
    Field("SKU", "sku", "the maker's order or service number"),
    Field("AssetTag", "asset-tag", "the owner's number"),
)
CHASSIS: Final = (
    *MADE_BY,
    Field("ChassisType", "chassis-type", "RackMount, Module and so on"),
    Field("MaxPowerWatts", "power-capacity", "most that it can take in", "W", _N),
    Field("Location.Placement.Rack", "rack", "rack that it stands in"),
    Field("Location.Placement.RackOffset", "position", "rack unit that it begins at", kind=_N),
    *HEALTH,
)
SIZES: Final = (
    Field("HeightMm", "height", "height", "m", _N, 1e-3),
    Field("WeightKg", "weight", "weight", "kg", _N),
)
"""Amounts of which 0 means that nobody entered them."""
SYSTEM: Final = (
    *MADE_BY,
    Field("UUID", "uuid", "identity of the system"),
    Field("HostName", "hostname", "name that the system reports"),
    Field("BiosVersion", "bios-version", "version of the BIOS"),
    Field("PowerState", "power-state-seen", "On or Off"),
    Field("ProcessorSummary.Model", "cpu-model", "model of its processors"),
    Field("ProcessorSummary.Count", "cpu-sockets", "number of processors", kind=_N),
    Field("ProcessorSummary.LogicalProcessorCount", "cpu-threads", "threads of all processors", kind=_N),
    Field("MemorySummary.TotalSystemMemoryGiB", "memory-installed", "main memory that is plugged in", "B", _N, 2**30),
    *HEALTH,
)
FAN: Final = (
    Field("SpeedPercent.Reading", "fan-duty", "share of the highest speed", "%", _N),
    Field("SpeedPercent.SpeedRPM", "fan-speed", "speed", "rpm", _N),
    Field("PowerWatts.Reading", "power-draw", "what it takes in now", "W", _N),
    *HEALTH,
)
INTAKE: Final = (
    Field("TemperatureSummaryCelsius.Intake.Reading", "inlet-temperature", "temperature of the air that comes in", "degC", _N),
    Field("TemperatureSummaryCelsius.Exhaust.Reading", "exhaust-temperature", "temperature of the air that goes out", "degC", _N),
)
SENSOR_UNITS: Final = {
    "Cel": ("temperature", "degC", 1.0),
    "W": ("power-draw", "W", 1.0),
    "V": ("voltage-seen", "V", 1.0),
    "A": ("current-seen", "A", 1.0),
    "RPM": ("fan-speed", "rpm", 1.0),
    "{rev}/min": ("fan-speed", "rpm", 1.0),
    "%": ("share-seen", "%", 1.0),
    "Hz": ("frequency-seen", "Hz", 1.0),
    "kW.h": ("energy-used", "J", 3.6e6),
    "J": ("energy-used", "J", 1.0),
}
"""Units of a sensor as Redfish writes them: attribute, our unit, and the factor."""
_FAN_UNITS: Final = {"rpm": ("fan-speed", "rpm"), "percent": ("fan-duty", "%")}


def thermal(say: Statements, chassis: str, table: Table) -> None:
    """A ``Thermal`` resource."""
    sensors = table.tables("Temperatures")
    for name, one in zip(unique([_name(one) for one in sensors]), sensors, strict=True):
        subject = f"{chassis}/sensor:{name}"
        _reading(say, subject, "temperature", one, ("ReadingCelsius", "CurrentReading"), unit="degC")
        _limits(say, subject, one, unit="degC")
        place = one.text("PhysicalContext") or one.text("Context")
        if place:
            say.known(subject, "place", place, line=one.at("PhysicalContext"))
        if place == "Intake" and "ReadingCelsius" in one and not [other for other in sensors if other is not one and _is_intake(other)]:
            state(say, chassis, "inlet-temperature", one["ReadingCelsius"], line=one.at("ReadingCelsius"), unit="degC")
    fans = table.tables("Fans")
    for name, one in zip(unique([_name(one) for one in fans]), fans, strict=True):
        _fan(say, f"{chassis}/fan:{name}", one)
    redundancy(say, chassis, table)


def fan(say: Statements, subject: str, table: Table) -> None:
    """A ``Fan`` resource of the new dialect."""
    take(say, subject, table, FAN)


def intake(say: Statements, subject: str, table: Table) -> None:
    """A ``ThermalMetrics`` resource of the new dialect."""
    take(say, subject, table, INTAKE)


def sensor(say: Statements, subject: str, table: Table) -> None:
    """A ``Sensor`` resource of the new dialect."""
    attribute, unit, scale = SENSOR_UNITS.get(table.text("ReadingUnits"), ("", "", 1.0))
    if attribute and "Reading" in table:
        state(say, subject, attribute, table["Reading"], line=table.at("Reading"), unit=unit, scale=scale)
    else:
        say.skip(table.line, f"a sensor of {table.text('ReadingType') or 'unknown'} in {table.text('ReadingUnits') or 'no unit'}: not read")


def voltages(say: Statements, chassis: str, table: Table) -> None:
    """Voltages of a ``Power`` resource. Some machines list there flags that say 1 for "good"."""
    sensors, flags = table.tables("Voltages"), []
    for name, one in zip(unique([_name(one) for one in sensors]), sensors, strict=True):
        value, low, high = (plain_number(one.get(key)) for key in ("ReadingVolts", "MinReadingRange", "MaxReadingRange"))
        if value is not None and low is not None and high is not None and (low == high or not low <= value <= high):
            flags.append(one)
            continue
        _reading(say, f"{chassis}/sensor:{name}", "voltage-seen", one, ("ReadingVolts",), unit="V")
        _limits(say, f"{chassis}/sensor:{name}", one, unit="V")
    if flags:
        many = f"{len(flags)} voltages are" if len(flags) > 1 else "a voltage is"
        say.skip(flags[0].line, f"{many} outside their own range, such as {_name(flags[0])!r}: flags and no voltages")


def environment(say: Statements, subject: str, table: Table) -> None:
    """An ``EnvironmentMetrics`` resource: of a chassis, a processor, a PDU."""
    take(say, subject, table, ENVIRONMENT)
    fans = table.tables("FanSpeedsPercent")
    for name, one in zip(unique([_name(one) for one in fans]), fans, strict=True):
        if "Reading" in one:
            state(say, f"{subject}/fan:{name}", "fan-duty", one["Reading"], line=one.at("Reading"), unit="%")
        if "SpeedRPM" in one:
            state(say, f"{subject}/fan:{name}", "fan-speed", one["SpeedRPM"], line=one.at("SpeedRPM"), unit="rpm")


def chassis(say: Statements, subject: str, table: Table) -> None:
    """A ``Chassis`` resource."""
    take(say, subject, table, CHASSIS)
    for field in SIZES:
        if field.path in table and plain_number(table[field.path]) == 0:
            note = "the tool printed 0, which it does where nobody entered it"
            say.unknown(subject, field.attribute, line=table.at(field.path), unit=field.unit, note=note)
        else:
            take(say, subject, table, [field])
    _linked(say, subject, table.table("Links"))


def system(say: Statements, subject: str, table: Table) -> None:
    """A ``ComputerSystem`` resource."""
    take(say, subject, table, SYSTEM)
    _linked(say, subject, table.table("Links"))


def _linked(say: Statements, subject: str, table: Table) -> None:
    for key, attribute in (("PoweredBy", "powered-by"), ("CooledBy", "cooled-by"), ("Chassis", "chassis"), ("ComputerSystems", "systems")):
        if names := links(table, key):
            say.known(subject, attribute, names, line=table.at(key))


def _fan(say: Statements, subject: str, one: Table) -> None:
    key = "Reading" if "Reading" in one else "CurrentReading"
    printed = one.text("ReadingUnits") or one.text("Units")
    attribute, unit = _FAN_UNITS.get(printed.lower(), ("", ""))
    if attribute:
        _reading(say, subject, attribute, one, (key,), unit=unit)
    elif key in one:
        say.unknown(subject, "fan-speed", line=one.at(key), unit="rpm", note=f"the tool printed {one[key]!r:.40} with the unit {printed!r}")
    take(say, subject, one, HEALTH)


def _reading(say: Statements, subject: str, attribute: str, one: Table, keys: tuple[str, ...], *, unit: str) -> None:
    """A reading, or why there is none: sensors of what is not there stay in the list."""
    key = next((key for key in keys if key in one), None)
    condition = one.table("Status").text("State")
    if key is not None and (one[key] is not None or not condition):
        if condition in ("Absent", "Disabled") and plain_number(one[key]) == 0:
            say.unknown(subject, attribute, line=one.at(key), unit=unit, note=f"the tool printed 0 for what is {condition}")
        else:
            state(say, subject, attribute, one[key], line=one.at(key), unit=unit)
    else:
        said = f", it is {condition}" if condition else ""
        say.unknown(subject, attribute, line=one.line, unit=unit, note=f"the tool printed no reading{said}")


def _limits(say: Statements, subject: str, one: Table, *, unit: str) -> None:
    for key, attribute in THRESHOLDS:
        if plain_number(one.get(key)) is not None:
            state(say, subject, attribute, one[key], line=one.at(key), unit=unit)


def _is_intake(one: Table) -> bool:
    return one.text("PhysicalContext") == "Intake"


def _name(one: Table) -> str:
    return path_part(one.text("Name") or one.text("FanName") or one.text("DeviceName") or one.text("MemberId") or one.text("Id"))
