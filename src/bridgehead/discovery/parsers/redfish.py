"""Redfish: power, thermal, chassis, systems, environment metrics and PDU circuits of a management controller (M2, M5.3).

One resource, a collection with its members, or several answers in one file. Resources of other kinds are named among what is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from bridgehead.discovery import redfish_power as power
from bridgehead.discovery import redfish_readings as readings
from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import Table, json_documents, path_part, take

_HEAD: Final = re.compile(rb'"@odata\.(?:id|type)"\s*:\s*"(?:/redfish/v\d|#[A-Z]\w{1,60}\.v\d)')
_TYPE: Final = re.compile(r"#(\w{1,80})\.(?:v\d+_\d+_\d+\.)?(\w{1,80})")
_ADDRESS: Final = re.compile(r"/redfish/v\d+/(Chassis|Systems|PowerEquipment/\w{1,40})/([^/#?]{1,200})(.{0,400})")
_PART: Final = re.compile(r"/(Sensors|PowerSupplies|Branches|Mains|Feeders|Subfeeds|Outlets|Processors|Fans)/([^/#?]{1,200})")
_PARTS: Final = {
    "PowerSupplies": "supply",
    "Branches": "circuit",
    "Mains": "mains",
    "Feeders": "feeder",
    "Subfeeds": "subfeed",
    "Outlets": "outlet",
    "Processors": "processor",
    "Fans": "fan",
    "Sensors": "sensor",
}
# Chassis that are a part of a machine and not the machine: what they draw is not what the machine draws.
_COMPONENT: Final = re.compile(
    r"(?:HGX|GPU|CPU|BMC|ERoT|IRoT|FPGA|NVSwitch|NVLink|PCIe|CX\d|NIC|DPU|BlueField|Bluefield|Module|ProcessorModule|Slot|Drive|Enclosure"
    r"|StorageBackplane|Backplane|Riser|IO_?Board|Card|CBC|PDB|PSU|Network).*",
    re.IGNORECASE,
)
_MAX_DEPTH: Final = 3
_TOOL: Final = "redfish"


def recognises(head: bytes) -> bool:
    """The marks that every resource carries."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All resources of all documents."""
    say = Statements(_TOOL, capture)
    for document in json_documents(capture):
        if isinstance(document, Unreadable):
            say.skip(document.line, document.reason)
        else:
            _resource(say, capture.host, document, 0)
    return say.done()


def _resource(say: Statements, host: str, document: Any, depth: int) -> None:
    """One resource; of a list, a collection, or a table of answers by their address each of its members."""
    if isinstance(document, list):
        for one in document:
            _resource(say, host, one, depth + 1)
        return
    if not isinstance(document, Table) or depth > _MAX_DEPTH:
        return
    found = _TYPE.fullmatch(document.text("@odata.type"))
    kind = found[2] if found else ""
    if isinstance(document.get("Members"), list):
        members = [one for one in document.tables("Members") if len(one) > 1]
        if len(members) < len(document["Members"]):
            say.skip(document.at("Members"), "a collection whose members are links: ask for each of them")
        _resource(say, host, members, depth)
    elif kind in _KINDS:
        _KINDS[kind](say, _subject(host, kind, document), document)
    elif not kind and any(isinstance(one, Table) and "@odata.id" in one for one in document.values()):
        _resource(say, host, list(document.values()), depth)
    else:
        say.skip(document.line, f"a resource of type {kind or 'unknown'}, of which nothing is read")


def _subject(host: str, kind: str, document: Table) -> str:
    """Of whom a resource speaks, from its address: chassis and system are the host where it is known."""
    address = document.text("@odata.id")
    found = _ADDRESS.match(address)
    area, name, rest = (found[1], path_part(found[2]), found[3]) if found else ("", path_part(document.text("Id")), "")
    match area.partition("/"):
        case ("Systems", *_):
            owner = (
                f"node:{host}"
                if host
                else f"node:{path_part(document.text('HostName'))}"
                if document.text("HostName")
                else f"system:{name}"
            )
        case ("PowerEquipment", _, equipment):
            name = name if equipment == "RackPDUs" else f"{equipment}-{name}"
            owner = f"pdu:{host}-{name}" if host else f"pdu:{name}"
        case _ if kind in ("Circuit", "Outlet", "PowerDistribution", "PowerDistributionMetrics"):
            owner, rest = f"pdu:{host or '?'}", rest or f"/{'Outlets' if kind == 'Outlet' else 'Branches'}/{document.text('Id') or '?'}"
        case _:
            name = name if found else "?"
            owner = f"chassis:{name}" if not host else f"node:{host}/chassis:{name}" if _COMPONENT.fullmatch(name) else f"node:{host}"
    part = _PART.search(rest)
    if part is None or (kind.startswith("PowerDistribution") and not found):
        return owner
    return f"{owner}/{_PARTS[part[1]]}:{path_part(part[2])}"


def _power(say: Statements, subject: str, table: Table) -> None:
    power.power(say, subject, table)
    readings.voltages(say, subject, table)


