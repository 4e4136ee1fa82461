"""``bridgehead cost``: a plan in money."""

from __future__ import annotations

from pathlib import Path

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode


def cost(plan: Path, /, *, estate: Path | None = None, policy: Path | None = None, json: JsonOption = False) -> int:
    """Say what a plan costs: each amount with its formula and where its inputs come from, saving, payback, and what decides it.

    What nobody gave is shown as a guess, or as unknown; it is never counted as nothing without being named.

    Args:
        plan: a plan file.
        estate: the estate that it is for; default estate.yaml beside the plan.
        policy: its policy, with prices, risks and logistics; default policy.yaml beside the plan.
    """
    from bridgehead.app.plan_files import load_planned
    from bridgehead.app.plan_set import beside
    from bridgehead.planning.cost import cost_of

    given = load_planned(plan, estate or beside(plan, "estate"), policy or beside(plan, "policy"))
    found = cost_of(given.plan, given.estate, given.policy)
    if json:
        import msgspec

        print(msgspec.json.encode(msgspec.to_builtins(found) | {"notes": given.others}).decode())
    else:
        from bridgehead.cli.cost_display import print_cost

        print_cost(found, notes=given.others)
    return ExitCode.DONE
