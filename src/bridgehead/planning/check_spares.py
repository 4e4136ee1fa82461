"""Spares: at least the floor, and what Poisson asks for (PLAN-SPARES; M10.1; rules section 7). Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from statistics import NormalDist

from bridgehead.model.finding import Finding
from bridgehead.planning.check_case import SLACK, Case, number
from bridgehead.planning.check_ground import Ground

_EXACT = 1e8
"""Beyond this mean, the normal distribution is as good."""


def check_spares(ground: Ground) -> Iterator[Finding]:
    """``PLAN-SPARES``: of each GPU model that is carried."""
    units: Counter[str] = Counter()
    for rack in ground.carried:
        units.update(ground.gpus(rack))
    ready: Counter[str] = Counter()
    for part in ground.plan.spares:
        ready[part.model] += part.count
    rules = ground.policy.spares
    for model, count in sorted(units.items()):
        name = model or "GPUs without a model"
        case = Case("PLAN-SPARES", f"gpu:{name}")
        floor = math.ceil(rules.floor * count - SLACK)
        text = f"{number(ready[model])} spares of {name} are planned, and {floor} are the floor ({rules.floor:.0%} of {number(count)})"
        case.at_least(ready[model], floor, text, unit="GPUs", remedy=f"have {floor} ready")
        if rules.gpu_hours_per_fault is not None:
            if ground.days is None:
                case.lack("nobody knows how long the move takes", measurement="give policy.begins")
            else:
                mean = ground.days * 24 * count / rules.gpu_hours_per_fault
                least = spares_for(mean, rules.target)
                text = (
                    f"{number(ready[model])} spares of {name} are planned; {number(mean)} faults are expected, and {least} spares last with"
                )
                text += f" probability {rules.target:.3g}"
                case.at_least(ready[model], least, text, unit="GPUs", remedy=f"have {least} ready")
        yield case.finding(f"{number(ready[model])} spares of {name} are planned, enough for {number(count)}")


def spares_for(mean: float, target: float) -> int:
    """The least k for which Poisson(mean) is at most k with the probability ``target`` (CK6: 2.025 and 95 % give 5)."""
    if not mean > 0:
        return 0
    if mean > _EXACT:
        return math.ceil(mean + NormalDist().inv_cdf(target) * math.sqrt(mean)) if math.isfinite(mean) else 2**63
    reached, count = 0.0, 0
    last = mean + 40 * math.sqrt(mean) + 100
    count = max(0, math.floor(mean - 40 * math.sqrt(mean)))  # nothing that a float shows lies below
    while count < last:
        reached += math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        if reached >= target:
            return count
        count += 1
    return math.ceil(last)
