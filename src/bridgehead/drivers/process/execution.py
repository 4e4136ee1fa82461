"""One execution of a job, as its files and the kernel show it: which process it is, whether it lives, how it ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import msgspec

from bridgehead.drivers.process import procfs
from bridgehead.drivers.process.statefile import read_struct
from bridgehead.host import durable
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobEnded, JobIdentity, JobRunning

EXIT_WAIT_S = 0.5
EXIT_POLL_S = 0.005


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where pids mean something: a machine, since a boot, in a numbering of pids."""

    host: str
    boot_id: str
    pid_namespace: str


class Intent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``intent.json``, written before the start: who asked, and where. Without ``process.json`` beside it nothing was ever executed."""

    key: str
    token: str
    submitted_s: float
    command: tuple[str, ...]
    place: Place


class ProcessRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``process.json``, written by the process itself before it becomes the job."""

    pid: int
    start_ticks: int
    supervisor_pid: int
    supervisor_start_ticks: int


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``ended.json``, written once (J02); ``leader.json`` has the same form while children outlive the leader."""

    exit_code: int | None
    ended_s: float | None


class Execution(msgspec.Struct, frozen=True):
    """An execution that really began."""

    folder: str
    site: SiteId
    name: JobName
    intent: Intent
    record: ProcessRecord

    @property
    def identity(self) -> JobIdentity:
        """The same for every controller and at all times (J12)."""
        native_id = f"{self.record.pid}@{self.record.start_ticks}"
        return JobIdentity(site=self.site, name=self.name, native_id=native_id, submitted_s=self.intent.submitted_s)

    def leader(self) -> procfs.Stat | None:
        """The job's own process, alive or zombie, if it is still there."""
        return procfs.find(self.record.pid, self.record.start_ticks)

    def family(self) -> list[procfs.Stat]:
        """Its living children. Empty only when two looks in a row found none: one may miss a child that is born while it is taken."""
        for _ in range(2):
            found = procfs.family(
                self.record.pid,
                self.record.start_ticks,
                token=self.intent.token,
                log=f"{self.folder}/log",
                supervisor_pid=self.record.supervisor_pid,
            )
            if found:
                return found
        return []


def here() -> Place:
    """Where this controller is. Raises OSError where /proc is missing."""
    return Place(host=os.uname().nodename, boot_id=procfs.boot_id(), pid_namespace=procfs.pid_namespace())


def numbers(job_folder: str) -> list[int]:
    """The numbers of the executions' folders, oldest first; empty when the job has no folder. Raises OSError."""
    try:
        return sorted(int(name) for name in os.listdir(job_folder) if name.isdigit())
    except FileNotFoundError:
        return []


def load(job_folder: str, number: int, *, site: SiteId, name: JobName) -> Execution | Intent | None:
    """What is in an execution's folder: an execution, an intent that has not led to one (yet), or nothing. Raises OSError, MsgspecError."""
    folder = f"{job_folder}/{number}"
    intent = read_struct(f"{folder}/intent.json", Intent)
    if intent is None:
        return None
    record = read_struct(f"{folder}/process.json", ProcessRecord)
    return intent if record is None else Execution(folder=folder, site=site, name=name, intent=intent, record=record)


def judge(execution: Execution) -> JobRunning | JobEnded:
    """Is it alive? ``JobEnded`` needs the supervisor's record or positive evidence that every process of the execution is gone.

    Raises OSError and MsgspecError; Transient when it was started where this controller cannot look, or its exit is just being recorded.
    """
    identity = execution.identity
    ended = _recorded_end(execution)
    if ended is not None:
        return ended
    place, seen_from = execution.intent.place, here()
    if place.boot_id != seen_from.boot_id and place.host == seen_from.host:
        return _settle(execution)  # no process outlives a boot
    if place != seen_from:
        raise Transient(
            f"it was started on host {place.host}, {place.pid_namespace}, whose processes cannot be seen from host {seen_from.host}, "
            f"{seen_from.pid_namespace}",
            tried="observe a job",
            subject=f"job {execution.name} at site {execution.site}",
            remedy=f"Drive the site from there; if that place is gone for ever, remove {execution.folder}",
            retry_after_s=30.0,
        )
    leader = execution.leader()
    if (leader is not None and leader.alive) or execution.family():
        return JobRunning(identity=identity)
    record = execution.record
    limit_s = time.monotonic() + EXIT_WAIT_S
    while (supervisor := procfs.find(record.supervisor_pid, record.supervisor_start_ticks)) is not None and supervisor.alive:
        if (ended := _recorded_end(execution)) is not None:
            return ended
        if time.monotonic() >= limit_s:
            raise Transient(
                "it has ended, but its supervisor has not recorded the exit code yet",
                tried="observe a job",
                subject=f"job {execution.name} at site {execution.site}",
                remedy=f"Look at its supervisor, process {record.supervisor_pid}",
            )
        time.sleep(EXIT_POLL_S)
    return _settle(execution)


def _recorded_end(execution: Execution) -> JobEnded | None:
    ended = read_struct(f"{execution.folder}/ended.json", Ended)
    return None if ended is None else JobEnded(identity=execution.identity, exit_code=ended.exit_code, ended_s=ended.ended_s)


def _settle(execution: Execution) -> JobEnded:
    """Everybody is gone, the supervisor too: write down what is known, so that every later look gives the same answer.

    Create-only, because the supervisor's last deed before it went may have been the record.
    """
    left = read_struct(f"{execution.folder}/leader.json", Ended)
    ended = Ended(exit_code=left.exit_code if left else None, ended_s=None)
    with suppress(OSError):  # on a full disk the next look finds out the same again
        durable.create_durably(f"{execution.folder}/ended.json", msgspec.json.encode(ended))
    return _recorded_end(execution) or JobEnded(identity=execution.identity, exit_code=ended.exit_code, ended_s=None)
