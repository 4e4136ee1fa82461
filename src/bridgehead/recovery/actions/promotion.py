"""Promotion: a standby becomes the writer without its predecessor, who may be gone, silent, or computing in vain (rule 11; J11, J14)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.ports.switchboard import Switchboard
from bridgehead.ports.training import Release, TrainerState
from bridgehead.recovery.actions.jobs import is_running
from bridgehead.recovery.actions.training import QUICK_POLL_S, reported
from bridgehead.recovery.loss import LastSeen, loss_of
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending


class PromoteParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.promote``: the standby, and the steps before.

    Attributes:
        point: the step that named the snapshot (``vault.prove``).
        confirmed: the step that saw what the source did last (``recovery.confirm-loss``).
        gpus: of the workload, for what its loss costs.
    """

    workload: WorkloadId
    site: SiteId
    job: JobName
    point: StepId
    confirmed: StepId
    gpus: int = 0


class PromoteStandby:
    """Let the standby compute from the promoted snapshot, as the only writer, and see its step counter advance. States what was lost.

    Without undo: the way back is a failback, which loses nothing.
    """

    name = "training.promote"
    params_type = PromoteParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: PromoteParams, call: Call) -> Outcome:
        """The fence is in force here and counts the snapshot; the standby stands by."""
        fence = self._ports.vaults.newest_fence(params.workload, site=params.site)
        if fence is None or fence.holder != params.site:
            return Failed(f"no fence gives {params.workload} to {params.site}", "Let this step need a recovery.fence step.")
        point = call.earlier.get(params.point, {})
        snapshot = point.get("snapshot")
        if snapshot not in fence.counts:
            return Failed(f"the fence does not count snapshot {snapshot}", "The fence and this step speak of different recoveries.")
        progress = reported(self._ports, params.site, params.job)
        if progress is None or progress.state is not TrainerState.STANDBY:
            state = "silent" if progress is None else progress.state.value
            return Failed(f"trainer '{params.job}' at {params.site} is {state}, not in standby", "See its log.")
        return Done({"snapshot": snapshot, "epoch": fence.epoch})

    def apply(self, params: PromoteParams, call: Call) -> Outcome:
        """Give the order."""
        self._order(params, call)
        return Done()

    def verify(self, params: PromoteParams, call: Call) -> Outcome:
        """A step that goes beyond the snapshot is done: only then it counts as resumed."""
        progress = self._ports.training(params.site).progress(params.job)
        snapshot = self._ports.vaults.find(SnapshotId(call.recorded["snapshot"]), site=params.site)
        if snapshot is None:
            return Failed(f"snapshot {call.recorded['snapshot']} is not at {params.site}", "Verify the vault of that site.")
        if progress.obeyed == f"{call.stamp.key}/release" and progress.first_step_s > 0 and progress.step > snapshot.step:
            seen: Json = call.earlier.get(params.confirmed, {})
            last = seen.get(params.workload)
            known = None if last is None else msgspec.convert(last, LastSeen)
            lost_s = seen.get("confirmed_s", call.now_s)
            loss = loss_of(params.workload, point=snapshot, last=known, lost_s=lost_s, gpus=params.gpus)
            return Done(
                {
                    "resumed_step": snapshot.step + 1,
                    "first_step_s": progress.first_step_s,
                    "epoch": progress.epoch,
                    "loss": msgspec.to_builtins(loss),
                    "lost_steps": loss.steps,
                }
            )
        running = is_running(self._ports.scheduler(params.site).observe(params.job), params.site)
        if isinstance(running, Failed):
            return running
        self._order(params, call)
        return Pending(QUICK_POLL_S, {"waiting_for": f"{params.job} to complete step {snapshot.step + 1}"})

    def undo(self, params: PromoteParams, call: Call) -> Outcome:
        """Nothing is taken back."""
        return Done()

    def _order(self, params: PromoteParams, call: Call) -> None:
        order = Release(snapshot=SnapshotId(call.recorded["snapshot"]), epoch=call.recorded["epoch"])
        self._ports.training(params.site).request(params.job, order, order_id=f"{call.stamp.key}/release", stamp=call.stamp)
