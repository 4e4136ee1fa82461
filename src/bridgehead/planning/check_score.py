"""The score: its levels, bounds and gap agree with each other and with the plan (PLAN-SCORE). Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from bridgehead.model.finding import Finding
from bridgehead.planning.check_case import SLACK, Case
from bridgehead.planning.check_ground import Ground

_LOST, _DAYS, _COST = "lost-gpu-hours", "days", "cost"


def check_score(ground: Ground) -> Iterator[Finding]:
    """``PLAN-SCORE``; whether ``lost-gpu-hours`` is right is said by PLAN-LOSS, and what a move costs is no rule."""
    score, weights = ground.plan.score, ground.policy.weights
    case = Case("PLAN-SCORE", "plan")
    known = {_LOST: weights.lost_gpu_hour, _DAYS: weights.day, _COST: weights.money}
    counts = Counter(level.id for level in score.levels)
    for name in (_LOST, _DAYS):
        if not counts[name]:
            case.fault(f"the score has no level {name}", remedy=f"add the level {name}")
    for name, count in counts.items():
        if name not in known:
            case.fault(f"the score has a level '{name}', which nobody knows", remedy=f"there are {_LOST}, {_DAYS} and {_COST}")
        elif count > 1:
            case.fault(f"the score has the level {name} {count} times", remedy="leave one of them")
    for level in score.levels:
        text = f"level {level.id} is {level.value:,.6g}, less than {level.bound:,.6g}, which is said to be the least possible"
        case.at_most(level.bound, max(level.value, 0.0), text, unit=level.id, remedy="one of both numbers is wrong: make the plan anew")
    days = ground.days
    claimed = next((level.value for level in score.levels if level.id == _DAYS), None)
    if days is None:
        case.lack("nobody knows how many days the plan takes", measurement="give policy.begins")
    elif claimed is not None and not math.isclose(claimed, days, rel_tol=SLACK, abs_tol=1e-5):
        text = f"the score says {claimed:,.6g} days, and the plan takes {days:,.6g}"
        case.fault(text, value=claimed, limit=days, unit="d", remedy=f"set the level days to {days:.6g}")
    value = math.fsum(known.get(level.id, 0.0) * level.value for level in score.levels)
    bound = math.fsum(known.get(level.id, 0.0) * level.bound for level in score.levels)
    gap = (value - bound) / value if value else 0.0
    if not math.isclose(score.gap, gap, rel_tol=1e-4, abs_tol=1e-6):
        text = f"the score says that the gap is {score.gap:.4%}, and its levels make {gap:.4%}"
        case.fault(text, value=score.gap, limit=gap, unit="1", remedy=f"set the gap to {gap:.4%}")
    yield case.finding(f"levels, bounds and the gap of {score.gap:.2%} agree")
