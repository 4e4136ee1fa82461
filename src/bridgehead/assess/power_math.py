"""Power arithmetic: headroom, supplies, line currents (rules sections 1 to 3). Pure; VA, W and A, nothing is rounded."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from bridgehead.model.estate import HeadroomRule
from bridgehead.model.power import Lines

GUESSED_POWER_FACTOR: Final = 0.95
"""Where nobody gave one (rules section 1); a guess, so nothing passes by it alone."""


class Headroom(msgspec.Struct, frozen=True):
    """The three readings of "with a margin" (M5.3; rules section 3), each as the largest load that it allows, in VA.

    Attributes:
        continuous: (1 - margin) of what may flow for hours.
        rating: what may flow for hours, and at most (1 - margin) of the breaker's rating.
        need: what may flow for hours is (1 + margin) times the load.
    """

    continuous: float
    rating: float
    need: float

    def chosen(self, rule: HeadroomRule) -> float:
        """The reading that the site has chosen."""
        match rule:
            case HeadroomRule.CONTINUOUS:
                return self.continuous
            case HeadroomRule.RATING:
                return self.rating
            case HeadroomRule.NEED:
                return self.need
            case _:
                assert_never(rule)


def headroom(rating: float, *, continuous: float, margin: float) -> Headroom:
    """All three readings for a rating (VA, or W for dc) of which the share ``continuous`` may flow for hours."""
    lasting = continuous * rating
    return Headroom((1 - margin) * lasting, min(lasting, (1 - margin) * rating), lasting / (1 + margin))


def apparent_va(power_w: float, *, power_factor: float) -> float:
    """S = P / PF."""
    return power_w / power_factor


def per_supply(load: float, *, live: int) -> float:
    """What each live supply carries; the live ones share the whole load (rules section 2)."""
    return load / live


_ROOT3 = math.sqrt(3)
_PHASE: Final[dict[str, complex]] = {
    "L1": 1 + 0j,
    "L2": cmath.rect(1, -2 * math.pi / 3),
    "L3": cmath.rect(1, 2 * math.pi / 3),
}


def line_currents(single_a: Mapping[Lines, float], *, balanced_a: float = 0.0) -> tuple[float, float, float]:
    """Currents of L1, L2, L3 at equal power factor (rules section 1, PW11 to PW14), for single-phase loads and balanced three-phase ones.

    For loads between lines only this is I_L1 = √(a² + c² + ac) and so on. With currents that are not negative no line falls when a load
    grows.
    """
    sums = {line: balanced_a * direction for line, direction in _PHASE.items()}
    for lines, current_a in single_a.items():
        first, second = lines.value.split("-")
        if second == "N":
            sums[first] += current_a * _PHASE[first]
        else:
            flows = current_a * (_PHASE[first] - _PHASE[second]) / _ROOT3
            sums[first] += flows
            sums[second] -= flows
    return abs(sums["L1"]), abs(sums["L2"]), abs(sums["L3"])


def spares(units: int, *, share: float) -> int:
    """Whole units that ``share`` of ``units`` amounts to, rounded up (M10.1: 10 % of 125 is 13)."""
    return math.ceil(round(share * units, 9))
