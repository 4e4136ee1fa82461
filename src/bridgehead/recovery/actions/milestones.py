"""Milestones: facts that a recovery writes into its journal (design rule 10; J08), and the proof that replication works again (J07)."""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.moment import Moment
from bridgehead.ports.scheduler import JobRunning
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.actions.jobs import POLL_S
from bridgehead.recovery.actions.replication import receipt_of, ship
from bridgehead.recovery.actions.services import seen_health
from bridgehead.recovery.actions.training import reported
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending


class Milestone(enum.StrEnum):
    """What can be reached."""

    SERVING = "serving"
    """Everything works at the recovery site, verified: the RTO clock stops."""
    PROTECTED = "protected"
    """The lost site is clean, and what was recovered is protected in the new direction: the run ends."""


class MilestoneParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``recovery.milestone``: looked at once more when it is reached.

    Attributes:
        since_s: when the clock of the RTO began.
        services: what must answer, and have traffic, at the site.
        trainers: jobs that must compute at the site.
    """

    milestone: Milestone
    site: SiteId
    since_s: Moment
    services: tuple[ServiceId, ...] = ()
    trainers: tuple[JobName, ...] = ()


class ReachMilestone:
    """Everything that the steps before have brought about holds at the same moment; then the moment is written down."""

    name = "recovery.milestone"
    params_type = MilestoneParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: MilestoneParams, call: Call) -> Outcome:
        """Always."""
        return Done()

    def apply(self, params: MilestoneParams, call: Call) -> Outcome:
        """Nothing to do."""
        return Done()

    def verify(self, params: MilestoneParams, call: Call) -> Outcome:
        """Look."""
        for service in params.services:
            health = seen_health(self._ports, service, params.site)
            if health is None or not health.warm:
                return Pending(POLL_S, {"waiting_for": f"{service} at {params.site} to be warm"})
            if not self._ports.traffic(service).read(service).get(params.site):
                return Pending(POLL_S, {"waiting_for": f"{service} to have traffic at {params.site}"})
        for job in params.trainers:
            progress = reported(self._ports, params.site, job)
            runs = isinstance(self._ports.scheduler(params.site).observe(job), JobRunning)
            if progress is not None and progress.state is TrainerState.FINISHED:
                continue
            if not runs:
                return Failed(f"{job} does not run at {params.site} any more", "See its log, start it again, then `run resume`.")
            if progress is None or progress.state is not TrainerState.RUNNING:
                return Pending(POLL_S, {"waiting_for": f"{job} to compute at {params.site}"})
        return Done({"milestone": params.milestone.value, "reached_s": call.now_s, "after_s": max(0.0, call.now_s - params.since_s)})

    def undo(self, params: MilestoneParams, call: Call) -> Outcome:
        """A fact is not taken back."""
        return Done()


class ProbeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``replication.probe``: what was saved after this step began must arrive.

    Attributes:
        fresh: a snapshot that is newer than all before is waited for; False for what is not saved again (a served model).
    """

    workload: WorkloadId
    source: SiteId
    target: SiteId
    fresh: bool = True


class ProbeReplication:
    """Replication is healthy when something new has gone all the way, read back and receipted, and not when no error was seen (J07)."""

    name = "replication.probe"
    params_type = ProbeParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ProbeParams, call: Call) -> Outcome:
        """What is the newest now."""
        newest = self._ports.vaults.newest(params.workload, site=params.source)
        return Done({"before": None if newest is None else newest.id})

    def apply(self, params: ProbeParams, call: Call) -> Outcome:
        """Send the next one."""
        newest = self._ports.vaults.newest(params.workload, site=params.source)
        if newest is None or (params.fresh and newest.id == call.recorded["before"]):
            return Pending(0.2, {"waiting_for": f"the next snapshot of {params.workload} at {params.source}"})
        sent = ship(self._ports, newest.id, source=params.source, target=params.target, call=call)
        return Done({"snapshot": newest.id, **sent.evidence}) if isinstance(sent, Done) else sent

    def verify(self, params: ProbeParams, call: Call) -> Outcome:
        """It is there, whole, and counts there."""
        snapshot = call.applied.get("snapshot")
        if snapshot is None:
            return Failed("it is not known that anything was sent", "It is sent again.")
        info = self._ports.vaults.find(SnapshotId(snapshot), site=params.target)
        if info is None or not info.counts:
            found = "it did not arrive" if info is None else "it does not count there"
            return Failed(f"snapshot {snapshot} of {params.workload} at {params.target}: {found}", "Look at the link, and at the fences.")
        return receipt_of(self._ports, info, site=params.target, call=call)

    def undo(self, params: ProbeParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()
