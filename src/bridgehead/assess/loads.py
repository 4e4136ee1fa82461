"""Loads: the largest power of each node, and how well that is known (rules section 1; E06). Pure.

Each statement narrows what the largest power can be: ``power`` says it, ``measured`` is a lower bound (an idle node shows no peak), and
``nameplate`` an upper one. A limit fails by the lower bound and passes by the upper one, so taking a statement away only widens what is
possible. Statements that contradict each other leave nothing possible: the larger one counts, and PWR-LOAD or PWR-PLATE tells of it.
"""

from __future__ import annotations

import enum

import msgspec

from bridgehead.assess.power_math import GUESSED_POWER_FACTOR
from bridgehead.model.equipment import Node


class Reading(enum.StrEnum):
    """Where the load of a node comes from."""

    MEASURED = "measured, a lower bound"
    DECLARED = "declared"
    ABOVE = "measured, more than declared"
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
        """The part of it that is known: the upper bound, or else the lower one."""
        return self.low_w if self.high_w is None else self.high_w

    @property
    def loose(self) -> bool:
        """Whether the upper bound is more than what is certain."""
        return self.high_w is not None and self.high_w > self.low_w

    @property
    def high_va(self) -> float:
        """Apparent power of the known part."""
        return self.known_w / self.power_factor


def load_of(node: Node) -> Load:
    """The load of a node."""
    factor = GUESSED_POWER_FACTOR if node.power_factor is None else node.power_factor
    guessed = node.power_factor is None
    measured, plates = node.measured_w or 0.0, node.nameplate_w
    if node.power_w is not None:
        load_w = max(node.power_w, measured)
        return Load(load_w, load_w, Reading.ABOVE if measured_contradicts(node) else Reading.DECLARED, factor, guessed)
    if plates is not None and plates >= measured:
        return Load(measured, plates, Reading.NAMEPLATE, factor, guessed)
    return Load(measured, None, Reading.NONE if node.measured_w is None else Reading.MEASURED, factor, guessed)


def stated_w(node: Node) -> float | None:
    """The larger one of measured and declared power; None when there is neither."""
    given = [power_w for power_w in (node.measured_w, node.power_w) if power_w is not None]
    return max(given, default=None)


def nameplate_contradicts(node: Node) -> bool:
    """Whether the plates say less than what was measured or declared: then one of them is wrong (E06)."""
    load_w = stated_w(node)
    return load_w is not None and node.nameplate_w is not None and node.nameplate_w < load_w


def measured_contradicts(node: Node) -> bool:
    """Whether more was measured than is declared as the most."""
    return node.power_w is not None and node.measured_w is not None and node.measured_w > node.power_w
