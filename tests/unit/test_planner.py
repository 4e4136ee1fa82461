"""The planner: plans that the checker accepts, the same for the same seed, and the smallest conflict where there is none (M7.1 to M7.5)."""

from __future__ import annotations

import random
from typing import TypeVar

import msgspec
import pytest

from bridgehead.app.example_estate import Example, example
from bridgehead.app.planning import Impossible, make_plan
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.logistics import Fleet
from bridgehead.model.plan import Plan, SwingMode, read_plan, write_plan
from bridgehead.model.policy import Policy
from bridgehead.planning.master import Limit
from bridgehead.planning.planner import poisson_quantile

SMALL = example(300, seed=3)
REPLACE = msgspec.structs.replace
T = TypeVar("T")


def planned(given: Example = SMALL, policy: Policy | None = None, seed: int = 0) -> Plan:
    """``make_plan`` asks the checker itself, and hands out nothing that breaks a rule or leaves one unknown."""
    return make_plan(given.estate, policy or given.policy, seed=seed, time_limit_s=40)


def test_CK6_spares_by_poisson() -> None:
    assert poisson_quantile(2.025, 0.95) == 5
    assert poisson_quantile(0.0, 0.95) == 0


def test_a_move_with_hardware() -> None:
    plan = planned()
    source = SMALL.estate.sites[0]
    assert {rack for wave in plan.waves for rack in wave.racks} == {rack.id for rack in source.racks}
    assert {swing.id for swing in plan.swings} == {one.id for one in SMALL.estate.workloads if one.kind.value != "service"}
    assert plan.score.gap <= 0.02, "the issue asks for a proof within two percent"
    assert read_plan(write_plan(plan), file="plan.yaml") == plan
    assert not plan.shrinks, "there is room, so nobody has to shrink"


def test_a_move_to_nodes_that_stand_there_already() -> None:
    given = example(300, seed=3, hardware=False)
    plan = planned(given)
    assert not plan.waves
    assert plan.score.gap <= 0.02


def test_the_same_seed_gives_the_same_plan() -> None:
    assert planned(seed=5) == planned(seed=5)


def test_the_order_of_an_estate_changes_nothing() -> None:
    chance = random.Random(1)
    source, target = SMALL.estate.sites
    mixed = [REPLACE(site, racks=shuffled(site.racks, chance), nodes=shuffled(site.nodes, chance)) for site in (target, source)]
    other = REPLACE(SMALL.estate, sites=tuple(mixed), workloads=shuffled(SMALL.estate.workloads, chance))
    assert planned(Example(other, SMALL.policy)) == planned()


def shuffled(items: tuple[T, ...], chance: random.Random) -> tuple[T, ...]:
    return tuple(chance.sample(items, len(items)))


def test_M13_workloads_shrink_where_there_is_no_room() -> None:
    full = example(300, seed=3, used=0.9)
    plan = planned(full)
    assert plan.shrinks, "nine tenths of the GPUs are used, and a tenth is the reserve"
    levels = {level.id: level for level in plan.score.levels}
    assert levels["lost-gpu-hours"].value >= levels["lost-gpu-hours"].bound > 0


def test_more_vehicles_never_make_it_longer() -> None:
    assert SMALL.policy.logistics is not None
    few = with_fleet(REPLACE(SMALL.policy.logistics.fleet, vehicles=1, racks=2))
    more = with_fleet(REPLACE(SMALL.policy.logistics.fleet, vehicles=8, racks=6))
    assert bound_of_days(planned(policy=more)) <= days(planned(policy=few)) + 0.25


def days(plan: Plan) -> float:
    return next(level.value for level in plan.score.levels if level.id == "days")


def bound_of_days(plan: Plan) -> float:
    return next(level.bound for level in plan.score.levels if level.id == "days")


def with_fleet(fleet: Fleet) -> Policy:
    assert SMALL.policy.logistics is not None
    return REPLACE(SMALL.policy, logistics=REPLACE(SMALL.policy.logistics, fleet=fleet))


def impossible(policy: Policy, estate: Example = SMALL) -> Impossible:
    with pytest.raises(Impossible) as caught:
        make_plan(estate.estate, policy, time_limit_s=20)
    assert caught.value.code is ErrorCode.PLAN_IMPOSSIBLE
    return caught.value


