"""Parsing: what a parser of captured output is, and how it states facts (M2). Pure.

A parser never raises for what is in the output: what it cannot read becomes a ``Skipped`` or an UNKNOWN fact with the words of the tool.
It never turns ``N/A``, ``ERR!``, a sentinel or a cut-off line into a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import msgspec

from bridgehead.model.fact import Fact, Skipped, Source, Status, Value

MAX_CAPTURE_BYTES: Final = 256 << 20
"""Larger captures are refused by who reads them."""
UNKNOWN_WORDS: Final = frozenset(
    {"", "-", "n/a", "[n/a]", "na", "none", "err!", "unknown", "[unknown error]", "[not supported]", "not available"}
)
"""What tools print where they have no value, in lower case."""


class Capture(msgspec.Struct, frozen=True):
    """Output of one command, as it was caught.

    Attributes:
        file: path, for the sources of facts.
        data: the bytes; any line ends, any encoding.
        host: whose output it is, from the folder or the file's name; empty where that cannot be told.
        at_s: when, seconds since 1970; None where unknown.
    """

    file: str
    data: bytes
    host: str = ""
    at_s: float | None = None

    @property
    def lines(self) -> list[str]:
        """Text lines without their ends; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")


class Yield(msgspec.Struct, frozen=True):
    """What a parser may say: pattern of the subject (``node:*/gpu:*``), attribute (``*`` where it carries a name), unit, meaning."""

    subject: str
    attribute: str
    unit: str
    meaning: str


class Parsed(msgspec.Struct, frozen=True):
    """What a capture gave."""

    facts: tuple[Fact, ...]
    skipped: tuple[Skipped, ...] = ()


class Parser(msgspec.Struct, frozen=True):
    """One tool.

    Attributes:
        tool: its name, as in ``Source.tool``.
        command: how the output is made, for people and for the collector.
        recognises: whether these bytes (the first 64 KiB) are this tool's output; the file's name is never asked. At most one parser
            recognises a capture.
        parse: all facts. Never raises.
        yields: everything that it may say.
        marks: words in lower case, of which one stands in whatever it recognises, in any case of letters; empty where there are none.
            Looking for them spares most of the work of recognising, which grows with the number of parsers.
    """

    tool: str
    command: str
    recognises: Callable[[bytes], bool]
    parse: Callable[[Capture], Parsed]
    yields: tuple[Yield, ...]
    marks: tuple[bytes, ...] = ()

    def takes(self, head: bytes, lowered: bytes) -> bool:
        """Whether it recognises the head of a capture; ``lowered`` is ``for_marks`` of the same."""
        for mark in self.marks:
            if mark in lowered:
                return self.recognises(head)
        return not self.marks and self.recognises(head)


_ESCAPES: Final = re.compile(rb"\x1b\[[0-9;]{0,20}[A-Za-z]")


def for_marks(head: bytes) -> bytes:
    """Where the marks of parsers are looked for: in the head of a capture, and in what is left of it without escapes of a terminal."""
    return head.lower() if b"\x1b" not in head else b"\n".join((head, _ESCAPES.sub(b"", head))).lower()


_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_MAX_INTEGER: Final = 2**64
_LEAST_INTEGER: Final = -(2**63)
_TOO_LARGE: Final = "the tool printed an integer of more than 64 bits"
_SHORT_DIGITS: Final = 16


def number_in(text: str, *, scale: float = 1) -> int | float | None:
    """The number that ``text`` is, times ``scale``, exactly and rounded once: an integer where it is one. None for what is no finite number
    in plain digits; a comma, an underscore or a sign of another script makes none."""
    word = text.strip()
    if scale == 1 and len(word) < _SHORT_DIGITS and word.isascii() and word.isdigit():  # as most numbers are
        return int(word)
    if _NUMBER.fullmatch(word) is None:
        return None
    exact = Decimal(word) * Decimal(repr(scale))
    value = float(exact)
    if value - value != 0:  # too large for a float
        return None
    return int(exact) if abs(value) < _MAX_INTEGER and exact == exact.to_integral_value() else value


class Statements:
    """Collects what one parser says of one capture."""

    def __init__(self, tool: str, capture: Capture) -> None:
        self._tool = tool
        self._capture = capture
        self._facts: list[Fact] = []
        self._skipped: list[Skipped] = []
        self._last: Source | None = None

    @property
    def node(self) -> str:
        """Subject of the host; ``node:?`` where nobody says which it is."""
        return f"node:{self._capture.host or '?'}"

    def known(self, subject: str, attribute: str, value: Value, *, line: int, unit: str = "", note: str = "") -> None:
        """State a fact. ``value`` is not None; ``note`` says how it was read where that is not plain, such as from another cell."""
        assert value is not None
        if type(value) is int and not _LEAST_INTEGER <= value < _MAX_INTEGER:  # of JSON, which has no limit
            self.unknown(subject, attribute, line=line, unit=unit, note=_TOO_LARGE)
            return
        self._facts.append(Fact(subject, attribute, value, unit, Status.KNOWN, self._source(line), note))

    def unknown(self, subject: str, attribute: str, *, line: int, note: str, unit: str = "") -> None:
        """State that there is no value, with what the tool printed."""
        self._facts.append(Fact(subject, attribute, None, unit, Status.UNKNOWN, self._source(line), note))

    def conflict(self, subject: str, attribute: str, value: Value, *, line: int, note: str, unit: str = "") -> None:
        """State a value that contradicts another one in the same output."""
        if type(value) is int and not _LEAST_INTEGER <= value < _MAX_INTEGER:
            self.unknown(subject, attribute, line=line, unit=unit, note=f"{_TOO_LARGE}; {note}")
            return
        self._facts.append(Fact(subject, attribute, value, unit, Status.CONFLICT, self._source(line), note))

    def number(self, subject: str, attribute: str, text: str, *, line: int, unit: str = "", scale: float = 1) -> None:
        """State a number, integer where it is one; UNKNOWN for what is none."""
        word = text.strip()
        value = number_in(word, scale=scale)
        if value is None:
            note = f"the tool printed {word[:80]!r}" if word else "the tool printed nothing"
            self.unknown(subject, attribute, line=line, note=note, unit=unit)
            return
        self.known(subject, attribute, value, line=line, unit=unit)

    def word(self, subject: str, attribute: str, text: str, *, line: int, unit: str = "") -> None:
        """State a word or a text; UNKNOWN for the words that mean that there is none."""
        word = text.strip()
        if word.lower() in UNKNOWN_WORDS:
            self.unknown(subject, attribute, line=line, note=f"the tool printed {word!r}", unit=unit)
        else:
            self.known(subject, attribute, word, line=line, unit=unit)

    def skip(self, line: int, reason: str) -> None:
        """Say what gave no fact, and why."""
        self._skipped.append(Skipped(self._capture.file, line, reason))

    def done(self) -> Parsed:
        """All that was said."""
        return Parsed(tuple(self._facts), tuple(self._skipped))

    def _source(self, line: int) -> Source:
        if self._last is None or self._last.line != line:  # many facts stand in one line
            self._last = Source(self._tool, self._capture.file, line, self._capture.at_s)
        return self._last
