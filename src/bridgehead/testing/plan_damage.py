"""PlanDamage: more than seventy ways to spoil a plan, each with the rules that are then broken for certain (tests of the checker).

Nothing here asks the checker; that a rule is broken follows from what was done and from the estate.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bridgehead.model.estate import Estate
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Policy
from bridgehead.testing import plan_damage_frame, plan_damage_places, plan_damage_swings, plan_damage_waves
from bridgehead.testing.plan_bed import Bed, Damaged

KINDS: dict[str, Callable[[Bed], Damaged | None]] = {
    kind.__name__: kind
    for kind in (*plan_damage_frame.KINDS, *plan_damage_swings.KINDS, *plan_damage_waves.KINDS, *plan_damage_places.KINDS)
}
"""Each by its name."""


def damage(plan: Plan, estate: Estate, policy: Policy, *, kind: str, chance: Random) -> Damaged | None:
    """Do it to a plan that keeps all rules; None where the plan has nothing of the sort."""
    return KINDS[kind](Bed(plan, estate, policy, chance))


def damage_somehow(plan: Plan, estate: Estate, policy: Policy, *, chance: Random) -> Damaged:
    """Do any of them."""
    for kind in chance.sample(list(KINDS), len(KINDS)):
        found = damage(plan, estate, policy, kind=kind, chance=chance)
        if found is not None:
            return found
    raise AssertionError("other_estate is always possible")
