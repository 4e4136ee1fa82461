"""NetBox: what each kind of object says, whether it comes from the API, a CSV export or a YAML file (M5.1, M5.3). Pure.

Case E03: the voltage of a three-phase feed may be line to line or line to neutral, which NetBox does not say; so ``wiring`` is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from bridgehead.discovery.netbox_types import pounds, watts_in_words, weight_in_words
from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.tables import Field, Kind, Table, path_part, plain_number, state, take

_N: Final = Kind.NUMBER
_METRES: Final = {"km": 1000.0, "m": 1.0, "cm": 0.01, "mi": 1609.344, "ft": 0.3048, "in": 0.0254}
_LENGTH_WORDS: Final = {"kilometers": "km", "meters": "m", "centimeters": "cm", "miles": "mi", "feet": "ft", "inches": "in"}
PORT: Final = (
    Field("maximum_draw", "nameplate-power", "most that it may draw: a bound, never the load", "W", _N),
    Field("allocated_draw", "power-allocated", "what is planned for it", "W", _N),
    Field("type", "inlet-type", "kind of plug"),
)
FEED: Final = (
    Field("voltage", "voltage", "nominal voltage; of three phases see wiring", "V", _N),
    Field("amperage", "amperage", "rating of the breaker", "A", _N),
    Field("phase", "phase", "single-phase or three-phase"),
    Field("supply", "supply", "ac or dc"),
    Field("type", "feed-type", "primary or redundant"),
    Field("status", "status", "active, planned, failed, offline"),
    Field("max_utilization", "max-utilization", "share of the rating that may flow", "1", _N, 0.01),
    Field("rack", "rack", "rack that it ends in"),
)
RACK: Final = (
    Field("u_height", "units", "height in rack units", "", _N),
    Field("status", "status", "active, planned, reserved and so on"),
    Field("location", "location", "room or row"),
    Field("facility_id", "facility-id", "name that the building uses"),
    Field("role", "role", "what it is for"),
    Field("serial", "serial", "serial number"),
    Field("starting_unit", "starting-unit", "number of the lowest unit", "", _N),
)
DEVICE: Final = (
    Field("rack", "rack", "rack that it stands in"),
    Field("position", "position", "lowest rack unit that it takes", "", _N),
    Field("face", "face", "front or rear"),
    Field("status", "status", "active, planned, staged, failed and so on"),
    Field("role", "role", "what it is for"),
    Field("serial", "serial", "serial number"),
    Field("asset_tag", "asset-tag", "the owner's number"),
    Field("location", "location", "room or row"),
)
SITE: Final = (
    Field("status", "status", "active, planned, retired and so on"),
    Field("facility", "facility", "building or its operator"),
    Field("region", "region", "region"),
    Field("time_zone", "time-zone", "time zone"),
)
CABLE: Final = (
    Field("type", "type", "medium, such as mmf-om4 or dac-active"),
    Field("status", "status", "connected, planned, decommissioning"),
    Field("label", "label", "what is written on it"),
)


class Places:
    """Where things are, as one document says it: the site of a panel, a rack or a device, and the panel of a feed."""

    def __init__(self) -> None:
        self._sites: dict[tuple[str, str], str] = {}
        self._panels: dict[str, str] = {}

    def learn(self, kind: str, row: Table) -> None:
        """Note a row. A name that several sites use says no site."""
        name, site = said(row, "name"), said(row, "site")
        if site:
            known = self._sites.setdefault((kind, name), site)
            if known != site:
                self._sites[kind, name] = "?"
        if kind == "power_feeds":
            panel = said(row, "power_panel")
            self._panels[name] = panel if self._panels.get(name, panel) == panel else "?"

    def site(self, kind: str, row: Table, name: str) -> str:
        """``site:NAME`` of a row, from itself or from another row of that kind and name."""
        return f"site:{path_part(said(row, 'site') or self._sites.get((kind, name), '?'))}"

    def feed(self, row: Table, name: str) -> str:
        """Subject of a feed."""
        panel = said(row, "power_panel") or self._panels.get(name, "?")
        inner = row.table("power_panel")
        holder = row if said(row, "site") else inner
        return f"{self.site('power_panels', holder, panel)}/panel:{path_part(panel)}/feed:{path_part(name)}"

    def device(self, row: Table, name: str) -> str:
        """Subject of a device."""
        return f"{self.site('devices', row, name)}/device:{path_part(name)}"

    def end(self, text: str) -> str:
        """Subject of what a word such as ``FEED`` or ``DEVICE/OUTLET`` names; the word itself where nothing of that name is known."""
        if text in self._panels:
            return self.feed(Table(), text)
        device, slash, outlet = text.partition("/")
        return f"{self.device(Table(), device)}/outlet:{path_part(outlet)}" if slash else text


def said(row: Table, key: str) -> str:
    """The text of a field: a word, the value of a choice, or the name of another object."""
    inner = row.get(key)
    if isinstance(inner, Table):
        return next((inner.text(name) for name in ("value", "name", "model", "display", "label", "slug") if inner.text(name)), "")
    return row.text(key)


def model_of(row: Table) -> str:
    """Maker and model of a device type, as ``MAKER/MODEL``; of a device those of its type."""
    inner = row.table("device_type") if "device_type" in row else row
    maker, model = said(inner, "manufacturer") or said(row, "manufacturer"), inner.text("model") or said(row, "device_type")
    model = model or row.text("type")
    return f"{path_part(maker)}/{path_part(model)}" if model else ""


def _take(say: Statements, subject: str, row: Table, fields: tuple[Field, ...]) -> None:
    """As ``take``, with choices and other objects as words, and without what is null, which means here that nobody entered it."""
    plain = Table(row.line)
    plain.lines = row.lines
    for field in fields:
        value = said(row, field.path)
        if value:
            short = field.attribute in ("phase", "supply", "feed-type", "status")
            plain[field.path] = value.lower().replace(" ", "-") if short else value.removesuffix("U") if field.kind is _N else value
    take(say, subject, plain, fields)


def site(say: Statements, row: Table, _places: Places) -> None:
    """A site."""
    _take(say, f"site:{path_part(said(row, 'name'))}", row, SITE)


def rack(say: Statements, row: Table, places: Places) -> None:
    """A rack."""
    name = said(row, "name")
    subject = f"{places.site('racks', row, name)}/rack:{path_part(name)}"
    _take(say, subject, row, RACK)
    for key, attribute in (("weight", "weight"), ("max_weight", "max-weight")):
        _weight(say, subject, row, key, attribute)


def panel(say: Statements, row: Table, places: Places) -> None:
    """A power panel."""
    name = said(row, "name")
    subject = f"{places.site('power_panels', row, name)}/panel:{path_part(name)}"
    if said(row, "location"):
        say.known(subject, "location", said(row, "location"), line=row.at("location"))
    say.known(subject, "panel", name or "?", line=row.at("name"))


def feed(say: Statements, row: Table, places: Places) -> None:
    """A power feed."""
    subject = places.feed(row, said(row, "name"))
    _take(say, subject, row, FEED)
    _wiring(say, subject, row)


def device(say: Statements, row: Table, places: Places) -> None:
    """A device, with its ports and outlets where they stand in it."""
    name = said(row, "name") or (f"#{row.text('id')}" if row.text("id") else "?")
    subject = places.device(row, name)
    _take(say, subject, row, DEVICE)
    if model := model_of(row):
        say.known(subject, "device-type", model, line=row.at("device_type" if "device_type" in row else "type"))
    _weight(say, subject, row, "weight", "weight")
    for one in row.tables("power_ports"):
        _port(say, subject, one, places)
    for one in row.tables("power_outlets"):
        _outlet(say, subject, one)


def port(say: Statements, row: Table, places: Places) -> None:
    """A power port in a list of its own."""
    _port(say, _of_device(row, places), row, places)


def outlet(say: Statements, row: Table, places: Places) -> None:
    """A power outlet in a list of its own."""
    _outlet(say, _of_device(row, places), row)


def cable(say: Statements, row: Table, _places: Places) -> None:
    """A cable: its two ends, its length and its medium."""
    ends = {side: _ends(row, side) for side in ("a", "b")}
    name = row.text("id") or row.text("label") or "--".join(" ".join(ends[side]) or "?" for side in ("a", "b"))
    subject = f"cable:{path_part(name)}"
    _take(say, subject, row, CABLE)
    for side, of in ends.items():
        if of:
            key = next((key for key in (f"{side}_terminations", f"side_{side}_device", f"device_{side}") if key in row), "")
            say.known(subject, f"end-{side}", of, line=row.at(key))
    if not said(row, "length"):
        return
    amount, _, unit = row.text("length").partition(" ")
    unit = (said(row, "length_unit") or unit).strip().lower()
    metres = _METRES.get(_LENGTH_WORDS.get(unit, unit))
    if metres is None:
        say.unknown(subject, "length", line=row.at("length"), unit="m", note=f"{row.text('length')!r} with the unit {unit!r}")
    else:
        say.number(subject, "length", amount, line=row.at("length"), unit="m", scale=metres)


def device_type(say: Statements, row: Table, _places: Places) -> None:
    """A device type, with the supplies of the library's YAML. Its own comment may contradict the plates: then neither is believed."""
    subject = f"device-type:{model_of(row)}"
    _take(say, subject, row, (Field("u_height", "units", "", "", _N), Field("part_number", "part-number", "")))
    if isinstance(powered := row.get("is_powered"), bool):
        note = "" if powered else "it has no inlet: its power and heat belong to what feeds it, such as the busbar of its rack"
        say.known(subject, "powered", powered, line=row.at("is_powered"), note=note)
    ports = row.tables("power-ports") or row.tables("power_ports")
    for one in ports:
        _take(say, f"{subject}/supply:{path_part(said(one, 'name'))}", one, PORT)
    if ports:
        say.known(subject, "supply-count", len(ports), line=row.at("power-ports"))
    elif "power_port_template_count" in row:
        state(say, subject, "supply-count", row["power_port_template_count"], line=row.at("power_port_template_count"))
    _plates(say, subject, row, ports)
    kinds = [said(one, "type") for one in row.tables("interfaces")]
    for kind in sorted(set(kinds)):
        say.known(subject, f"interface-count:{kind or '?'}", kinds.count(kind), line=row.at("interfaces"))
    if "weight" in row:
        _weight(say, subject, row, "weight", "weight")
    elif (found := weight_in_words(row.text("comments"))) is not None:
        say.known(subject, "weight", found[0], line=row.at("comments"), unit="kg", note=f"from the comment: {found[1]!r}")


