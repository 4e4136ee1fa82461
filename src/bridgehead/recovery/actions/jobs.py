"""Jobs: start one, stop one, take one away again; shared by the actions that need a job to run."""

from __future__ import annotations

import contextlib
from typing import assert_never

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning, JobSpec, JobState
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending

POLL_S = 0.05


def free_for_start(ports: Switchboard, site: SiteId, spec: JobSpec) -> Outcome:
    """A job of that name that already runs is a stranger: it is neither taken over nor, in an undo, stopped."""
    match ports.scheduler(site).observe(spec.name):
        case JobRunning(identity=identity):
            return Failed(
                f"a job '{spec.name}' runs at {site} already (id {identity.native_id})", "Stop it, or give this step's job another name."
            )
        case JobEnded() | JobAbsent():
            return Done({"ran_before": False})


def take_away(ports: Switchboard, site: SiteId, name: JobName, *, grace_s: float, call: Call) -> Outcome:
    """Ask the job to end, kill it when its grace is over, and say Done only when it is seen to have ended.

    A job that does not run is told to stop, too: so the site knows this driver's epoch, and refuses a start by an older one that is late.
    """
    scheduler = ports.scheduler(site)
    match scheduler.observe(name):
        case JobAbsent():
            _tell_epoch(ports, site, name, call)
            return Done({"ended": "was never started"})
        case JobEnded(exit_code=exit_code):
            _tell_epoch(ports, site, name, call)
            return Done({"exit_code": exit_code})
        case JobRunning():
            if call.now_s - call.since_s >= grace_s:
                scheduler.kill(name, stamp=call.stamp)
            else:
                scheduler.stop(name, stamp=call.stamp)
            return Pending(POLL_S, {"waiting_for": f"job {name} to end", "grace_s": grace_s})


def _tell_epoch(ports: Switchboard, site: SiteId, name: JobName, call: Call) -> None:
    with contextlib.suppress(NotFound):  # it was never started; the epoch is known there all the same
        ports.scheduler(site).stop(name, stamp=call.stamp)


def is_running(state: JobState, site: SiteId) -> Outcome:
    """Done while the job is seen at work, Pending while it is queued; Failed on positive evidence that it is not there."""
    match state:
        case JobRunning(identity=identity, waiting_for=reason) if reason:
            return Pending(POLL_S, {"waiting_for": f"job '{identity.name}' at {site} to begin: {reason}"})
        case JobRunning(identity=identity):
            return Done({"job": identity.name, "native_id": identity.native_id})
        case JobEnded(identity=identity, exit_code=exit_code):
            return Failed(f"job '{identity.name}' at {site} ended with code {exit_code}", "Read the job's log at the site.")
        case JobAbsent(name=name):
            return Failed(f"job '{name}' was not started at {site}", "Look at the scheduler of the site.")
        case _:
            assert_never(state)


class StartJobParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.start``: which job, where."""

    site: SiteId
    job: JobSpec


class StartJob:
    """Start a job and see it alive. Undo stops it."""

    name = "job.start"
    params_type = StartJobParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: StartJobParams, call: Call) -> Outcome:
        """The name is free."""
        return free_for_start(self._ports, params.site, params.job)

    def apply(self, params: StartJobParams, call: Call) -> Outcome:
        """Start it."""
        self._ports.scheduler(params.site).start(params.job, stamp=call.stamp)
        return Done()

    def verify(self, params: StartJobParams, call: Call) -> Outcome:
        """It is seen alive."""
        return is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)

    def undo(self, params: StartJobParams, call: Call) -> Outcome:
        """It is seen to have ended."""
        return take_away(self._ports, params.site, params.job.name, grace_s=params.job.grace_s, call=call)


class StopJobParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.stop``: which job, and what an undo starts in its place (a trainer: in standby, to be released by another undo)."""

    site: SiteId
    job: JobName
    restart: JobSpec
    grace_s: float = 30.0


class StopJob:
    """Stop a job gracefully, kill it after its grace. Undo starts ``restart`` and sees it alive."""

    name = "job.stop"
    params_type = StopJobParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: StopJobParams, call: Call) -> Outcome:
        """Record whether it runs: an undo starts nothing that did not run before."""
        state = self._ports.scheduler(params.site).observe(params.job)
        if isinstance(state, JobAbsent):
            remedy = "Check the job's name, and that the estate leads to the site where it runs."
            return Failed(f"no job '{params.job}' was ever started at {params.site}: there is nothing to stop", remedy)
        recorded: Json = {"ran_before": isinstance(state, JobRunning)}
        if isinstance(state, JobRunning):
            recorded["native_id"] = state.identity.native_id
        return Done(recorded)

    def apply(self, params: StopJobParams, call: Call) -> Outcome:
        """Stop, wait, kill."""
        return take_away(self._ports, params.site, params.job, grace_s=params.grace_s, call=call)

    def verify(self, params: StopJobParams, call: Call) -> Outcome:
        """It is seen to have ended."""
        state = self._ports.scheduler(params.site).observe(params.job)
        if isinstance(state, JobRunning):
            return Failed(f"job '{params.job}' still runs at {params.site}", "Kill it by hand at the site.")
        return Done({"exit_code": state.exit_code if isinstance(state, JobEnded) else None})

    def undo(self, params: StopJobParams, call: Call) -> Outcome:
        """What ran before runs again.

        An execution that is still seen alive may have been asked to end already, and would be gone a moment later: its end is awaited.
        """
        scheduler = self._ports.scheduler(params.site)
        if not call.recorded.get("ran_before"):
            return Done({"restarted": False})
        state = scheduler.observe(params.job)
        if isinstance(state, JobRunning) and state.identity.native_id == call.recorded["native_id"]:
            ending = take_away(self._ports, params.site, params.job, grace_s=params.grace_s, call=call)
            if not isinstance(ending, Done):
                return ending
        if isinstance(scheduler.observe(params.restart.name), JobRunning):
            return Done({"restarted": True})
        scheduler.start(params.restart, stamp=call.stamp)
        return Pending(POLL_S, {"waiting_for": f"job {params.restart.name} to run again"})
