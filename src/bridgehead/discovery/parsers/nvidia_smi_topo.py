"""``nvidia-smi topo -m``: how GPUs and network devices of a node reach each other (M2).

- Columns are found by name, rows by their first cell; tabs, spaces, narrow columns and a prompt line before the table are all read (D02).
- Each pair is stated once, for the device whose column comes first. The cells of both rows must agree.
- A cell that ran into its neighbour, or a row that is short, is repaired from the mirrored cell, and the note says so (D04).
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import Final

import msgspec

from bridgehead.discovery.cpu_list import parted, ranges_of
from bridgehead.discovery.gpu_matrix import LINK, TITLES, Heading, Row, find, gpu_index
from bridgehead.discovery.nvidia import FAILURE_YIELDS, head_lines, plain, printed_note, state_failure, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_LINKS: Final = re.compile(rf"(?:{LINK.pattern})+")
_LEGEND: Final = re.compile(r"\s{0,40}(NIC\d{1,3}):\s{0,40}([A-Za-z][\w.-]{0,60})\s{0,40}", re.ASCII)
_MERGED: Final = re.compile(r"([A-Z]{1,4})(\d[\d,-]{0,2000})", re.ASCII)
_LISTED: Final = re.compile(r"\d[\d,-]*|N/A", re.ASCII)
_TOOL: Final = "nvidia-smi-topo"


class _Cells(msgspec.Struct):
    """What a row holds: relations by column (None: cannot be told), the cells behind them by title, and why it is not whole."""

    line: int
    links: list[str | None]
    titles: dict[str, str]
    merged: str = ""
    fault: str = ""


def recognises(head: bytes) -> bool:
    """A heading of GPUs with ``CPU Affinity``, or a row with relations that no other matrix has."""
    lines = head_lines(head)
    found = find(lines)
    if found is None:
        return False
    heading, rows = found
    return bool(heading.titles) or any(word != "X" and LINK.fullmatch(word) for row in rows for word in row.text.split()[:600])


def parse(capture: Capture) -> Parsed:
    """Relations of all pairs, affinities of GPUs, and what is missing."""
    say = Statements(_TOOL, capture)
    lines = capture.lines
    cut = unfinished_line(capture)
    found = find(lines)
    for number, text in enumerate(lines[: found[0].line if found else len(lines)], 1):
        state_failure(say, text, line=number)
    if found is None or found[0].line == cut:
        say.skip(found[0].line if found else 1, "no heading with the names of GPUs, or it is cut")
        return say.done()
    heading, rows = found
    if len(rows) < len(heading.devices) and not any(text.strip() for text in lines[rows[-1].line if rows else len(lines) :]):
        cut = cut or (rows[-1].line if rows else 0)  # nothing follows a table that lacks rows: its last row may be a part of one, too
    table = {row.name: _cells(row, heading, cut=row.line == cut) for row in rows}
    _state_pairs(say, heading, table, _names(say, lines, cut))
    _state_affinities(say, heading, table)
    say.known(say.node, "gpu-count", sum(gpu_index(name) is not None for name in heading.devices), line=heading.line)
    missing = [name for name in heading.devices if name not in table]
    if missing:
        say.skip(len(lines), f"the output is incomplete: rows {', '.join(missing[:40])} are missing")
    for name, cells in table.items():
        if cells.fault:
            say.skip(cells.line, f"row {name}: {cells.fault}")
    return say.done()


def _names(say: Statements, lines: list[str], cut: int) -> dict[str, str]:
    """Subjects' last part for network devices: NIC0 is mlx5_0 where the legend says so."""
    names: dict[str, str] = {}
    for number, text in enumerate(lines, 1):
        if found := _LEGEND.fullmatch(plain(text)):
            if number == cut:
                say.skip(number, f"the output may be cut in the name of {found[1]}")
            else:
                names[found[1]] = found[2]
    return names


