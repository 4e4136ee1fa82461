"""Make plans: read estate and policy, plan, let the checker judge, and where there is no plan say why and what would make one possible."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bridgehead.app.estate_files import load_estate
from bridgehead.app.runbook_files import read_text
from bridgehead.app.whole_file import whole_file
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.estate import Estate
from bridgehead.model.finding import FindingStatus
from bridgehead.model.plan import Plan, digest_of, write_plan
from bridgehead.model.policy import Policy, read_policy
from bridgehead.planning.checker import check
from bridgehead.planning.conflict import Conflict, conflict_of
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.planner import make
from bridgehead.planning.relax import Relaxation, relaxations
from bridgehead.planning.search import Progress

_SHARE_FOR_CONFLICT = 0.5
"""Of the time limit, for finding out why there is no plan."""


class Impossible(BridgeheadError):
    """There is no plan. ``conflict`` and ``relaxations`` say why, and what would help, cheapest first."""

    def __init__(self, conflict: Conflict, found: tuple[Relaxation, ...], *, proved: bool) -> None:
        self.conflict, self.relaxations = conflict, found
        reasons = "\n".join(f"- {text}" for text in conflict.texts)
        why = "these cannot be kept together:" if proved else "no plan was found in time, and nobody can tell whether there is one"
        remedy = "\n".join(["Cheapest first, each of these makes a plan possible:", *(f"- {one.text}" for one in found)])
        super().__init__(
            ErrorCode.PLAN_IMPOSSIBLE,
            tried="plan the move",
            subject="estate and policy",
            happened=f"{why}\n{reasons}" if reasons else why,
            remedy=remedy if found else "Give more time (--time-limit), or relax one of them.",
        )


def read_both(estate: Path, policy: Path) -> tuple[Estate, Policy]:
    """Read the two files. Raises BAD_INPUT."""
    given = load_estate(estate)
    rules = read_policy(read_text(policy, what="policy"), file=str(policy), sites={site.id for site in given.sites})
    return given, rules


def make_plan(
    estate: Estate,
    policy: Policy,
    *,
    seed: int = 0,
    time_limit_s: float = 60.0,
    progress: Callable[[Progress], None] = lambda _: None,
    parent: Plan | None = None,
) -> Plan:
    """A plan that the checker accepts.

    Raises BAD_INPUT for what is missing, PLAN_IMPOSSIBLE (``Impossible``) with the smallest conflict, and INTERNAL when the checker refuses
    what the planner made: then nothing is handed out.
    """
    made = make(estate, policy, seed=seed, time_limit_s=time_limit_s, now_s=time.monotonic, progress=progress)
    if isinstance(made, NoPlan):
        limit_s = max(5.0, time_limit_s * _SHARE_FOR_CONFLICT)
        conflict = conflict_of(made, seed=seed, limit_s=limit_s / 4)
        found = relaxations(made, conflict, seed=seed, limit_s=limit_s / 8)
        raise Impossible(conflict, found, proved=bool(conflict.limits))
    if parent is not None:
        made = msgspec.structs.replace(made, parent=digest_of(parent), generation=parent.generation + 1)
    broken = [one for one in check(made, estate, policy) if one.status is not FindingStatus.PASS]
    if broken:
        raise BridgeheadError(
            ErrorCode.INTERNAL,
            tried="plan the move",
            subject=f"{broken[0].code} {broken[0].subject}",
            happened=f"the checker does not accept what the planner made ({len(broken)} findings): {broken[0].text}",
            remedy="Nothing was written. Please report it with the estate and the policy.",
        )
    return made


def write_plan_file(plan: Plan, path: Path) -> None:
    """Write it whole or not at all. Raises BAD_INPUT."""
    with whole_file(path, what="plan") as stream:
        stream.write(write_plan(plan).encode())
