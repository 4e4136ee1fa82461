"""The scheduler of a Slurm site."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from bridgehead.drivers.slurm.clients import CommandLine
from bridgehead.drivers.slurm.endings import Endings
from bridgehead.drivers.slurm.job import SlurmJob
from bridgehead.drivers.slurm.options import CheckCommand, SlurmOptions
from bridgehead.drivers.slurm.records import NOBODY, Execution, Intent, Records
from bridgehead.drivers.slurm.rest import RestClient
from bridgehead.drivers.slurm.script import TOKEN, Submission, batch_script
from bridgehead.drivers.slurm.verdicts import Verdicts, jobs_of
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobIdentity, JobRunning, JobSpec, JobState
from bridgehead.ports.shell import Shell

_CHECK: Final = """set -eu
[ -z "$2" ] || cd -- "$2" || exit 65
case $1 in
*/*) [ -x "$1" ] && [ ! -d "$1" ] || exit 67 ;;
*) command -v -- "$1" >/dev/null || exit 67 ;;
esac
"""


class JobClient(Protocol):
    """What the scheduler needs of Slurm: by its command line or by slurmrestd."""

    def jobs(self, name: str) -> list[SlurmJob]:
        """The user's jobs of that name, as far as slurmctld remembers them. Raises Transient."""
        ...

    def submit(self, submission: Submission) -> str:
        """The new job's id. Raises Permanent when refused, Transient when not asked, Unknown in between."""
        ...

    def ask(self, job: SlurmJob) -> None:
        """Ask it to end. Raises Transient."""
        ...

    def kill(self, job: SlurmJob) -> None:
        """End every process of it. Raises Transient."""
        ...


class SlurmScheduler:
    """Implements :class:`bridgehead.ports.scheduler.Scheduler` for one cluster, as one user of it.

    - A start is recorded before sbatch is called, and the record's random token is in the job's comment: after a lost answer the job is
      found by it. Should two submissions of one execution reach Slurm all the same, the job script lets only one of them run.
    - Jobs of the same name that the user submitted without Bridgehead are seen, stopped and killed like its own; a start beside a living
      one is refused.
    - A job is over when slurmctld, sacct or jobcomp says so. A controller that does not answer, one that has forgotten the job, and a node
      that does not answer are "cannot tell" (Transient), never an end (J01).
    - ``identity.native_id`` is ``cluster/job id``; ``restarts`` counts requeues, by which Slurm runs the script from the beginning (J12).

    Args:
        site: the site whose scheduler this is.
        options: see there.
        shell: where Slurm's clients run and the state folder is.
        checkpoint: called between the steps of a start ("intended", "submitted", "claimed"); fault tests end the process there.
    """

    def __init__(
        self, site: SiteId, options: SlurmOptions, *, shell: Shell, checkpoint: Callable[[str], None] = lambda _name: None
    ) -> None:
        self._site, self._options, self._shell, self._checkpoint = site, options, shell, checkpoint
        self._line = CommandLine(options, shell)
        self._client: JobClient = self._line if options.rest is None else RestClient(options, options.rest)
        self._records = Records(site, options.state, shell)
        endings = Endings(self._line, jobcomp=options.jobcomp)
        self._verdicts = Verdicts(site, options.cluster, line=self._line, jobs=self._client.jobs, endings=endings, records=self._records)
        if options.rest is not None and any(request.options for request in options.jobs.values()):
            raise Permanent(
                "further words for sbatch mean nothing to slurmrestd",
                tried="use the Slurm driver",
                subject=f"site {site}",
                remedy="Leave out options of jobs, or rest.",
            )

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """Submit the job; a repeat of the stamp's key returns the execution that it started, whether it waits, runs or has ended.

        Raises:
            Conflict: a live job of that name was started by another key or by hand, or the epoch is old.
            Permanent: Slurm refuses the job, or its program or workdir is not there.
            Transient: nothing was submitted (Slurm or the state folder cannot be reached, another controller starts the job).
            Unknown: sbatch's answer was lost, and Slurm does not show the job (yet); a repeat looks again.
        """
        tried = "start a job"
        known = self._records.read(spec.name, stamp=stamp, tried=tried)
        seen = self._client.jobs(spec.name)
        mine = next((execution for execution in known if execution.intent.key == stamp.key and not execution.void), None)
        if mine is not None and (mine.claim or jobs_of(mine, seen)):
            return self._adopted_submission(spec.name, mine, seen)
        self._refuse_beside_living(spec.name, known, seen, except_for=mine)
        self._check(spec, tried=tried)
        if mine is None:
            mine = self._intend(spec.name, stamp, known)
            self._checkpoint("intended")
        return self._submit(spec, mine, stamp)

    def observe(self, name: JobName) -> JobState:
        """The execution that is seen alive; without one, the newest that ended. Raises Transient when it cannot be told.

        An intent that nobody answered for long is closed before "absent" is said, so that its submission cannot count later.
        """
        known = self._records.read(name, tried="observe a job")
        verdict = self._verdicts.newest(name, known, self._client.jobs(name))
        return JobAbsent(name=name) if verdict is None else verdict.state

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """SIGTERM to the batch script's process (with slurmrestd: to all processes); a job that still waits is cancelled. Returns at once.

        A repeat of the stamp's key sends nothing. Raises NotFound when absent, Conflict when the epoch is old, Transient.
        """
        self._end(name, stamp=stamp, tried="stop a job", how=self._client.ask, once=True)

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """Let Slurm end the job: TERM to all its processes, KILL after KillWait.

        Raises NotFound when absent, Conflict when the epoch is old, Transient.
        """
        self._end(name, stamp=stamp, tried="kill a job", how=self._client.kill, once=False)

    def log_path(self, name: JobName) -> str:
        """The file with the output of the newest execution, as the nodes see it. Raises NotFound when absent, Transient."""
        tried = "find the log of a job"
        known = [execution for execution in self._records.read(name, tried=tried) if not execution.void]
        if not known:
            raise self._not_found(name, tried)
        return f"{known[0].folder}/output"

    def living(self, name: JobName, *, stamp: Stamp, tried: str) -> tuple[Execution, SlurmJob] | None:
        """The execution that waits or runs, with Slurm's view; a job that was submitted by hand gets a record. None when it has ended.

        Raises NotFound when absent, Conflict when the epoch is old, Transient.
        """
        known = self._records.read(name, stamp=stamp, tried=tried)
        verdict = self._verdicts.newest(name, known, self._client.jobs(name))
        if verdict is None:
            raise self._not_found(name, tried)
        job = verdict.job
        if job is None or not isinstance(verdict.state, JobRunning):
            return None
        return verdict.execution or self._adopt(name, job, known, tried=tried), job

    # starting

    def _refuse_beside_living(self, name: JobName, known: list[Execution], seen: list[SlurmJob], *, except_for: Execution | None) -> None:
        """Raises Conflict; Transient when it cannot be told whether one lives. An intent that was never answered is closed for ever."""
        answered = [execution for execution in known if execution.claim or jobs_of(execution, seen)]
        verdict = self._verdicts.newest(name, answered, seen, except_for=except_for)
        if verdict is not None and isinstance(verdict.state, JobRunning):
            whose = "was submitted by hand" if verdict.execution is None else f"was started by {verdict.execution.intent.key}"
            raise self._conflict(name, f"{verdict.state.identity.native_id} of that name lives, which {whose}")
        for execution in known:
            if execution in answered or execution is except_for:
                continue
            # Its submission may still be on the way: from here on it can no longer count.
            if self._records.claim(name, execution.number, NOBODY, tried="start a job") != NOBODY:
                raise Transient("it is just being started", tried="start a job", subject=self._subject(name), retry_after_s=1.0)

    def _intend(self, name: JobName, stamp: Stamp, known: list[Execution]) -> Execution:
        intent = Intent(key=stamp.key, token=secrets.token_hex(16), submitted_s=float(int(time.time())))
        number = 1 + max((execution.number for execution in known), default=0)
        counts = self._records.begin(name, number, intent, tried="start a job")
        if counts != intent:
            raise Transient("another controller just starts it", tried="start a job", subject=self._subject(name), retry_after_s=1.0)
        return Execution(number, self._records.folder(name, number), intent, "", {})

    def _submit(self, spec: JobSpec, execution: Execution, stamp: Stamp) -> JobIdentity:
        submission = Submission(
            name=spec.name,
            comment=TOKEN + execution.intent.token,
            script=batch_script(spec, execution=execution.folder, env=self._options.env),
            workdir=spec.workdir or execution.folder,
            output=f"{execution.folder}/output",
            request=self._options.request(spec.name),
            grace_s=spec.grace_s,
        )
        try:
            job_id = self._client.submit(submission)
        except Unknown:
            found = jobs_of(execution, self._client.jobs(spec.name))
            if not found:
                raise
            job_id = found[0].job_id
        except (Permanent, Transient):
            # Nothing was submitted: the same key may try again, with a fresh record.
            self._records.claim(spec.name, execution.number, NOBODY, tried="start a job")
            raise
        self._checkpoint("submitted")
        claim = self._records.claim(spec.name, execution.number, job_id, tried="start a job")
        if claim != job_id:
            self._withdraw(spec.name, job_id)
            if claim == NOBODY:
                raise self._closed(spec.name)
        self._checkpoint("claimed")
        return self._verdicts.identity(spec.name, execution, claim, restarts=0)

    def _closed(self, name: JobName) -> PortError:
        """What to say when the intent of this start was closed meanwhile: by a start that took its place, or since nobody answered."""
        verdict = self._verdicts.newest(name, self._records.read(name, tried="start a job"), self._client.jobs(name))
        if verdict is not None and isinstance(verdict.state, JobRunning):
            return self._conflict(name, "another start has taken its place")
        return Transient("its record was closed meanwhile", tried="start a job", subject=self._subject(name), retry_after_s=1.0)

    def _withdraw(self, name: JobName, job_id: str) -> None:
        """Take back a submission that does not count; its script would run nothing anyway."""
        for job in self._client.jobs(name):
            if job.job_id == job_id:
                self._client.kill(job)

    def _adopted_submission(self, name: JobName, execution: Execution, seen: list[SlurmJob]) -> JobIdentity:
        """The identity of what this key started before; a submission whose answer was lost is claimed now."""
        found = jobs_of(execution, seen)
        claim = execution.claim or self._records.claim(name, execution.number, found[0].job_id, tried="start a job")
        if claim == NOBODY:
            raise self._closed(name)
        restarts = [job.restarts for job in found if job.job_id == claim] or [max(execution.ended, default=0)]
        return self._verdicts.identity(name, execution, claim, restarts=restarts[0])

    def _check(self, spec: JobSpec, *, tried: str) -> None:
        """Raises Permanent for what can never run."""
        words = (*spec.command, spec.workdir, *spec.env.values())
        wrong = "there is no command" if not spec.command or not spec.command[0] else ""
        if any("\0" in word for word in words) or any(not name.isidentifier() or not name.isascii() for name in spec.env):
            wrong = "a word, or the name of a variable, cannot be passed"
        try:
            "".join(words).encode()
        except UnicodeEncodeError:
            wrong = "a word is no UTF-8"
        if not wrong and self._options.check_command is CheckCommand.LOGIN:
            try:
                code = self._shell.run(["sh", "-c", _CHECK, "sh", spec.command[0], spec.workdir]).exit_code
            except Unknown as error:
                raise Transient(error.happened, tried=tried, subject=self._subject(spec.name)) from error
            wrong = {0: "", 65: f"{spec.workdir!r} cannot be entered"}.get(code, f"{spec.command[0]!r} cannot be executed")
        if wrong:
            raise Permanent(wrong, tried=tried, subject=self._subject(spec.name), remedy="Correct the job's command and folder.")

    # ending

    def _end(self, name: JobName, *, stamp: Stamp, tried: str, how: Callable[[SlurmJob], None], once: bool) -> None:
        found = self.living(name, stamp=stamp, tried=tried)
        if found is None:
            return
        execution, job = found
        if not once:
            how(job)
            return
        request = f"{stamp.key}@{job.restarts}"
        if request not in execution.asked:
            # Noted after it was done: a crash in between asks twice, which is better than never.
            how(job)
            self._records.note(name, execution.number, request, tried=tried)

    def _adopt(self, name: JobName, job: SlurmJob, known: list[Execution], *, tried: str) -> Execution:
        """A record for a job that was submitted by hand."""
        intent = Intent(key=f"adopted/{job.job_id}", token="", submitted_s=job.submitted_s)
        number = 1 + max((execution.number for execution in known), default=0)
        counts = self._records.begin(name, number, intent, tried=tried)
        if counts != intent:
            raise Transient("another controller is busy with it", tried=tried, subject=self._subject(name), retry_after_s=1.0)
        claim = self._records.claim(name, number, job.job_id, tried=tried)
        return Execution(number, self._records.folder(name, number), intent, claim, {})

    # words

    def _subject(self, name: JobName) -> str:
        return f"job {name} at site {self._site}"

    def _conflict(self, name: JobName, happened: str) -> Conflict:
        remedy = "Stop that execution first, or use another name."
        return Conflict(happened, tried="start a job", subject=self._subject(name), remedy=remedy)

    def _not_found(self, name: JobName, tried: str) -> PortError:
        return NotFound("it was never started here", tried=tried, subject=self._subject(name), remedy="Check the name of the job.")
