"""``dcgmi diag``: the verdict of each test, of the node and of its GPUs (M2).

A verdict of the tool is a reading and no proof: it passes with all NVLinks down (D13). Messages are printed in pieces of one width that
end in the middle of words; they are put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.discovery.dcgm import dashed
from bridgehead.discovery.nvidia import MAX_LINE_CHARS, head_lines, plain, printed_note, unfinished_line, word
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "dcgmi-diag"
_HEADING: Final = re.compile(r"\| Diagnostic\s{1,60}\| Result\s{1,80}\|")
_ROW: Final = re.compile(r"\|([^|]{1,100})\|([^|]{0,400})\|")
_METADATA: Final = {"DCGM Version": "dcgm-version", "Driver Version Detected": "driver-version"}
_IDS: Final = "GPU Device IDs Detected"
_ID: Final = re.compile(r"[0-9A-Fa-f]{4}")
_VERDICTS: Final = ("fail", "warn", "skip", "pass")
"""The worst first: a test that fails on one GPU fails."""
_VERDICT: Final = re.compile(
    r"(?:GPUs? ?(\d{1,3}): ?)?(Fail|Warn|Skip|Pass|Not Run)\w{0,3}(?: - (?:All|GPUs?: ([\d, ]{1,200})))?", re.ASCII
)
_MESSAGE: Final = re.compile(r"(Error|Warning|Warn|Info)\b.{0,40}")
_MOST_CHARS: Final = 2000


class _Entry(msgspec.Struct):
    """A row with a name, and those below it that continue it."""

    name: str
    line: int
    cells: list[str]


def recognises(head: bytes) -> bool:
    """The heading of its table."""
    return any(_HEADING.fullmatch(line.strip()) for line in head_lines(head))


def parse(capture: Capture) -> Parsed:
    """Versions, verdicts, and what the tool says of them."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    entries: list[_Entry] = []
    ended = False
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).strip() if len(raw) <= MAX_LINE_CHARS else ""
        if number == cut and not text.endswith(("|", "+")):
            say.skip(number, f"the output may be cut in this line: {text[:80]!r}")
        elif text.startswith("+-") and text.endswith("-+") and "  " not in text:
            ended = bool(entries)
        elif text.startswith("|-----") or text.startswith(("+=", "+-")) or _HEADING.fullmatch(text):
            pass
        elif row := _ROW.fullmatch(text):
            name = row[1].strip()
            if name:
                entries.append(_Entry(name, number, [row[2]]))
            elif entries:
                entries[-1].cells.append(row[2])
    width = max((len(cell.rstrip()) for entry in entries for cell in entry.cells), default=0)
    test = ""
    for entry in entries:
        if message := _MESSAGE.fullmatch(entry.name):
            _state_message(say, test, message[1].lower(), entry, width)
        elif entry.name in _METADATA:
            word(say, say.node, _METADATA[entry.name], _joined(entry.cells, width), line=entry.line)
        elif entry.name == _IDS:
            _state_ids(say, entry, width)
        else:
            test = dashed(entry.name)
            _state_verdicts(say, test, entry)
    if not ended:
        say.skip(len(capture.lines), "the output is incomplete: the table of results has no end")
    return say.done()


def _joined(cells: list[str], width: int) -> str:
    """One text: each piece but the last fills the column, so that blanks at its end belong to the text."""
    pieces = [cell.rstrip().ljust(width)[1:] for cell in cells[:-1]] + [cells[-1].rstrip()[1:]]
    return "".join(pieces).strip()


def _state_ids(say: Statements, entry: _Entry, width: int) -> None:
    ids = [one.strip() for one in _joined(entry.cells, width).split(",")]
    if all(_ID.fullmatch(one) for one in ids):
        say.known(say.node, "gpu-device-ids", tuple(one.lower() for one in ids), line=entry.line)
    else:
        say.unknown(say.node, "gpu-device-ids", line=entry.line, note=printed_note(",".join(ids)))


def _state_message(say: Statements, test: str, kind: str, entry: _Entry, width: int) -> None:
    kind = "warning" if kind == "warn" else kind
    text = _joined(entry.cells, width)
    shown = text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "..."
    if shown:
        say.known(say.node, f"diag-{kind}-seen:{test or 'all'}", shown, line=entry.line)


def _state_verdicts(say: Statements, test: str, entry: _Entry) -> None:
    found: list[str] = []
    strange = ""
    for offset, cell in enumerate(entry.cells):
        verdict = _VERDICT.fullmatch(cell.strip())
        if verdict is None:
            strange = strange or cell.strip()
            continue
        result = verdict[2].lower().replace(" ", "-")
        found.append(result)
        for gpu in _gpus(verdict):
            say.known(f"{say.node}/gpu:{gpu}", f"diag-result-seen:{test}", result, line=entry.line + offset)
    if found:
        worst = min(found, key=lambda one: _VERDICTS.index(one) if one in _VERDICTS else len(_VERDICTS))
        say.known(say.node, f"diag-result-seen:{test}", worst, line=entry.line)
    else:
        say.unknown(say.node, f"diag-result-seen:{test}", line=entry.line, note=printed_note(strange))
    if found and strange:
        say.skip(entry.line, f"of {entry.name} nothing is made of {strange[:80]!r}")


def _gpus(verdict: re.Match[str]) -> Iterator[int]:
    """The GPUs that a verdict names."""
    for text in [verdict[1] or "", *(verdict[3] or "").split(",")]:
        if text.strip().isascii() and text.strip().isdigit():
            yield int(text)


PARSER = Parser(
    tool=_TOOL,
    command="dcgmi diag -r 1",
    recognises=recognises,
    marks=(b"diagnostic",),
    parse=parse,
    yields=(
        Yield("node:*", "dcgm-version", "", "version of DCGM"),
        Yield("node:*", "driver-version", "", "version of the driver"),
        Yield("node:*", "gpu-device-ids", "", "PCI device number of each GPU"),
        Yield("node:*", "diag-result-seen:*", "", "pass, warn, skip or fail by test; the worst of the node's GPUs"),
        *(Yield("node:*", f"diag-{kind}-seen:*", "", f"what the tool says, as {kind}") for kind in ("error", "warning", "info")),
        Yield("node:*/gpu:*", "diag-result-seen:*", "", "the same of one GPU, where the tool names it"),
    ),
)
