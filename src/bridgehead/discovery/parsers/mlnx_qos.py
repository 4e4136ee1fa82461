"""``mlnx_qos -i INTERFACE``: how a host's adapter treats classes of traffic: PFC, trust and DSCP (M8.2).

The tool does not print which interface it is about, so the facts are the host's; adapters of one host that differ become a conflict.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.switch_config import dscp_of, in_order
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^(?:DCBX mode: |PFC configuration:[ \t]*\r?$|dscp2prio mapping:[ \t]*\r?$)", re.MULTILINE)
_WORD: Final = re.compile(r"(DCBX mode|Priority trust state): (.{1,60})")
_POINTS: Final = re.compile(r"\s*prio:(\d) dscp:([\d,]{0,400})", re.ASCII)
_ROW: Final = re.compile(r"\s+(priority|enabled)((?:\s+\d{1,2}){1,16})", re.ASCII)
_CLASS: Final = re.compile(r"tc: (\d) .{0,200}", re.ASCII)
_MEMBER: Final = re.compile(r"\s+priority:\s+(\d)", re.ASCII)
_WORDS: Final = {"DCBX mode": "dcbx-mode", "Priority trust state": "trust-state"}


def recognises(head: bytes) -> bool:
    """Headings of its parts."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """One interface."""
    say = Statements("mlnx-qos", capture)
    node = say.node
    priorities: list[str] = []
    tc = ""
    for number, line in whole_lines(capture, say):
        if word := _WORD.fullmatch(line):
            say.word(node, _WORDS[word[1]], word[2], line=number)
        elif points := _POINTS.fullmatch(line):
            _state_points(say, points[1], points[2], number)
        elif row := _ROW.fullmatch(line):
            cells = row[2].split()
            if row[1] == "priority":
                priorities = cells
            elif len(cells) == len(priorities):
                lossless = [one for one, on in zip(priorities, cells, strict=True) if on != "0"]
                say.known(node, "pfc-priorities", in_order(lossless), line=number)
            else:
                note = f"{len(cells)} cells under {len(priorities)} priorities"
                say.unknown(node, "pfc-priorities", line=number, note=note)
        elif begin := _CLASS.fullmatch(line):
            tc = begin[1]
        elif tc and (member := _MEMBER.fullmatch(line)):
            say.number(f"{node}/class-map:mlnx-qos", f"queue:{member[1]}", tc, line=number)
    return say.done()


def _state_points(say: Statements, priority: str, text: str, line: int) -> None:
    for word in text.split(","):
        number = number_in(word) if word else None
        point = dscp_of(str(number)) if number is not None else None
        if point is not None:
            say.number(f"{say.node}/dscp-map:mlnx-qos", f"traffic-class:{point}", priority, line=line)
        elif word:
            say.skip(line, f"no code point: {word[:20]!r}")


PARSER = Parser(
    tool="mlnx-qos",
    command="mlnx_qos -i INTERFACE",
    recognises=recognises,
    marks=(
        b"dcbx mode: ",
        b"pfc configuration:",
        b"dscp2prio mapping:",
    ),
    parse=parse,
    yields=(
        Yield("node:*", "dcbx-mode", "", "who decides on the classes: the system or the firmware"),
        Yield("node:*", "trust-state", "", "dscp or pcp: what the adapter goes by"),
        Yield("node:*", "pfc-priorities", "", "priorities that are lossless"),
        Yield("node:*/dscp-map:*", "traffic-class:*", "", "priority of a DSCP code point"),
        Yield("node:*/class-map:*", "queue:*", "", "traffic class of a priority"),
    ),
)