def _plates(say: Statements, subject: str, row: Table, ports: list[Table]) -> None:
    values = [plain_number(one.get("maximum_draw")) for one in ports]
    known = [value for value in values if value is not None]
    total = sum(known) if known and len(known) == len(values) else None
    words = watts_in_words(row.text("comments"))
    line = row.at("power-ports")
    if total is not None and words is not None and words[0] > total:
        note = f"its supplies add up to {total:g} W, while its comment says {words[1]!r}"
        say.conflict(subject, "nameplate-power", total, line=line, unit="W", note=note)
        say.conflict(subject, "power-declared", words[0], line=row.at("comments"), unit="W", note=note)
        return
    if total is not None:
        say.known(subject, "nameplate-power", total, line=line, unit="W", note="sum of its supplies: a bound, never the load")
    if words is not None:
        say.known(subject, "power-declared", words[0], line=row.at("comments"), unit="W", note=f"from the comment: {words[1]!r}")


def _wiring(say: Statements, subject: str, row: Table) -> None:
    phase, supply = (said(row, key).lower().replace(" ", "-") for key in ("phase", "supply"))
    line = row.at("phase")
    if supply == "dc":
        say.known(subject, "wiring", "dc", line=row.at("supply"))
    elif phase == "single-phase":
        say.known(subject, "wiring", "single-phase", line=line)
    elif phase == "three-phase":
        volts, amps = plain_number(row.get("voltage")), plain_number(row.get("amperage"))
        told = ""
        if volts is not None and amps is not None:
            told = f": {3 * volts * amps:,.0f} VA if to neutral, {math.sqrt(3) * volts * amps:,.0f} VA if line to line"
        say.unknown(subject, "wiring", line=line, note=f"NetBox does not say how the voltage of three phases is measured{told}")


