"""WAN arithmetic: window, loss, failover, moving data by line and by courier (rules sections 6 and 8, WN1 to WN4, MV1 to MV7). Pure."""

from __future__ import annotations

import math
from typing import Final

import msgspec

MATHIS: Final = 1.22
"""Constant of the loss limit; its source is weak, so what rests on it is a guess."""
LINE_EFFICIENCY: Final = 0.8
"""Payload by line rate, where nobody measured."""
NEED_FACTOR: Final = 1.3
"""M8.3: plus 30 %."""


def in_flight_bytes(rate_bps: float, *, round_trip_s: float) -> float:
    """Bytes under way on a full line: the window that it needs (WN1)."""
    return rate_bps * round_trip_s / 8


def window_limit_bps(window_bytes: float, *, round_trip_s: float) -> float:
    """The most that one flow gets through its window (WN2)."""
    return math.inf if round_trip_s == 0 else window_bytes * 8 / round_trip_s


def loss_limit_bps(segment_bytes: float, *, round_trip_s: float, loss: float) -> float:
    """The most that one flow gets at a share of lost packets, by Mathis: 1.22·8·MSS/(RTT·√p) (WN3)."""
    return math.inf if round_trip_s == 0 or loss == 0 else MATHIS * 8 * segment_bytes / (round_trip_s * math.sqrt(loss))


def failover_s(interval_s: float, *, multiplier: int, reroute_s: float) -> float:
    """Detection by timer plus re-routing; a timer alone is no failover time (WN4)."""
    return interval_s * multiplier + reroute_s


def needed_bps(size_bytes: float, *, window_s: float, factor: float = NEED_FACTOR) -> float:
    """Bandwidth that brings ``size_bytes`` over within a window: size / window · 1.3, in bit/s (M8.3, MV1)."""
    return size_bytes * 8 / window_s * factor


def transfer_s(size_bytes: float, *, rate_bps: float, change_bps: float = 0.0) -> float:
    """Time to move data that goes on changing, by passes over what changed: 8B/(rate - change); infinite when it never ends (MV2 to MV6).

    Args:
        rate_bps: effective rate, efficiency included.
        change_bps: unique bytes that change, as a rate.
    """
    left = rate_bps - change_bps
    return math.inf if left <= 0 else size_bytes * 8 / left


def passes_s(size_bytes: float, *, rate_bps: float, change_bps: float, count: int) -> tuple[float, ...]:
    """Lengths of the first passes: each shrinks by change / rate (MV6)."""
    return tuple(size_bytes * 8 / rate_bps * (change_bps / rate_bps) ** number for number in range(count))


class Carriage(msgspec.Struct, frozen=True):
    """A courier's figures: order and transport in seconds, rates of all devices together in bit/s."""

    order_s: float
    fill_bps: float
    transport_s: float
    unload_bps: float
    verify_bps: float


def courier_s(size_bytes: float, carriage: Carriage) -> float:
    """Order, fill, transport, unload, verify, one after the other (M9.3, MV7)."""
    bits = size_bytes * 8
    return carriage.order_s + bits / carriage.fill_bps + carriage.transport_s + bits / carriage.unload_bps + bits / carriage.verify_bps


def break_even_bps(size_bytes: float, *, by_courier_s: float, efficiency: float) -> float:
    """Line rate above which the network is faster than the courier (MV7)."""
    return size_bytes * 8 / (by_courier_s * efficiency)
