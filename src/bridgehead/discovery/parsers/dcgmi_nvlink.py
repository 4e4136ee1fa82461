"""``dcgmi nvlink --link-status``: the state of each NVLink as one letter (M2).

DCGM numbers GPUs as the driver does, as long as none was added or lost since it was started; ``dcgmi discovery -l`` tells which is which.
A diagnosis by DCGM passes with all of them down (D13): how many there ought to be is not its question.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from bridgehead.discovery.nvidia import MAX_LINE_CHARS, head_lines, plain, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "dcgmi-nvlink"
_TITLE: Final = re.compile(r"\|\s{0,10}NvLink Link Status\s{0,10}\|")
_OWNER: Final = re.compile(r"\s{0,20}(gpuId|physicalId) (\d{1,4}):\s{0,20}", re.ASCII)
_LETTERS: Final = re.compile(r"\s{0,20}[UDX_](?:\s{1,4}[UDX_]){0,200}\s{0,20}")
_KINDS: Final = {"gpuId": "gpu", "physicalId": "nvswitch"}
_NOTES: Final = {"U": "", "D": "", "X": "the tool printed 'X': disabled"}


def recognises(head: bytes) -> bool:
    """Its title, or a row of letters below the number of a GPU."""
    lines = head_lines(head)
    return any(_TITLE.fullmatch(line.strip()) for line in lines) or any(
        _OWNER.fullmatch(line) and _LETTERS.fullmatch(below) for line, below in pairwise(lines)
    )


def parse(capture: Capture) -> Parsed:
    """Each link, and how many of each GPU's or switch's are up."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    subject = ""
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw) if len(raw) <= MAX_LINE_CHARS else "?"
        if owner := _OWNER.fullmatch(text):
            subject = f"{say.node}/{_KINDS[owner[1]]}:{int(owner[2])}"
        elif subject and _LETTERS.fullmatch(text):
            _state_links(say, subject, text.split(), number, cut=number == cut)
            subject = ""
        elif subject and text.strip():
            say.skip(number, f"no states of links: {text.strip()[:80]!r}")
            subject = ""
        elif text.strip() == "No GPUs found.":
            say.skip(number, "DCGM finds no GPU")
    return say.done()


def _state_links(say: Statements, subject: str, letters: list[str], line: int, *, cut: bool) -> None:
    for link, letter in enumerate(letters):
        if letter != "_":  # no such link
            say.known(f"{subject}/nvlink:{link}", "active", letter == "U", line=line, note=_NOTES[letter])
    if cut:
        say.skip(line, "the output may be cut in this line")
        for attribute in ("nvlinks-active", "nvlinks-total"):
            say.unknown(subject, attribute, line=line, note=f"{len(letters)} states are there, and the line may be cut")
    else:
        say.known(subject, "nvlinks-active", letters.count("U"), line=line)
        say.known(subject, "nvlinks-total", len(letters) - letters.count("_"), line=line)


PARSER = Parser(
    tool=_TOOL,
    command="dcgmi nvlink --link-status",
    recognises=recognises,
    marks=(
        b"nvlink link status",
        b"gpuid",
        b"physicalid",
    ),
    parse=parse,
    yields=tuple(
        one
        for kind in ("gpu", "nvswitch")
        for one in (
            Yield(f"node:*/{kind}:*", "nvlinks-total", "", "NVLinks that it has, in whatever state"),
            Yield(f"node:*/{kind}:*", "nvlinks-active", "", "NVLinks that are up"),
            Yield(f"node:*/{kind}:*/nvlink:*", "active", "", "whether the link is up"),
        )
    ),
)
