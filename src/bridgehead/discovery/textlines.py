"""Lines of text output that can be trusted: whole ones, of a sane length. Pure.

A capture that was cut off ends in the middle of a line, perhaps in the middle of a number (case D02); so a last line without an end is
not believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.discovery.parsing import Capture, Statements

MAX_LINE_CHARS: Final = 4000
"""Longer lines are no line of a tool's table."""


def whole_lines(capture: Capture, say: Statements) -> Iterator[tuple[int, str]]:
    """Number and text of each line that has an end, without blanks behind it. Empty ones are left out; of others it is said."""
    lines = capture.lines
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        if len(line) > MAX_LINE_CHARS:
            say.skip(number, f"the line is too long ({len(line)} characters)")
        elif number == len(lines):
            say.skip(number, f"the last line has no end and may be cut off: {line.strip()[:80]!r}")
        else:
            yield number, line.rstrip()
