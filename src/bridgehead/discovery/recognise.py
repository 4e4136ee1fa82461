"""Recognise: which parser a capture belongs to, by its content alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, for_marks
from bridgehead.model.fact import Skipped

HEAD_BYTES: Final = 64 << 10
"""What parsers are shown of a capture to recognise it."""
_FIRST_BYTES: Final = 512
"""What they are shown first: nearly all captures say in it what they are, and looking through more takes longer than reading some."""
_SHOWN: Final = 60


def recognised_by(data: bytes, parsers: Sequence[Parser]) -> tuple[Parser, ...]:
    """The parsers that take these bytes for their tool's output; exactly one when all is well.

    Where the first whole lines are enough for exactly one parser, the rest is not asked.
    """
    first = data[: data.rfind(b"\n", 0, _FIRST_BYTES) + 1] if len(data) > _FIRST_BYTES else b""
    found = _takers(first, parsers) if first else ()
    return found if len(found) == 1 else _takers(data[:HEAD_BYTES], parsers)


def _takers(head: bytes, parsers: Sequence[Parser]) -> tuple[Parser, ...]:
    lowered = for_marks(head)
    return tuple(parser for parser in parsers if parser.takes(head, lowered))


def read_capture(capture: Capture, parsers: Sequence[Parser]) -> tuple[str, Parsed]:
    """The tool whose output it is, and what it says; no tool, and why, where not exactly one parser recognises it."""
    if not capture.data.strip():
        return "", _nothing(capture, "it is empty")
    found = recognised_by(capture.data, parsers)
    if len(found) == 1:
        return found[0].tool, found[0].parse(capture)
    if found:
        tools = ", ".join(sorted(parser.tool for parser in found))
        return "", _nothing(capture, f"several parsers recognise it ({tools}), so none is believed; please report it")
    return "", _nothing(capture, f"no parser recognises it; it begins with {first_words(capture.data)!r}")


def first_words(data: bytes) -> str:
    """The beginning, in one line, for people."""
    text = data[: 16 * _SHOWN].decode("utf-8-sig", "replace")
    words = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return words if len(words) <= _SHOWN else words[:_SHOWN] + "..."


def _nothing(capture: Capture, reason: str) -> Parsed:
    return Parsed((), (Skipped(capture.file, 1, reason),))
