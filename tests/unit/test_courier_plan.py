"""When drives on the road beat the network: the vectors of the rules, section 8 (M9.3)."""

import math

import pytest

from bridgehead.vault.courier.plan import Drives, Road, compare, courier_time, network_s

HOUR, TB = 3600.0, 10**12
ROAD = Road(order_s=4 * HOUR, transport_s=12 * HOUR)
TWO = Drives(count=2, size_bytes=40 * TB, write_bytes_per_s=400e6, read_bytes_per_s=400e6, parity=0)


@pytest.mark.parametrize(
    ("size", "rate", "efficiency", "hours"),
    [
        (10**15, 10e9, 0.8, 11.57 * 24),  # MV2
        (100 * TB, 1e9, 1.0, 9.26 * 24),  # MV3
        (100 * TB, 10e9, 0.8, 27.8),  # MV3
        (10 * TB, 2.5e9, 1.0, 8.89),  # MV4
        (10 * TB, 2.5e9, 0.9, 9.88),  # MV4
    ],
)
def test_MV2_MV3_MV4_network(size: int, rate: float, efficiency: float, hours: float) -> None:
    assert network_s(size, rate, efficiency=efficiency) / HOUR == pytest.approx(hours, rel=1e-3)


def test_MV7_courier_against_network_and_break_even() -> None:
    courier = courier_time(50 * TB, TWO, ROAD, verify_bytes_per_s=2e9)
    assert courier.total_s / HOUR == pytest.approx(57.7, rel=1e-3)
    fast = compare(50 * TB, TWO, ROAD, rate_bps=10e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert fast.network_s / HOUR == pytest.approx(13.9, rel=1e-3)
    assert not fast.courier_wins
    assert fast.break_even_bps == pytest.approx(2.41e9, rel=1e-3)
    slow = compare(50 * TB, TWO, ROAD, rate_bps=1e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert slow.network_s / HOUR == pytest.approx(138.9, rel=1e-3)
    assert slow.courier_wins


@pytest.mark.parametrize(("speed", "days"), [(800e6, 1.19), (400e6, 2.37), (100e6, 9.49)])
def test_MV8_filling_one_drive(speed: float, days: float) -> None:
    one = Drives(count=1, size_bytes=82 * TB, write_bytes_per_s=speed, read_bytes_per_s=speed, parity=0)
    assert round(courier_time(82 * TB, one, ROAD, verify_bytes_per_s=2e9).fill_s / (24 * HOUR), 2) == days


def test_break_even_size_is_where_both_take_as_long() -> None:
    found = compare(50 * TB, TWO, ROAD, rate_bps=1e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert found.break_even_bytes is not None
    there = compare(round(found.break_even_bytes), TWO, ROAD, rate_bps=1e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert there.network_s == pytest.approx(there.courier.total_s)
    quick = compare(50 * TB, TWO, ROAD, rate_bps=100e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert quick.break_even_bytes is None
    rate = found.break_even_bps
    assert compare(50 * TB, TWO, ROAD, rate_bps=rate, efficiency=0.8, verify_bytes_per_s=2e9).network_s == pytest.approx(
        found.courier.total_s
    )


def test_parity_drives_bring_neither_capacity_nor_speed() -> None:
    three = Drives(count=3, size_bytes=40 * TB, write_bytes_per_s=400e6, read_bytes_per_s=400e6, parity=1)
    with_parity = compare(50 * TB, three, ROAD, rate_bps=1e9, efficiency=0.8, verify_bytes_per_s=2e9)
    without = compare(50 * TB, TWO, ROAD, rate_bps=1e9, efficiency=0.8, verify_bytes_per_s=2e9)
    assert with_parity.courier == without.courier
    assert (with_parity.drives_needed, without.drives_needed) == (3, 2)


def test_what_does_not_fit_is_no_win() -> None:
    small = Drives(count=3, size_bytes=4 * TB, write_bytes_per_s=2e9, read_bytes_per_s=2e9)
    found = compare(50 * TB, small, ROAD, rate_bps=1e8, efficiency=0.8, verify_bytes_per_s=2e9)
    assert (found.fits, found.courier_wins, found.drives_needed) == (False, False, math.ceil(50 / 4) + 1)
