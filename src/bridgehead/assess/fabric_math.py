"""Fabric arithmetic: radix, oversubscription, delay, collectives (rules section 5, vectors FB1 to FB6). Pure formulas."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.model.fabric import Medium

DELAY_S_PER_M: Final = 5e-9
"""Light in fibre, and nearly the same in copper (rules section 5)."""
FEC_DELAY_S: Final = 120e-9
"""The most that forward error correction adds at one link."""

_REACH_M: Final = {
    Medium.COPPER: (3.0, 3.0),
    Medium.ACTIVE_COPPER: (5.0, 5.0),
    Medium.MULTIMODE: (30.0, 50.0),
    Medium.MULTIMODE_OM4: (50.0, 50.0),
    Medium.SINGLE_MODE_MPO: (50.0, 500.0),
    Medium.SINGLE_MODE_MPO_500: (500.0, 500.0),
    Medium.SINGLE_MODE_LC: (2000.0, 2000.0),
}


class TwoTier(msgspec.Struct, frozen=True):
    """A non-blocking fabric of two tiers: switches and cables."""

    leaves: int
    spines: int
    node_cables: int
    spine_cables: int


class Spread(msgspec.Struct, frozen=True):
    """Least, median and greatest value; an average alone would hide the leaf that hurts."""

    least: float
    median: float
    greatest: float


def two_tier(ports: int, *, radix: int) -> TwoTier:
    """What ``ports`` end points need with switches of ``radix`` ports: ceil(ports/(k/2)) leaves, ceil(leaves·(k/2)/k) spines (FB1)."""
    half = radix // 2
    leaves = math.ceil(ports / half)
    return TwoTier(leaves, math.ceil(leaves * half / radix), ports, leaves * half)


def most_endpoints(radix: int, *, tiers: int) -> int:
    """End points of a non-blocking fabric: k²/2 in two tiers, k³/4 in three (FB2)."""
    return radix**2 // 2 if tiers == 2 else radix**3 // 4


def oversubscription(leaves: Sequence[tuple[float, float]]) -> Spread:
    """Speed down by speed up over all leaves, at least one, each with a speed up; ports of aggregation nodes left out before (FB3)."""
    ratios = sorted(down / up for down, up in leaves)
    return Spread(ratios[0], statistics.median(ratios), ratios[-1])


def bus_bandwidth(algorithm_bps: float, *, ranks: int) -> float:
    """Bus bandwidth of an all-reduce: algorithm bandwidth · 2(n-1)/n (FB4)."""
    return algorithm_bps * 2 * (ranks - 1) / ranks


def algorithm_bandwidth(bus_bps: float, *, ranks: int) -> float:
    """The reverse of ``bus_bandwidth`` (FB4)."""
    return bus_bps * ranks / (2 * (ranks - 1))


def cable_delay_s(route_m: float) -> float:
    """One way over a route: up, tray, down and slack, never the straight line (FB5)."""
    return route_m * DELAY_S_PER_M


def ring_delay_s(added_s: float, *, ranks: int) -> float:
    """What ``added_s`` per hop adds to one all-reduce over a ring: 2(n-1) steps, one after the other."""
    return 2 * (ranks - 1) * added_s


def tree_delay_s(added_s: float, *, ranks: int) -> float:
    """The same over a tree: up and down ceil(log2 n) levels."""
    return 2 * math.ceil(math.log2(ranks)) * added_s if ranks > 1 else 0.0


def reach_m(medium: Medium) -> tuple[float, float]:
    """How far a medium reaches at 400 and 800G for sure, and how far the best part of its kind does; two junctions assumed (FB6)."""
    return _REACH_M[medium]


def medium_for(route_m: float) -> Medium | None:
    """The simplest medium that reaches: copper, active copper, multimode, single mode (FB6); None beyond all of them."""
    order = (Medium.COPPER, Medium.ACTIVE_COPPER, Medium.MULTIMODE_OM4, Medium.SINGLE_MODE_MPO_500, Medium.SINGLE_MODE_LC)
    return next((medium for medium in order if route_m <= _REACH_M[medium][1]), None)
