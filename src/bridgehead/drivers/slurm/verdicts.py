"""What is known of a job's executions: the records' view and Slurm's view brought together.

Several executions may carry one name: an ended one that somebody requeued, one that was submitted by hand, the newest of ours. One that
is seen alive counts before all others; then "cannot tell"; then the end of the newest. So no record of an end hides a living job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from bridgehead.drivers.slurm.clients import CommandLine
from bridgehead.drivers.slurm.endings import Endings
from bridgehead.drivers.slurm.job import Phase, SlurmJob
from bridgehead.drivers.slurm.records import NOBODY, Ended, Execution, Records
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobEnded, JobIdentity, JobRunning

UNDER_WAY_S: Final = 90.0
"""A submission without an answer that is older than this will not be answered any more; should it arrive later, its claim fails."""
_TRIED: Final = "observe a job"


class Verdict(msgspec.Struct, frozen=True):
    """What is known of one execution: whose it is (a record's, or none's: submitted by hand), Slurm's view of it, and its state."""

    state: JobRunning | JobEnded
    execution: Execution | None
    job: SlurmJob | None


class Verdicts:
    """Judges executions of one site. ``jobs`` looks at Slurm's jobs of a name."""

    def __init__(
        self, site: SiteId, cluster: str, *, line: CommandLine, jobs: Callable[[str], list[SlurmJob]], endings: Endings, records: Records
    ) -> None:
        self._site, self._cluster = site, cluster
        self._line, self._jobs, self._endings, self._records = line, jobs, endings, records

    def newest(self, name: JobName, known: list[Execution], seen: list[SlurmJob], *, except_for: Execution | None = None) -> Verdict | None:
        """The execution that counts: one that waits or runs, else the newest that ended; None when none ever began.

        Raises:
            Transient: none is seen alive, and of one it cannot be told whether it lives.
        """
        ended: list[Verdict] = []
        doubts: list[Transient] = []
        strangers = sorted(foreign(known, seen), key=lambda job: (-job.submitted_s, -int(job.job_id)))
        judgements: list[Callable[[], Verdict | None]] = [
            partial(self.judge, name, execution, seen) for execution in known if not (execution.void or execution is except_for)
        ]
        # Ours first: where one of ours and a stranger both run, ours is the one that was asked for.
        judgements += [partial(self._of_job, name, None, job) for job in strangers]
        for judgement in judgements:
            try:
                verdict = judgement()
            except Transient as doubt:
                doubts.append(doubt)
                continue
            if verdict is not None and isinstance(verdict.state, JobRunning):
                return verdict
            ended.extend([verdict] if verdict is not None else [])
        if doubts:
            raise doubts[0]
        ours = next((verdict for verdict in ended if verdict.execution is not None), None)
        other = next((verdict for verdict in ended if verdict.execution is None), None)
        if ours is None or other is None:
            return ours or other
        return other if _submitted_s(other) >= _submitted_s(ours) else ours

    def judge(self, name: JobName, execution: Execution, seen: list[SlurmJob]) -> Verdict | None:
        """One execution; None when it never began, and from now on never can. Raises Transient when that cannot be told."""
        found = jobs_of(execution, seen)
        job = next((job for job in found if job.job_id == execution.claim), found[0] if found and not execution.claim else None)
        if job is not None:
            return self._of_job(name, execution, job)
        if execution.ended:
            restarts = max(execution.ended)
            identity = self.identity(name, execution, execution.claim, restarts=restarts)
            return Verdict(_job_ended(identity, execution.ended[restarts]), execution, None)
        return self._forgotten(name, execution) if execution.claim else self._unanswered(name, execution)

    def identity(self, name: JobName, execution: Execution, job_id: str, *, restarts: int) -> JobIdentity:
        """Which execution it is, to the outside."""
        return JobIdentity(self._site, name, f"{self._cluster}/{job_id}", execution.intent.submitted_s, restarts)

    def _of_job(self, name: JobName, execution: Execution | None, job: SlurmJob) -> Verdict:
        """A job that Slurm knows."""
        if execution is None:
            identity = JobIdentity(self._site, name, f"{self._cluster}/{job.job_id}", job.submitted_s, job.restarts)
        else:
            identity = self.identity(name, execution, job.job_id, restarts=job.restarts)
        match job.phase:
            case Phase.WAITING:
                return Verdict(JobRunning(identity=identity, waiting_for=job.reason or job.state.lower()), execution, job)
            case Phase.LIVING:
                return Verdict(JobRunning(identity=identity), execution, job)
            case Phase.UNSURE if silent := self._line.silent_nodes(job.nodes):
                raise Transient(
                    f"{', '.join(silent)} is not seen to answer, and the processes of job {job.job_id} there may live",
                    tried=_TRIED,
                    subject=self._subject(name),
                    remedy='Bring the node back, or cut its power and set it down with a reason that begins with "fenced".',
                    retry_after_s=10.0,
                )
            case _:
                ended = Ended(job.exit_code, job.ended_s, job.state, "slurmctld")
                told = _job_ended(identity, ended) if execution is None else self._ended(name, execution, identity, ended)
                return Verdict(told, execution, job)

    def _unanswered(self, name: JobName, execution: Execution) -> Verdict | None:
        """Nobody told which job it is, and Slurm shows none: its submission may be on the way still."""
        if time.time() - execution.intent.submitted_s < UNDER_WAY_S:
            raise Transient("it is just being started", tried=_TRIED, subject=self._subject(name), retry_after_s=1.0)
        # Before "there is none" is said: what arrives after this can no longer count.
        claim = self._records.claim(name, execution.number, NOBODY, tried=_TRIED)
        if claim == NOBODY:
            return None
        return self.judge(name, msgspec.structs.replace(execution, claim=claim), self._jobs(name))

    def _forgotten(self, name: JobName, execution: Execution) -> Verdict:
        """slurmctld does not know it, which is no evidence of an end: it forgets ended jobs, and living ones with its state."""
        ended = self._endings.find(name, execution.claim, execution.intent)
        if ended is None:
            raise Transient(
                f"Slurm does not know job {execution.claim} any more, and no record tells its end",
                tried=_TRIED,
                subject=self._subject(name),
                remedy="Look on its nodes whether it runs. When it surely does not, as after a power cut, say so: "
                f"`{Records.saying_that_it_ended(execution)}`. Slurm keeps such records itself with slurmdbd, or with jobcomp/filetxt "
                "named in the driver's option jobcomp.",
                retry_after_s=10.0,
            )
        identity = self.identity(name, execution, execution.claim, restarts=0)
        return Verdict(self._ended(name, execution, identity, ended), execution, None)

    def _ended(self, name: JobName, execution: Execution, identity: JobIdentity, ended: Ended) -> JobEnded:
        """What was written down first counts."""
        counts = execution.ended.get(identity.restarts)
        if counts is None:
            counts = self._records.end(name, execution.number, identity.restarts, ended, tried=_TRIED)
        return _job_ended(identity, counts)

    def _subject(self, name: JobName) -> str:
        return f"job {name} at site {self._site}"


