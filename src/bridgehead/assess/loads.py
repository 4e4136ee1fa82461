"""Loads: what each node draws, and how well that is known (rules section 1; E06). Pure.

The load is the larger one of what was measured and what is declared. A nameplate is an upper bound: a finding may pass by it, never fail.
"""

from __future__ import annotations

import enum

import msgspec

from bridgehead.assess.power_math import GUESSED_POWER_FACTOR
from bridgehead.model.equipment import Node


class Reading(enum.StrEnum):
    """Where the load of a node comes from."""

    MEASURED = "measured"
    DECLARED = "declared"
    NAMEPLATE = "nameplate, an upper bound"
    NONE = "unknown"


class Load(msgspec.Struct, frozen=True):
    """The power of one node.

    Attributes:
        low_w: it draws at least this much at its peak.
        high_w: it draws at most this much; None when nobody knows.
        reading: where that comes from.
        power_factor: as given, or the guess of the rules.
        guessed: whether the power factor is that guess.
    """

    low_w: float
    high_w: float | None
    reading: Reading
    power_factor: float
    guessed: bool

    @property
    def known_w(self) -> float:
        """The part of it that is known: the upper bound, or 0."""
        return self.high_w or 0.0

    @property
    def high_va(self) -> float:
        """Apparent power of the known part."""
        return self.known_w / self.power_factor


def load_of(node: Node) -> Load:
    """The load of a node."""
    factor = GUESSED_POWER_FACTOR if node.power_factor is None else node.power_factor
    guessed = node.power_factor is None
    load_w = stated_w(node)
    if load_w is not None:
        reading = Reading.MEASURED if load_w == node.measured_w else Reading.DECLARED
        return Load(load_w, load_w, reading, factor, guessed)
    if node.nameplate_w is not None:
        return Load(0.0, node.nameplate_w, Reading.NAMEPLATE, factor, guessed)
    return Load(0.0, None, Reading.NONE, factor, guessed)


def stated_w(node: Node) -> float | None:
    """The larger one of measured and declared power; None when there is neither."""
    given = [power_w for power_w in (node.measured_w, node.power_w) if power_w is not None]
    return max(given, default=None)


def nameplate_contradicts(node: Node) -> bool:
    """Whether the plates say less than what was measured or declared: then one of them is wrong (E06)."""
    load_w = stated_w(node)
    return load_w is not None and node.nameplate_w is not None and node.nameplate_w < load_w
