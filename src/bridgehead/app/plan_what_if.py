"""What if: the plan that another policy would give, beside the one that is there; and what each limit would buy if it gave way."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.app.planning import Impossible, make_plan
from bridgehead.app.what_if import changed
from bridgehead.model.estate import Estate
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Policy
from bridgehead.planning.demand import demand
from bridgehead.planning.grid import Yard
from bridgehead.planning.master import Limit
from bridgehead.planning.relax import changes

STEP = 0.25
"""By how much each limit gives way when nobody says otherwise."""


class Outcome(msgspec.Struct, frozen=True):
    """What a change does.

    Attributes:
        change: in words, with the path of the field.
        days, lost_gpu_hours, cost: of the new plan; None when there is none.
        conflict: why there is none.
    """

    change: str
    days: float | None
    lost_gpu_hours: float | None
    cost: float | None
    conflict: tuple[str, ...] = ()


def outcome_of(plan: Plan, change: str) -> Outcome:
    """What a plan reaches."""
    levels = {level.id: level.value for level in plan.score.levels}
    return Outcome(change, levels.get("days"), plan.score.lost_gpu_hours, levels.get("cost"))


def with_changes(estate: Estate, policy: Policy, assumptions: Sequence[str], *, seed: int, time_limit_s: float) -> Outcome:
    """Plan anew with values changed, each as ``policy.reserve=5 %``. Raises BAD_USAGE for a path that is not there."""
    for assumption in assumptions:
        estate, new = changed(estate, policy, assumption)
        policy = policy if new is None else new
    return _tried(estate, policy, ", ".join(assumptions), seed, time_limit_s)


def each_limit(estate: Estate, policy: Policy, *, seed: int, time_limit_s: float) -> list[Outcome]:
    """Plan anew with each limit a quarter wider, one after the other."""
    asked = demand(estate, policy)
    yard = Yard(policy.logistics, asked) if asked.hardware and policy.logistics is not None and asked.parcels else None
    found = []
    for limit in Limit:
        wider = next(((new, text) for share, new, text in changes(limit, policy, yard) if share >= STEP - 1e-9), None)
        if wider is not None and wider[0] != policy:
            found.append(_tried(estate, wider[0], wider[1], seed, time_limit_s))
    return found


def _tried(estate: Estate, policy: Policy, change: str, seed: int, time_limit_s: float) -> Outcome:
    try:
        return outcome_of(make_plan(estate, policy, seed=seed, time_limit_s=time_limit_s), change)
    except Impossible as impossible:
        return Outcome(change, None, None, None, impossible.conflict.texts)
