"""The Prometheus text exposition format (version 0.0.4), read strictly: a page that is damaged is an error, not fewer numbers.

Source of the grammar: the documentation of the exposition formats of Prometheus.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})[ \t]*(?:\{{(.*)\}})?[ \t]*([^\s{{}}\"]+)(?:[ \t]+(-?\d+))?[ \t]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(,|$)')
_TYPE = re.compile(rf"#[ \t]+TYPE[ \t]+({_NAME})[ \t]+(\S+)[ \t]*")
_TYPES = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf|[nN]a[nN])")
_ESCAPE = re.compile(r"\\(.)")
_PLAIN = {"\\": "\\", '"': '"', "n": "\n"}


class Sample(msgspec.Struct, frozen=True):
    """One series: name as written (with ``_bucket``, ``_sum``, ``_count``), labels, value. NaN and infinities are kept as such."""

    name: str
    labels: dict[str, str]
    value: float


class Page(msgspec.Struct, frozen=True):
    """All samples of one scrape, and the declared type of each metric family."""

    samples: tuple[Sample, ...]
    types: dict[str, str]

    def type_of(self, name: str) -> str:
        """The declared type of the family that series ``name`` belongs to, ``untyped`` when none is declared."""
        if name in self.types:
            return self.types[name]
        for suffix in ("_bucket", "_sum", "_count"):
            if name.endswith(suffix) and self.types.get(name.removesuffix(suffix)) in ("histogram", "summary"):
                return self.types[name.removesuffix(suffix)]
        return "untyped"

    def matching(self, labels: Mapping[str, str]) -> list[Sample]:
        """Samples that carry each of ``labels`` with exactly that value."""
        return [s for s in self.samples if all(s.labels.get(name) == value for name, value in labels.items())]


def parse_exposition(text: str) -> Page:
    """The samples of ``text``.

    Raises:
        ValueError: names the line and what is wrong with it: bad grammar, a series or a TYPE given twice, no line feed at the end
            (the sign of a page that was cut short).
    """
    if text and not text.endswith("\n"):
        raise ValueError(f"line {text.count(chr(10)) + 1}: no line feed at the end, the page is cut short")
    samples: list[Sample] = []
    types: dict[str, str] = {}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(" \t\r")
        if line.startswith("#"):
            _read_comment(line, number, types)
        elif line:
            sample = _read_sample(line, number)
            series = (sample.name, tuple(sorted(sample.labels.items())))
            if series in seen:
                raise ValueError(f"line {number}: series {sample.name} is given twice with the same labels")
            seen.add(series)
            samples.append(sample)
    return Page(samples=tuple(samples), types=types)


def _read_comment(line: str, number: int, types: dict[str, str]) -> None:
    if not re.match(r"#[ \t]+TYPE\b", line):
        return
    found = _TYPE.fullmatch(line)
    if found is None or found[2] not in _TYPES:
        raise ValueError(f"line {number}: not a TYPE line: {line[:80]!r}")
    if found[1] in types:
        raise ValueError(f"line {number}: second TYPE of {found[1]}")
    types[found[1]] = found[2]


def _read_sample(line: str, number: int) -> Sample:
    found = _SAMPLE.fullmatch(line)
    if found is None or _NUMBER.fullmatch(found[3]) is None:
        raise ValueError(f"line {number}: not a sample: {line[:80]!r}")
    return Sample(name=found[1], labels=_read_labels(found[2] or "", number), value=float(found[3]))


def _read_labels(text: str, number: int) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _LABEL.match(text, position)
        if found is None:
            raise ValueError(f"line {number}: bad label at {text[position : position + 40]!r}")
        if found[1] in labels:
            raise ValueError(f"line {number}: label {found[1]} is given twice")
        labels[found[1]] = _ESCAPE.sub(lambda escape: _unescaped(escape[1], number), found[2])
        position = found.end()
    return labels


def _unescaped(character: str, number: int) -> str:
    if character not in _PLAIN:
        raise ValueError(f"line {number}: unknown escape \\{character}")
    return _PLAIN[character]


def finite_sum(values: list[float]) -> float | None:
    """The sum, None when there is nothing to sum or a value is NaN or infinite: a part that is missing makes the whole unknown."""
    if not values or not all(math.isfinite(value) for value in values):
        return None
    return math.fsum(values)
