"""Check a plan file against the estate and the policy that it is for, by the checker, which shares no code with the planner (M6, M7.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.plan_files import load_planned
from bridgehead.kernel.errors import ExitCode
from bridgehead.model.estate import Estate
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Policy
from bridgehead.planning.checker import RULES, check


class PlanVerdict(msgspec.Struct, frozen=True):
    """What the checker says.

    Attributes:
        plan: name of the plan.
        broken, unknown, passed: rule by rule in the order of the reference; in each rule what is worst comes first.
    """

    plan: str
    broken: tuple[Finding, ...]
    unknown: tuple[Finding, ...]
    passed: tuple[Finding, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """Rules that are broken."""
        return tuple(dict.fromkeys(one.code for one in self.broken))

    @property
    def exit_code(self) -> ExitCode:
        """DONE when every rule is kept, NEGATIVE when one is broken, CANNOT_TELL when none is and something is not known."""
        if self.broken:
            return ExitCode.NEGATIVE
        return ExitCode.CANNOT_TELL if self.unknown else ExitCode.DONE


def check_plan(plan: Path, estate: Path, policy: Path) -> PlanVerdict:
    """Read the three files and check. Raises BAD_INPUT for a file that cannot be read."""
    given = load_planned(plan, estate, policy)
    return judge(given.plan, given.estate, given.policy)


def judge(plan: Plan, estate: Estate, policy: Policy) -> PlanVerdict:
    """Check values."""
    order = {code: at for at, code in enumerate(RULES)}

    def rank(finding: Finding) -> tuple[int, float]:
        return order[finding.code], 0.0 if finding.margin is None else finding.margin

    found = sorted(check(plan, estate, policy), key=rank)
    groups = (
        tuple(one for one in found if one.status is status) for status in (FindingStatus.FAIL, FindingStatus.UNKNOWN, FindingStatus.PASS)
    )
    return PlanVerdict(plan.name, *groups)


def document(found: PlanVerdict) -> dict[str, Any]:
    """The JSON document of a verdict; ``ok`` only when every rule is kept for certain."""
    return {
        "plan": found.plan,
        "ok": found.exit_code is ExitCode.DONE,
        "broken": list(found.codes),
        "counts": {"fail": len(found.broken), "unknown": len(found.unknown), "pass": len(found.passed)},
        "findings": [msgspec.to_builtins(one) for one in (*found.broken, *found.unknown, *found.passed)],
    }
