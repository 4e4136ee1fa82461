"""``nvidia-smi --query-gpu=... --format=csv``: any columns, one row a GPU; units stand in the heading and, unless asked otherwise, in the
cells (M2).

Looped output (``-l``) gives the last row of each GPU. A row of a GPU that requires a reset, or is lost, gives no readings: its 0 MiB
is not an idle GPU.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import (
    FAILURE_YIELDS,
    MAX_LINE_CHARS,
    amount,
    bus_id,
    has_no_value,
    head_lines,
    plain,
    printed_note,
    scaled,
    state_bus_id,
    state_failure,
    state_serial,
    state_uuid,
    unfinished_line,
    word,
)
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in

_TOOL: Final = "nvidia-smi-csv"
_NAME: Final = re.compile(r"([a-z][a-z0-9_.]{0,80})(?: \[([A-Za-z%/]{1,8})\])?")
_RATES: Final = {"MiB": "B", "W": "W", "%": "%", "MHz": "Hz", "C": "degC"}
_NODE: Final = {"driver_version": "driver-version"}
# Column: attribute and unit. All other columns keep their name, with dashes.
_COLUMNS: Final[dict[str, tuple[str, str]]] = {
    "name": ("model", ""),
    "gpu_name": ("model", ""),
    "vbios_version": ("vbios-version", ""),
    "memory.total": ("memory-total", "B"),
    "memory.used": ("memory-used", "B"),
    "memory.free": ("memory-free", "B"),
    "memory.reserved": ("memory-reserved-seen", "B"),
    "temperature.gpu": ("temperature", "degC"),
    "temperature.memory": ("memory-temperature", "degC"),
    "utilization.gpu": ("utilization", "%"),
    "utilization.memory": ("memory-utilization", "%"),
    "power.draw": ("power-draw", "W"),
    "power.draw.average": ("power-draw-average", "W"),
    "power.draw.instant": ("power-draw-instant", "W"),
    "power.limit": ("power-limit-requested", "W"),
    "enforced.power.limit": ("power-limit", "W"),
    "power.default_limit": ("power-limit-default", "W"),
    "power.min_limit": ("power-limit-min", "W"),
    "power.max_limit": ("power-limit-max", "W"),
    "mig.mode.current": ("mig-mode", ""),
    "mig.mode.pending": ("mig-mode-pending", ""),
    "ecc.mode.current": ("ecc-mode", ""),
    "ecc.mode.pending": ("ecc-mode-pending", ""),
    "persistence_mode": ("persistence-mode", ""),
    "compute_mode": ("compute-mode", ""),
    "compute_cap": ("compute-capability", ""),
    "pstate": ("performance-state-seen", ""),
    "pcie.link.gen.max": ("pcie-generation-max", ""),
    "pcie.link.gen.gpumax": ("pcie-generation-gpu-max", ""),
    "pcie.link.gen.current": ("pcie-generation-seen", ""),
    "pcie.link.gen.gpucurrent": ("pcie-generation-gpu-seen", ""),
    "pcie.link.width.max": ("pcie-width-max", ""),
    "pcie.link.width.current": ("pcie-width-seen", ""),
    "inforom.img": ("inforom-version", ""),
    "gpu_part_number": ("part-number", ""),
    "fabric.state": ("fabric-state", ""),
    "fabric.status": ("fabric-status", ""),
    "retired_pages.pending": ("retired-pages-pending", ""),
    "retired_pages.single_bit_ecc.count": ("retired-pages-single-bit-seen", ""),
    "retired_pages.double_bit.count": ("retired-pages-double-bit-seen", ""),
    "clocks.max.sm": ("sm-clock-max", "Hz"),
}
_IDENTITY: Final = frozenset({"index", "uuid", "gpu_uuid", "serial", "gpu_serial", "pci.bus_id", "gpu_bus_id", "timestamp"})
# Columns that no other program's tables have; the plain ones alone make no heading.
_OWN: Final = frozenset({*_COLUMNS, "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial", "driver_version"}) - {"name", "gpu_name"}
_WORDS: Final = frozenset({"compute-capability", "vbios-version", "inforom-version", "model", "part-number"})
_TROUBLE: Final = (("requires reset", "requires-reset"), ("is lost", "lost"))
_COUNTERS: Final = re.compile(
    r"(?:ecc\.errors|remapped_rows|clocks_(?:throttle|event)_reasons|clocks\.(?!max)|fan\.|encoder\.|pcie\.replay)"
)


class _Column(msgspec.Struct, frozen=True):
    """A column: its name, and the unit in the heading."""

    name: str
    printed_unit: str


def recognises(head: bytes) -> bool:
    """A heading of which each column has the form of a query, and one is NVIDIA's own, among the first lines."""
    return any(_heading(line) for line in head_lines(head)[:20])


