"""Liveness of sites: silence, loss, blindness, grace, clocks."""

from __future__ import annotations

import pytest

from bridgehead.kernel.ids import SiteId
from bridgehead.recovery.watch import board
from bridgehead.recovery.watch.liveness import (
    Evidence,
    EvidenceKind,
    Limits,
    Look,
    Sight,
    SiteClock,
    SiteState,
    SiteVerdict,
    advance,
    is_blind,
    resumed,
    site_verdict,
)  # fmt: skip

A, B = SiteId("a"), SiteId("b")
LIMITS = Limits(every_s=10.0, stale_s=35.0, grace_s=300.0, misses=3, observers=2)


def looked(clock: SiteClock, *, begin_s: float, end_s: float, life: bool, blind: bool = False) -> SiteClock:
    """A look every ten seconds from ``begin_s`` to before ``end_s``."""
    for second in range(int(begin_s), int(end_s), 10):
        look = Look(A, float(second), life=("answers",)) if life else Look(A, float(second), silence=("no answer",))
        clock = advance(clock, look, blind=blind)
    return clock


def judged(*clocks: SiteClock, now_s: float, evidence: tuple[Evidence, ...] = (), limits: Limits = LIMITS) -> SiteVerdict:
    sights = [Sight(f"o{number}", clock) for number, clock in enumerate(clocks)]
    return site_verdict(A, sights=sights, evidence=evidence, now_s=now_s, limits=limits)


@pytest.mark.parametrize("observers", [1, 2])
def test_J01_ten_minutes_without_a_status_path_never_make_a_site_lost(observers: int) -> None:
    """Every verdict of the ten minutes, each ten seconds, and not one failover is proposed by the one whose path is down."""
    down = looked(SiteClock(A), begin_s=0, end_s=100, life=True)
    sees = down
    for second in range(100, 700, 10):
        down = advance(down, Look(A, float(second), silence=("no answer",)), blind=False)
        sees = advance(sees, Look(A, float(second), life=("answers",)), blind=False)
        found = judged(*(down, sees)[:observers], now_s=float(second))
        assert found.state is not SiteState.LOST
        assert not found.may_fail_over
        assert observers == 1 or found.state is SiteState.ALIVE
    healed = looked(down, begin_s=700, end_s=710, life=True)
    assert judged(healed, now_s=701.0).state is SiteState.ALIVE


def test_silence_becomes_silent_and_overdue_only_for_two_observers() -> None:
    one = looked(looked(SiteClock(A), begin_s=0, end_s=100, life=True), begin_s=100, end_s=500, life=False)
    alone = judged(one, now_s=495.0)
    assert (alone.state, alone.overdue) == (SiteState.SILENT, False)
    both = judged(one, one, now_s=495.0)
    assert both.may_fail_over
    assert both.first_loss_s == 100.0
    assert not judged(one, one, now_s=399.0).may_fail_over


def test_J03_a_restart_neither_shortens_nor_restarts_the_grace() -> None:
    before = looked(looked(SiteClock(A), begin_s=0, end_s=100, life=True), begin_s=100, end_s=250, life=False)
    after = looked(resumed(before, now_s=260.0), begin_s=260, end_s=400, life=False)
    assert after.first_loss_s == 100.0
    assert not judged(after, after, now_s=395.0).may_fail_over
    later = looked(after, begin_s=400, end_s=410, life=False)
    assert judged(later, later, now_s=400.0).may_fail_over


def test_a_blind_observer_says_nothing_and_needs_three_looks_when_it_sees_again() -> None:
    seen = looked(SiteClock(A), begin_s=0, end_s=100, life=True)
    missed = looked(seen, begin_s=100, end_s=110, life=False)
    blind = looked(missed, begin_s=110, end_s=700, life=False, blind=True)
    assert judged(blind, blind, now_s=700.0).state is SiteState.UNKNOWN
    again = looked(blind, begin_s=700, end_s=720, life=False)
    assert not judged(again, again, now_s=715.0).may_fail_over
    assert judged(*[looked(again, begin_s=720, end_s=730, life=False)] * 2, now_s=720.0).may_fail_over
    assert is_blind([Look(A, 0.0, silence=("x",)), Look(B, 0.0, silence=("x",))])
    assert not is_blind([Look(A, 0.0, silence=("x",)), Look(B, 0.0, life=("x",))])


def test_evidence_makes_it_lost_after_the_grace_and_life_refutes_it() -> None:
    fire = Evidence(A, EvidenceKind.DECLARED, "ann", "fire in hall 1", 105.0)
    seen = looked(SiteClock(A), begin_s=0, end_s=100, life=True)
    assert judged(seen, now_s=110.0, evidence=(fire,)).state is SiteState.ALIVE, "life is fresher than the grace"
    assert judged(seen, now_s=389.0, evidence=(fire,)).state is not SiteState.LOST
    lost = judged(seen, now_s=391.0, evidence=(fire,))
    assert lost.state is SiteState.LOST
    assert "fire in hall 1" in " ".join(lost.reasons)
    back = looked(seen, begin_s=400, end_s=410, life=True)
    assert judged(back, now_s=1000.0, evidence=(fire,)).state is SiteState.UNKNOWN, "it was seen after the fire"
    assert judged(seen, now_s=391.0, evidence=(Evidence(B, EvidenceKind.POWER, "pdu", "off", 105.0),)).state is not SiteState.LOST


