"""Vectors of network, WAN, checkpoints and moving data (rules sections 5 to 8)."""

from __future__ import annotations

import math

import pytest

from bridgehead.assess import checkpoint_math as ck
from bridgehead.assess import fabric_math as fb
from bridgehead.assess import wan_math as wn
from bridgehead.model.fabric import Medium


def near(value: float) -> object:
    return pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(("nodes", "leaves", "spines"), [(64, 16, 8), (128, 32, 16), (256, 64, 32)])
def test_FB1_two_tiers(nodes: int, leaves: int, spines: int) -> None:
    plan = fb.two_tier(nodes * 8, radix=64)
    assert (plan.leaves, plan.spines) == (leaves, spines)
    assert plan.node_cables == plan.spine_cables == nodes * 8


def test_FB2_most_endpoints() -> None:
    assert (fb.most_endpoints(64, tiers=2), fb.most_endpoints(64, tiers=3)) == (2048, 65536)
    assert (fb.most_endpoints(40, tiers=2), fb.most_endpoints(40, tiers=3)) == (800, 16000)


def test_FB4_bus_bandwidth() -> None:
    assert fb.bus_bandwidth(272.55, ranks=8) == near(476.97)
    assert fb.algorithm_bandwidth(476.97, ranks=8) == near(272.55)


def test_FB5_cable_delay() -> None:
    assert fb.cable_delay_s(3 + 12 + 3 + 2) == near(100e-9)
    assert 2 * fb.cable_delay_s(30) == near(300e-9)
    assert fb.ring_delay_s(1e-7, ranks=8) == near(14e-7)
    assert fb.tree_delay_s(1e-7, ranks=1024) == near(20e-7)


def test_FB6_media() -> None:
    assert fb.medium_for(4) is Medium.ACTIVE_COPPER
    assert fb.medium_for(20) is Medium.MULTIMODE_OM4
    assert fb.medium_for(60) is Medium.SINGLE_MODE_MPO_500
    assert fb.medium_for(3000) is None


def test_WN1_in_flight() -> None:
    assert wn.in_flight_bytes(100e9, round_trip_s=36.3e-3) == near(453.75e6)


def test_WN2_window() -> None:
    assert wn.window_limit_bps(64e6, round_trip_s=36.3e-3) == near(14.105e9)


def test_WN3_loss() -> None:
    assert wn.loss_limit_bps(1460, round_trip_s=36.3e-3, loss=1e-5) == pytest.approx(124e6, rel=2e-3)


def test_WN4_failover() -> None:
    assert wn.failover_s(0.05, multiplier=3, reroute_s=0) == near(0.15)
    assert wn.failover_s(0.01, multiplier=3, reroute_s=0.015) == near(0.045)


def test_SZ_sizes_and_times() -> None:
    assert ck.checkpoint_bytes(7e9, bytes_per_parameter=14) == near(98e9)
    assert ck.checkpoint_bytes(70e9, bytes_per_parameter=12) == near(840e9)
    assert ck.checkpoint_bytes(405e9, bytes_per_parameter=16) == near(6.48e12)
    assert ck.transfer_s(6.48e12, rate_bps=2e12 * 8) == near(3.24)
    assert ck.transfer_s(6.48e12, rate_bps=100e9 * 0.8) == near(648)
    assert ck.transfer_s(5e12, rate_bps=2.8e9 * 8) / 60 == near(29.76)
    assert ck.transfer_s(840e9, rate_bps=10e9) == near(672)
    assert ck.transfer_s(840e9, rate_bps=10e9, ratio=1.27) == near(529.1)


@pytest.mark.parametrize(
    ("save", "between", "restart", "young", "daly", "saxena", "loss"),
    [
        pytest.param(10, 6000, 600, 346.4, 336.4, 373.5, 0.0577, id="CK1"),
        pytest.param(10, 6000, 0, 346.4, 336.4, 356.6, 0.0577, id="CK2"),
        pytest.param(60, 11124, 600, 1155.4, 1095.4, 1247.6, 0.1039, id="CK3"),
        pytest.param(60, 178161, 0, 4623.8, 4563.8, 4684.2, 0.0260, id="CK4"),
    ],
)
def test_CK1_to_CK4_intervals(save: float, between: float, restart: float, young: float, daly: float, saxena: float, loss: float) -> None:
    assert ck.young_s(save, between_s=between) == near(young)
    assert ck.daly_s(save, between_s=between) == near(daly)
    assert ck.saxena_s(save, between_s=between, restart_s=restart) == near(saxena)
    assert ck.lost_share(save, between_s=between, interval_s=ck.young_s(save, between_s=between)) == pytest.approx(loss, rel=2e-3)


