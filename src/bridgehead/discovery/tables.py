"""Tables: JSON and YAML documents whose keys know their lines, and facts taken from them by a list of fields. Pure.

A broken document gives ``Unreadable`` with the line of its fault; other documents of the same capture are still read.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from bridgehead.discovery.jsontext import Unreadable, decode
from bridgehead.discovery.parsing import Capture, Statements, number_in
from bridgehead.kernel import located

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_START: Final = re.compile(rb"^[\[{]", re.MULTILINE)
_INTEGER: Final = re.compile(rb"-?\d{1,18}")
_MARK: Final = b"\xef\xbb\xbf"
_NO_WORDS: Final = {"null": None, "~": None, "": None, "true": True, "True": True, "false": False, "False": False}


class Table(dict[str, Any]):
    """A mapping of a document. ``line`` is where it begins, ``lines`` where each of its keys stands."""

    def __init__(self, line: int = 1) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def table(self, key: str) -> Table:
        """The table under a key; an empty one where there is none."""
        value = self.get(key)
        return value if isinstance(value, Table) else Table(self.lines.get(key, self.line))

    def tables(self, key: str) -> list[Table]:
        """The tables in the list under a key."""
        value = self.get(key)
        return [one for one in value if isinstance(one, Table)] if isinstance(value, list) else []

    def text(self, key: str) -> str:
        """The text under a key, without blanks around it; empty where there is none. A number is its text."""
        value = self.get(key)
        if isinstance(value, str):
            return value.strip()
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""

    def at(self, key: str) -> int:
        """The line of a key; of the table where it has none."""
        return self.lines.get(key, self.line)


def json_documents(capture: Capture) -> Iterator[Any | Unreadable]:
    """The JSON documents of a capture: one, or several below each other, with or without other lines between them. Never raises."""
    data = capture.data.removeprefix(_MARK)
    whole = decode(Capture(capture.file, data))
    starts = [found.start() for found in _START.finditer(data)] if isinstance(whole, Unreadable) else []
    if len(starts) < 2:
        if isinstance(whole, Unreadable):
            yield whole
            return
        begin = re.search(rb"^[ \t]*[\[{]", data, re.MULTILINE)
        offset = 0 if begin is None else begin.start()
        yield _built(data[offset:], data.count(b"\n", 0, offset) + 1)
        return
    line, counted = 1, 0
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        line += data.count(b"\n", counted, start)
        counted = start
        chunk = data[start:end]
        chunk = chunk[: max(chunk.rfind(b"}"), chunk.rfind(b"]")) + 1]
        one = decode(Capture(capture.file, chunk or b"{"))
        yield Unreadable(one.line + line - 1, one.reason) if isinstance(one, Unreadable) else _built(chunk, line)


def yaml_document(capture: Capture) -> Any | Unreadable:
    """The YAML document of a capture. Scalars stay text, except for null, true and false. Never raises."""
    # YAML ends lines at these signs too, and editors do not.
    text = capture.data.removeprefix(_MARK).decode("utf-8", "replace").translate({0x85: " ", 0x2028: " ", 0x2029: " "})
    try:
        tree = located.compose(text, file=capture.file, what="document")
    except located.BadFile as error:
        fault = error.faults[0]
        return Unreadable(min(fault.line, len(capture.lines)), f"{fault.found}; {fault.expected}")
    except (RecursionError, ValueError) as error:
        return Unreadable(1, f"the YAML cannot be read: {error}")
    return None if tree is None else _plain(tree)


def path_part(name: str) -> str:
    """A name as a part of a subject: a slash in it would begin the next part, so it is written %2F."""
    return name.strip().replace("/", "%2F") or "?"


class Kind(enum.Enum):
    """What a field is: an amount or a count, a word, or yes and no."""

    NUMBER = enum.auto()
    WORD = enum.auto()
    FLAG = enum.auto()


class Field(msgspec.Struct, frozen=True):
    """One fact of a table: where it stands (keys from the outside in, joined by ``.``), what it is called, and what it means."""

    path: str
    attribute: str
    meaning: str
    unit: str = ""
    kind: Kind = Kind.WORD
    scale: float = 1


def take(say: Statements, subject: str, table: Table, fields: Sequence[Field]) -> None:
    """State each field that the table has. An absent key says nothing; a null is UNKNOWN."""
    for field in fields:
        *outer, key = field.path.split(".")
        holder = table
        for name in outer:
            holder = holder.table(name)
        if key in holder:
            state(say, subject, field.attribute, holder[key], line=holder.at(key), unit=field.unit, kind=field.kind, scale=field.scale)


def state(
    say: Statements, subject: str, attribute: str, value: object, *, line: int, unit: str = "", kind: Kind = Kind.NUMBER, scale: float = 1
) -> None:
    """State a value of a document; UNKNOWN for null and for what is of another kind."""
    flag = isinstance(value, bool)
    if kind is Kind.NUMBER and not flag and isinstance(value, str | int | float):
        say.number(subject, attribute, value if isinstance(value, str) else repr(value), line=line, unit=unit, scale=scale)
    elif kind is Kind.WORD and isinstance(value, str | int | float) and not flag:
        say.word(subject, attribute, str(value), line=line, unit=unit)
    elif kind is not Kind.NUMBER and isinstance(value, bool):
        say.known(subject, attribute, value, line=line, unit=unit)
    else:
        printed = "null" if value is None else "nothing" if value in ("", [], {}) else f"{value!r:.80}"
        say.unknown(subject, attribute, line=line, unit=unit, note=f"the tool printed {printed}")


def plain_number(value: object) -> float | None:
    """The number that a value of a document is; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return number_in(value if isinstance(value, str) else repr(value))


def _built(data: bytes, line: int) -> Any:
    """The tables of bytes that are known to be one JSON document."""
    holders: list[Table | list[Any]] = []
    root: Any = None
    key: str | None = None
    counted = 0
    for found in _TOKEN.finditer(data):
        token = found[0]
        sign = token[:1]
        if sign in b",:":
            continue
        if sign in b"}]":
            holders.pop()
            if not holders:
                break
            continue
        line += data.count(b"\n", counted, found.start())
        counted = found.start()
        holder = holders[-1] if holders else None
        if isinstance(holder, Table) and key is None:
            key = msgspec.json.decode(token, type=str)
            holder.lines[key] = line
            continue
        value: Any = Table(line) if sign == b"{" else [] if sign == b"[" else _scalar(token)
        if holder is None:
            root = value
        elif isinstance(holder, Table):
            holder[key or ""] = value
            key = None
        else:
            holder.append(value)
        if sign in b"{[":
            holders.append(value)
    return root


def _scalar(token: bytes) -> Any:
    return int(token) if _INTEGER.fullmatch(token) else msgspec.json.decode(token)


def _plain(node: located.Node) -> Any:
    match node:
        case located.Scalar():
            return _NO_WORDS.get(node.text, node.text) if node.plain else node.text
        case located.Sequence():
            return [_plain(item) for item in node.items]
        case located.Mapping():
            table = Table(node.mark.line)
            for name, value in node.entries:
                table[name.text] = _plain(value)
                table.lines[name.text] = name.mark.line
            return table
