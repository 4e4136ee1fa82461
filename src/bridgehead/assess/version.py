"""Version: how firmware and driver versions are written and compared (rules section 10, D12). Pure."""

from __future__ import annotations

import re

_NOTHING = {"", "n/a", "[n/a]", "none", "unknown", "not available", "not supported"}
_NUMBER = re.compile(r"\d+")


def plain(version: str) -> str:
    """The version without what only another tool prints around it: case, a leading v, a part number in brackets, zeros in front.

    Two slots (``1.2/1.3``) are given in any order. The empty text when it says nothing.
    """
    text = re.sub(r"\([^)]*\)", "", version).strip().casefold()
    if text in _NOTHING:
        return ""
    slots = sorted(re.sub(r"(?<![\d.])v(?=\d)", "", part.strip()) for part in re.split(r"[/,]", text) if part.strip())
    return "/".join(_NUMBER.sub(lambda number: number[0].lstrip("0") or "0", slot) for slot in slots)


def rank(version: str) -> tuple[int, ...] | None:
    """Its numbers, for older and newer; None when it is not made of numbers alone, so that nobody can tell."""
    text = plain(version)
    if not re.fullmatch(r"\d+([.\-_]\d+)*", text):
        return None
    numbers = [int(number) for number in _NUMBER.findall(text)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def older(one: str, other: str) -> bool | None:
    """Whether ``one`` is older than ``other``; None when it cannot be told."""
    if plain(one) == plain(other):
        return False if plain(one) else None
    left, right = rank(one), rank(other)
    return None if left is None or right is None else left < right
