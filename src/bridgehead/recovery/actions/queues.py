"""Queues of a site: jobs that wait are held while a site is emptied, or while what is more urgent is recovered (R8, R11; J10)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.admission import QueuedJob
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

POLL_S = 1.0


class QueueParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.hold`` and ``job.release``: names of jobs, at which site."""

    site: SiteId
    jobs: tuple[JobName, ...]


class HoldJobs:
    """Jobs of these names that wait do not begin; those that run go on. Undo releases the names of which none was held before."""

    name = "job.hold"
    params_type = QueueParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: QueueParams, call: Call) -> Outcome:
        """Record the names that somebody holds already."""
        return Done({"held_before": names_held(self._ports, params)})

    def apply(self, params: QueueParams, call: Call) -> Outcome:
        """Hold them."""
        for name in params.jobs:
            self._ports.admission(params.site).hold(name, stamp=call.stamp)
        return Done()

    def verify(self, params: QueueParams, call: Call) -> Outcome:
        """None of them may begin; one that was handed in meanwhile is held by another try."""
        free = [job.native_id for name in params.jobs for job in queue(self._ports, params, name) if not job.held]
        if free:
            return Failed(f"{', '.join(free)} at {params.site} may begin", "It is held again; stop handing in jobs of that name.")
        return Done({"held": [job.native_id for name in params.jobs for job in queue(self._ports, params, name)]})

    def undo(self, params: QueueParams, call: Call) -> Outcome:
        """What this step held may begin."""
        left_alone = call.recorded["held_before"]
        mine = msgspec.structs.replace(params, jobs=tuple(name for name in params.jobs if name not in left_alone))
        for name in mine.jobs:
            self._ports.admission(params.site).release(name, stamp=call.stamp)
        held = names_held(self._ports, mine)
        return Pending(POLL_S, {"waiting_for": f"{', '.join(held)} to be released"}) if held else Done({"left_held": left_alone})


class ReleaseJobs:
    """Held jobs of these names may begin when there is room. Undo holds the names of which some were held before."""

    name = "job.release"
    params_type = QueueParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: QueueParams, call: Call) -> Outcome:
        """Record which names are held."""
        return Done({"held_before": names_held(self._ports, params)})

    def apply(self, params: QueueParams, call: Call) -> Outcome:
        """Release them."""
        for name in params.jobs:
            self._ports.admission(params.site).release(name, stamp=call.stamp)
        return Done()

    def verify(self, params: QueueParams, call: Call) -> Outcome:
        """None is held."""
        held = names_held(self._ports, params)
        return Failed(f"{', '.join(held)} at {params.site} is held", "See who holds it there.") if held else Done()

    def undo(self, params: QueueParams, call: Call) -> Outcome:
        """Those that still wait are held again."""
        for name in call.recorded["held_before"]:
            self._ports.admission(params.site).hold(JobName(name), stamp=call.stamp)
        return Done({"held": call.recorded["held_before"]})


class GraceParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.grace``: how long a last save of the job takes."""

    site: SiteId
    job: JobName
    needs_s: float


class CheckGrace:
    """A job that the scheduler ends (a cancel, its time limit, another job before it) is given long enough for its last save (J10)."""

    name = "job.grace"
    params_type = GraceParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: GraceParams, call: Call) -> Outcome:
        """Always."""
        return Done()

    def apply(self, params: GraceParams, call: Call) -> Outcome:
        """Nothing to do: looking is what verify does."""
        return Done()

    def verify(self, params: GraceParams, call: Call) -> Outcome:
        """As the scheduler is configured now, not as the estate file says."""
        terms = self._ports.admission(params.site).graces(params.job)
        if terms.kill_wait_s < params.needs_s:
            return Failed(
                f"{params.site} kills a job {terms.kill_wait_s:g} s after TERM, and a last save of {params.job} takes {params.needs_s:g} s",
                "Raise KillWait there, or let the trainer save before it is stopped (training.hold).",
            )
        return Done({"kill_wait_s": terms.kill_wait_s, "preempted": terms.preempted})

    def undo(self, params: GraceParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()


def queue(ports: Switchboard, params: QueueParams, name: JobName) -> tuple[QueuedJob, ...]:
    """The jobs of a name that wait at the site."""
    return ports.admission(params.site).queue(name)


def names_held(ports: Switchboard, params: QueueParams) -> list[JobName]:
    """The names of which some job is held."""
    return [name for name in params.jobs if any(job.held for job in queue(ports, params, name))]
