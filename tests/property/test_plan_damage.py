"""Random damage to plans that keep every rule: each is found and named; and no plan that can be read makes the checker fall over.

``BRIDGEHEAD_PLAN_DAMAGES=500`` asks for more of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from bridgehead.app.plan_files import load_planned
from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Estate, Site
from bridgehead.model.finding import FindingStatus
from bridgehead.model.plan import Plan, read_plan, write_plan
from bridgehead.model.policy import Policy
from bridgehead.planning.checker import RULES, check
from bridgehead.testing.plan_damage import KINDS, damage, damage_somehow
from bridgehead.testing.small_move import small_move

CASES = Path(__file__).resolve().parents[2] / "examples" / "business-case"
DAMAGES = int(os.environ.get("BRIDGEHEAD_PLAN_DAMAGES", "120"))
EDGES = (0.0, -1e10, 253_402_300_799.0, 1e-9, 1799020800.0)
"""The last moment that a file can name is the end of the year 9999."""

Base = tuple[Plan, Estate, Policy]


def bases() -> dict[str, Base]:
    """Plans that keep every rule, made by hand."""
    found: dict[str, Base] = {}
    for hardware in (True, False):
        move = small_move(hardware=hardware)
        found[f"small, hardware {hardware}"] = (move.plan, move.estate, move.policy)
    for case in ("six-weeks", "holiday-weekend"):
        given = load_planned(CASES / case / "plan.yaml", CASES / case / "estate.yaml", CASES / case / "policy.yaml")
        found[case] = (given.plan, given.estate, given.policy)
    return found


BASES = bases()


@pytest.mark.parametrize("name", BASES)
def test_the_plan_itself_keeps_every_rule(name: str) -> None:
    assert [one.text for one in check(*BASES[name]) if one.status is FindingStatus.FAIL] == []


@pytest.mark.parametrize("seed", range(DAMAGES))
def test_random_damage_is_found_and_named(seed: int) -> None:
    chance = Random(seed)
    plan, estate, policy = BASES[chance.choice(list(BASES))]
    spoiled = damage_somehow(plan, estate, policy, chance=chance)
    failing = [one for one in check(spoiled.plan, estate, policy) if one.status is FindingStatus.FAIL]
    for code in spoiled.codes:
        texts = [f"{one.subject} {one.text}" for one in failing if one.code == code]
        assert any(name in text for text in texts for name in spoiled.names), (spoiled.kind, code, spoiled.names, texts)


def test_every_kind_of_damage_can_be_done_to_one_of_the_plans() -> None:
    done = {
        kind for kind in KINDS for base in BASES.values() for seed in range(3) if damage(*base, kind=kind, chance=Random(seed)) is not None
    }
    assert done == set(KINDS)


def shaken(value: Any, chance: Random) -> Any:
    """A value of the model with some of its numbers, texts and lists changed, as a careless person might."""
    match value:
        case bool() | None:
            return value
        case float():
            return chance.choice(EDGES) if chance.random() < 0.03 else value
        case int():
            return chance.choice((0, 1, 10**12)) if chance.random() < 0.03 else value
        case tuple():
            kept = [shaken(one, chance) for one in value if chance.random() > 0.03]
            if chance.random() < 0.02:
                chance.shuffle(kept)
            return tuple([*kept, *kept[:1]] if chance.random() < 0.02 else kept)
        case msgspec.Struct():
            fields = {field: shaken(getattr(value, field), chance) for field in value.__struct_fields__}
            return type(value)(**fields)
        case str() if type(value) is str:
            return "odd" if chance.random() < 0.01 else value
        case _:
            return value


@pytest.mark.parametrize("seed", range(60))
def test_the_checker_stands_any_plan(seed: int) -> None:
    chance = Random(seed)
    plan, estate, policy = BASES[chance.choice(list(BASES))]
    odd: Plan = shaken(plan, chance)
    found = check(odd, estate, policy)
    assert {one.code for one in found} <= set(RULES)
    assert all(one.text for one in found)
    assert any(one.status is FindingStatus.FAIL for one in found) or odd == plan


def thinned(value: Any, chance: Random) -> Any:
    """A value of the model of which less is known: facts that may be missing are, now and then."""
    match value:
        case tuple():
            return tuple(thinned(one, chance) for one in value)
        case msgspec.Struct():
            kept = {}
            for field in msgspec.structs.fields(value):
                now = getattr(value, field.name)
                gone = field.default is None and chance.random() < 0.1
                kept[field.name] = None if gone else thinned(now, chance)
            return type(value)(**kept)
        case _:
            return value


@pytest.mark.parametrize("seed", range(30))
def test_less_known_makes_no_broken_rule_whole(seed: int) -> None:
    """A rule that is broken is broken or unknown when less is known; and nothing falls over. What a thing is must stay known."""
    chance = Random(seed)
    plan, estate, policy = BASES[chance.choice(list(BASES))]
    spoiled = damage_somehow(plan, estate, policy, chance=chance)
    found = check(spoiled.plan, thinned(estate, chance), policy)
    for code in spoiled.codes:
        assert any(one.status is not FindingStatus.PASS for one in found if one.code == code), (spoiled.kind, code)


def test_an_empty_plan_lacks_everything() -> None:
    plan, estate, policy = BASES["small, hardware True"]
    empty = read_plan(write_plan(Plan(**{name: getattr(plan, name) for name in _REQUIRED})), file="plan.yaml")
    codes = {one.code for one in check(empty, estate, policy) if one.status is FindingStatus.FAIL}
    assert {"PLAN-COMPLETE", "PLAN-PHASES", "PLAN-DATA", "PLAN-SPARES"} <= codes


_REQUIRED = ("name", "source", "target", "estate", "policy", "begins_s", "ends_s", "score")


def test_sites_that_the_estate_lacks() -> None:
    plan, estate, policy = BASES["small, hardware True"]
    nowhere = Estate(name="nowhere", sites=(Site(SiteId("elsewhere")),))
    codes = {one.code for one in check(plan, nowhere, policy) if one.status is FindingStatus.FAIL}
    assert {"PLAN-FOR", "PLAN-COMPLETE", "PLAN-PLACE"} <= codes
    assert check(plan, estate, msgspec.structs.replace(policy, source=SiteId("gone"), target=SiteId("lost")))
