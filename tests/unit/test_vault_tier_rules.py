"""Where snapshots belong by age and access (R7, M9.2), and which ones a drill takes first (R13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kernel.ids import Epoch, Person, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.vault.access import predicted_s
from bridgehead.vault.drills import NEVER_TESTED_S, Drill, score
from bridgehead.vault.tiers import Move, MoveKind, Placed, moves, tier_of

DAY = 86_400.0
LIMITS = (7 * DAY, 30 * DAY)
NOW = 100 * DAY


def placed(age_days: float, *at: int, bound: str = "") -> Placed:
    return Placed(SnapshotId(f"w@{int(age_days)}.0-{0:016x}"), 1000, NOW - age_days * DAY, frozenset(at), bound)


@pytest.mark.parametrize(("age_days", "tier"), [(0, 0), (7, 0), (7.1, 1), (30, 1), (31, 2), (1000, 2)])
def test_R7_age_decides_the_tier(age_days: float, tier: int) -> None:
    assert tier_of(age_days * DAY, LIMITS) == tier


def test_R7_what_is_old_goes_down_cold_data_first_and_is_forgotten_above() -> None:
    old, older = placed(10, 0), placed(50, 0, 1)
    assert moves([old, older], LIMITS, now_s=NOW) == (
        Move(MoveKind.DOWN, older, 2, 0, (0, 1)),
        Move(MoveKind.DOWN, old, 1, 0, (0,)),
    )


def test_R7_what_was_used_lately_comes_up_and_stays_below() -> None:
    assert moves([placed(1, 2)], LIMITS, now_s=NOW) == (Move(MoveKind.UP, placed(1, 2), 0, 2, ()),)


def test_what_is_bound_stays_hot_whatever_its_age() -> None:
    assert moves([placed(50, 0, bound="newest usable")], LIMITS, now_s=NOW) == ()


def test_a_copy_that_is_there_is_proved_again_before_the_hotter_one_goes() -> None:
    assert moves([placed(10, 0, 1)], LIMITS, now_s=NOW) == (Move(MoveKind.DOWN, placed(10, 0, 1), 1, None, (0,)),)


@given(st.floats(0, 200), st.frozensets(st.integers(0, 2), min_size=1), st.sampled_from(("", "held")))
def test_never_the_only_copy_and_settled_after_one_pass(age_days: float, at: frozenset[int], bound: str) -> None:
    one = Placed(SnapshotId("w@1.0-" + "0" * 16), 1, NOW - age_days * DAY, at, bound)
    for move in moves([one], LIMITS, now_s=NOW):
        assert move.copy_from is None or move.copy_from in at
        assert move.to in at or move.copy_from is not None
        left = (at | {move.to}) - set(move.forget_at)
        assert move.to in left
        assert moves([Placed(one.snapshot, 1, one.used_s, left, bound)], LIMITS, now_s=NOW) == ()


def test_R7_restore_time_is_bytes_over_speed() -> None:
    assert predicted_s(10**12, 2.5e9) == 400
    assert predicted_s(10**12, None) is None


def info(workload: str, step: int, age_days: float) -> SnapshotInfo:
    return SnapshotInfo(
        id=SnapshotId(f"{workload}@{step}.0-{step:016x}"),
        workload=WorkloadId(workload),
        step=step,
        epoch=Epoch(0),
        site=SiteId("a"),
        created_s=NOW - age_days * DAY,
        raw_bytes=1,
        verified=True,
        counts=True,
    )


def drilled(one: SnapshotInfo, days_ago: float, *, passed: bool = True) -> Drill:
    return Drill(one.id, NOW - days_ago * DAY, 1.0, 1.0, 1, passed, "", Person("me"))


def test_R13_most_critical_then_longest_untested_come_first() -> None:
    newest, middle, first = (info("train", step, age) for step, age in ((3, 1.0), (2, 20.0), (1, 40.0)))
    side = info("side", 9, 2.0)
    usable = [newest, middle, first, side]
    last = {first.id: drilled(first, 3), side.id: drilled(side, 1)}
    order = [one.info.id for one in score(usable, last, {}, now_s=NOW)]
    assert order == [middle.id, newest.id, first.id, side.id]  # 20 days; twice 7; 3; twice 1
    order = [one.info.id for one in score(usable, last, {WorkloadId("side"): 100.0}, now_s=NOW)]
    assert order[0] == side.id


def test_R13_a_drill_that_failed_is_wanted_again() -> None:
    one = info("train", 1, 30.0)
    assert score([one], {one.id: drilled(one, 0, passed=False)}, {}, now_s=NOW)[0].untested_s == NEVER_TESTED_S
    assert score([one], {one.id: drilled(one, 0)}, {}, now_s=NOW)[0].untested_s == 0
