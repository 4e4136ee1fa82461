"""``bridgehead plan make``: estate and policy in, a plan out."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

if TYPE_CHECKING:
    from bridgehead.planning.search import Progress


def make_plan_file(
    estate: Path,
    policy: Path,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    seed: int = 0,
    time_limit: float = 60.0,
    parent: Path | None = None,
    json: JsonOption = False,
) -> int:
    """Make a plan that keeps every rule of docs/reference/plan-files.md, or say which limits cannot be kept together.

    Exit code 0 with a plan, 1 when there is none: then the smallest conflict is named, and what would resolve it.

    Args:
        estate: an estate file.
        policy: a policy file.
        output: the plan file that is written.
        seed: of the search.
        time_limit: seconds for the search; it ends earlier when nothing can become better.
        parent: the plan that this one replaces.
    """
    import msgspec

    from bridgehead.app.plan_files import load_plan
    from bridgehead.app.planning import make_plan, read_both, write_plan_file
    from bridgehead.app.whole_file import refuse_other

    if not (math.isfinite(time_limit) and time_limit > 0):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="make a plan",
            subject=f"--time-limit {time_limit:g}",
            happened="this is no time to search in",
            remedy="Give a number of seconds above 0.",
        )
    refuse_other(output, what="plan", begins=(b"plan:", b"#"))
    given, rules = read_both(estate, policy)
    before = None if parent is None else load_plan(parent)
    plan = make_plan(given, rules, seed=seed, time_limit_s=time_limit, progress=_quiet if json else _tell, parent=before)
    write_plan_file(plan, output)
    if json:
        print(msgspec.json.encode({"plan": str(output), "score": msgspec.to_builtins(plan.score)}).decode())
        return ExitCode.DONE
    days = next(level for level in plan.score.levels if level.id == "days")
    print(f"wrote {output}: {len(plan.swings)} workloads, {sum(len(wave.racks) for wave in plan.waves)} racks in {len(plan.waves)} waves")
    print(f"all has gone over after {days.value:.1f} days (no plan of this kind needs less than {days.bound:.1f})")
    print(f"lost: {plan.score.lost_gpu_hours:,.1f} GPU-hours; gap of the score to what is possible at best: {plan.score.gap:.2%}")
    if plan.score.binding:
        print(f"it does not end earlier because of: {', '.join(plan.score.binding)}")
    print(f"the checker accepts it; next: bridgehead plan show {output}")
    return ExitCode.DONE


def _quiet(_: Progress) -> None:
    """Nothing for people on the way."""


def _tell(progress: Progress) -> None:
    """One line a step, on stderr, so that standard output stays for results."""
    if math.isfinite(progress.best_days):
        text = f"a plan of {progress.best_days:.1f} days"
    else:
        text = f"{progress.what}: all over within {progress.bound_days:.1f} days"
    print(f"{progress.spent_s:6.1f} s  {text}", file=sys.stderr)
