"""What nobody said gives unknown, never pass (design rule 1): each fact is taken away from a move whose plan keeps every rule."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from bridgehead.model.estate import Estate, Site
from bridgehead.model.finding import FindingStatus
from bridgehead.model.logistics import Logistics
from bridgehead.model.plan import digest_of
from bridgehead.model.policy import Policy
from bridgehead.planning.checker import check
from bridgehead.testing.plan_damage import damage
from bridgehead.testing.small_move import small_move

replace = msgspec.structs.replace
MOVE = small_move()
Change = Callable[[Estate, Policy], tuple[Estate, Policy]]


def source(**fields: object) -> Change:
    return lambda estate, policy: (replace(estate, sites=(replace(estate.sites[0], **fields), estate.sites[1])), policy)


def target(**fields: object) -> Change:
    return lambda estate, policy: (replace(estate, sites=(estate.sites[0], replace(estate.sites[1], **fields))), policy)


def every(site: int, what: str, **fields: object) -> Change:
    """All things of a kind at one site without a fact."""

    def change(estate: Estate, policy: Policy) -> tuple[Estate, Policy]:
        at: Site = estate.sites[site]
        bare = replace(at, **{what: tuple(replace(one, **fields) for one in getattr(at, what))})
        return replace(estate, sites=tuple(bare if one is at else one for one in estate.sites)), policy

    return change


def all_of(what: str, **fields: object) -> Change:
    return lambda estate, policy: (replace(estate, **{what: tuple(replace(one, **fields) for one in getattr(estate, what))}), policy)


def rules(**fields: object) -> Change:
    return lambda estate, policy: (estate, replace(policy, **fields))


def hands(**fields: object) -> Change:
    def change(estate: Estate, policy: Policy) -> tuple[Estate, Policy]:
        given: Logistics | None = policy.logistics
        assert given is not None
        return estate, replace(policy, logistics=replace(given, **fields))

    return change


FLEET = MOVE.policy.logistics.fleet if MOVE.policy.logistics else None

GONE: dict[str, tuple[Change, set[str]]] = {
    "power of nodes": (every(0, "nodes", power_w=None), {"PLAN-POWER", "PLAN-COOLING"}),
    "power factor": (every(0, "nodes", power_factor=None), {"PLAN-POWER"}),
    "supplies": (every(0, "nodes", supplies=None), {"PLAN-POWER"}),
    "supplies that are needed": (every(0, "nodes", supplies_needed=None), {"PLAN-POWER"}),
    "what flows in circuits for hours": (every(1, "circuits", continuous=None), {"PLAN-POWER"}),
    "other load of circuits": (every(1, "circuits", other_load_w=None), {"PLAN-POWER"}),
    "what flows in elements for hours": (every(1, "sources", continuous=None), {"PLAN-POWER"}),
    "rating of elements": (every(1, "sources", rating_va=None), {"PLAN-POWER"}),
    "units of loops": (every(1, "loops", units=None), {"PLAN-COOLING"}),
    "capacity of loops": (every(1, "loops", unit_capacity_w=None), {"PLAN-COOLING"}),
    "other heat in loops": (every(1, "loops", other_load_w=None), {"PLAN-COOLING"}),
    "part of the heat in liquid": (every(0, "nodes", liquid_share=None), {"PLAN-COOLING", "PLAN-WAVE"}),
    "loops and circuits of places": (every(1, "racks", loops=()), {"PLAN-COOLING"}),
    "circuits of places": (every(1, "racks", circuits=()), {"PLAN-POWER"}),
    "pods of places": (every(1, "racks", pod=""), {"PLAN-DOMAIN"}),
    "height of places": (every(1, "racks", units=None), {"PLAN-PLACE"}),
    "weight that places carry": (every(1, "racks", max_weight_kg=None), {"PLAN-PLACE"}),
    "area under places": (every(1, "racks", footprint_m2=None), {"PLAN-PLACE"}),
    "weight of racks": (every(0, "racks", weight_kg=None), {"PLAN-PLACE", "PLAN-VEHICLE"}),
    "weight of nodes": (every(0, "nodes", weight_kg=None), {"PLAN-PLACE", "PLAN-VEHICLE"}),
    "used capacity of stores": (every(0, "stores", used_bytes=None), {"PLAN-DATA"}),
    "change of stores": (every(0, "stores", change_bps=None), {"PLAN-DATA"}),
    "rates of stores": (every(0, "stores", write_bps=None), {"PLAN-LOSS"}),
    "rates of stores at the target": (every(1, "stores", read_bps=None), {"PLAN-LOSS"}),
    "change of data": (all_of("datasets", change_bps=None), {"PLAN-DATA"}),
    "what production takes": (all_of("links", used_bps=None), {"PLAN-LINE"}),
    "couriers": (all_of("couriers", order_s=None), {"PLAN-DATA"}),
    "unloading of couriers": (all_of("couriers", unload_bps=None), {"PLAN-DATA"}),
    "size of checkpoints": (all_of("workloads", checkpoint_bytes=None), {"PLAN-LOSS", "PLAN-MODE"}),
    "least GPUs": (all_of("workloads", min_gpus=None), {"PLAN-MINIMUM"}),
    "logistics": (rules(logistics=None), {"PLAN-WAVE", "PLAN-CREW", "PLAN-VEHICLE", "PLAN-DOCK"}),
    "payload": (hands(fleet=replace(FLEET, payload_kg=None)), {"PLAN-VEHICLE"}),
    "value of GPUs": (hands(gpu_values={}), {"PLAN-VEHICLE"}),
    "places at the dock": (hands(dock_places=None), {"PLAN-DOCK"}),
    "first day": (rules(begins_s=None), {"PLAN-PHASES", "PLAN-SCORE", "PLAN-SPARES"}),
}  # fmt: skip


@pytest.mark.parametrize("fact", GONE)
def test_without_a_fact_the_rule_is_unknown(fact: str) -> None:
    change, codes = GONE[fact]
    estate, policy = change(MOVE.estate, MOVE.policy)
    plan = replace(MOVE.plan, estate=digest_of(estate), policy=digest_of(policy))
    found = check(plan, estate, policy)
    unknown = {one.code for one in found if one.status is FindingStatus.UNKNOWN}
    assert codes <= unknown, sorted(codes - unknown)
    assert all(one.measurement for one in found if one.status is FindingStatus.UNKNOWN)


@pytest.mark.parametrize("fact", GONE)
def test_without_a_fact_nothing_that_failed_passes(fact: str) -> None:
    """A rule that is broken is broken, or unknown, when less is known."""
    change, _ = GONE[fact]
    estate, policy = change(MOVE.estate, MOVE.policy)
    for kind in ("overloads_its_circuits", "not_cooled", "does_not_fit", "dock_full", "fast_courier", "too_many_teams", "less_lost"):
        spoiled = damage(MOVE.plan, MOVE.estate, MOVE.policy, kind=kind, chance=Random(1))
        assert spoiled is not None
        after = check(spoiled.plan, estate, policy)
        for code in spoiled.codes:
            assert any(one.status is not FindingStatus.PASS for one in after if one.code == code), (kind, code)


def test_a_gpu_model_that_nobody_named_is_unknown_where_there_are_several() -> None:
    estate = MOVE.estate
    at = estate.sites[0]
    nodes = tuple(replace(one, gpu_model="H200") if one.rack == "r1" else one for one in at.nodes)
    work = tuple(replace(one, gpu_model="") if one.id == "batch" else one for one in estate.workloads)
    estate = replace(estate, sites=(replace(at, nodes=nodes), estate.sites[1]), workloads=work)
    found = [one for one in check(MOVE.plan, estate, MOVE.policy) if one.code == "PLAN-RESERVE-SOURCE"]
    assert {one.status for one in found} <= {FindingStatus.UNKNOWN, FindingStatus.FAIL}
    assert any("batch" in one.text for one in found)
