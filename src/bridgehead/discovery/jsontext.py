"""JSON of tools: decoded with the line of a fault, and the line where a value stands. Pure.

Tools print JSON after a prompt, with a mark of byte order, or cut off; none of that may raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bridgehead.discovery.parsing import Capture

_BEGIN: Final = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*[\[{]", re.MULTILINE)
_BYTE: Final = re.compile(r"byte (\d+)")


class Unreadable(msgspec.Struct, frozen=True):
    """Why there is no document: the line, counted from 1, and the fault."""

    line: int
    reason: str


def decode(capture: Capture) -> Any | Unreadable:
    """The document, from the first line that begins with a bracket on. Never raises."""
    begin = _BEGIN.search(capture.data)
    if begin is None:
        return Unreadable(1, "there is no JSON in it")
    start = begin.end() - 1
    try:
        return msgspec.json.decode(capture.data[start:])
    except msgspec.DecodeError as error:
        at = _BYTE.search(str(error))
        offset = len(capture.data) if at is None or "truncated" in str(error) else start + int(at[1])
        return Unreadable(_line(capture.data, offset), f"the JSON is broken: {error}")
    except (RecursionError, ValueError) as error:
        return Unreadable(1, f"the JSON cannot be read: {error}")


def line_of(capture: Capture, *keys: str) -> int:
    """The line of the last of ``keys``, each looked for behind the one before it; 1 where they are not found.

    Takes time in proportion to the size of the capture: for a few facts of a document, not for each of thousands.
    """
    offset = 0
    for key in keys:
        offset = capture.data.find(f'"{key}"'.encode(), offset)
        if offset < 0:
            return 1
    return _line(capture.data, offset)


def lines_of(capture: Capture, after: str, key: str) -> Iterator[int]:
    """The lines of all places of ``key`` behind the first ``after``, in one pass."""
    word, counted, line = f'"{key}"'.encode(), 0, 1
    offset = capture.data.find(f'"{after}"'.encode())
    while offset >= 0 and (offset := capture.data.find(word, offset)) >= 0:
        line += capture.data.count(b"\n", counted, offset)
        counted = offset
        yield line
        offset += len(word)


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
