"""Declared values: trees of what people wrote, put together and into what was discovered. Pure.

A key with ``*``, ``?`` or ``[`` stands for all things beside it whose ids it matches. What is declared of one thing counts before what is
declared of many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from bridgehead.kernel.located import Mapping, Node, Scalar, Sequence

UNKNOWN: Final = "unknown"
"""What discovery writes for a word that nobody knows yet."""
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"-?\d{1,18}\.\d{1,18}", re.ASCII)


def plain_of(node: Node) -> Any:
    """Words stay as they are written; plain numbers and truths become such."""
    match node:
        case Mapping():
            return {key.text: plain_of(value) for key, value in node.entries}
        case Sequence():
            return [plain_of(item) for item in node.items]
        case Scalar():
            return _word(node.text) if node.plain else node.text


def _word(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


class Merge:
    """Puts what was declared into what was found. ``used``: patterns that matched something, by the mapping that they stand in."""

    def __init__(self, *, discovered_wins: bool) -> None:
        self._wins = discovered_wins
        self.used: set[tuple[int, str]] = set()

    def merged(self, found: Any, said: Any, *, many: bool = False) -> Any:
        """``many``: ``said`` is declared of several things, and so comes after what is declared of one."""
        if not isinstance(said, dict):
            return said if found in (None, UNKNOWN) or not (self._wins or many) else found
        merged = dict(found) if isinstance(found, dict) else {}
        plain = {key: value for key, value in said.items() if not is_pattern(key)}
        before = set(merged)
        for key, value in plain.items():
            inside = self.merged(merged.get(key), value, many=many)
            if inside != {} or key in before or not isinstance(value, dict) or not value:
                merged[key] = inside
        for pattern in (key for key in said if is_pattern(key)):
            for key in [key for key in merged if fnmatchcase(key, pattern)]:
                self.used.add((id(said), pattern))
                merged[key] = self.merged(merged[key], said[pattern], many=many or key in plain)
        return merged


def unused(said: Any, used: set[tuple[int, str]], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Patterns that matched nothing at all: most often a typing error."""
    if isinstance(said, dict):
        for key, value in said.items():
            if is_pattern(key) and (id(said), key) not in used:
                yield (*path, key)
            else:
                yield from unused(value, used, (*path, key))


def is_pattern(key: str) -> bool:
    """Whether a key stands for many."""
    return any(sign in key for sign in "*?[")


def together(said: dict[str, Any], more: dict[str, Any], path: tuple[str, ...] = ()) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """What two files say, and the paths at which they contradict each other, where the first one's value stands."""
    whole, contrary = dict(said), list[tuple[str, ...]]()
    for key, value in more.items():
        if key not in whole or whole[key] is None:
            whole[key] = value
        elif isinstance(whole[key], dict) and isinstance(value, dict):
            whole[key], inside = together(whole[key], value, (*path, key))
            contrary += inside
        elif value is not None and value != whole[key]:
            contrary.append((*path, key))
    return whole, contrary