def test_planted_reserve() -> None:
    found = impossible(REPLACE(SMALL.policy, reserve=0.95))
    assert set(found.conflict.limits) & {Limit.RESERVE_SOURCE, Limit.RESERVE_TARGET}
    assert any("policy.reserve: 95%" in text for text in found.conflict.texts)


def test_planted_window() -> None:
    short = tuple(REPLACE(one, ends_s=one.begins_s + 300.0) for one in SMALL.policy.windows)
    found = impossible(REPLACE(SMALL.policy, windows=short))
    assert Limit.WINDOWS in found.conflict.limits
    assert {Limit.VEHICLES, Limit.PACKERS, Limit.FITTERS, Limit.DOCK}.isdisjoint(found.conflict.limits)


@pytest.mark.parametrize(("site", "limit"), [("old-hall", Limit.PACKERS), ("new-hall", Limit.FITTERS)])
def test_planted_crew(site: str, limit: Limit) -> None:
    assert SMALL.policy.logistics is not None
    crews = tuple(REPLACE(one, shift_s=3600.0) if one.site == site else one for one in SMALL.policy.logistics.crews)
    found = impossible(REPLACE(SMALL.policy, logistics=REPLACE(SMALL.policy.logistics, crews=crews)))
    assert limit in found.conflict.limits
    assert Limit.VEHICLES not in found.conflict.limits
    assert any(one.limit is limit for one in found.relaxations), "a longer shift makes it possible"


def test_planted_truck() -> None:
    assert SMALL.policy.logistics is not None
    found = impossible(with_fleet(REPLACE(SMALL.policy.logistics.fleet, payload_kg=500.0)))
    assert Limit.VEHICLES in found.conflict.limits
    assert {Limit.PACKERS, Limit.FITTERS, Limit.DOCK, Limit.RESERVE_SOURCE}.isdisjoint(found.conflict.limits)


def test_planted_power() -> None:
    source, target = SMALL.estate.sites
    weak = REPLACE(target, circuits=tuple(REPLACE(one, current_a=16.0) for one in target.circuits))
    found = impossible(SMALL.policy, Example(REPLACE(SMALL.estate, sites=(source, weak)), SMALL.policy))
    assert "power" in found.conflict.texts[0]
    assert "find no place at new-hall" in found.conflict.texts[0]


def test_planted_deadline() -> None:
    assert SMALL.policy.begins_s is not None
    found = impossible(REPLACE(SMALL.policy, ends_s=SMALL.policy.begins_s + 30 * 86_400))
    assert Limit.DEADLINE in found.conflict.limits
    assert any(one.limit is Limit.DEADLINE for one in found.relaxations)


def test_what_is_missing_is_said_at_once() -> None:
    first = next(one for one in SMALL.estate.workloads if one.kind.value == "training")
    poor = REPLACE(first, checkpoint_bytes=None, save_s=None)
    estate = REPLACE(SMALL.estate, workloads=tuple(poor if one is first else one for one in SMALL.estate.workloads))
    with pytest.raises(BridgeheadError) as caught:
        make_plan(estate, REPLACE(SMALL.policy, begins_s=None, logistics=None))
    assert caught.value.code is ErrorCode.BAD_INPUT
    for path in ("policy.begins", "policy.logistics", f"workloads.{first.id}.checkpoint"):
        assert path in caught.value.happened


def test_services_that_need_each_other_in_a_circle() -> None:
    workloads = tuple(REPLACE(one, needs=("registry",)) if one.id == "dns" else one for one in SMALL.estate.workloads)
    with pytest.raises(BridgeheadError, match="circle"):
        make_plan(REPLACE(SMALL.estate, workloads=workloads), SMALL.policy)


def test_M7_2_services_are_there_before_what_needs_them() -> None:
    plan = planned()
    ends = {copy.id: copy.ends_s for copy in plan.services}
    begins = {copy.id: copy.begins_s for copy in plan.services}
    assert begins[WorkloadId("scheduler")] >= ends[WorkloadId("registry")] > begins[WorkloadId("registry")] >= ends[WorkloadId("identity")]


def test_M7_3_pre_copy_where_it_costs_least() -> None:
    modes = {swing.id: swing.mode for swing in planned().swings}
    for one in SMALL.estate.workloads:
        if one.kind.value == "inference":
            assert modes[one.id] is SwingMode.CANARY
        if one.kind.value == "training":
            assert modes[one.id] is SwingMode.PRECOPY
