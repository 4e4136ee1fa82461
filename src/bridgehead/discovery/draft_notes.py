"""Lacks: what planning needs and nobody said, gathered so that a thousand of the same kind make one line. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import msgspec

from bridgehead.discovery.knowledge import Told
from bridgehead.discovery.merge import natural
from bridgehead.model.fact import Status, Value

_MOST_NAMED: Final = 5
Part = Mapping[str, Told]
"""What is told of one subject, by attribute."""


class Lack(msgspec.Struct, frozen=True):
    """Something that planning needs and nobody said: of what, and what would settle it."""

    what: str
    settled_by: str


class Notes:
    """Things by what they lack."""

    def __init__(self) -> None:
        self._things: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def lack(self, thing: str, what: str, settled_by: str) -> None:
        """One thing lacks it."""
        self._things[what, settled_by].add(thing)

    def lacks(self) -> list[Lack]:
        """One for each kind."""
        return [Lack(f"{what} of {named(things)}", settled_by) for (what, settled_by), things in sorted(self._things.items())]


def named(things: set[str]) -> str:
    """The first few of them, and how many more."""
    listed = sorted(things, key=lambda thing: (natural(thing), thing))
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more


def known(part: Part, attribute: str) -> Value:
    """The value; None unless it is known."""
    told = part.get(attribute)
    return told.value if told is not None else None


def word(part: Part, attribute: str) -> str:
    """The value as text; empty unless it is known."""
    value = known(part, attribute)
    return "" if value is None or isinstance(value, tuple) else str(value)


def number(part: Part, attribute: str) -> int | float | None:
    """The value where it is a number that is not negative."""
    value = known(part, attribute)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def whole(part: Part, attribute: str) -> int | None:
    """The value where it is a whole number from 1 on."""
    value = number(part, attribute)
    return int(value) if value is not None and value >= 1 and value == int(value) else None


def disputed(part: Part, attribute: str) -> bool:
    """Whether sources contradict each other."""
    return attribute in part and part[attribute].status is Status.CONFLICT
