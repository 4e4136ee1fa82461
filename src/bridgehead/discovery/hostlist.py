"""Host lists such as ``node[1101-1118]``, ``Node[201,205]`` and ``rack[1-2]n[01-16]`` (Slurm's way to write names). Pure.

A list is expanded only while it stays below a limit: a few signs of text can stand for billions of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

MAX_HOSTS: Final = 100_000
"""Names that one list may stand for."""
_MAX_DEPTH: Final = 4
_MAX_NAME: Final = 253
_LITERAL: Final = re.compile(r"[\w.+@:/-]*", re.ASCII)
_RANGE: Final = re.compile(r"(\d{1,12})(?:-(\d{1,12}))?", re.ASCII)


class Hosts(msgspec.Struct, frozen=True):
    """The names in the order of the list, each once; or why there are none."""

    names: tuple[str, ...]
    fault: str = ""


def expand(text: str, *, limit: int = MAX_HOSTS) -> Hosts:
    """All names of a list. A zero in front of a range's first number is kept in all of its numbers, as Slurm does."""
    return _Expander().hosts(text, limit)


class Hostlists:
    """Expands the lists of one capture. Together they may name so many hosts as there is reason for in text of that size."""

    def __init__(self, *, size_bytes: int) -> None:
        self._left = 4 * MAX_HOSTS + 16 * size_bytes  # each name is made from two parts
        self._seen: dict[str, Hosts] = {}

    def expand(self, text: str) -> Hosts:
        """As ``expand``; equal lists share their names."""
        found = self._seen.get(text)
        if found is None:
            expander = _Expander()
            found = expander.hosts(text, min(MAX_HOSTS, self._left))
            self._left = max(0, self._left - expander.made)
            self._seen[text] = found
        return found


class _Fault(Exception):
    """What is wrong with a list."""


class _Expander:
    """Expands one list; ``made`` counts names and parts of names, so that lists which end in a fault are paid for too."""

    def __init__(self) -> None:
        self.made = 0

    def hosts(self, text: str, limit: int) -> Hosts:
        """As ``expand``."""
        try:
            names = self._names(text.strip(), limit, _MAX_DEPTH)
        except _Fault as fault:
            return Hosts((), str(fault))
        return Hosts(tuple(dict.fromkeys(names)))

    def _names(self, text: str, limit: int, depth: int) -> list[str]:
        if depth == 0:
            raise _Fault("brackets are nested too deep")
        found: list[str] = []
        for element in _split(text):
            found += self._element(element, limit - len(found), depth)
            if len(found) > limit:
                raise _Fault(f"it stands for more than {limit} names")
        return found

    def _element(self, text: str, limit: int, depth: int) -> list[str]:
        """The names of one part: literal text and brackets in turn, of which each multiplies what is there."""
        if not text:
            raise _Fault("it has an empty part")
        found, position = [""], 0
        while position < len(text):
            if text[position] == "[":
                end = _closing(text, position)
                choices = self._bracket(text[position + 1 : end], limit, depth)
                position = end + 1
            else:
                literal = _LITERAL.match(text, position)
                if literal is None or not literal[0]:
                    raise _Fault(f"{text[position]!r} is no part of a name")
                choices, position = [literal[0]], literal.end()
            if len(found) * len(choices) > limit:
                raise _Fault(f"it stands for more than {limit} names")
            self.made += len(found) * len(choices)
            found = [one + choice for one in found for choice in choices]
            if len(found[0]) > _MAX_NAME:
                raise _Fault("its names are too long")
        return found

    def _bracket(self, text: str, limit: int, depth: int) -> list[str]:
        found: list[str] = []
        for item in _split(text):
            numbers = _RANGE.fullmatch(item)
            if numbers is None:
                if re.fullmatch(r"[\d-]*", item):
                    raise _Fault(f"[{item[:40]}] is no range")
                found += self._names(item, limit - len(found), depth - 1)
            else:
                first, last = int(numbers[1]), int(numbers[2] or numbers[1])
                if last < first:
                    raise _Fault(f"[{item}] runs backwards")
                if last - first + 1 > limit - len(found):
                    raise _Fault(f"it stands for more than {limit} names")
                width = len(numbers[1])
                self.made += last - first + 1
                found += [str(number).zfill(width) for number in range(first, last + 1)]
        return found


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that are in no brackets."""
    depth, start = 0, 0
    for found in re.finditer(r"[\[\],]", text):
        if found[0] == "[":
            depth += 1
        elif found[0] == "]":
            depth -= 1
        elif depth == 0:
            yield text[start : found.start()]
            start = found.end()
        if depth < 0:
            break
    if depth != 0:
        raise _Fault("its brackets do not match")
    yield text[start:]


def _closing(text: str, position: int) -> int:
    depth = 0
    for found in re.compile(r"[\[\]]").finditer(text, position):
        depth += 1 if found[0] == "[" else -1
        if depth == 0:
            return found.start()
    raise _Fault("its brackets do not match")
