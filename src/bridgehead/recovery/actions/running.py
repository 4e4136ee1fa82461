"""Running: a job is made to run here, or not to run any more, whatever it did before (R14; J05, J12).

A recovery finds all kinds of states: the standby of an active-passive pair runs already, a lost site returns with half of its jobs. So
these take things as they are, unlike ``job.start`` and ``job.stop``.
"""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId
from bridgehead.ports.scheduler import JobEnded, JobRunning, JobSpec
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.jobs import POLL_S, is_running, take_away
from bridgehead.recovery.actions.services import seen_health
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending


class EnsureParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.ensure``: the job, and what shows that it works.

    Attributes:
        service: whose health must be warm at the site; None: that the job runs is enough.
        snapshot: the model that it must serve, where the backend says which it has.
        settle_s: without a service: it must have run, or ended well, for so long.
        drain_s: an undo waits for open streams.
    """

    site: SiteId
    job: JobSpec
    service: ServiceId | None = None
    snapshot: SnapshotId | None = None
    settle_s: float = 0.0
    drain_s: float = 30.0


class EnsureJob:
    """Start a job unless it runs already, and see that it works. Undo stops it if this started it."""

    name = "job.ensure"
    params_type = EnsureParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: EnsureParams, call: Call) -> Outcome:
        """Record whether it runs already, and which execution was the last one."""
        state = self._ports.scheduler(params.site).observe(params.job.name)
        ended = {"ended_before": _execution(state)} if isinstance(state, JobEnded) else {}
        return Done({"ran_before": isinstance(state, JobRunning), **ended})

    def apply(self, params: EnsureParams, call: Call) -> Outcome:
        """Start it."""
        scheduler = self._ports.scheduler(params.site)
        if call.recorded.get("ran_before") and isinstance(scheduler.observe(params.job.name), JobRunning):
            return Done({"started": False})
        scheduler.start(params.job, stamp=call.stamp)
        return Done({"started": True})

    def verify(self, params: EnsureParams, call: Call) -> Outcome:
        """It runs, or has ended well; the service answers, with the right model."""
        state = self._ports.scheduler(params.site).observe(params.job.name)
        if isinstance(state, JobEnded) and _execution(state) == call.recorded.get("ended_before"):
            return Failed(f"job '{params.job.name}' at {params.site} ended before this began: nothing was started", "It is started now.")
        if params.service is None and isinstance(state, JobEnded) and state.exit_code == 0:
            return Done({"ended": "well"})
        running = is_running(state, params.site)
        if not isinstance(running, Done):
            return running
        if params.service is None:
            return Done(running.evidence) if call.now_s - call.since_s >= params.settle_s else Pending(POLL_S, {"waiting_for": "a moment"})
        health = seen_health(self._ports, params.service, params.site)
        if health is None or not health.warm:
            return Pending(POLL_S, {"waiting_for": f"{params.service} at {params.site} to be warm"})
        if params.snapshot is not None and health.snapshot not in ("", params.snapshot):
            return Failed(
                f"{params.service} at {params.site} serves snapshot {health.snapshot}, not {params.snapshot}",
                "Stop that backend; then `bridgehead run resume` starts it with the right one.",
            )
        return Done({"model_hash": health.model_hash, "snapshot": health.snapshot, **running.evidence})

    def undo(self, params: EnsureParams, call: Call) -> Outcome:
        """What this started is seen to have ended; open streams come to their end first, within ``drain_s``."""
        if call.recorded.get("ran_before"):
            return Done({"stays": "it ran before"})
        running = isinstance(self._ports.scheduler(params.site).observe(params.job.name), JobRunning)
        if running and params.service is not None and call.now_s - call.since_s < params.drain_s:
            open_now = self._ports.traffic(params.service).in_flight(params.service, params.site)
            if open_now:
                return Pending(POLL_S, {"waiting_for": "open requests to end", "open": open_now})
        return take_away(self._ports, params.site, params.job.name, grace_s=params.drain_s + params.job.grace_s, call=call)


def _execution(state: JobEnded) -> str:
    """Which execution of the job that was: an old one that ended well is no proof for this one (J12)."""
    return f"{state.identity.native_id}@{state.identity.submitted_s:.6f}#{state.identity.restarts}"


class ClearParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``job.clear``: jobs that must not run at the site any more."""

    site: SiteId
    jobs: tuple[JobName, ...]
    grace_s: float = 30.0


class ClearJobs:
    """End what a lost site still runs, or runs again: after its fence, so that nothing of it counts while it ends. Absent jobs are fine."""

    name = "job.clear"
    params_type = ClearParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ClearParams, call: Call) -> Outcome:
        """What is there."""
        scheduler = self._ports.scheduler(params.site)
        return Done({"running": [job for job in params.jobs if isinstance(scheduler.observe(job), JobRunning)]})

    def apply(self, params: ClearParams, call: Call) -> Outcome:
        """Stop, wait, kill, one after the other; each is told at once."""
        outcomes = [take_away(self._ports, params.site, job, grace_s=params.grace_s, call=call) for job in params.jobs]
        return next((one for one in outcomes if not isinstance(one, Done)), Done({"cleared_s": call.now_s}))

    def verify(self, params: ClearParams, call: Call) -> Outcome:
        """None of them runs."""
        scheduler = self._ports.scheduler(params.site)
        left = [job for job in params.jobs if isinstance(scheduler.observe(job), JobRunning)]
        if left:
            return Failed(f"still running at {params.site}: {', '.join(left)}", "They are told again; else end them by hand.")
        return Done({"cleared": list(params.jobs)})

    def undo(self, params: ClearParams, call: Call) -> Outcome:
        """What was a zombie stays ended."""
        return Done()
