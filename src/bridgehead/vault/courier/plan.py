"""Plan: when drives on the road beat the network (rules section 8, M9.3). Formulas only; nothing is touched.

    network  8·B / (rate·η)
    courier  order + fill + transport + unload + verify, with fill and unload B/(devices·speed), and verify B/(verify speed)

Parity drives are filled beside the data drives, so that only the data drives count for speed and capacity.
"""

from __future__ import annotations

import math

import msgspec


class Drives(msgspec.Struct, frozen=True):
    """Equal drives, filled and read in parallel. Speeds in bytes a second; ``parity`` of the ``count`` hold no data of their own."""

    count: int
    size_bytes: int
    write_bytes_per_s: float
    read_bytes_per_s: float
    parity: int = 1

    @property
    def data(self) -> int:
        """Those whose capacity and speed count."""
        return self.count - self.parity


class Road(msgspec.Struct, frozen=True):
    """What does not depend on the size: ordering, transport, handling (packing, customs, plugging in), all in seconds."""

    order_s: float
    transport_s: float
    handling_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Together."""
        return self.order_s + self.transport_s + self.handling_s


class CourierTime(msgspec.Struct, frozen=True):
    """The parts of the way by road, in seconds."""

    road_s: float
    fill_s: float
    unload_s: float
    verify_s: float

    @property
    def total_s(self) -> float:
        """From the order to the verified copy."""
        return self.road_s + self.fill_s + self.unload_s + self.verify_s


class Comparison(msgspec.Struct, frozen=True):
    """Both ways.

    Attributes:
        break_even_bytes: from this size on the courier is quicker; None: never, or with no size that fits on the drives of one journey.
        break_even_bps: below this rate of the link the courier is quicker for this size.
        fits: whether the drives hold it in one journey; ``drives_needed`` of this size would, parity included.
    """

    size_bytes: int
    network_s: float
    courier: CourierTime
    courier_wins: bool
    break_even_bytes: float | None
    break_even_bps: float
    fits: bool
    drives_needed: int


def network_s(size_bytes: float, rate_bps: float, *, efficiency: float) -> float:
    """8·B/(rate·η), in seconds."""
    return 8 * size_bytes / (rate_bps * efficiency)


def courier_time(size_bytes: float, drives: Drives, road: Road, *, verify_bytes_per_s: float) -> CourierTime:
    """order + fill + transport + unload + verify."""
    return CourierTime(
        road_s=road.total_s,
        fill_s=size_bytes / (drives.data * drives.write_bytes_per_s),
        unload_s=size_bytes / (drives.data * drives.read_bytes_per_s),
        verify_s=size_bytes / verify_bytes_per_s,
    )


def compare(size_bytes: int, drives: Drives, road: Road, *, rate_bps: float, efficiency: float, verify_bytes_per_s: float) -> Comparison:
    """Both times and where they meet. All speeds and the rate are above zero, and at least one drive holds data."""
    courier = courier_time(size_bytes, drives, road, verify_bytes_per_s=verify_bytes_per_s)
    online_s = network_s(size_bytes, rate_bps, efficiency=efficiency)
    needed = max(1, math.ceil(size_bytes / drives.size_bytes)) + drives.parity
    fits = needed <= drives.count
    a_byte = courier_time(1.0, drives, Road(0.0, 0.0), verify_bytes_per_s=verify_bytes_per_s).total_s
    gain_s = network_s(1.0, rate_bps, efficiency=efficiency) - a_byte  # of the courier, with each byte more
    meet_bytes = road.total_s / gain_s if gain_s > 0 else None
    return Comparison(
        size_bytes=size_bytes,
        network_s=online_s,
        courier=courier,
        courier_wins=fits and courier.total_s < online_s,
        break_even_bytes=meet_bytes if meet_bytes is not None and meet_bytes <= drives.data * drives.size_bytes else None,
        break_even_bps=8 * size_bytes / (efficiency * courier.total_s) if courier.total_s > 0 else math.inf,
        fits=fits,
        drives_needed=needed,
    )
