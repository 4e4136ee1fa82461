"""The scheduler of an embedded site: jobs are supervised process groups of this machine that outlive their controller."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable

import msgspec

from bridgehead.drivers.process import launch, procfs, signals
from bridgehead.drivers.process.execution import Execution, Intent, here, judge, load, numbers
from bridgehead.drivers.process.statefile import StateDirectory, errors_as_transient, lock_within, read_struct, write_struct
from bridgehead.host import durable
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobIdentity, JobRunning, JobSpec, JobState

_TRY_AGAIN = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.ESTALE, errno.EINTR})
"""Reasons of a refused execution that may pass by themselves."""
OBSERVE_WAIT_S = 1.0


class ProcessOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an embedded site keeps its jobs.

    Attributes:
        directory: state and logs, one folder for each job; made when missing; on a local file system, and for this site alone.
        env: given to every job on top of the controller's own environment.
    """

    directory: str
    env: dict[str, str] = {}


def _no_checkpoint(_name: str) -> None:
    """Nothing happens between the steps of a start, unless a test wants it."""


class ProcessScheduler:
    """Implements :class:`bridgehead.ports.scheduler.Scheduler` on Linux.

    A job runs in its own session, with its output in a log file, in a folder of its own unless ``workdir`` is given. Its state is in
    files, so that any controller on the machine can adopt it; a tiny supervisor collects the exit code. A job lives while any of its
    processes does. An exit by signal N is reported as code 128 + N. Whoever runs the controller as a systemd unit sets
    ``KillMode=process``, because systemd otherwise ends the jobs together with the controller.

    Args:
        site: the site whose scheduler this is.
        options: see there.
        checkpoint: called between the steps of a start ("locked", "intended", "spawned", "recorded"); fault tests end the process there.

    Raises (constructor):
        Transient: the directory cannot be made or read.
        Permanent: the directory belongs to another site, or this machine has no Linux /proc.
    """

    def __init__(self, site: SiteId, options: ProcessOptions, *, checkpoint: Callable[[str], None] = _no_checkpoint) -> None:
        self._site = site
        self._options = options
        self._checkpoint = checkpoint
        try:
            here()
        except OSError as error:
            raise Permanent(
                f"processes cannot be identified here: {error}",
                tried="use the process scheduler",
                subject=f"site {site}",
                remedy="Run it on Linux with /proc mounted",
            ) from error
        self._state = StateDirectory(site, options.directory)

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """Start the job; a repeat of the stamp's key returns the execution that it started, whether that still runs or has ended.

        Raises:
            Conflict: a live job of that name was started by another key, or the epoch is old.
            Permanent: the command cannot be executed, or the workdir cannot be entered.
            Transient: nothing was started (no space, no process free, another controller at work on the job).
            Unknown: the job's supervisor did not answer in time.
        """
        tried = "start a job"
        folder = self._state.folder(spec.name, tried=tried)
        _check_spec(spec, subject=self._subject(spec.name))
        with errors_as_transient(tried, self._subject(spec.name)), self._state.locked(folder, tried=tried) as lock:
            self._checkpoint("locked")
            self._state.check_epoch(stamp, tried=tried)
            known = self._executions(folder, spec.name)
            for execution in known:
                if execution.intent.key == stamp.key:
                    return execution.identity
            if known and isinstance(judge(known[0]), JobRunning):
                raise Conflict(
                    f"it runs already, started by {known[0].intent.key}",
                    tried=tried,
                    subject=self._subject(spec.name),
                    remedy="Stop that execution first, or use another name",
                )
            return self._launch(folder, spec, stamp=stamp, lock=lock)

    def observe(self, name: JobName) -> JobState:
        """What is known about the newest execution of ``name``.

        Raises Transient when the directory or the processes cannot be seen, or while another controller is just starting the job.
        """
        tried = "observe a job"
        folder = self._state.folder(name, tried=tried)
        with errors_as_transient(tried, self._subject(name)):
            newest = self._newest(folder, name)
            return JobAbsent(name=name) if newest is None else judge(newest)

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """SIGTERM to the job's group; returns at once. A process that is stopped is continued, so that it can obey.

        A repeat of the stamp's key sends nothing: a job that is just ending would take a second SIGTERM for an order to die at once.

        Raises NotFound when absent, Conflict when the epoch is old, Transient when it cannot be done now.
        """
        self._end(name, stamp=stamp, tried="stop a job", how=lambda execution: _ask_once(execution, stamp))

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """SIGKILL to the job and all its children, also those that outlived it or left its session.

        Raises NotFound when absent, Conflict when the epoch is old, Transient when it cannot be done now.
        """
        self._end(name, stamp=stamp, tried="kill a job", how=signals.kill_all)

    def log_path(self, name: JobName) -> str:
        """The file with the output of the newest execution. Raises NotFound when absent, Transient when that cannot be seen."""
        tried = "find the log of a job"
        folder = self._state.folder(name, tried=tried)
        with errors_as_transient(tried, self._subject(name)):
            newest = self._newest(folder, name)
        if newest is None:
            raise self._not_found(name, tried=tried)
        return f"{newest.folder}/log"

    def _end(self, name: JobName, *, stamp: Stamp, tried: str, how: Callable[[Execution], None]) -> None:
        folder = self._state.folder(name, tried=tried)
        with errors_as_transient(tried, self._subject(name)), self._state.locked(folder, tried=tried):
            self._state.check_epoch(stamp, tried=tried)
            known = self._executions(folder, name)
            if not known:
                raise self._not_found(name, tried=tried)
            match judge(known[0]):
                case JobEnded():
                    return
                case JobRunning():
                    how(known[0])

    def _executions(self, folder: str, name: JobName) -> list[Execution]:
        """What really began, newest first. Needs the job's lock: an intent without process is then known to be dead."""
        found = (load(folder, number, site=self._site, name=name) for number in reversed(numbers(folder)))
        return [execution for execution in found if isinstance(execution, Execution)]

    def _newest(self, folder: str, name: JobName) -> Execution | None:
        """The newest execution, without the lock as long as no start is under way."""
        self._state.require_present()
        for number in reversed(numbers(folder)):
            match load(folder, number, site=self._site, name=name):
                case Execution() as execution:
                    return execution
                case Intent():
                    return self._newest_when_settled(folder, name)
                case None:
                    continue
        return None

    def _newest_when_settled(self, folder: str, name: JobName) -> Execution | None:
        """Someone meant to start the job: its lock tells whether that is still going on or was cut off before anything was executed."""
        descriptor = os.open(f"{folder}/lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            if not lock_within(descriptor, OBSERVE_WAIT_S):
                raise Transient("it is just being started", tried="observe a job", subject=self._subject(name), retry_after_s=0.2)
            return next(iter(self._executions(folder, name)), None)
        finally:
            os.close(descriptor)

    def _launch(self, job_folder: str, spec: JobSpec, *, stamp: Stamp, lock: int) -> JobIdentity:
        folder = self._new_folder(job_folder)
        token = os.urandom(16).hex()
        intent = Intent(key=stamp.key, token=token, submitted_s=time.time(), command=spec.command, place=here())
        write_struct(f"{folder}/intent.json", intent)
        self._checkpoint("intended")
        env = {**os.environ, **self._options.env, **spec.env, procfs.TOKEN_VARIABLE: token}
        try:
            launch.launch(folder, spec, env=env, lock=lock, checkpoint=self._checkpoint)
        except launch.Refusal as refusal:
            if refusal.stage == "record" or refusal.error.errno in _TRY_AGAIN:
                raise refusal.error from refusal
            what = f"{spec.workdir!r} cannot be entered" if refusal.stage == "workdir" else f"{spec.command[0]!r} cannot be executed"
            raise Permanent(
                f"{what}: {refusal.error.strerror}",
                tried="start a job",
                subject=self._subject(spec.name),
                remedy="Correct the job's command or workdir",
            ) from refusal
        self._checkpoint("recorded")
        return self._executions(job_folder, spec.name)[0].identity

    def _new_folder(self, job_folder: str) -> str:
        """A folder that no process was ever started in: the next number, or the last one if its start did not get as far as an intent."""
        known = numbers(job_folder)
        number = known[-1] if known else 1
        if known and os.path.exists(f"{job_folder}/{number}/intent.json"):
            number += 1
        folder = f"{job_folder}/{number}"
        os.makedirs(f"{folder}/work", exist_ok=True)
        durable.sync_folder(job_folder)
        durable.sync_folder(self._state.path)
        return folder

    def _subject(self, name: JobName) -> str:
        return f"job {name} at site {self._site}"

    def _not_found(self, name: JobName, *, tried: str) -> NotFound:
        return NotFound("no such job was ever started here", tried=tried, subject=self._subject(name), remedy="Check the job's name")


class _Asked(msgspec.Struct, frozen=True):
    """Who asked an execution to end."""

    key: str


def _ask_once(execution: Execution, stamp: Stamp) -> None:
    file = f"{execution.folder}/asked.json"
    asked = read_struct(file, _Asked)
    if asked is not None and asked.key == stamp.key:
        return
    signals.ask_to_end(execution)
    with contextlib.suppress(OSError):  # a full disk hinders no stop: at worst it is asked for again
        write_struct(file, _Asked(stamp.key))


def _check_spec(spec: JobSpec, *, subject: str) -> None:
    texts = [*spec.command, spec.workdir, *spec.env, *spec.env.values()]
    named = all(name and "=" not in name for name in spec.env)
    if spec.command and spec.command[0] and named and all(_fits_the_kernel(text) for text in texts):
        return
    raise Permanent(
        "the command is empty, or a text in it cannot be given to a program (zero byte, unpaired surrogate, bad name of a variable)",
        tried="start a job",
        subject=subject,
        remedy="Correct the job's command and environment",
    )


def _fits_the_kernel(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