def parse(capture: Capture) -> Parsed:
    """Facts of each row."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    columns: list[_Column] | None = None
    rows: dict[str, tuple[int, list[str]]] = {}
    earlier = 0
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw)
        if not text.strip() or state_failure(say, text, line=number):
            continue
        heading = _heading(text)
        if columns is None or heading is not None:
            if heading is not None and number != cut and heading != columns:  # another query; -l repeats the same heading
                _state_rows(say, columns, rows)
                columns, rows = heading, {}
            continue
        if len(text) > MAX_LINE_CHARS:
            say.skip(number, f"the line is longer than {MAX_LINE_CHARS} signs")
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) > len(columns) or (len(cells) < len(columns) and number != cut):
            say.skip(number, f"{len(cells)} cells for {len(columns)} columns: {text[:80]!r}")
            continue
        if number == cut:
            cells = _without_part(cells, columns, say, number)
        key = _subject(columns, cells, len(rows))
        earlier += key in rows
        rows[key] = (number, cells)
    if columns is None:
        say.skip(1, "no heading of columns")
        return say.done()
    if earlier:
        say.skip(1, f"{earlier} earlier rows of GPUs that have a later one")
    _state_rows(say, columns, rows)
    return say.done()


def _state_rows(say: Statements, columns: list[_Column] | None, rows: dict[str, tuple[int, list[str]]]) -> None:
    for key, (number, cells) in rows.items():
        _state_row(say, f"{say.node}/gpu:{key}", columns or [], cells, number)
    _state_versions(say, columns or [], rows)


def _heading(line: str) -> list[_Column] | None:
    if len(line) > MAX_LINE_CHARS:
        return None
    columns: list[_Column] = []
    for part in line.split(","):
        found = _NAME.fullmatch(part.strip())
        if found is None:
            return None
        columns.append(_Column(found[1], found[2] or ""))
    names = {column.name for column in columns}
    return columns if names & _OWN or names in ({"index", "name"}, {"name", "serial"}) else None


def _without_part(cells: list[str], columns: list[_Column], say: Statements, number: int) -> list[str]:
    """The row without its last cell when nothing shows that it is whole: a unit or a bracket does."""
    last = columns[len(cells) - 1]
    whole = len(cells) == len(columns) and (
        cells[-1].endswith("]") or bool(last.printed_unit and cells[-1].endswith(" " + last.printed_unit))
    )
    if whole:
        return cells
    say.skip(number, f"the output may be cut in the value of {last.name}: {cells[-1][:40]!r}")
    return cells[:-1]


def _subject(columns: list[_Column], cells: list[str], place: int) -> str:
    """The GPU's index; without that column its address or UUID; else its row, which is no index: ``-i`` leaves GPUs out."""
    row = {column.name: cell for column, cell in zip(columns, cells, strict=False)}
    index = row.get("index", "")
    if index.isascii() and index.isdigit() and len(index) < 5:
        return str(int(index))
    for name in ("pci.bus_id", "gpu_bus_id"):
        if address := bus_id(row.get(name, "")):
            return address
    for name in ("uuid", "gpu_uuid"):
        if row.get(name, "").startswith("GPU-"):
            return row[name][:60]
    return f"row-{place}"


