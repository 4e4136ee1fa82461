"""10,000 random histories of several observers: who showed life within the grace is never called lost, and silence never makes it so."""

from __future__ import annotations

import random

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

SITE, OTHER = SiteId("a"), SiteId("b")
HISTORIES = 10_000


class Observer:
    """One process with its own clock, which may be wrong; it may die and come back with what it had kept."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self.name, self.skew_s = name, dice.choice((0.0, dice.uniform(-7200, 7200)))
        self.clocks = {site: SiteClock(site) for site in (SITE, OTHER)}
        self.heard: dict[str, board.Heard] = {}
        self.number = 0

    def look(self, true_s: float, *, sees: dict[SiteId, bool]) -> None:
        now_s = true_s + self.skew_s
        looks = [Look(site, now_s, life=("answers",)) if seen else Look(site, now_s, silence=("no answer",)) for site, seen in sees.items()]
        blind = is_blind(looks)
        self.clocks = {one.site: advance(self.clocks[one.site], one, blind=blind) for one in looks}
        self.number += 1

    def restart(self, true_s: float) -> None:
        self.clocks = {site: resumed(clock, now_s=true_s + self.skew_s) for site, clock in self.clocks.items()}

    def post(self, true_s: float) -> board.Bulletin:
        return board.post(self.name, self.clocks.values(), number=self.number, now_s=true_s + self.skew_s)

    def judge(self, true_s: float, evidence: list[Evidence], limits: Limits) -> SiteVerdict:
        sights = [Sight(self.name, self.clocks[SITE]), *board.sights(self.heard.values(), SITE)]
        return site_verdict(SITE, sights=sights, evidence=evidence, now_s=true_s + self.skew_s, limits=limits)


def play(seed: int) -> tuple[int, int]:
    """One history; returns how often it was lost and how often a failover was allowed."""
    dice = random.Random(seed)
    limits = Limits(
        every_s=10.0, stale_s=30.0, grace_s=dice.choice((20.0, 60.0, 120.0)), misses=dice.choice((1, 3)), observers=dice.choice((1, 2))
    )
    observers = [Observer(f"o{number}", dice) for number in range(dice.randint(1, 3))]
    posted: dict[str, board.Bulletin] = {}
    evidence: list[Evidence] = []
    last_life: dict[str, float] = {}
    told_by: dict[str, float] = {}
    lost = allowed = 0
    true_s, alive, sight_share = 100_000.0, True, dice.choice((0.0, 0.3, 0.9))
    for _ in range(dice.randint(5, 25)):
        true_s += dice.choice((10.0, 10.0, 10.0, 45.0, 400.0))
        alive = alive if dice.random() < 0.8 else not alive
        if dice.random() < 0.1:
            evidence.append(Evidence(SITE, EvidenceKind.DECLARED, "ann", "fire", true_s))
        for one in observers:
            if dice.random() < 0.15:
                one.restart(true_s)
            if dice.random() < 0.2:  # dead, or late, for this round
                continue
            blind = dice.random() < 0.2
            seen = alive and not blind and dice.random() < sight_share
            one.look(true_s, sees={SITE: seen, OTHER: not blind and dice.random() < 0.9})
            if seen:
                last_life[one.name] = true_s
            posted[one.name], told_by[one.name] = one.post(true_s), last_life.get(one.name, 0.0)
            if dice.random() < 0.9:
                others = [bulletin for name, bulletin in posted.items() if name != one.name]
                one.heard = board.hear(one.heard, others, now_s=true_s + one.skew_s, forget_s=1e6)
                life = max((told_by[name] for name in posted), default=0.0)
                last_life[one.name] = max(life, last_life.get(one.name, 0.0))
            # Evidence carries the time of the judge, as the board gives it: its clock may be wrong, the rule holds all the same.
            own = [Evidence(one_.site, one_.kind, one_.by, one_.reason, one_.at_s + one.skew_s) for one_ in evidence]
            verdict = one.judge(true_s, own, limits)
            known = last_life.get(one.name) or None  # its own, and what it heard of others
            if verdict.state is SiteState.LOST:
                lost += 1
                assert evidence, "lost without any evidence"
                assert known is None or true_s - known >= limits.grace_s, f"seed {seed}: lost, and it was seen {true_s - known} s ago"
            if verdict.may_fail_over:
                allowed += 1
                assert known is None or true_s - known >= min(limits.grace_s, limits.stale_s), f"seed {seed}"
            if seen:
                assert verdict.state is SiteState.ALIVE, f"seed {seed}: seen alive this moment, and called {verdict.state}"
    return lost, allowed


def test_J01_silence_is_never_loss_in_ten_thousand_histories() -> None:
    totals = [play(seed) for seed in range(HISTORIES)]
    assert sum(lost for lost, _ in totals) > 1000, "the histories must also reach LOST, or they prove nothing"
    assert sum(allowed for _, allowed in totals) > 1000


def test_without_evidence_nothing_is_ever_lost() -> None:
    limits = Limits(every_s=10.0, stale_s=30.0, grace_s=60.0)
    clock = SiteClock(SITE)
    for second in range(0, 100_000, 10):
        clock = advance(clock, Look(SITE, float(second), silence=("no answer",)), blind=False)
    verdict = site_verdict(SITE, sights=[Sight("o", clock), Sight("p", clock)], now_s=100_000.0, limits=limits)
    assert verdict.state is SiteState.SILENT
    assert verdict.overdue
