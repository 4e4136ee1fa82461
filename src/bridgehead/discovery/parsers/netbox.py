"""NetBox: device types of the library (YAML), answers of its API (JSON), exports (CSV), and bundles of lists (M5.1)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable
from bridgehead.discovery.netbox_rows import CABLE, DEVICE, FEED, HANDLERS, PORT, RACK, SITE, Places
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import Table, json_documents, yaml_document

_URL: Final = re.compile(r"/api/dcim/([a-z-]{2,40})/")
_JSON: Final = re.compile(rb'"url"\s*:\s*"[^"\n]{0,300}/api/dcim/[a-z-]{2,40}/|"(?:power_feeds|power_panels|device_types)"\s*:\s*\[')
_TYPE: Final = tuple(re.compile(rb"^" + key + rb":[ \t]+\S", re.MULTILINE) for key in (b"manufacturer", b"model", b"slug"))
_BUNDLE: Final = re.compile(rb"^(?:power_feeds|power_panels):[ \t]*\r?\n[ \t]*- ?", re.MULTILINE)
# Of a CSV file: the kind of object, by columns that only that kind has, in the words of the import form and of the exported table.
_COLUMNS: Final = (
    ("cables", ({"side_a_device", "side_b_device"}, {"termination_a", "termination_b"}, {"device_a", "device_b"})),
    ("power_feeds", ({"power_panel", "voltage", "amperage"},)),
    ("power_ports", ({"device", "maximum_draw"},)),
    ("power_panels", ({"name", "site", "power_feeds"}, {"name", "site", "powerfeed_count"})),
    ("devices", ({"device_type", "site"}, {"manufacturer", "type", "site", "rack"})),
    ("device_types", ({"manufacturer", "model", "u_height"},)),
    ("racks", ({"name", "site", "u_height"}, {"name", "site", "height", "role"})),
)
_RENAMED: Final = {"height": "u_height", "panel": "power_panel", "device_role": "role"}
_LOOKED_AT: Final = 4096
_TOOL: Final = "netbox"


def recognises(head: bytes) -> bool:
    """Addresses of the API, the head of a device type, lists of panels or feeds, or the columns of an export."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if text.lstrip()[:1] in (b"{", b"["):
        return _JSON.search(text) is not None
    return all(key.search(text) for key in _TYPE) or _BUNDLE.search(text) is not None or _csv_kind(_head_of(text)) != ""


def parse(capture: Capture) -> Parsed:
    """All objects. What one document says of panels and devices serves to place what hangs on them."""
    say = Statements(_TOOL, capture)
    rows = list(_rows(say, capture))
    places = Places()
    for kind, row in rows:
        places.learn(kind, row)
    for kind, row in rows:
        HANDLERS[kind](say, row, places)
    return say.done()


def _rows(say: Statements, capture: Capture) -> Iterator[tuple[str, Table]]:
    start = capture.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"["):
        for document in json_documents(capture):
            yield from _of_document(say, document)
    elif _csv_kind(_head_of(start)):
        yield from _of_csv(say, capture)
    else:
        whole = capture.data if capture.data.endswith((b"\n", b"\r")) else capture.data[: capture.data.rfind(b"\n") + 1]
        if len(whole) < len(capture.data):
            say.skip(len(capture.lines), "the last line has no end and may be cut off")
        yield from _of_document(say, yaml_document(Capture(capture.file, whole)))


def _of_document(say: Statements, document: Any) -> Iterator[tuple[str, Table]]:
    """Rows of a page of the API, of one object, of a list, of a device type, or of a bundle of lists."""
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
    elif isinstance(document, list):
        for one in document:
            yield from _of_document(say, one)
    elif not isinstance(document, Table):
        say.skip(1, "it holds no objects")
    elif isinstance(document.get("results"), list):
        got, count = len(document["results"]), document.get("count")
        if isinstance(count, int) and count > got:
            say.skip(document.at("count"), f"a page with {got} of {count} objects: ask for the others too")
        yield from _of_document(say, document["results"])
    elif found := _URL.search(document.text("url")):
        kind = found[1].replace("-", "_")
        if kind in HANDLERS:
            yield kind, document
        else:
            say.skip(document.line, f"an object of {found[1]}, of which nothing is read")
    elif document.text("manufacturer") and document.text("model"):
        yield "device_types", document
    else:
        for key, value in document.items():
            if key in HANDLERS and isinstance(value, list):
                yield from ((key, row) for row in value if isinstance(row, Table))
            else:
                say.skip(document.at(key), f"{key!r} is no list of objects that are read")


def _of_csv(say: Statements, capture: Capture) -> Iterator[tuple[str, Table]]:
    lines = capture.lines
    whole = lines[-1] == ""
    reader = csv.reader((f"{line}\n" for line in (lines if whole else lines[:-1])), delimiter=_separator(lines[0]))
    if not whole:
        say.skip(len(lines), "the last line has no end and may be cut off")
    try:
        columns = _columns(next(reader, []))
        kind = _csv_kind(lines[0])
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(columns):
                say.skip(reader.line_num, f"{len(cells)} cells under {len(columns)} columns")
                continue
            row = Table(reader.line_num)
            for column, cell in zip(columns, cells, strict=True):
                if cell.strip() and cell.strip() != "—":
                    row.setdefault(column, cell)
            yield kind, row
    except csv.Error as error:
        say.skip(reader.line_num, f"the CSV is broken: {error}")


def _columns(cells: list[str]) -> list[str]:
    names = ["_".join(cell.strip().lower().split()) for cell in cells]
    return [_RENAMED.get(name, name) for name in names]


def _separator(line: str) -> str:
    return max(",;\t", key=line.count)


def _csv_kind(line: str) -> str:
    """The kind of object in a CSV file, by its first line; empty where that is none of NetBox's."""
    names = ["_".join(cell.strip().strip('"').lower().split()) for cell in line.split(_separator(line))]
    found = {*names, *(_RENAMED.get(name, name) for name in names)}
    return next((kind for kind, sets in _COLUMNS if any(columns <= found for columns in sets)), "") if len(names) > 2 else ""


def _head_of(data: bytes) -> str:
    return data[:_LOOKED_AT].decode("utf-8", "replace").replace("\r", "\n").partition("\n")[0]


def _yields() -> tuple[Yield, ...]:
    of_port = "device-type:*/supply:*"
    fields = {"site:*/panel:*/feed:*": FEED, "site:*/rack:*": RACK, "site:*/device:*": DEVICE, "site:*": SITE, "cable:*": CABLE}
    ports = {"site:*/device:*/supply:*": PORT, of_port: PORT}
    said = [
        *(Yield(subject, field.attribute, field.unit, field.meaning) for subject, of in {**fields, **ports}.items() for field in of),
        Yield("site:*/panel:*/feed:*", "wiring", "", "single-phase or dc; unknown for three phases, of which NetBox does not say it"),
        Yield("site:*/panel:*", "panel", "", "name of the panel"),
        Yield("site:*/panel:*", "location", "", "room or row"),
        Yield("site:*/device:*", "device-type", "", "MAKER/MODEL, as in device-type:*"),
        Yield("site:*/device:*/supply:*", "connected-to", "", "subject of the outlet or feed at the other end"),
        Yield("site:*/device:*/outlet:*", "supply", "", "power port that feeds it"),
        Yield("site:*/device:*/outlet:*", "feed-leg", "", "A, B or C"),
        Yield("site:*/device:*/outlet:*", "outlet-type", "", "kind of socket"),
        *(Yield(subject, "weight", "kg", "weight") for subject in ("site:*/rack:*", "site:*/device:*", "device-type:*")),
        Yield("site:*/rack:*", "max-weight", "kg", "weight that it carries"),
        Yield("device-type:*", "units", "", "height in rack units"),
        Yield("device-type:*", "part-number", "", "part number"),
        Yield("device-type:*", "powered", "", "whether it has an inlet of its own"),
        Yield("device-type:*", "supply-count", "", "power supplies"),
        Yield("device-type:*", "interface-count:*", "", "interfaces of a kind"),
        Yield("device-type:*", "nameplate-power", "W", "sum of its supplies: a bound; a conflict where its comment says more"),
        Yield("device-type:*", "power-declared", "W", "power that its comment names; a conflict where its supplies deliver less"),
        Yield("cable:*", "length", "m", "length"),
        Yield("cable:*", "end-a", "", "what hangs on one end, DEVICE:PORT"),
        Yield("cable:*", "end-b", "", "what hangs on the other end"),
    ]
    return tuple(said)


PARSER = Parser(
    tool=_TOOL,
    command="curl -s 'https://NETBOX/api/dcim/power-feeds/?limit=0'",
    recognises=recognises,
    marks=(
        *(b"/api/dcim/", b"power_feeds", b"power_panels", b"device_types"),
        *(b"manufacturer", b"site", b"panel", b"maximum", b"side", b"termination", b"device"),
    ),
    parse=parse,
    yields=_yields(),
)
