"""Training goes over: standby, hold, release (design section 6; R16, rules 7 and 11)."""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.scheduler import JobEnded, JobRunning, JobSpec
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.training import Continue, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.recovery.actions.jobs import POLL_S, free_for_start, is_running, take_away
from bridgehead.recovery.actions.replication import receipt_of, ship
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending

QUICK_POLL_S = 0.01
"""While training stands still every look counts."""


class StandbyParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.standby``: the job must be told to stand by (BRIDGEHEAD_STANDBY=1 in its environment)."""

    workload: WorkloadId
    site: SiteId
    job: JobSpec


class Standby:
    """Start the trainer at the target, restored and warm, computing nothing until it is released. Undo stops it."""

    name = "training.standby"
    params_type = StandbyParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: StandbyParams, call: Call) -> Outcome:
        """The target's vault has something to restore, and the job's name is free."""
        if self._ports.vaults.newest(params.workload, site=params.site) is None:
            return Failed(f"{params.site} holds no verified snapshot of {params.workload}", "Replicate one first (vault.precopy).")
        return free_for_start(self._ports, params.site, params.job)

    def apply(self, params: StandbyParams, call: Call) -> Outcome:
        """Start it."""
        self._ports.scheduler(params.site).start(params.job, stamp=call.stamp)
        return Done()

    def verify(self, params: StandbyParams, call: Call) -> Outcome:
        """It says that it stands by with a snapshot loaded."""
        running = is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)
        if not isinstance(running, Done):
            return running
        progress = reported(self._ports, params.site, params.job.name)
        if progress is None or progress.state is not TrainerState.STANDBY or progress.loaded is None:
            state = "no report yet" if progress is None else progress.state.value
            return Pending(POLL_S, {"waiting_for": f"{params.job.name} to be warm", "state": state})
        return Done({"loaded": progress.loaded, "step": progress.step})

    def undo(self, params: StandbyParams, call: Call) -> Outcome:
        """It is seen to have ended."""
        return take_away(self._ports, params.site, params.job.name, grace_s=params.job.grace_s, call=call)


class OnSilence(enum.StrEnum):
    """What a hold does when the trainer does not obey in time."""

    FAIL = "fail"
    LAST_VERIFIED = "last-verified"
    """Go on with the newest verified snapshot; the steps after it are lost, and stated."""


class HoldParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.hold``: how long the trainer has for its final checkpoint, and what happens when it does not come (J10, J11).

    Attributes:
        successor_site, successor: the standby that takes over; it must stand by before the trainer is held.
        restart: in standby; takes the place of a trainer that obeys nobody when an undo has to bring it into a newer epoch.
    """

    workload: WorkloadId
    site: SiteId
    job: JobName
    patience_s: float = 30.0
    on_silence: OnSilence = OnSilence.FAIL
    successor_site: SiteId | None = None
    successor: JobName | None = None
    restart: JobSpec | None = None


