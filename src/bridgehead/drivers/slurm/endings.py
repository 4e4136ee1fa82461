"""How a job ended that slurmctld has forgotten: sacct, then the file of jobcomp/filetxt.

slurmctld forgets ended jobs after MinJobAge (300 s by default), but also living ones, when it lost its state. So "not known" alone is no
evidence of an end (J01): some record must say it.
"""

from __future__ import annotations

from typing import Final

from bridgehead.drivers.slurm.clients import CommandLine
from bridgehead.drivers.slurm.job import Phase, exit_code, phase_of
from bridgehead.drivers.slurm.records import Ended, Intent
from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.kernel.ids import JobName

SKEW_S: Final = 300.0
"""By so much the clocks of controller and cluster may differ; job ids come again only after years, or after slurmctld lost its state."""
_SACCT: Final = ("JobIDRaw", "JobName", "State", "ExitCode", "Submit", "End")
_NO_ACCOUNTING: Final = ("accounting storage is disabled", "slurm accounting storage", "slurmdbd", "invalid field")
_JOBCOMP: Final = """set -eu
[ -r "$1" ] || exit 66
grep "^JobId=$2 " "$1" | while IFS= read -r line; do
    s=${line##* SubmitTime=}; s=$(date -d "${s%% *}" +%s 2>/dev/null || echo 0)
    e=${line##* EndTime=}; e=$(date -d "${e%% *}" +%s 2>/dev/null || echo -)
    n=${line##* Name=}; t=${line##* JobState=}; c=${line##* ExitCode=}
    printf '%s|%s|%s|%s|%s\\n' "${n%% JobState=*}" "${t%% *}" "${c%% *}" "$s" "$e"
done
"""


class Endings:
    """Looks up ended jobs. All methods return None where no record speaks of the job."""

    def __init__(self, clients: CommandLine, *, jobcomp: str) -> None:
        self._clients, self._jobcomp = clients, jobcomp

    def find(self, name: JobName, job_id: str, intent: Intent) -> Ended | None:
        """How the job of this intent ended. Raises Transient when a record that exists cannot be read now."""
        return self._sacct(name, job_id, intent) or (self._filetxt(name, job_id, intent) if self._jobcomp else None)

    def _sacct(self, name: JobName, job_id: str, intent: Intent) -> Ended | None:
        since = str(int(intent.submitted_s - SKEW_S))
        words = ["sacct", "-X", "-D", "-n", "-P", f"--jobs={job_id}", f"--starttime=uts{since}", f"--format={','.join(_SACCT)}"]
        try:
            text = self._clients.ask_text(words, tried="look for the end of a job")
        except Permanent as error:
            if any(word in error.happened.lower() for word in _NO_ACCOUNTING):
                return None
            raise
        rows = [line.split("|") for line in text.splitlines() if line.count("|") == len(_SACCT) - 1]
        mine = [row for row in rows if row[0] == job_id and row[1] == name and _is_since(row[4], intent.submitted_s)]
        # A requeue is a row of its own: only the last one tells the end, and it must be over.
        if not mine or phase_of(mine[-1][2]) is not Phase.OVER:
            return None
        _, _, state, code, _, ended = mine[-1]
        return Ended(_code(state, code), float(ended) if ended.isdigit() else None, state.split(" ")[0], "sacct")

    def _filetxt(self, name: JobName, job_id: str, intent: Intent) -> Ended | None:
        tried = "look for the end of a job"
        try:
            result = self._clients.run(["sh", "-c", _JOBCOMP, "sh", self._jobcomp, job_id], tried=tried)
        except Unknown as error:
            raise Transient(error.happened, tried=tried, subject=self._jobcomp) from error
        if result.exit_code not in (0, 1):
            raise Transient(result.complaint, tried=tried, subject=self._jobcomp, remedy="Check the driver's option jobcomp.")
        rows = [line.rsplit("|", 4) for line in result.text.splitlines() if line.count("|") >= 4]
        mine = [row for row in rows if row[0] == name and _is_since(row[3], intent.submitted_s)]
        if not mine or phase_of(mine[-1][1]) is not Phase.OVER:
            return None
        _, state, code, _, ended = mine[-1]
        return Ended(_code(state, code), float(ended) if ended.isdigit() else None, state, "jobcomp")


def _is_since(submitted: str, since_s: float) -> bool:
    return submitted.isdigit() and float(submitted) >= since_s - SKEW_S


def _code(state: str, code: str) -> int | None:
    status, _, signal = code.partition(":")
    return exit_code(state, status=int(status or 0), signal=int(signal or 0))