def _supply_metrics(say: Statements, subject: str, table: Table) -> None:
    take(say, subject, table, power.SUPPLY_METRICS)


def _distribution(say: Statements, subject: str, table: Table) -> None:
    take(say, subject, table, _DISTRIBUTION)


_DISTRIBUTION: Final = (*readings.MADE_BY, *(field for field in power.SUPPLY if field.attribute == "firmware-version"), *power.HEALTH)
_KINDS: Final[dict[str, Callable[[Statements, str, Table], None]]] = {
    "Power": _power,
    "Thermal": readings.thermal,
    "Chassis": readings.chassis,
    "ComputerSystem": readings.system,
    "EnvironmentMetrics": readings.environment,
    "PowerDistributionMetrics": readings.environment,
    "ThermalMetrics": readings.intake,
    "Fan": readings.fan,
    "Sensor": readings.sensor,
    "PowerSubsystem": power.subsystem,
    "ThermalSubsystem": power.subsystem,
    "PowerDistribution": _distribution,
    "PowerSupply": power.supply,
    "PowerSupplyMetrics": _supply_metrics,
    "Circuit": power.circuit,
    "Outlet": power.circuit,
}
_HOLDERS: Final = ("node:*", "chassis:*")


def _yields() -> tuple[Yield, ...]:
    """For each subject what it can have, once. ``chassis:*`` and ``node:*`` are the machine; its parts are below them."""
    whole = (
        *readings.SYSTEM,
        *readings.CHASSIS,
        *readings.SIZES,
        *power.CONTROL,
        *power.SUBSYSTEM,
        *readings.ENVIRONMENT,
        *readings.INTAKE,
    )
    pdu = (*_DISTRIBUTION, *power.CIRCUIT, *readings.ENVIRONMENT, *power.SUPPLY, *power.SUPPLY_METRICS)
    parts = {"": whole, "/supply:*": (*power.SUPPLY, *power.SUPPLY_METRICS), "/redundancy:*": power.REDUNDANCY, "/fan:*": readings.FAN}
    fields = [(f"{owner}{part}", field) for owner in _HOLDERS for part, of in parts.items() for field in of]
    fields += [("system:*", field) for field in (*readings.SYSTEM, *readings.ENVIRONMENT)]
    fields += [("pdu:*", field) for field in pdu]
    said = [
        *(Yield(subject, field.attribute, field.unit, field.meaning) for subject, field in fields),
        *(Yield("pdu:*", *what) for what in _OF_CIRCUITS),
        *(Yield(owner + part, *what) for owner in _HOLDERS for part, what in _OF_HOLDERS),
        *(Yield("system:*", *what) for _, what in _OF_HOLDERS if what[0] in ("powered-by", "cooled-by", "chassis")),
        *(
            Yield(f"{owner}/sensor:*", attribute, unit, "reading")
            for owner in (*_HOLDERS, "pdu:*")
            for attribute, unit, _ in readings.SENSOR_UNITS.values()
        ),
    ]
    return tuple({(one.subject, one.attribute, one.unit): one for one in reversed(said)}.values())[::-1]


_OF_CIRCUITS: Final = (
    ("voltage-seen:*", "V", "voltage between two lines, or a line and neutral"),
    ("current-seen:*", "A", "current of a line"),
    ("apparent-power-seen", "VA", "apparent power; a conflict where its own current and voltage contradict it"),
    ("outlets", "", "outlets that hang on it"),
    ("nameplate-power:*", "W", "what a supply delivers in a range of voltages"),
    ("efficiency", "1", "output by input of a supply"),
)
_OF_HOLDERS: Final = (
    ("", ("power-limit", "W", "limit in force; a conflict where more is drawn")),
    ("", ("supply-count", "", "supplies that are there")),
    ("", ("supplies-draw-output", "W", "what the supplies deliver together; a conflict where the consumed power contradicts it")),
    ("", ("inlet-temperature", "degC", "temperature of the air that comes in")),
    ("", ("powered-by", "", "supplies")),
    ("", ("cooled-by", "", "fans")),
    ("", ("chassis", "", "chassis of the system")),
    ("", ("systems", "", "systems in the chassis")),
    ("/supply:*", ("power-draw-input", "W", "what it takes in now; a conflict where that is a nameplate")),
    ("/supply:*", ("nameplate-power-input", "W", "input that was printed as a reading and is a nameplate")),
    ("/supply:*", ("nameplate-power:*", "W", "what it delivers in a range of voltages")),
    ("/supply:*", ("efficiency", "1", "output by input")),
    ("/supply:*", ("shares-load-seen", "", "whether it delivers something while others do")),
    ("/redundancy:*", ("members", "", "supplies or fans of the group")),
    ("/sensor:*", ("place", "", "where the sensor is")),
    *(("/sensor:*", (attribute, unit, "limit of the reading")) for _, attribute in readings.THRESHOLDS for unit in ("degC", "V")),
)
PARSER = Parser(
    tool=_TOOL,
    command="curl -s https://BMC/redfish/v1/Chassis/1/Power",
    recognises=recognises,
    marks=(b'"@odata.',),
    parse=parse,
    yields=_yields(),
)
