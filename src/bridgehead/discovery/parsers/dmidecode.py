"""dmidecode: maker, model and serial numbers of a host, its firmware, processors, memory and supplies, as its BIOS says (M2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part

_HANDLE: Final = re.compile(r"Handle (0x[0-9A-Fa-f]{4}), DMI type (\d{1,3}), \d{1,5} bytes\b.*", re.ASCII)
_HEAD: Final = re.compile(rb"^(?:# dmidecode \d|Handle 0x[0-9A-Fa-f]{4}, DMI type \d)", re.MULTILINE)
_SIZE: Final = re.compile(r"(\d{1,9}) (bytes|kB|MB|GB|TB)", re.ASCII)
_BYTES: Final = {"bytes": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_EMPTY_SLOT: Final = ("no module installed", "not installed", "none", "0 mb", "0 bytes")
_PLACEHOLDERS: Final = frozenset(
    [
        "",
        "not specified",
        "not provided",
        "not present",
        "not settable",
        "not applicable",
        "n/a",
        "none",
        "unknown",
        "unspecified",
        "default string",
        "oem",
        "o.e.m.",
        "to be filled by o.e.m.",
        "to be filled by oem",
        "no asset tag",
        "no asset information",
        "no enclosure",
        "<out of spec>",
        "<bad index>",
        "system serial number",
        "system product name",
        "system manufacturer",
        "chassis serial number",
        "base board serial number",
        "123456789",
        "0123456789",
        "1234567890",
        "xxxxxxxx",
        "asset-1234567890",
        "00000000-0000-0000-0000-000000000000",
        "03000200-0400-0500-0006-000700080009",
    ]
)
"""What makers leave where they enter nothing, in lower case."""
_BIOS, _SYSTEM, _BOARD, _CHASSIS, _CPU, _MEMORY, _SUPPLY, _END = 0, 1, 2, 3, 4, 17, 39, 127
# Of a kind of which a host has one: key, attribute, meaning.
_SINGLE: Final = {
    _BIOS: (
        ("Vendor", "bios-vendor", "maker of the BIOS"),
        ("Version", "bios-version", "version of the BIOS"),
        ("Release Date", "bios-date", "date of the BIOS, as printed"),
    ),
    _SYSTEM: (
        ("Manufacturer", "manufacturer", "maker"),
        ("Product Name", "model", "model"),
        ("Serial Number", "serial", "serial number"),
        ("UUID", "uuid", "identity of the system"),
        ("SKU Number", "sku", "the maker's order number"),
    ),
    _BOARD: (
        ("Product Name", "board-model", "model of the main board"),
        ("Serial Number", "board-serial", "serial number of the main board"),
    ),
    _CHASSIS: (
        ("Type", "chassis-type", "kind of chassis"),
        ("Serial Number", "chassis-serial", "serial number of the chassis"),
        ("Asset Tag", "asset-tag", "the owner's number"),
    ),
}
_TOOL: Final = "dmidecode"


class _Block(msgspec.Struct):
    """One structure: its kind, and each key with its value and line."""

    handle: str
    kind: int
    line: int
    whole: bool = False
    values: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)

    def text(self, key: str) -> str:
        """The value of a key; empty for none and for what makers leave in."""
        word = self.values.get(key, ("", 0))[0].strip()
        return "" if word.lower() in _PLACEHOLDERS else word


def recognises(head: bytes) -> bool:
    """Its first line, or the head of a structure."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """What is said once, and sums over processors, memory and supplies."""
    say = Statements(_TOOL, capture)
    blocks = _blocks(capture, say)
    done: set[int] = set()
    for block in blocks:
        if block.kind in _SINGLE and block.kind not in done:
            done.add(block.kind)
            _single(say, block)
    kinds = {block.kind for block in blocks}
    # The output of one kind (-t memory) has no end mark; that of all has one.
    cut = any(not block.whole for block in blocks) or ({_BIOS, _MEMORY} <= kinds and _END not in kinds)
    _processors(say, [block for block in blocks if block.kind == _CPU], cut=cut)
    _memory(say, [block for block in blocks if block.kind == _MEMORY], cut=cut)
    _supplies(say, [block for block in blocks if block.kind == _SUPPLY], cut=cut)
    return say.done()


def _blocks(capture: Capture, say: Statements) -> list[_Block]:
    """All structures. The last one is whole only with an empty line behind it."""
    blocks: list[_Block] = []
    open_block: _Block | None = None
    lines = capture.lines
    for number, raw in enumerate(lines, 1):
        if raw.startswith("Handle") and (found := _HANDLE.fullmatch(raw.rstrip())):
            open_block = _Block(found[1], int(found[2]), number)
            blocks.append(open_block)
        elif open_block is not None and not raw.strip():
            open_block.whole = number < len(lines)
            open_block = None
        elif open_block is not None and raw[:1] in ("\t", " ") and number < len(lines):
            key, colon, value = raw.strip().partition(":")
            if colon and not raw.startswith("\t\t"):
                open_block.values.setdefault(key, (value.strip(), number))
    if blocks and lines[-1] != "":
        blocks[-1].whole = False
        say.skip(len(lines), "the last line has no end: the output is cut off")
    return blocks


def _single(say: Statements, block: _Block) -> None:
    for key, attribute, _ in _SINGLE[block.kind]:
        if key in block.values:
            value, line = block.values[key]
            if block.text(key):
                say.known(say.node, attribute, block.text(key), line=line)
            else:
                note = f"the tool printed {value!r}, which makers leave where they enter nothing"
                say.unknown(say.node, attribute, line=line, note=note)
    if block.kind == _CHASSIS and (height := re.fullmatch(r"(\d{1,3}) U", block.text("Height"), re.ASCII)):
        say.number(say.node, "units", height[1], line=block.values["Height"][1])


def _processors(say: Statements, blocks: Sequence[_Block], *, cut: bool) -> None:
    there = [block for block in blocks if not block.text("Status").startswith("Unpopulated")]
    if not there:
        return
    _sum(say, "cpu-sockets", [1 for _ in there], line=there[0].line, cut=cut)
    for key, attribute in (("Core Count", "cpu-cores"), ("Thread Count", "cpu-threads")):
        counts = [number_in(block.text(key)) for block in there]
        _sum(say, attribute, counts, line=there[0].line, cut=cut)
    models = sorted({block.text("Version") for block in there if block.text("Version")})
    if len(models) == 1:
        say.known(say.node, "cpu-model", models[0], line=next(block.values["Version"][1] for block in there if "Version" in block.values))
    elif models:
        say.unknown(say.node, "cpu-model", line=there[0].line, note=f"sockets differ: {', '.join(models)}")


def _memory(say: Statements, blocks: Sequence[_Block], *, cut: bool) -> None:
    if not blocks:
        return
    sizes: list[int | float | None] = []
    for block in blocks:
        printed = block.values.get("Size", ("", 0))[0]
        if printed.lower() in _EMPTY_SLOT:
            continue
        found = _SIZE.fullmatch(printed)
        sizes.append(int(found[1]) * _BYTES[found[2]] if found else None)
    line = blocks[0].line
    _sum(say, "memory-slot-count", [1 for _ in blocks], line=line, cut=cut)
    _sum(say, "memory-module-count", [1 for _ in sizes], line=line, cut=cut)
    _sum(say, "memory-installed", sizes, line=line, cut=cut, unit="B")


def _supplies(say: Statements, blocks: Sequence[_Block], *, cut: bool) -> None:
    there = [block for block in blocks if not block.values.get("Status", ("", 0))[0].startswith("Not Present")]
    for block in there:
        subject = f"{say.node}/supply:{path_part(block.text('Location') or block.handle)}"
        for key, attribute in (("Serial Number", "serial"), ("Model Part Number", "part-number"), ("Manufacturer", "manufacturer")):
            if block.text(key):
                say.known(subject, attribute, block.text(key), line=block.values[key][1])
        if (printed := block.values.get("Max Power Capacity")) is not None:
            amount = printed[0].removesuffix(" W")
            say.number(subject, "nameplate-power", amount if printed[0].endswith(" W") else printed[0], line=printed[1], unit="W")
    if there:
        _sum(say, "supply-count", [1 for _ in there], line=there[0].line, cut=cut)


def _sum(say: Statements, attribute: str, values: Sequence[int | float | None], *, line: int, cut: bool, unit: str = "") -> None:
    """State a sum; UNKNOWN where the output is cut or a part of it is not known."""
    known = [value for value in values if value is not None]
    if cut:
        say.unknown(say.node, attribute, line=line, unit=unit, note="the output is cut off, so that a sum would be too small")
    elif len(known) < len(values):
        say.unknown(say.node, attribute, line=line, unit=unit, note=f"of {len(values)} parts only {len(known)} say it")
    else:
        say.known(say.node, attribute, sum(known), line=line, unit=unit)


PARSER = Parser(
    tool=_TOOL,
    command="dmidecode",
    recognises=recognises,
    marks=(
        b"# dmidecode ",
        b"dmi type ",
    ),
    parse=parse,
    yields=(
        *(Yield("node:*", attribute, "", meaning) for fields in _SINGLE.values() for _, attribute, meaning in fields),
        Yield("node:*", "units", "", "height in rack units"),
        Yield("node:*", "cpu-model", "", "model of its processors"),
        Yield("node:*", "cpu-sockets", "", "processors that are there"),
        Yield("node:*", "cpu-cores", "", "cores of all processors"),
        Yield("node:*", "cpu-threads", "", "threads of all processors"),
        Yield("node:*", "memory-installed", "B", "main memory that is plugged in"),
        Yield("node:*", "memory-slot-count", "", "places for memory"),
        Yield("node:*", "memory-module-count", "", "memory modules"),
        Yield("node:*", "supply-count", "", "power supplies that are there"),
        Yield("node:*/supply:*", "serial", "", "serial number"),
        Yield("node:*/supply:*", "part-number", "", "part number"),
        Yield("node:*/supply:*", "manufacturer", "", "maker"),
        Yield("node:*/supply:*", "nameplate-power", "W", "most that it can deliver: a bound, never the load"),
    ),
)
