"""Items of the lists in a large JSON document, one decoded at a time, each knowing its lines. Pure.

A document of ten thousand jobs is not held as objects: only its bytes are, and one item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from bridgehead.discovery.jsontext import Unreadable, decode
from bridgehead.discovery.parsing import Capture

_BEGIN: Final = re.compile(rb"^[ \t]*\{|\A(?:\xef\xbb\xbf)?[ \t]*\{", re.MULTILINE)
_FIRST_KEY: Final = re.compile(rb"\{[ \t]*\r?(\n[ \t]*)\"")


class Item(dict[str, Any]):
    """One object. ``line`` is where it begins."""

    def __init__(self, values: dict[str, Any], data: bytes, line: int) -> None:
        super().__init__(values)
        self.line = line
        self._data = data
        first = _FIRST_KEY.match(data)
        self._indent = first[1] if first else b""

    def at(self, key: str) -> int:
        """The line of one of its keys; its own where the document is not written over several lines."""
        if not self._indent:
            return self.line
        offset = self._data.find(self._indent + b'"' + key.encode() + b'"')
        return self.line if offset < 0 else self.line + self._data.count(b"\n", 0, offset + len(self._indent))

    def place(self, *keys: str) -> int:
        """The line of the last of ``keys``, each looked for behind the one before it; of the last that is found."""
        offset = at = 0
        for number, key in enumerate(keys):
            word = (self._indent if number == 0 else b"") + b'"' + key.encode() + b'"'
            offset = self._data.find(word, offset)
            if offset < 0:
                break
            offset += len(word)
            at = offset
        return self.line + self._data.count(b"\n", 0, at)


def items_of(capture: Capture, keys: frozenset[str]) -> Iterator[tuple[str, Item | Unreadable]]:
    """The objects in the lists under ``keys`` of the outermost object, and each other key once with its whole value as ``{"": value}``.
    Where the document cannot be read, that alone."""
    data = capture.data
    begin = _BEGIN.search(data)
    start = len(data) if begin is None else begin.end() - 1
    try:
        document = msgspec.json.decode(data[start:], type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, ValueError):
        fault = decode(capture)
        yield "", fault if isinstance(fault, Unreadable) else Unreadable(1, "the JSON is no object")
        return
    line, counted = 1, 0
    for key, raw in document.items():
        text = bytes(raw)
        offset = data.find(text, max(start, counted))
        line += data.count(b"\n", counted, max(offset, counted))
        counted = max(offset, counted)
        if key not in keys or text[:1] != b"[":
            value = _value(text)
            if not isinstance(value, _Broken):
                yield key, Item({"": value}, b"", line)
            continue
        for part in msgspec.json.decode(text, type=list[msgspec.Raw]):
            one = bytes(part)
            offset = data.find(one, counted)
            line += data.count(b"\n", counted, max(offset, counted))
            counted = max(offset, counted)
            values = _value(one)
            if isinstance(values, _Broken):
                yield key, Unreadable(line, f"an item of {key!r} is broken: {values.reason}")
            elif isinstance(values, dict):
                yield key, Item(values, one, line)
            else:
                yield key, Unreadable(line, f"an item of {key!r} is no object")
            counted += len(one)
            line += one.count(b"\n")


class _Broken(msgspec.Struct, frozen=True):
    """Text that is no text inside an item whose brackets match."""

    reason: str


def _value(data: bytes) -> Any | _Broken:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        return _Broken(str(error))
