"""The batch script of a job, and what else a submission says.

Slurm may lose its memory (a controller that is killed and read an old state), run a job again, or take a submission whose answer was lost.
So the script itself makes sure that an execution runs once: it *claims* the execution by creating a file that only one can create, and
holds a lock for as long as any process of it lives. Both are in the state folder, which every node sees.
"""

from __future__ import annotations

import math
import shlex
from typing import Final

import msgspec

from bridgehead.drivers.slurm.options import JobRequest, OnNodeFailure
from bridgehead.ports.scheduler import JobSpec

TOKEN: Final = "bridgehead:"
"""A job's comment begins with it, followed by the execution's random token."""
CONFIGURATION: Final = 78
"""Exit code of a job that could not claim because the state folder is not there (EX_CONFIG)."""
NOT_MINE: Final = 75
"""Exit code of a job that another submission of the same execution has overtaken; it ran nothing."""

_GUARD: Final = """\
#!/bin/sh
# Written by Bridgehead. An execution runs once, whatever Slurm remembers: see the driver's documentation.
execution={execution}
if [ ! -f "$execution/intent" ]; then
    echo "bridgehead: $execution is not there: this node does not see the state folder" >&2
    exit {configuration}
fi
if (set -C; echo "$SLURM_JOB_ID" > "$execution/claim.$SLURM_JOB_ID") 2>/dev/null || [ -f "$execution/claim.$SLURM_JOB_ID" ]; then
    ln "$execution/claim.$SLURM_JOB_ID" "$execution/claim" 2>/dev/null || :
fi
if [ "$(cat "$execution/claim" 2>/dev/null)" != "$SLURM_JOB_ID" ]; then
    echo "bridgehead: another submission of this execution counts" >&2
    exit {not_mine}
fi
# While an earlier start of this very job still has a process, wait for it: never two at once.
exec 9>> "$execution/lock"
flock 9 || exit {configuration}
"""


class Submission(msgspec.Struct, frozen=True):
    """One job as Slurm gets it."""

    name: str
    comment: str
    script: str
    workdir: str
    output: str
    request: JobRequest
    grace_s: float

    @property
    def time_limit_min(self) -> int:
        """Whole minutes; 0 for the partition's default."""
        return math.ceil(self.request.time_limit_s / 60)

    @property
    def gres(self) -> str:
        """As ``gpu:h100:4``; "" for none."""
        request = self.request
        kind = f":{request.gpu_type}" if request.gpu_type else ""
        return f"gpu{kind}:{request.gpus_per_node}" if request.gpus_per_node else ""

    @property
    def warning(self) -> str:
        """TERM to the batch script before the time limit; "" without one."""
        return f"B:TERM@{max(1, math.ceil(self.grace_s))}" if self.request.time_limit_s else ""


def batch_script(spec: JobSpec, *, execution: str, env: dict[str, str]) -> str:
    """Claim, lock, set the environment, become the command. ``execution`` is the folder of its records."""
    guard = _GUARD.format(execution=shlex.quote(execution), configuration=CONFIGURATION, not_mine=NOT_MINE)
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in {**env, **spec.env}.items())
    home = 'export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"\n'
    return f"{guard}{home}{exports}exec {shlex.join(spec.command)}\n"


def sbatch_words(submission: Submission) -> list[str]:
    """The options of sbatch; the script comes on standard input."""
    request = submission.request
    words = ["--parsable", f"--job-name={submission.name}", f"--comment={submission.comment}", f"--chdir={submission.workdir}"]
    words += [f"--output={submission.output}", "--open-mode=append", f"--nodes={request.nodes}"]
    words.append("--requeue" if request.on_node_failure is OnNodeFailure.REQUEUE else "--no-requeue")
    given = {
        "partition": request.partition,
        "account": request.account,
        "qos": request.qos,
        "reservation": request.reservation,
        "constraint": request.constraint,
        "ntasks-per-node": str(request.tasks_per_node or ""),
        "cpus-per-task": str(request.cpus_per_task or ""),
        "gres": submission.gres,
        "mem": f"{request.memory_mb}M" if request.memory_mb else "",
        "time": str(submission.time_limit_min or ""),
        "signal": submission.warning,
    }
    words += [f"--{name}={value}" for name, value in given.items() if value]
    return [*words, *request.options]
