"""``bridgehead plan check``: whether a plan keeps every rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bridgehead.cli.options import JsonOption


def check_plan_file(
    plan: Path,
    estate: Path,
    policy: Path,
    /,
    *,
    all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Check a plan, made by the planner or edited by hand: every rule, at every moment, in every single failure.

    Exit code 0 when all rules are kept, 1 when one is broken, 3 when none is broken and something is not known. Each code is explained in
    docs/reference/plan-files.md.

    Args:
        plan: a plan file.
        estate: the estate that the plan is for.
        policy: the policy that the plan is for.
        all: print every finding of a rule, and what passes.
    """
    from bridgehead.app.plan_check import check_plan, document

    found = check_plan(plan, estate, policy)
    if json:
        import msgspec

        print(msgspec.json.encode(document(found)).decode())
    else:
        from bridgehead.cli.plan_check_display import print_verdict

        print_verdict(found, all_of_them=all)
    return found.exit_code
