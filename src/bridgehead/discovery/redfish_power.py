"""Redfish, power: control, supplies, circuits of PDUs, in the old dialect and the new one (M2, M5.3). Pure.

Case E06: what a supply says of its input may be its nameplate; then it is kept as a bound and shown as a conflict, and the draw of the
whole stays what the power control says. Case E08: a supply that is listed twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.tables import Field, Kind, Table, path_part, plain_number, state, take

_N: Final = Kind.NUMBER
HEALTH: Final = (
    Field("Status.Health", "health-seen", "OK, Warning or Critical"),
    Field("Status.State", "state-seen", "Enabled, Disabled, Absent and so on"),
)
"""What every resource says of itself."""
CONTROL: Final = (
    Field("PowerConsumedWatts", "power-draw", "what the whole takes in now", "W", _N),
    Field("PowerMetrics.AverageConsumedWatts", "power-draw-average", "mean over the interval", "W", _N),
    Field("PowerMetrics.MinConsumedWatts", "power-draw-min", "lowest of the interval", "W", _N),
    Field("PowerMetrics.MaxConsumedWatts", "power-draw-max", "highest of the interval", "W", _N),
    Field("PowerMetrics.IntervalInMin", "power-draw-interval", "how long the interval is", "s", _N, 60),
    Field("PowerCapacityWatts", "power-capacity", "most that can be given to it", "W", _N),
    Field("PowerRequestedWatts", "power-requested-seen", "what it asks for", "W", _N),
    Field("PowerAllocatedWatts", "power-allocated-seen", "what is set apart for it", "W", _N),
    Field("PowerAvailableWatts", "power-available-seen", "what is left to allocate", "W", _N),
    Field("PowerLimit.LimitException", "power-limit-action", "what happens above the limit"),
)
SUPPLY: Final = (
    Field("Manufacturer", "manufacturer", "maker of the supply"),
    Field("Model", "model", "model of the supply"),
    Field("SerialNumber", "serial", "serial number"),
    Field("PartNumber", "part-number", "part number"),
    Field("FirmwareVersion", "firmware-version", "version of its firmware"),
    Field("PowerCapacityWatts", "nameplate-power", "most that it can deliver: a bound, never the load", "W", _N),
    Field("PowerSupplyType", "supply-type", "AC, DC or both"),
    Field("PhaseWiringType", "phase-wiring", "number of phases and wires"),
    Field("LineInputVoltageType", "line-voltage-type", "kind of voltage at its input"),
    Field("LineInputVoltage", "line-voltage-seen", "voltage at its input", "V", _N),
    Field("HotPluggable", "hot-pluggable", "whether it may be changed in operation", kind=Kind.FLAG),
    *HEALTH,
)
SUPPLY_METRICS: Final = (
    Field("InputPowerWatts.Reading", "power-draw-input", "what it takes in now", "W", _N),
    Field("OutputPowerWatts.Reading", "power-draw-output", "what it delivers now", "W", _N),
    Field("InputVoltage.Reading", "line-voltage-seen", "voltage at its input", "V", _N),
    Field("InputCurrentAmps.Reading", "current-seen", "current at its input", "A", _N),
    *HEALTH,
)
CIRCUIT: Final = (
    Field("CircuitType", "circuit-type", "Mains, Branch, Subfeed and so on"),
    Field("OutletType", "outlet-type", "kind of socket"),
    Field("PhaseWiringType", "phase-wiring", "number of phases and wires"),
    Field("NominalVoltage", "nominal-voltage", "class of voltage, as the PDU names it"),
    Field("RatedCurrentAmps", "amperage", "rating of the breaker", "A", _N),
    Field("BreakerState", "breaker-state-seen", "Normal, Tripped or Off"),
    Field("PowerState", "power-state-seen", "On or Off"),
    Field("CurrentAmps.Reading", "current-seen", "current now", "A", _N),
    Field("Voltage.Reading", "voltage-seen", "voltage now", "V", _N),
    Field("FrequencyHz.Reading", "frequency-seen", "frequency now", "Hz", _N),
    Field("PowerWatts.PowerFactor", "power-factor-seen", "active by apparent power", "1", _N),
    Field("EnergykWh.Reading", "energy-used", "energy since the counter began", "J", _N, 3.6e6),
    *HEALTH,
)
SUBSYSTEM: Final = (
    Field("CapacityWatts", "power-capacity", "most that can be given to it", "W", _N),
    Field("Allocation.AllocatedWatts", "power-allocated-seen", "what is set apart for it", "W", _N),
    Field("Allocation.RequestedWatts", "power-requested-seen", "what it asks for", "W", _N),
    *HEALTH,
)
REDUNDANCY: Final = (
    Field("RedundancyType", "redundancy-mode", "Failover, NPlusM, Sharing and so on"),
    Field("MinNeededInGroup", "members-needed", "how many of the group are needed", kind=_N),
    Field("MaxSupportedInGroup", "members-supported", "how many the group can have", kind=_N),
    Field("Mode", "redundancy-mode", "Failover, N+m, Sharing and so on"),
    Field("MinNumNeeded", "members-needed", "how many of the group are needed", kind=_N),
    Field("MaxNumSupported", "members-supported", "how many the group can have", kind=_N),
    *HEALTH,
)
_LINES: Final = ("Line1", "Line2", "Line3")
_FAR: Final = 1.25
"""Watts that differ by more than this factor are not one thing measured at two places; a bad supply loses less."""
_CLOSE: Final = 0.02


def power(say: Statements, chassis: str, table: Table) -> None:
    """A ``Power`` resource: the first control is of the whole chassis, as the specification has it."""
    controls = table.tables("PowerControl")
    for number, control in enumerate(controls):
        subject = chassis if number == 0 else f"{chassis}/power-control:{path_part(control.text('MemberId') or str(number))}"
        take(say, subject, control, CONTROL)
        _limit(say, subject, control)
    consumed = plain_number(controls[0].get("PowerConsumedWatts")) if controls else None
    supplies = list(_once(say, table.tables("PowerSupplies")))
    for name, supply in supplies:
        take(say, f"{chassis}/supply:{name}", supply, SUPPLY)
        _ranges(say, f"{chassis}/supply:{name}", supply)
        _input(say, f"{chassis}/supply:{name}", supply, consumed)
        if (key := _output_key(supply)) is not None:
            state(say, f"{chassis}/supply:{name}", "power-draw-output", supply[key], line=supply.at(key), unit="W")
    _together(say, chassis, supplies, consumed, line=table.at("PowerSupplies"))
    redundancy(say, chassis, table)


def subsystem(say: Statements, chassis: str, table: Table) -> None:
    """A ``PowerSubsystem`` or ``ThermalSubsystem`` resource of the new dialect."""
    take(say, chassis, table, SUBSYSTEM)
    redundancy(say, chassis, table, keys=("PowerSupplyRedundancy", "FanRedundancy"))


def redundancy(say: Statements, chassis: str, table: Table, *, keys: Sequence[str] = ("Redundancy",)) -> None:
    """Groups of supplies or fans that stand in for each other."""
    for number, (key, group) in enumerate((name, one) for name in keys for one in table.tables(name)):
        if len(group) <= 1:  # a mere link to a group that is described elsewhere
            continue
        name = group.text("Name") or group.text("MemberId") or (str(number) if key == "Redundancy" else f"{key} {number}")
        subject = f"{chassis}/redundancy:{path_part(name)}"
        take(say, subject, group, REDUNDANCY)
        for members in ("RedundancySet", "RedundancyGroup"):
            if names := links(group, members):
                say.known(subject, "members", names, line=group.at(members))


def links(table: Table, key: str) -> tuple[str, ...]:
    """The last parts of the addresses that a table links to."""
    return tuple(one.text("@odata.id").rpartition("/")[2] for one in table.tables(key) if one.text("@odata.id"))


def supply(say: Statements, subject: str, table: Table) -> None:
    """A ``PowerSupply`` resource of the new dialect."""
    take(say, subject, table, SUPPLY)
    _ranges(say, subject, table)


def circuit(say: Statements, subject: str, table: Table) -> None:
    """A ``Circuit`` or ``Outlet`` of a PDU. Power that its own current and voltage contradict is a conflict; nothing is derived."""
    take(say, subject, table, CIRCUIT)
    for key, attribute in (("PolyPhaseVoltage", "voltage-seen"), ("PolyPhaseCurrentAmps", "current-seen")):
        for name, reading in table.table(key).items():
            if isinstance(reading, Table) and "Reading" in reading:
                of = name.replace("ToNeutral", "-N").replace("ToLine", "-L").replace("Line", "L").replace("Neutral", "N")
                state(say, subject, f"{attribute}:{of}", reading["Reading"], line=reading.at("Reading"), unit=key_unit(key))
    if outlets := links(table.table("Links"), "Outlets"):
        say.known(subject, "outlets", outlets, line=table.table("Links").at("Outlets"))
    watts = table.table("PowerWatts")
    note = _contradiction(table)
    for key, attribute, unit in (("Reading", "power-draw", "W"), ("ApparentVA", "apparent-power-seen", "VA")):
        value = plain_number(watts.get(key))
        if value is not None and note:
            say.conflict(subject, attribute, value, line=watts.at(key), unit=unit, note=note)
        elif key in watts:
            state(say, subject, attribute, watts[key], line=watts.at(key), unit=unit)


def key_unit(key: str) -> str:
    """The unit of a group of readings, by its name."""
    return "V" if key.endswith("Voltage") else "A"


def _contradiction(table: Table) -> str:
    """In words, when apparent power is no product of current and voltage that it can be; empty when it is, or cannot be judged."""
    apparent = plain_number(table.table("PowerWatts").get("ApparentVA"))
    currents = _readings(table.table("PolyPhaseCurrentAmps"))
    voltages = _readings(table.table("PolyPhaseVoltage"))
    single = plain_number(table.table("CurrentAmps").get("Reading"))
    if apparent is None or apparent <= 0 or any(name not in ("Line1", "Neutral") for name in currents):
        return _three_lines(apparent, currents, voltages)
    current = currents.get("Line1", single)
    known = list(voltages.values()) or [volts for volts in (plain_number(table.table("Voltage").get("Reading")),) if volts is not None]
    if current is None or not known or any(abs(current * volts / apparent - 1) <= _CLOSE for volts in known):
        return ""
    products = " and ".join(f"{current:g} A at {volts:g} V are {current * volts:.1f} VA" for volts in known)
    return f"its own readings disagree: {apparent:g} VA, but {products}"


def _three_lines(apparent: float | None, currents: dict[str, float], voltages: dict[str, float]) -> str:
    pairs = [(currents[line], voltages[f"{line}ToNeutral"]) for line in _LINES if line in currents and f"{line}ToNeutral" in voltages]
    if apparent is None or apparent <= 0 or len(pairs) < len([line for line in _LINES if line in currents]):
        return ""
    total = sum(current * volts for current, volts in pairs)
    return (
        "" if abs(total / apparent - 1) <= _CLOSE else f"its own readings disagree: {apparent:g} VA, but its lines add up to {total:.1f} VA"
    )


def _readings(table: Table) -> dict[str, float]:
    found = {name: plain_number(one.get("Reading")) for name, one in table.items() if isinstance(one, Table)}
    return {name: value for name, value in found.items() if value is not None}


def _once(say: Statements, supplies: Sequence[Table]) -> Iterator[tuple[str, Table]]:
    """Each supply once, by its address or its serial number, with its name."""
    seen: set[str] = set()
    names: set[str] = set()
    for number, one in enumerate(supplies):
        keys = {key for key in (one.text("@odata.id"), one.text("SerialNumber")) if len(key) > 3}
        if keys & seen:
            say.skip(one.line, f"supply {one.text('MemberId') or number} is listed twice; it counts once")
            continue
        seen |= keys
        name = path_part(one.text("MemberId") or one.text("@odata.id").rpartition("/")[2] or str(number))
        name = name if name not in names else f"{name}#{number}"
        names.add(name)
        yield name, one


def _limit(say: Statements, subject: str, control: Table) -> None:
    holder = control.table("PowerLimit")
    if "LimitInWatts" not in holder:
        return
    limit, draw = plain_number(holder["LimitInWatts"]), plain_number(control.get("PowerConsumedWatts"))
    line = holder.at("LimitInWatts")
    if limit is not None and draw is not None and draw > limit:
        note = f"{draw:g} W are drawn, more than this limit: it is not in force"
        say.conflict(subject, "power-limit", limit, line=line, unit="W", note=note)
    else:
        state(say, subject, "power-limit", holder["LimitInWatts"], line=line, unit="W")


def _ranges(say: Statements, subject: str, table: Table) -> None:
    """What it delivers at which voltage; the same supply delivers less on a low line."""
    for one in table.tables("InputRanges"):
        key = "OutputWattage" if "OutputWattage" in one else "CapacityWatts"
        low, high = one.text("MinimumVoltage"), one.text("MaximumVoltage")
        name = f"{low}-{high}" if low and high else one.text("NominalVoltageType")
        if name and key in one:
            state(say, subject, f"nameplate-power:{name}", one[key], line=one.at(key), unit="W")
    efficiency = plain_number(table.get("EfficiencyPercent"))
    if efficiency is not None:
        line = table.at("EfficiencyPercent")
        if 1 < efficiency <= 100:
            say.number(subject, "efficiency", repr(efficiency), line=line, unit="1", scale=0.01)
        else:
            say.unknown(subject, "efficiency", line=line, unit="1", note=f"the tool printed {efficiency:g} percent, which cannot be")


def _input(say: Statements, subject: str, supply: Table, consumed: float | None) -> None:
    """E06: one supply cannot take in more than all of them together."""
    watts = plain_number(supply.get("PowerInputWatts"))
    line = supply.at("PowerInputWatts")
    if watts is not None and consumed is not None and watts > consumed * _FAR:
        note = f"{watts:g} W into one supply, while the whole consumes {consumed:g} W: this is a nameplate and no load"
        say.conflict(subject, "power-draw-input", watts, line=line, unit="W", note=note)
        say.known(subject, "nameplate-power-input", watts, line=line, unit="W", note=f"printed as its input now, but {note}")
    elif "PowerInputWatts" in supply:
        state(say, subject, "power-draw-input", supply["PowerInputWatts"], line=line, unit="W")


def _output_key(supply: Table) -> str | None:
    """Two words for one thing, of which many machines leave one empty."""
    keys = [key for key in ("PowerOutputWatts", "LastPowerOutputWatts") if key in supply]
    return next((key for key in keys if plain_number(supply[key]) is not None), keys[0] if keys else None)


def _together(say: Statements, chassis: str, supplies: Sequence[tuple[str, Table]], consumed: float | None, *, line: int) -> None:
    """What the supplies say together: how many there are, whether each carries load, whether the sum can be."""
    present = [(name, one) for name, one in supplies if one.table("Status").text("State") != "Absent"]
    if not supplies:
        return
    say.known(chassis, "supply-count", len(present), line=line)
    outputs = [(name, one, plain_number(one.get(_output_key(one) or ""))) for name, one in present]
    known = [(name, one, value) for name, one, value in outputs if value is not None]
    if len(known) > 1:
        working = any(value > 0 for _, _, value in known)
        for name, one, value in known:
            if working:
                say.known(f"{chassis}/supply:{name}", "shares-load-seen", value > 0, line=one.at(_output_key(one) or ""))
    total = sum(value for _, _, value in known)
    if known and len(known) == len(present) and consumed is not None and consumed > 0:
        high, low = max(total, consumed), min(total, consumed)
        if high > low * _FAR:
            note = f"the supplies deliver {total:g} W together, while the control says that {consumed:g} W are consumed; the control counts"
            say.conflict(chassis, "supplies-draw-output", total, line=line, unit="W", note=note)
        else:
            say.known(chassis, "supplies-draw-output", total, line=line, unit="W")


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that stands there twice."""
    ordered = sorted(range(len(names)), key=lambda index: (names[index], index))
    twice = {second for first, second in pairwise(ordered) if names[first] == names[second]}
    return [f"{name}#{index}" if index in twice else name for index, name in enumerate(names)]
