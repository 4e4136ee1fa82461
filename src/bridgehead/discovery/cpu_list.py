"""CPU lists such as ``0-31,64-95``, and what happens to them when a narrow table runs two columns together (D04). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_LIST: Final = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?){0,300}", re.ASCII)

Ranges = tuple[tuple[int, int], ...]


def ranges_of(text: str) -> Ranges | None:
    """First and last CPU of each range; None where it is no list, or not one in rising order without overlaps."""
    if _LIST.fullmatch(text) is None:
        return None
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high < low or (found and low <= found[-1][1]):
            return None
        found.append((low, high))
    return tuple(found)


def cpus_in(ranges: Ranges) -> int:
    """How many CPUs there are."""
    return sum(high - low + 1 for low, high in ranges)


def parted(text: str, *, intact: Mapping[str, str]) -> tuple[str, str] | None:
    """``("0-31,64-95", "0")`` for ``0-31,64-950``: a CPU list and the NUMA node that ran into it.

    Only the other rows of the same table can tell where the one ends. The list must be that of an intact row with its node, or a list of as
    many CPUs as an intact one that shares no CPU and no node with any. None where not exactly one way is right.

    Args:
        intact: the lists of the intact rows, each with its node.
    """
    lists = {ranges: node for cpus, node in intact.items() if (ranges := ranges_of(cpus)) is not None}
    sizes = {cpus_in(ranges) for ranges in lists}
    ways: list[tuple[str, str]] = []
    tail = re.search(r"\d{1,10}\Z", text, re.ASCII)
    for length in range(1, len(tail[0]) if tail else 0):
        cpus, node = text[:-length], text[-length:]
        ranges = ranges_of(cpus)
        if ranges is None or (node != "0" and node.startswith("0")):
            continue
        if ranges in lists:
            right = lists[ranges] == node
        else:
            right = cpus_in(ranges) in sizes and node not in lists.values() and not any(_meet(ranges, other) for other in lists)
        if right:
            ways.append((cpus, node))
    return ways[0] if len(ways) == 1 else None


def _meet(one: Ranges, other: Ranges) -> bool:
    """Whether a CPU is in both."""
    return any(low <= last and first <= high for low, high in one for first, last in other)
