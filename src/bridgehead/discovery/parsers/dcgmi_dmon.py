"""``dcgmi dmon``: samples of chosen fields, one row an entity and time; the last one counts (M2).

DCGM before 4.5 prints 0 where later releases print N/A, and the output does not say which release it is: a zero is believed only where
another sample of the same entity has a value, so that a newer tool is no change of state (D12).
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.dcgm import BY_TAG, FIELDS, dashed, state_value
from bridgehead.discovery.nvidia import MAX_LINE_CHARS, head_lines, plain, printed_note, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in

_TOOL: Final = "dcgmi-dmon"
_HEADING: Final = re.compile(r"# ?Entity\s+(\S.{0,4000})")
_ROW: Final = re.compile(r"(GPU|GPU-I|GPU-CI|GPU_I|GPU_CI|Switch|CPU|CPU Core|Link) (\d{1,6})\s+(\S.{0,8000})", re.ASCII)
_MOST_COLUMNS: Final = 200
_NAMED: Final = ("gpu", "gpu-instance")
"""Entities whose fields have the names of other tools; of others all have DCGM's."""
_KINDS: Final = {
    "GPU": "gpu", "GPU-I": "gpu-instance", "GPU_I": "gpu-instance", "GPU-CI": "compute-instance", "GPU_CI": "compute-instance",
    "Switch": "nvswitch", "CPU": "cpu", "CPU Core": "cpu-core", "Link": "nvlink",
}  # fmt: skip


def recognises(head: bytes) -> bool:
    """Its heading."""
    return any(_HEADING.fullmatch(line.strip()) for line in head_lines(head))


def parse(capture: Capture) -> Parsed:
    """The last sample of each entity."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    columns: list[str] = []
    last: dict[tuple[str, str], tuple[str, int]] = {}
    moved: set[tuple[str, str]] = set()
    earlier = 0
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).strip() if len(raw) <= MAX_LINE_CHARS else ""
        if heading := _HEADING.fullmatch(text):
            columns = heading[1].split()[:_MOST_COLUMNS] if number != cut else []
        elif columns and (row := _ROW.fullmatch(text)):
            values = _values(row[3], len(columns))
            if number == cut or not values:
                say.skip(number, f"the row is cut, or its {len(columns)} columns cannot be told: {text[:80]!r}")
                continue
            subject = f"{say.node}/{_KINDS[row[1]]}:{int(row[2])}"
            for column, value in zip(columns, values, strict=True):
                earlier += (subject, column) in last
                last[subject, column] = (value, number)
                if number_in(value):
                    moved.add((subject, column))
    for (subject, column), (value, line) in last.items():
        field = BY_TAG.get(column) if subject.rpartition("/")[2].partition(":")[0] in _NAMED else None
        if number_in(value) == 0 and (subject, column) not in moved:
            note = f"{printed_note(value)}, which releases before 4.5 also print where there is no value"
            attribute = field.attribute if field else f"dcgm-seen:{dashed(column)}"
            say.unknown(subject, attribute, line=line, unit=field.unit if field else "", note=note)
        else:
            state_value(say, subject, field, column, value, line=line)
    if earlier:
        say.skip(1, f"{earlier} earlier values of entities that have a later one")
    if not columns:
        say.skip(1, "no heading of columns, or it is cut")
    return say.done()


def _values(text: str, columns: int) -> list[str]:
    """The cells, by blanks or, where names have blanks in them, by more than one; empty where neither gives one for each column."""
    for cells in (text.split(), re.split(r"[ \t]{2,}", text.strip())):
        if len(cells) == columns:
            return cells
    return []


PARSER = Parser(
    tool=_TOOL,
    command="dcgmi dmon -e 150,155,203 -c 5",
    recognises=recognises,
    marks=(b"entity",),
    parse=parse,
    yields=(
        *(Yield(f"node:*/{kind}:*", field.attribute, field.unit, field.meaning) for kind in _NAMED for field in FIELDS if field.tag),
        *(Yield(f"node:*/{kind}:*", "dcgm-seen:*", "", "any other field, by DCGM's short name") for kind in dict.fromkeys(_KINDS.values())),
    ),
)
