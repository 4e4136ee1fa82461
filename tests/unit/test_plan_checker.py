"""The checker of plans: a plan made by hand keeps every rule, and each rule has a plan that breaks it and nothing else (M6, M7, M10.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.plan import PhaseId, SwingMode, TaskKind, digest_of, read_plan, write_plan
from bridgehead.planning.checker import RULES, check
from bridgehead.testing.plan_damage import KINDS, damage
from bridgehead.testing.small_move import SmallMove, small_move

replace = msgspec.structs.replace


def found_in(move: SmallMove, status: FindingStatus = FindingStatus.FAIL) -> list[Finding]:
    return [one for one in check(move.plan, move.estate, move.policy) if one.status is status]


def broken(move: SmallMove) -> set[str]:
    return {one.code for one in found_in(move)}


def judged_anew(move: SmallMove) -> SmallMove:
    """With sums, days, gap and digests that match the plan, so that only what was changed is broken."""
    plan, work = move.plan, {one.id: one for one in move.estate.workloads}
    hours = [(one.id, one.lost_gpu_hours) for one in plan.swings]
    hours += [(one.workload, (work[one.workload].gpus - one.gpus) * (one.ends_s - one.begins_s) / HOUR_S) for one in plan.shrinks]
    over = max([one.ends_s for one in plan.swings] + [one.joins_s for one in plan.waves])
    values = {
        "lost-gpu-hours": math.fsum(lost * (1 + work[name].priority) for name, lost in hours),
        "days": (over - plan.begins_s) / DAY_S,
    }
    levels = tuple(replace(one, value=values[one.id]) for one in plan.score.levels)
    value, bound = sum(one.value for one in levels), sum(one.bound for one in levels)
    score = replace(plan.score, levels=levels, gap=(value - bound) / value, lost_gpu_hours=math.fsum(lost for _, lost in hours))
    return replace(move, plan=replace(plan, score=score, estate=digest_of(move.estate), policy=digest_of(move.policy)))


def with_plan(move: SmallMove, **fields: object) -> SmallMove:
    return judged_anew(replace(move, plan=replace(move.plan, **fields)))


def with_policy(move: SmallMove, **fields: object) -> SmallMove:
    return judged_anew(replace(move, policy=replace(move.policy, **fields)))


def each(items, holds, **fields):  # type: ignore[no-untyped-def]  # what pytest hands over
    """Items with fields changed where something holds."""
    changed = tuple(replace(one, **fields) if holds(one) else one for one in items)
    assert changed != tuple(items), "nothing was changed"
    return changed


def placed(move: SmallMove, **places: str) -> SmallMove:
    found = tuple(replace(one, place=places.get(one.id, one.place)) for one in move.plan.placements)
    return with_plan(move, placements=found)


HARD, SOFT = small_move(), small_move(hardware=False)


@pytest.mark.parametrize("move", [HARD, SOFT], ids=["hardware carried", "nothing carried"])
def test_plan_by_hand_keeps_every_rule_also_when_read_back(move: SmallMove) -> None:
    again = read_plan(write_plan(move.plan), file="plan.yaml")
    assert again == move.plan
    found = check(again, move.estate, move.policy)
    assert [one for one in found if one.status is not FindingStatus.PASS] == []
    assert all(one.text for one in found)
    assert len({(one.code, one.subject) for one in found}) == len(found), "one finding of each rule and subject"


def test_every_rule_says_something_of_a_plan_with_hardware() -> None:
    assert {one.code for one in check(HARD.plan, HARD.estate, HARD.policy)} == set(RULES)


def _mode(move: SmallMove) -> SmallMove:
    """Nobody says how often tune makes checkpoints, so it cannot be pre-copied; its cost is right for that mode."""
    size, lane = 8 * 80e9, 10e9
    lost = size / 100e9 + 0.25 * size / lane + 0.25 * size / 200e9 + 5
    fields = {"mode": SwingMode.PRECOPY, "lost_s": lost, "lost_gpu_hours": lost * 8 / HOUR_S}
    return with_plan(move, swings=each(move.plan.swings, lambda one: one.id == "tune", **fields))


def _lanes(move: SmallMove) -> SmallMove:
    return with_policy(move, limits=replace(move.policy.limits, concurrent_moves=1, rate_bps=20e9))


def _needs(move: SmallMove) -> SmallMove:
    early = move.policy.begins_s + 5.5 * DAY_S
    return with_plan(move, services=each(move.plan.services, lambda one: one.id == "auth", begins_s=early))


def _window(move: SmallMove) -> SmallMove:
    """The windows close at nine, when the first swing begins."""
    windows = tuple(replace(one, ends_s=one.begins_s + HOUR_S) for one in move.policy.windows)
    return with_policy(move, windows=windows)


def _shrink(site: str, workload: str, **fields: object) -> Callable[[SmallMove], SmallMove]:
    def changed(move: SmallMove) -> SmallMove:
        return with_plan(move, shrinks=each(move.plan.shrinks, lambda one: (one.site, one.workload) == (site, workload), **fields))

    return changed


def _bridgehead(move: SmallMove) -> SmallMove:
    third = move.plan.waves[2]
    phases = each(move.plan.phases, lambda one: one.id is PhaseId.HARDWARE, begins_s=third.out_s)
    return with_plan(move, waves=each(move.plan.waves, lambda one: one.id == "wave-2", bridgehead=True), phases=phases)


def _apart(move: SmallMove) -> SmallMove:
    source, target = move.estate.sites
    racks = each(source.racks, lambda one: one.id == "r1", apart_from=("r2",))
    return judged_anew(replace(move, estate=replace(move.estate, sites=(replace(source, racks=racks), target))))


def _task(kind: TaskKind, **fields: object) -> Callable[[SmallMove], SmallMove]:
    def changed(move: SmallMove) -> SmallMove:
        waves = tuple(replace(one, tasks=each(one.tasks, lambda task: task.id is kind, **fields)) for one in move.plan.waves)
        return with_plan(move, waves=waves)

    return changed


def _kind(name: str, seed: int = 0) -> Callable[[SmallMove], SmallMove]:
    def changed(move: SmallMove) -> SmallMove:
        spoiled = damage(move.plan, move.estate, move.policy, kind=name, chance=Random(seed))
        assert spoiled is not None
        return replace(move, plan=spoiled.plan)

    return changed


def _later(shrink_end: str) -> float:
    return HARD.plan.waves[2].joins_s - DAY_S if shrink_end == "target" else HARD.plan.waves[1].out_s + DAY_S


BREAKS_ONLY = {
    "PLAN-FOR": _kind("other_estate"),
    "PLAN-PHASES": _kind("link_cut"),
    "PLAN-PREPARED": _kind("unprepared"),
    "PLAN-COMPLETE": _kind("placement_dropped"),
    "PLAN-MODE": _mode,
    "PLAN-LOSS": _kind("less_lost"),
    "PLAN-WINDOW": _window,
    "PLAN-NEEDS": _needs,
    "PLAN-DATA": _kind("transfer_dropped"),
    "PLAN-LINE": _kind("over_the_line"),
    "PLAN-RESERVE-SOURCE": _shrink("old", "train", begins_s=_later("source")),
    "PLAN-RESERVE-TARGET": _shrink("new", "batch", ends_s=_later("target")),
    "PLAN-MINIMUM": _shrink("new", "batch", gpus=3),
    "PLAN-BRIDGEHEAD": _bridgehead,
    "PLAN-WAVE": _kind("short_acclimatisation"),
    "PLAN-CREW": _kind("too_many_teams"),
    "PLAN-VEHICLE": _kind("foreign_vehicle"),
    "PLAN-DOCK": lambda move: with_policy(move, logistics=replace(move.policy.logistics, dock_places=2)),
    "PLAN-APART": _apart,
    "PLAN-DOMAIN": lambda move: placed(move, r4="t7"),
    "PLAN-PLACE": lambda move: placed(move, r4="t9"),
    "PLAN-POWER": lambda move: placed(move, r4="t5", c1="t4"),
    "PLAN-COOLING": lambda move: placed(move, r2="t8"),
    "PLAN-DEADLINE": lambda move: with_policy(move, ends_s=move.plan.waves[2].joins_s - HOUR_S),
    "PLAN-SPARES": _kind("too_few_spares"),
    "PLAN-SCORE": _kind("wrong_gap"),
    "PLAN-LANES": _lanes,
}


@pytest.mark.parametrize("code", RULES)
def test_each_rule_is_broken_alone(code: str) -> None:
    move = BREAKS_ONLY[code](HARD)
    failing = found_in(move)
    assert {one.code for one in failing} == {code}, [one.text for one in failing]
    assert all(one.text and one.remedy for one in failing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", [HARD, SOFT], ids=["hardware carried", "nothing carried"])
def test_each_damage_is_found_and_named(kind: str, move: SmallMove) -> None:
    for seed in range(4):
        spoiled = damage(move.plan, move.estate, move.policy, kind=kind, chance=Random(seed))
        if spoiled is None:
            return  # the other move, or the worked cases, have what it takes: test_plan_damage counts
        failing = [one for one in check(spoiled.plan, move.estate, move.policy) if one.status is FindingStatus.FAIL]
        for code in spoiled.codes:
            texts = [f"{one.subject} {one.text}" for one in failing if one.code == code]
            assert any(name in text for text in texts for name in spoiled.names), (kind, code, spoiled.names, texts)


def test_a_workload_that_never_swings_is_still_at_the_source() -> None:
    swings = tuple(one for one in SOFT.plan.swings if one.id != WorkloadId("batch"))
    assert "PLAN-COMPLETE" in broken(with_plan(SOFT, swings=swings))