class Hold:
    """Ask for the final checkpoint and wait for the fact: a new, complete, verified snapshot. Undo lets the trainer go on."""

    name = "training.hold"
    params_type = HoldParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: HoldParams, call: Call) -> Outcome:
        """The trainer runs."""
        progress = self._ports.training(params.site).progress(params.job)
        if progress.state is not TrainerState.RUNNING:
            return Failed(f"trainer '{params.job}' at {params.site} is {progress.state.value}, not running", "Look at the trainer.")
        running = is_running(self._ports.scheduler(params.site).observe(params.job), params.site)
        if not isinstance(running, Done):
            return running
        waits = self._successor_waits(params)
        return waits if isinstance(waits, Failed) else Done({"step": progress.step, "epoch": progress.epoch, **running.evidence})

    def _successor_waits(self, params: HoldParams) -> Outcome:
        """Training must not stand still for a standby that has died since it was warm."""
        if params.successor_site is None or params.successor is None:
            return Done()
        running = is_running(self._ports.scheduler(params.successor_site).observe(params.successor), params.successor_site)
        progress = reported(self._ports, params.successor_site, params.successor)
        if isinstance(running, Done) and (progress is None or progress.state is not TrainerState.STANDBY):
            return Failed(f"'{params.successor}' at {params.successor_site} does not stand by", "See its log.")
        return running

    def apply(self, params: HoldParams, call: Call) -> Outcome:
        """Ask."""
        self._ports.training(params.site).request(params.job, SaveAndHold(), order_id=_order(call, "hold"), stamp=call.stamp)
        return Done({"asked_s": call.now_s})

    def verify(self, params: HoldParams, call: Call) -> Outcome:
        """It obeyed, and the vault has the snapshot; or its time is over."""
        control = self._ports.training(params.site)
        progress = control.progress(params.job)
        if progress.obeyed == _order(call, "hold") and progress.state is TrainerState.HOLDING and progress.saved is not None:
            info = self._ports.vaults.find(progress.saved, site=params.site)
            if info is not None and info.verified and info.counts:
                return Done({"snapshot": info.id, "step": info.step, "obeyed": True, "lost_steps": progress.step - info.step})
        if "asked_s" not in call.applied:
            return Failed(f"it is not known that '{params.job}' was asked", "It is asked now.")
        if call.now_s - call.since_s < params.patience_s:
            return Pending(QUICK_POLL_S, {"waiting_for": "the final checkpoint", "step": progress.step})
        if params.on_silence is OnSilence.FAIL:
            return Failed(f"trainer '{params.job}' did not save and hold within {params.patience_s:g} s", "See the trainer's log.")
        newest = self._ports.vaults.newest(params.workload, site=params.site)
        if newest is None:
            return Failed(f"no verified snapshot of {params.workload} at {params.site}", "Nothing can be moved without one.")
        return Done({"snapshot": newest.id, "step": newest.step, "obeyed": False, "lost_steps": progress.step - newest.step})

    def undo(self, params: HoldParams, call: Call) -> Outcome:
        """The trainer computes again, in the epoch that is in force now.

        An order is always given, even when the trainer never obeyed the hold: the hold may still lie in its letter box.
        """
        job, control = params.job, self._ports.training(params.site)
        progress = control.progress(job)
        fence = self._ports.vaults.newest_fence(params.workload, site=params.site)
        reopened = fence is not None and fence.epoch > progress.epoch
        seen = self._ports.scheduler(params.site).observe(job)
        if isinstance(seen, JobEnded):
            if progress.state is TrainerState.FINISHED and not reopened:
                return Done({"step": progress.step, "finished": True})
            return self._start_again(params, call)
        obeyed = progress.obeyed in (_order(call, "continue"), _order(call, f"release-{progress.epoch}"))
        if progress.state is TrainerState.RUNNING and obeyed and not reopened:
            return Done({"step": progress.step, "epoch": progress.epoch})
        silent = progress.state is TrainerState.RUNNING and call.now_s - call.since_s >= params.patience_s
        if silent and not reopened:
            return Done({"step": progress.step, "obeyed": False})
        if fence is None or not reopened:
            control.request(job, Continue(), order_id=_order(call, "continue"), stamp=call.stamp)
            return Pending(POLL_S, {"waiting_for": f"{job} to go on"})
        newest = self._ports.vaults.newest(params.workload, site=params.site)
        if newest is None:
            return Failed(f"no verified snapshot that counts at {params.site}", "Verify the vault; release the trainer by hand.")
        order = Release(snapshot=newest.id, epoch=fence.epoch)
        control.request(job, order, order_id=_order(call, f"release-{fence.epoch}"), stamp=call.stamp)
        the_same = isinstance(seen, JobRunning) and seen.identity.native_id == call.recorded.get("native_id")
        if silent and the_same and params.restart is not None:
            # It computes in a closed epoch and obeys nobody: nothing that it saves will count.
            self._ports.scheduler(params.site).kill(job, stamp=call.stamp)
        return Pending(POLL_S, {"waiting_for": f"{job} to go on from {newest.id} in epoch {fence.epoch}"})

    def _start_again(self, params: HoldParams, call: Call) -> Outcome:
        if params.restart is None:
            return Failed(f"trainer '{params.job}' at {params.site} has ended", "Start it again from the newest snapshot of the vault.")
        self._ports.scheduler(params.site).start(params.restart, stamp=call.stamp)
        return Pending(POLL_S, {"waiting_for": f"{params.restart.name} to be warm again"})


class ReleaseParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.release``: ``fence`` names the step that opened the epoch, ``hold`` the one that made the snapshot."""

    workload: WorkloadId
    source: SiteId
    source_job: JobName
    target: SiteId
    target_job: JobName
    hold: StepId


class ReleaseTarget:
    """Let the standby compute, as the only writer, and see its step counter advance. Reports what was lost.

    Undo takes the work back: hold at the target, copy the newest state to the source, get its receipt.
    """

    name = "training.release"
    params_type = ReleaseParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ReleaseParams, call: Call) -> Outcome:
        """The fence is in force at the target, and the standby stands by. Records where the source stopped."""
        fence = self._ports.vaults.newest_fence(params.workload, site=params.target)
        if fence is None or fence.holder != params.target:
            return Failed(f"no fence gives {params.workload} to {params.target}", "Let this step need a training.fence step.")
        snapshot = call.earlier.get(params.hold, {}).get("snapshot")
        if snapshot not in fence.counts:
            return Failed(f"the fence does not count snapshot {snapshot}", "The fence and the hold speak of different moves.")
        progress = self._ports.training(params.target).progress(params.target_job)
        if progress.state is not TrainerState.STANDBY:
            return Failed(f"trainer '{params.target_job}' at {params.target} is {progress.state.value}, not in standby", "See its log.")
        source = reported(self._ports, params.source, params.source_job)
        recorded = {"snapshot": snapshot, "epoch": fence.epoch}
        if source is not None:
            recorded |= {"source_step": source.step, "source_step_ended_s": source.step_ended_s}
        return Done(recorded)

    def apply(self, params: ReleaseParams, call: Call) -> Outcome:
        """Give the order."""
        order = Release(snapshot=SnapshotId(call.recorded["snapshot"]), epoch=call.recorded["epoch"])
        self._ports.training(params.target).request(params.target_job, order, order_id=_order(call, "release"), stamp=call.stamp)
        return Done()

    def verify(self, params: ReleaseParams, call: Call) -> Outcome:
        """A step that nobody computed before is done: only then the job counts as resumed (rule 11, J14)."""
        job = params.target_job
        running = is_running(self._ports.scheduler(params.target).observe(job), params.target)
        progress = self._ports.training(params.target).progress(job)
        snapshot = self._ports.vaults.find(SnapshotId(call.recorded["snapshot"]), site=params.target)
        if snapshot is None:
            return Failed(f"snapshot {call.recorded['snapshot']} is not at {params.target}", "Verify the target's vault.")
        if progress.obeyed == _order(call, "release") and progress.first_step_s > 0 and progress.step > snapshot.step:
            return Done(self._account(call, progress, snapshot))
        if isinstance(running, Failed):
            return running
        order = Release(snapshot=snapshot.id, epoch=call.recorded["epoch"])
        self._ports.training(params.target).request(job, order, order_id=_order(call, "release"), stamp=call.stamp)
        return Pending(QUICK_POLL_S, {"waiting_for": f"{job} to complete step {snapshot.step + 1}"})

    def undo(self, params: ReleaseParams, call: Call) -> Outcome:
        """Nothing computes at the target, and all that it computed and saved is at the source, with a receipt."""
        job, site = params.target_job, params.target
        if isinstance(self._ports.scheduler(site).observe(job), JobRunning):
            progress = self._ports.training(site).progress(job)
            if progress.obeyed != _order(call, "take-back"):
                self._ports.training(site).request(job, SaveAndHold(), order_id=_order(call, "take-back"), stamp=call.stamp)
                return Pending(QUICK_POLL_S, {"waiting_for": f"{job} to save and hold"})
        newest = self._ports.vaults.newest(params.workload, site=site)
        if newest is None:
            return Failed(f"no verified snapshot that counts at {site}", "Find the newest snapshot by hand and replicate it.")
        sent = ship(self._ports, newest.id, source=site, target=params.source, call=call)
        return sent if not isinstance(sent, Done) else receipt_of(self._ports, newest, site=params.source, call=call)

    def _account(self, call: Call, progress: TrainingProgress, snapshot: SnapshotInfo) -> Json:
        """Lost compute: from the end of the last step that counts to the end of the first step that nobody computed before."""
        source_step = call.recorded.get("source_step")
        lost_steps = None if source_step is None else max(0, source_step - snapshot.step)
        ended_s = call.recorded.get("source_step_ended_s") if lost_steps == 0 else snapshot.created_s
        return {
            "resumed_step": snapshot.step + 1,
            "lost_steps": lost_steps,
            "lost_compute_s": None if not ended_s else progress.first_step_s - ended_s,
            "epoch": progress.epoch,
        }


def reported(ports: Switchboard, site: SiteId, job: JobName) -> TrainingProgress | None:
    """The trainer's newest report, None before its first. Raises Transient when it cannot be read."""
    try:
        return ports.training(site).progress(job)
    except NotFound:
        return None


def _order(call: Call, what: str) -> str:
    """The same for every attempt and driver of this step, so that the trainer obeys it once."""
    return f"{call.stamp.key}/{what}"