def _cells(row: Row, heading: Heading, *, cut: bool) -> _Cells:
    """Read one row."""
    own = heading.devices.index(row.name)
    size = len(heading.devices)
    tabbed = "\t" in row.text
    items = [(item.strip(), 0) for item in row.text.split("\t")] if tabbed else _words(row.text)[1:]
    if tabbed and (len(items) <= own or items[own][0] != "X"):
        tabbed, items = False, _words(row.text)
    cells = _Cells(row.line, [], {})
    lost = items.pop()[0] if cut and items else ""  # the last cell of a line without an end may be a part of one
    place = 0
    while place < len(items) and len(cells.links) < size:
        item = items[place][0]
        if _LISTED.fullmatch(item):
            break
        place += 1
        if _LINKS.fullmatch(item):
            cells.links += re.findall(LINK.pattern, item)
        elif len(cells.links) == size - 1 and _MERGED.fullmatch(item):
            cells.merged = item
            cells.links.append(None)
        else:
            cells.links.append(None)
            cells.fault = f"{printed_note(item)} for {heading.devices[len(cells.links) - 1]}"
    if len(cells.links) != size:
        cells.fault = f"only {len(cells.links)} of {size} cells" + (f", cut at {lost[:40]!r}" if cut else "")
        if not cut:
            del cells.links[own + 1 :]  # behind its own cell nobody knows which one is missing
    if len(cells.links) > own and cells.links[own] != "X" and not (cells.merged and own == size - 1):
        cells.fault = "the cell of the device itself is not X: cells are displaced"
        cells.links = []
    cells.titles = {} if cut and place < size else _tail(items[place:], heading, tabbed=tabbed, merged=bool(cells.merged), cut=cut)
    return cells


def _words(text: str) -> list[tuple[str, int]]:
    return [(found[0], found.start()) for found in re.finditer(r"\S+", text)]


def _tail(items: list[tuple[str, int]], heading: Heading, *, tabbed: bool, merged: bool, cut: bool) -> dict[str, str]:
    """The cells behind the relations, by title; empty where the tool prints nothing."""
    titles = [name for name, _ in heading.titles][int(merged) :]
    values = [item for item, _ in items]
    if tabbed:
        # GPU NUMA ID is the last cell: the tool puts an empty one before it.
        last = [next((value for value in reversed(values[2 - merged :]) if value), "")] if TITLES[2] in titles else []
        values = [*values[: len(titles) - len(last)], *last] if len(values) >= len(titles) else values
        return dict(zip(titles, values if cut else [*values, *[""] * len(titles)], strict=False))
    if cut and len(values) < 2 <= len(titles):
        return {}  # the NUMA node may have run into the CPU list, and what would show it is cut off
    if len(values) >= len(titles) or cut:
        return dict(zip(titles, values, strict=False))
    found = dict.fromkeys(titles, "")
    if items and TITLES[2] in titles:
        found[TITLES[2]] = items.pop()[0]
    places = {name: place for name, place in heading.titles if name in titles and name != TITLES[2]}
    for value, start in items:
        if free := [name for name in places if not found[name]]:
            found[min(free, key=lambda name: abs(places[name] - start))] = value
    return found


def _state_pairs(say: Statements, heading: Heading, table: dict[str, _Cells], names: dict[str, str]) -> None:
    links = {
        (name, other): link
        for name, cells in table.items()
        for other, link in zip(heading.devices, cells.links, strict=False)
        if link is not None
    }
    for name, cells in table.items():
        if cells.merged:
            _part(name, cells, heading, links)
    labels = {name: f"nic:{names.get(name, name)}" if (gpu := gpu_index(name)) is None else f"gpu:{gpu}" for name in heading.devices}
    for one, other in combinations(heading.devices, 2):
        subject, attribute = f"{say.node}/{labels[one]}", f"link-to:{labels[other]}"
        here, there = links.get((one, other)), links.get((other, one))
        if here is not None and there is not None and here != there:
            note = f"row {one} says {here}, row {other} in line {table[other].line} says {there}"
            say.conflict(subject, attribute, here, line=table[one].line, note=note)
        elif here is not None:
            say.known(subject, attribute, here, line=table[one].line)
        elif there is not None:
            why = table[one].fault or f"{printed_note(table[one].merged)} there" if one in table else "that row is missing"
            say.known(subject, attribute, there, line=table[other].line, note=f"from row {other}, not from row {one}: {why}")
        elif one in table:
            say.unknown(subject, attribute, line=table[one].line, note=table[one].fault or printed_note(table[one].merged))


