"""``bridgehead plan what-if``: another policy, another plan."""

from __future__ import annotations

from pathlib import Path

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode


def plan_what_if(plan: Path, estate: Path, policy: Path, /, *changes: str, time_limit: float = 20.0, json: JsonOption = False) -> int:
    """Plan anew as if a value were another, and show what that buys; without a change, try each limit a quarter wider.

    Exit code 0, or 1 when the changed values leave no plan.

    Args:
        plan: the plan that it is compared with.
        estate: the estate that it is for.
        policy: the policy that it is for.
        changes: such as 'policy.reserve=5 %' or 'policy.logistics.fleet.vehicles=6'; several hold together.
        time_limit: seconds for each plan.
    """
    import msgspec

    from bridgehead.app.plan_files import load_planned
    from bridgehead.app.plan_what_if import each_limit, outcome_of, with_changes

    given = load_planned(plan, estate, policy)
    now = outcome_of(given.plan, "as planned")
    seed = given.plan.seed
    if changes:
        found = [with_changes(given.estate, given.policy, changes, seed=seed, time_limit_s=time_limit)]
    else:
        found = each_limit(given.estate, given.policy, seed=seed, time_limit_s=time_limit)
    if json:
        print(msgspec.json.encode({"now": now, "what_if": found, "notes": given.others}).decode())
    else:
        for note in given.others:
            print(f"note: {note}")
        for one in (now, *found):
            if one.days is None or one.lost_gpu_hours is None:
                print(f"no plan            {one.change}: " + "; ".join(one.conflict))
                continue
            more_d, more_h = one.days - (now.days or 0.0), one.lost_gpu_hours - (now.lost_gpu_hours or 0.0)
            gain = "" if one is now else f" ({more_d:+.1f} d, {more_h:+,.1f} GPU-h)"
            print(f"{one.days:6.1f} d  {one.lost_gpu_hours:9,.1f} GPU-h  {one.change}{gain}")
    return ExitCode.NEGATIVE if changes and found[0].days is None else ExitCode.DONE
