"""Faults of declared files: each at the place of the file where it was written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadMapping
from fnmatch import fnmatchcase

import msgspec

from bridgehead.app.declared_merge import is_pattern
from bridgehead.kernel.located import Fault, Mapping, Node

Trees = ReadMapping[str, Node]
"""What each file holds, by its name, in the order in which they were given."""


def moved(fault: Fault, trees: Trees) -> Fault:
    """The fault at the place of the declared file that it comes from: that which says most of its path, else the first."""
    places = [(rest, file, at) for file, tree in trees.items() for at, rest in [_walk(tree, fault.path)]]
    _, file, at = min(places, key=lambda one: len(one[0]))
    return Fault(file, at.mark.line, at.mark.column, fault.path, fault.found, fault.expected)


def _walk(at: Node, path: str) -> tuple[Node, str]:
    """How far down the path a tree goes, and what is left of the path there."""
    while isinstance(at, Mapping):
        steps = ((value, path[len(part) :].lstrip(".")) for key, value in at.entries for part in [_head(path, key.text)] if part)
        step = next(steps, None)
        if step is None:
            break
        at, path = step
    return at, path


def folded(faults: Iterable[Fault]) -> list[Fault]:
    """One for each place and reason: a mistake below a pattern is one mistake, however many things the pattern stands for."""
    alike: dict[tuple[int, int, str, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.line, fault.column, fault.found, fault.expected), []).append(fault)
    folded = []
    for first, *others in alike.values():
        more = f" (the same for {len(others)} more that the pattern stands for)" if others else ""
        folded.append(msgspec.structs.replace(first, expected=first.expected + more))
    return folded


def _head(path: str, key: str) -> str:
    """The beginning of a path that a key stands for; empty when it does not."""
    if not is_pattern(key):
        return key if path == key or path.startswith((f"{key}.", f"{key}[")) else ""
    parts = path.split(".")
    return next((head for count in range(1, len(parts) + 1) if fnmatchcase(head := ".".join(parts[:count]), key)), "")