def foreign(known: list[Execution], seen: list[SlurmJob]) -> list[SlurmJob]:
    """Jobs of the name that no record speaks of.

    Of those that carry the token of other records none that is over counts: what ended there was never started here.
    """
    ours = {job.job_id for execution in known for job in jobs_of(execution, seen)}
    return [job for job in seen if job.job_id not in ours and not (job.token and job.phase is Phase.OVER)]


def jobs_of(execution: Execution, seen: list[SlurmJob]) -> list[SlurmJob]:
    """Slurm's jobs of an execution, the one that counts first: by the token, or by id and time for one that was submitted by hand."""
    intent = execution.intent
    if intent.token:
        found = [job for job in seen if job.token == intent.token]
    else:
        found = [job for job in seen if job.job_id == execution.claim and _same_time(job, intent.submitted_s)]
    return sorted(found, key=lambda job: (job.job_id != execution.claim, int(job.job_id)))


def _same_time(job: SlurmJob, submitted_s: float) -> bool:
    """A requeue moves the time of submission."""
    return job.submitted_s >= submitted_s if job.restarts else job.submitted_s == submitted_s


def _submitted_s(verdict: Verdict) -> float:
    return verdict.state.identity.submitted_s


def _job_ended(identity: JobIdentity, ended: Ended) -> JobEnded:
    # Two clocks: what is submitted now cannot have ended before.
    ended_s = max(ended.ended_s, identity.submitted_s) if ended.ended_s is not None else None
    return JobEnded(identity=identity, exit_code=ended.exit_code, ended_s=ended_s)
