"""``bridgehead plan compile``: a plan becomes a runbook."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode


def compile_plan(
    plan: Path,
    /,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))],
    estate: Path | None = None,
    policy: Path | None = None,
    json: JsonOption = False,
) -> int:
    """Write the runbook of PLAN: phases, swings, waves, approvals, tasks for people, holds and points of return, in the plan's order.

    The names of programs that start workloads are not in an estate: the runbook calls them start-WORKLOAD; put yours in before a run.

    Args:
        plan: a plan file.
        output: the runbook file that is written.
        estate: the estate that the plan was made for; default estate.yaml beside the plan.
        policy: the policy that the plan was made for; default policy.yaml beside the plan.
    """
    from bridgehead.app import wiring
    from bridgehead.app.plan_runbook import plan_runbook
    from bridgehead.app.plan_set import load_plan_set
    from bridgehead.app.whole_file import refuse_other, whole_file
    from bridgehead.runbook.language import write_runbook

    refuse_other(output, what="runbook", begins=(b"runbook:", b"#"))
    found = load_plan_set(plan, estate_file=estate, policy_file=policy)
    runbook = plan_runbook(found.plan, estate=found.estate, policy=found.policy)
    with whole_file(output, what="runbook") as stream:
        stream.write(write_runbook(runbook, actions=wiring.action_params()).encode())
    kinds = Counter(str(step.__struct_config__.tag) for step in runbook.steps)
    if json:
        print(msgspec.json.encode({"runbook": str(output), "steps": len(runbook.steps), "kinds": dict(sorted(kinds.items()))}).decode())
    else:
        print(f"{output}: {len(runbook.steps)} steps ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))})")
        print(f"next: bridgehead runbook lint {output}, then bridgehead run dry-run {output}")
    return ExitCode.DONE
