"""Tiers: which snapshot belongs where, by age and access (R7, M9.2). Pure.

A tier is a vault; the first is the hottest. A snapshot that grew old is copied down and, when the copy is proved by a receipt, forgotten
above. One that was restored lately is copied up again, and stays below too. So there is never less than one proved copy.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.kernel.ids import SnapshotId


class Placed(msgspec.Struct, frozen=True):
    """A snapshot, and where it is.

    Attributes:
        used_s: when it was saved, or restored last from any tier, whichever is later; seconds since 1970-01-01 UTC.
        at: numbers of the tiers that hold it whole.
        bound: why it must not leave the hottest tier; empty: it may.
    """

    snapshot: SnapshotId
    raw_bytes: int
    used_s: float
    at: frozenset[int]
    bound: str = ""


class MoveKind(enum.StrEnum):
    """What happens to a snapshot."""

    DOWN = "down"
    """Copied to its tier, then forgotten in the hotter ones."""
    UP = "up"
    """Copied to its tier; the colder copy stays."""


class Move(msgspec.Struct, frozen=True):
    """``copy_from`` None: its tier has it already, to be proved again before anything is forgotten."""

    kind: MoveKind
    placed: Placed
    to: int
    copy_from: int | None
    forget_at: tuple[int, ...]


def tier_of(age_s: float, limits_s: Sequence[float]) -> int:
    """The tier for something that was not used for ``age_s``: the first whose limit it has not passed, else the one behind the last."""
    return next((number for number, limit_s in enumerate(limits_s) if age_s <= limit_s), len(limits_s))


def moves(placed: Iterable[Placed], limits_s: Sequence[float], *, now_s: float) -> tuple[Move, ...]:
    """What there is to do, the oldest first (cold data first, M9.2). Nothing for what is where it belongs, or is nowhere."""
    found = []
    for one in sorted(placed, key=lambda one: (one.used_s, one.snapshot)):
        if not one.at:
            continue
        goal = 0 if one.bound else tier_of(now_s - one.used_s, limits_s)
        hotter = tuple(sorted(number for number in one.at if number < goal))
        if hotter:
            found.append(Move(MoveKind.DOWN, one, goal, None if goal in one.at else hotter[0], hotter))
        elif goal not in one.at:
            found.append(Move(MoveKind.UP, one, goal, min(one.at), ()))
    return tuple(found)