def test_a_dead_observer_of_the_lost_site_hinders_nobody() -> None:
    """The one at the site dies with it: its last word grows old and does not count against the others."""
    died = looked(SiteClock(A), begin_s=0, end_s=100, life=True)
    others = looked(died, begin_s=100, end_s=500, life=False)
    assert judged(died, others, others, now_s=495.0).may_fail_over


def test_a_wall_clock_that_was_set_back_makes_nothing_fresh_for_longer() -> None:
    kept = looked(SiteClock(A), begin_s=10_000, end_s=10_100, life=True)
    again = resumed(kept, now_s=500.0)
    assert again.contact_s == 500.0
    assert judged(again, now_s=500.0 + LIMITS.stale_s + 1).state is SiteState.UNKNOWN


def test_what_others_say_counts_by_age_whatever_their_clock_says() -> None:
    theirs = looked(SiteClock(A), begin_s=50_000, end_s=50_100, life=True)
    first = board.post("far", [theirs], number=1, now_s=50_095.0)
    heard = board.hear({}, [first], now_s=200.0, forget_s=1e6)
    heard = board.hear(heard, [board.post("far", [theirs], number=2, now_s=50_105.0)], now_s=210.0, forget_s=1e6)
    [sight] = board.sights(heard.values(), A)
    assert sight.clock.contact_s == 195.0
    assert sight.clock.looked_s == 195.0
    still = board.hear(heard, [board.post("far", [theirs], number=2, now_s=50_105.0)], now_s=400.0, forget_s=1e6)
    assert board.sights(still.values(), A)[0].clock.contact_s == 195.0, "the same bulletin is not news"
    assert board.hear(heard, (), now_s=1e7, forget_s=1000.0) == {}


def test_the_silence_of_a_bulletin_that_hung_there_for_days_has_no_vote() -> None:
    silent = looked(SiteClock(A), begin_s=0, end_s=500, life=False)
    heard = board.hear({}, [board.post("old", [silent], number=1, now_s=500.0)], now_s=9e5, forget_s=1e6)
    [sight] = board.sights(heard.values(), A)
    assert sight.clock.looked_s is None
    assert judged(sight.clock, silent, now_s=9e5).silent_for == ()


def test_a_sign_of_life_counts_from_when_it_was_made_however_late_it_is_read() -> None:
    """A report of just before the kill, read two minutes after it, makes nobody alive "0 s ago"."""
    clock = looked(looked(SiteClock(A), begin_s=0, end_s=100, life=True), begin_s=100, end_s=220, life=False)
    late = advance(clock, Look(A, 220.0, life=("a new snapshot",), silence=("no answer",), alive_s=95.0), blind=False)
    assert (late.contact_s, late.first_loss_s, late.misses) == (95.0, 100.0, clock.misses + 1)
    found = judged(late, now_s=220.0)
    assert found.state is SiteState.SILENT
    assert "last sign of life 125 s ago" in found.reasons
    assert "a new snapshot before the last look" in found.reasons
    assert found.grace_left_s == 180.0, "counted from the first loss"


def test_a_late_sign_refutes_the_silence_before_it_and_not_what_came_after() -> None:
    clock = looked(looked(SiteClock(A), begin_s=0, end_s=100, life=True), begin_s=100, end_s=220, life=False)
    late = advance(clock, Look(A, 220.0, life=("a new snapshot",), alive_s=205.0), blind=False)
    assert (late.contact_s, late.first_loss_s, late.misses) == (205.0, 210.0, 1)
    assert judged(late, now_s=220.0).state is SiteState.ALIVE, "it is younger than what is stale"
    assert judged(looked(late, begin_s=230, end_s=250, life=False), now_s=245.0).state is SiteState.SILENT


def test_a_sign_made_since_the_last_look_is_life_dated_by_itself_and_never_from_ahead() -> None:
    clock = looked(SiteClock(A), begin_s=0, end_s=100, life=True)
    since = advance(clock, Look(A, 100.0, life=("reported",), alive_s=93.0), blind=False)
    assert (since.contact_s, since.first_loss_s, since.misses) == (93.0, None, 0)
    assert advance(clock, Look(A, 100.0, life=("reported",), alive_s=9e9), blind=False).contact_s == 100.0


def test_one_look_after_a_long_pause_that_reads_only_old_words_makes_nobody_alive() -> None:
    clock = advance(looked(SiteClock(A), begin_s=0, end_s=10, life=True), Look(A, 1000.0, life=("reported",), alive_s=400.0), blind=False)
    found = judged(clock, now_s=1000.0)
    assert (found.state, found.contact_s) == (SiteState.UNKNOWN, 400.0)
    assert not any("looked lately" in reason for reason in found.reasons), "somebody has"