def test_CK1_CK2_whole_steps_round_down() -> None:
    assert ck.whole_steps(373.5, step_s=15) == 24
    assert ck.whole_steps(356.6, step_s=15) == 23


def test_CK5_time_between_interruptions() -> None:
    between = ck.between_interruptions_s(1024)
    assert between / 3600 == near(49.49)
    assert ck.between_interruptions_s(8) / 86400 == near(263.9)
    assert ck.no_interruption(86400, between_s=between) == pytest.approx(0.616, rel=1e-3)


def test_CK6_spares() -> None:
    expected = 1000 * 168 / 82944
    assert expected == near(2.0255)
    assert ck.spares_needed(expected, chance=0.95) == 5
    assert ck.at_most_probability(5, expected=expected) == near(0.9825)
    assert ck.at_most_probability(4, expected=expected) == pytest.approx(0.945, rel=2e-3)
    assert ck.spares_needed(2000.0, chance=0.95) > 2000, "no underflow for large fleets"
    assert ck.spares_needed(0.0, chance=0.95) == 0


def test_CK7_cut_over() -> None:
    assert ck.lost_gpu_hours(12 * 60, restore_s=29.76 * 60, warm_up_s=5 * 60, gpus=1024) == near(798.0)


def test_MV1_bandwidth_need_is_not_665() -> None:
    assert wn.needed_bps(512e12, window_s=900, factor=1.0) / 8e9 == near(568.9)
    assert wn.needed_bps(512e12, window_s=900) / 8e9 == near(739.6)
    assert wn.needed_bps(1e12, window_s=900, factor=1.0) / 8e9 == pytest.approx(1.11, rel=2e-3)
    assert wn.needed_bps(1e12, window_s=900) / 8e9 == pytest.approx(1.444, rel=1e-3)


@pytest.mark.parametrize(
    ("size", "rate", "seconds"),
    [
        pytest.param(1e15, 10e9 * 0.8, 11.574 * 86400, id="MV2"),
        pytest.param(100e12, 1e9, 9.259 * 86400, id="MV3"),
        pytest.param(100e12, 10e9 * 0.8, 27.78 * 3600, id="MV3-10G"),
        pytest.param(10e12, 2.5e9, 8.889 * 3600, id="MV4"),
        pytest.param(10e12, 2.5e9 * 0.9, 9.877 * 3600, id="MV4-0.9"),
    ],
)
def test_MV2_to_MV4_transfers(size: float, rate: float, seconds: float) -> None:
    assert wn.transfer_s(size, rate_bps=rate) == near(seconds)


def test_MV5_change_per_hour() -> None:
    assert wn.needed_bps(100e12, window_s=3600, factor=1.0) == near(222.2e9)


def test_MV6_data_that_changes() -> None:
    assert wn.passes_s(100e12, rate_bps=8e9, change_bps=1e9, count=3) == (near(100_000), near(12_500), near(1562.5))
    assert wn.transfer_s(100e12, rate_bps=8e9, change_bps=1e9) == near(114_286)
    assert wn.passes_s(100e12, rate_bps=8e9, change_bps=1e9, count=7)[6] * 8e9 / 8 == pytest.approx(0.381e9, rel=2e-3)
    assert wn.transfer_s(1e12, rate_bps=1e9, change_bps=1e9) == math.inf


def test_MV7_courier() -> None:
    carriage = wn.Carriage(4 * 3600, 2 * 400e6 * 8, 12 * 3600, 2 * 400e6 * 8, 2e9 * 8)
    takes = wn.courier_s(50e12, carriage)
    assert takes / 3600 == near(57.67)
    assert wn.break_even_bps(50e12, by_courier_s=takes, efficiency=0.8) == pytest.approx(2.41e9, rel=1e-3)
