"""Plan files as the command line takes them: alone, or with the estate and the policy that they were made for."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.app.estate_files import load_estate
from bridgehead.app.runbook_files import read_text
from bridgehead.model.estate import Estate
from bridgehead.model.plan import Plan, digest_of, read_plan
from bridgehead.model.policy import Policy, read_policy


class Planned(msgspec.Struct, frozen=True):
    """A plan with what it is for.

    Attributes:
        others: sentences on files that are not those the plan was made for; what is said of the plan is said of the files given.
    """

    plan: Plan
    estate: Estate
    policy: Policy
    others: tuple[str, ...]


def load_plan(path: Path) -> Plan:
    """Read a plan. Raises BAD_INPUT with every fault of form."""
    return read_plan(read_text(path, what="plan"), file=str(path))


def load_planned(plan: Path, estate: Path, policy: Path) -> Planned:
    """Read all three. Raises BAD_INPUT."""
    made, given = load_plan(plan), load_estate(estate)
    rules = read_policy(read_text(policy, what="policy"), file=str(policy), sites={site.id for site in given.sites})
    pairs = ((estate, digest_of(given), made.estate, "estate"), (policy, digest_of(rules), made.policy, "policy"))
    others = tuple(
        f"{file} is not the {what} that the plan was made for ({is_now[:12]}, not {was[:12]})"
        for file, is_now, was, what in pairs
        if is_now != was
    )
    return Planned(made, given, rules, others)