def _part(name: str, cells: _Cells, heading: Heading, links: dict[tuple[str, str], str]) -> None:
    """A relation that ran into the CPU list, such as PH0-115: the mirrored cell says which relation it was, the rest is the list."""
    found = _MERGED.fullmatch(cells.merged)
    last = heading.devices[-1]
    link = "X" if name == last else links.get((last, name))
    if found is None:
        return
    cpus = ""  # none where the rest cannot be told from the relation: NV120-23 is NV12 or NV1
    if link is not None and cells.merged.startswith(link):
        cpus = cells.merged[len(link) :]
    elif found[1] != "NV" and (link is None or link.startswith(found[1])):
        cpus = found[2]
    if ranges_of(cpus) is not None:
        cells.titles[TITLES[0]] = cpus


def _state_affinities(say: Statements, heading: Heading, table: dict[str, _Cells]) -> None:
    titles = [name for name, _ in heading.titles]
    shown = {name: cells for name, cells in table.items() if gpu_index(name) is not None}
    intact: dict[str, str] = {}
    for cells in shown.values():
        if cells.titles.get(TITLES[0]) and cells.titles.get(TITLES[1]) and not cells.merged:
            intact[cells.titles[TITLES[0]]] = cells.titles[TITLES[1]]
    for name, cells in shown.items():
        subject, line = f"{say.node}/gpu:{gpu_index(name)}", cells.line
        cpus: str | None = cells.titles.get(TITLES[0])
        node: str | None = cells.titles.get(TITLES[1])
        note = f"{printed_note(cells.merged)}, where the cell before ran into it" if cells.merged else ""
        if cpus and node == "" and TITLES[1] in titles:
            note = f"{printed_note(cpus)} and no NUMA node: the two columns ran together"
            parts = parted(cpus, intact=intact)
            note += ", parted as in the other rows" if parts else ", and no other row tells where the one ends"
            cpus, node = parts or ("", "")
        _state_list(say, subject, "cpu-affinity", cpus, line=line, note=note)
        _state_list(say, subject, "numa-affinity", node, line=line, note=note if not cells.merged else "")
        if TITLES[2] in cells.titles:
            say.number(subject, "gpu-numa-id", cells.titles[TITLES[2]], line=line)


def _state_list(say: Statements, subject: str, attribute: str, text: str | None, *, line: int, note: str) -> None:
    if text is None:
        return  # no such column, or cut before it
    if ranges_of(text) is None:
        say.unknown(subject, attribute, line=line, note=note or printed_note(text))
    else:
        say.known(subject, attribute, text, line=line, note=note)


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi topo -m",
    recognises=recognises,
    marks=(b"gpu",),
    parse=parse,
    yields=(
        Yield("node:*", "gpu-count", "", "GPUs in the heading"),
        Yield("node:*/gpu:*", "link-to:gpu:*", "", "how two GPUs reach each other: NV# (that many NVLinks), PIX, PXB, PHB, NODE, SYS"),
        Yield("node:*/gpu:*", "link-to:nic:*", "", "how a GPU reaches a network device"),
        Yield("node:*/nic:*", "link-to:nic:*", "", "how two network devices reach each other"),
        Yield("node:*/nic:*", "link-to:gpu:*", "", "the same, where the network device comes first"),
        Yield("node:*/gpu:*", "cpu-affinity", "", "CPUs near the GPU, as a list of ranges"),
        Yield("node:*/gpu:*", "numa-affinity", "", "NUMA nodes near the GPU, as a list of ranges"),
        Yield("node:*/gpu:*", "gpu-numa-id", "", "NUMA node that is the memory of the GPU"),
        *FAILURE_YIELDS,
    ),
)