def _state_row(say: Statements, subject: str, columns: list[_Column], cells: list[str], line: int) -> None:
    trouble = next((state for cell in cells for words, state in _TROUBLE if words in cell.lower()), "")
    if trouble:
        say.known(subject, "state", trouble, line=line)
    for column, cell in zip(columns, cells, strict=False):
        attribute, unit = _attribute(column)
        match column.name:
            case "index" | "timestamp" | "count":
                pass
            case "uuid" | "gpu_uuid":
                state_uuid(say, subject, cell, line=line)
            case "serial" | "gpu_serial":
                state_serial(say, subject, cell, line=line)
            case "pci.bus_id" | "gpu_bus_id":
                state_bus_id(say, subject, cell, line=line)
            case name if name in _NODE:
                pass
            case _ if trouble and (unit or number_in(cell) is not None) and attribute not in _WORDS:
                say.unknown(subject, attribute, line=line, unit=unit, note=f"{printed_note(cell)}, of a GPU that is {trouble}")
            case _:
                _state_cell(say, subject, column, cell, line)


def _attribute(column: _Column) -> tuple[str, str]:
    """Attribute and unit of a column."""
    if column.name in _COLUMNS:
        return _COLUMNS[column.name]
    seen = "-seen" if _COUNTERS.match(column.name) else ""
    return re.sub(r"[._]+", "-", column.name).strip("-") + seen, _RATES.get(column.printed_unit, "")


def _state_cell(say: Statements, subject: str, column: _Column, cell: str, line: int) -> None:
    attribute, unit = _attribute(column)
    bare = number_in(cell)
    if attribute in _WORDS or has_no_value(cell):
        word(say, subject, attribute, cell, line=line) if not unit else say.unknown(
            subject, attribute, line=line, unit=unit, note=printed_note(cell)
        )
    elif bare is not None and column.printed_unit and (factor := scaled(column.printed_unit, unit=unit)):
        say.number(subject, attribute, cell, line=line, unit=unit, scale=factor)  # nounits: the heading has the unit
    elif bare is not None:
        say.number(subject, attribute, cell, line=line, unit=unit)  # temperatures and counts have no unit in the table
    elif unit:
        amount(say, subject, attribute, cell, line=line, unit=unit)
    else:
        word(say, subject, attribute, cell, line=line)


def _state_versions(say: Statements, columns: list[_Column], rows: dict[str, tuple[int, list[str]]]) -> None:
    """The driver is one for the node; rows that differ are a conflict."""
    for place, column in enumerate(columns):
        if column.name not in _NODE:
            continue
        said = {cells[place]: line for line, cells in reversed(rows.values()) if place < len(cells)}
        for text, line in said.items():
            if len(said) > 1 and not has_no_value(text):
                say.conflict(say.node, _NODE[column.name], text, line=line, note=f"rows say {', '.join(sorted(said))}"[:200])
            else:
                word(say, say.node, _NODE[column.name], text, line=line)


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi --query-gpu=index,name,uuid,serial,pci.bus_id,vbios_version,memory.total,power.limit --format=csv",
    recognises=recognises,
    parse=parse,
    yields=(
        Yield("node:*", "driver-version", "", "version of the driver"),
        Yield("node:*/gpu:*", "uuid", "", "the one name that no other GPU has"),
        Yield("node:*/gpu:*", "serial", "", "serial number of the board; unknown where it is a placeholder"),
        *(Yield("node:*/gpu:*", attribute, unit, f"column {name}") for name, (attribute, unit) in _COLUMNS.items() if name != "gpu_name"),
        Yield("node:*/gpu:*", "*", "*", "any other column, by its name with dashes"),
        *FAILURE_YIELDS,
    ),
)