def _weight(say: Statements, subject: str, row: Table, key: str, attribute: str) -> None:
    if not said(row, key):
        return
    scale = pounds(said(row, "weight_unit"))
    if scale is None:
        say.unknown(subject, attribute, line=row.at(key), unit="kg", note=f"{row.text(key)!r} without a unit that is known")
    else:
        say.number(subject, attribute, row.text(key), line=row.at(key), unit="kg", scale=scale)


def _of_device(row: Table, places: Places) -> str:
    return places.device(row.table("device"), said(row, "device") or "?")


def _port(say: Statements, device_subject: str, row: Table, places: Places) -> None:
    subject = f"{device_subject}/supply:{path_part(said(row, 'name'))}"
    _take(say, subject, row, PORT)
    if row.text("connected_to"):
        say.known(subject, "connected-to", places.end(row.text("connected_to")), line=row.at("connected_to"))
    for far in row.tables("connected_endpoints") or [one for one in (row.table("connected_endpoint"),) if one]:
        to = f"{_of_device(far, places)}/outlet:{path_part(said(far, 'name'))}" if "device" in far else places.feed(far, said(far, "name"))
        say.known(subject, "connected-to", to, line=far.line)


def _outlet(say: Statements, device_subject: str, row: Table) -> None:
    subject = f"{device_subject}/outlet:{path_part(said(row, 'name'))}"
    for key, attribute in (("power_port", "supply"), ("feed_leg", "feed-leg"), ("type", "outlet-type")):
        if said(row, key):
            say.known(subject, attribute, said(row, key), line=row.at(key))


def _ends(row: Table, side: str) -> tuple[str, ...]:
    """The ends of a cable, as ``DEVICE:PORT``."""
    found = []
    for one in row.tables(f"{side}_terminations"):
        inner = one.table("object")
        holder = said(inner, "device") or said(inner, "power_panel") or said(inner, "circuit")
        found.append(f"{holder}:{said(inner, 'name')}" if holder else said(inner, "name") or f"#{one.text('object_id')}")
    if found:
        return tuple(found)
    device_name = said(row, f"side_{side}_device") or said(row, f"device_{side}")
    port_name = said(row, f"side_{side}_name") or said(row, f"termination_{side}")
    joined = ":".join(part for part in (device_name, port_name) if part)
    return (joined,) if joined else ()


HANDLERS: Final[dict[str, Callable[[Statements, Table, Places], None]]] = {
    "sites": site,
    "racks": rack,
    "power_panels": panel,
    "power_feeds": feed,
    "device_types": device_type,
    "devices": device,
    "power_ports": port,
    "power_outlets": outlet,
    "cables": cable,
}
"""What to do with a row, by the kind of object as NetBox calls it, with underscores."""
