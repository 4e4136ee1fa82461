"""Scheduler: starts, watches and stops the jobs of one site (P3; J01, J02, J12)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to run. ``name`` is unique among the live jobs of a site.

    Attributes:
        command: program and arguments; no shell in between.
        env: added to the environment that the site gives every job.
        grace_s: seconds between the request to stop and the kill (J10).
    """

    name: JobName
    command: tuple[str, ...]
    env: dict[str, str] = {}
    workdir: str = ""
    grace_s: float = 30.0


class JobIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which execution of a job: ids are reused, this tuple is not (J12)."""

    site: SiteId
    name: JobName
    native_id: str
    submitted_s: float
    restarts: int = 0


class JobRunning(msgspec.Struct, frozen=True, tag="running"):
    """Seen alive.

    Attributes:
        waiting_for: why it has not begun yet, in the scheduler's word; "" once it has.
    """

    identity: JobIdentity
    waiting_for: str = ""


class JobEnded(msgspec.Struct, frozen=True, tag="ended"):
    """Positive evidence that this execution is over; ``exit_code`` None when nobody could collect it."""

    identity: JobIdentity
    exit_code: int | None
    ended_s: float | None


class JobAbsent(msgspec.Struct, frozen=True, tag="absent"):
    """Positive evidence that no job of that name was ever started here."""

    name: JobName


JobState = JobRunning | JobEnded | JobAbsent


class Scheduler(Protocol):
    """The scheduler of one site."""

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """Start the job, or return the identity of the execution that this stamp's key already started, whether it runs or has ended.

        So a repeat after a lost answer never runs a job twice; who wants another execution of an ended job asks with another key.

        Raises:
            Conflict: a live job of that name was started by another key, or the epoch is old.
            Permanent: the command cannot be executed.
        """
        ...

    def observe(self, name: JobName) -> JobState:
        """What is known about the newest execution of ``name``. Raises Transient when the site cannot be seen."""
        ...

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """Ask the job to end (SIGTERM or the like); returns at once. No effect when it has ended. Raises NotFound when absent."""
        ...

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """End the job and all its children now. No effect when it has ended. Raises NotFound when absent."""
        ...
