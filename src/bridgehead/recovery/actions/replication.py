"""Replication: snapshots travel from vault to vault (M9.1, R8)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

SLICE_S = 0.5
"""How long one call replicates before it reports back, so that an abort is heard."""


def ship(ports: Switchboard, snapshot: SnapshotId, *, source: SiteId, target: SiteId, call: Call) -> Outcome:
    """One slice of replication, Done when the target has committed the snapshot."""
    progress = ports.vaults.replicate(snapshot, source=source, target=target, budget_s=SLICE_S, stamp=call.stamp)
    if not progress.done:
        return Pending(0.0, {"snapshot": snapshot, "sent_bytes": progress.sent_bytes, "left_bytes": progress.left_bytes})
    return Done({"snapshot": snapshot, "sent_bytes": progress.sent_bytes})


def receipt_of(ports: Switchboard, info: SnapshotInfo, *, site: SiteId, call: Call) -> Outcome:
    """The receipt of a snapshot at ``site``; Failed while it is not committed there."""
    if ports.vaults.find(info.id, site=site) is None:
        return Failed(f"snapshot {info.id} is not committed at {site}", "Look at the link and at the vault of the target.")
    receipt = ports.vaults.receipt(info.id, site=site, stamp=call.stamp)
    return Done({"snapshot": info.id, "step": info.step, "raw_bytes": receipt.raw_bytes, "blocks": receipt.blocks})


class PrecopyParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``vault.precopy``: ``lag_steps`` is how far the copy may be behind the newest snapshot when the pre-copy is over."""

    workload: WorkloadId
    source: SiteId
    target: SiteId
    lag_steps: int = 0


class Precopy:
    """Copy the newest snapshot while training goes on, again and again, until the copy has caught up (design section 6).

    It cannot converge when the link is slower than training writes; then the step's deadline ends it (rules MV6, rho >= 1).
    Copies stay after a rollback: they are harmless and make the next try shorter.
    """

    name = "vault.precopy"
    params_type = PrecopyParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: PrecopyParams, call: Call) -> Outcome:
        """Something is there to copy; without a verified snapshot it waits for the first one."""
        newest = self._ports.vaults.newest(params.workload, site=params.source)
        if newest is None:
            return Pending(0.2, {"waiting_for": f"a first verified snapshot of {params.workload} at {params.source}"})
        return Done({"newest": newest.id})

    def apply(self, params: PrecopyParams, call: Call) -> Outcome:
        """One slice: first of the snapshot that precheck found, so that one is surely finished, then of the newest."""
        vaults = self._ports.vaults
        begun = vaults.find(SnapshotId(call.recorded["newest"]), site=params.source)
        done = vaults.find(SnapshotId(call.recorded["newest"]), site=params.target)
        newest = begun if begun is not None and done is None else vaults.newest(params.workload, site=params.source)
        if newest is None:
            return Failed(f"no verified snapshot of {params.workload} is left at {params.source}", "Verify the source's vault.")
        sent = ship(self._ports, newest.id, source=params.source, target=params.target, call=call)
        if not isinstance(sent, Done):
            return sent
        newer = self._ports.vaults.newest(params.workload, site=params.source)
        behind = (newer.step if newer is not None else newest.step) - newest.step
        if behind > params.lag_steps:
            return Pending(0.0, {"snapshot": newest.id, "behind_steps": behind})
        return Done({"snapshot": newest.id, "step": newest.step, "sent_bytes": sent.evidence["sent_bytes"]})

    def verify(self, params: PrecopyParams, call: Call) -> Outcome:
        """A receipt from the target, for what apply said it had copied; after a lost answer, for the source's newest."""
        vaults = self._ports.vaults
        copied = call.applied.get("snapshot")
        info = vaults.newest(params.workload, site=params.source) if copied is None else vaults.find(SnapshotId(copied), site=params.target)
        if info is None:
            return Failed(f"{params.target} does not hold the copy", "Look at the link and the target's vault.")
        return receipt_of(self._ports, info, site=params.target, call=call)

    def undo(self, params: PrecopyParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done({"kept": "copies at the target"})


class ReplicateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``vault.replicate``: the snapshot of that id, or the one that the step ``of`` (a hold) names; exactly one of the two."""

    workload: WorkloadId
    source: SiteId
    target: SiteId
    snapshot: SnapshotId | None = None
    of: StepId | None = None

    def __post_init__(self) -> None:
        if (self.snapshot is None) == (self.of is None):
            raise ValueError("give either snapshot or of")


class Replicate:
    """Copy one named snapshot and get the target's receipt for it."""

    name = "vault.replicate"
    params_type = ReplicateParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ReplicateParams, call: Call) -> Outcome:
        """The snapshot is at the source."""
        info = self._wanted(params, call)
        return info if isinstance(info, Failed) else Done({"snapshot": info.id})

    def apply(self, params: ReplicateParams, call: Call) -> Outcome:
        """One slice."""
        info = self._wanted(params, call)
        if isinstance(info, Failed):
            return info
        return ship(self._ports, info.id, source=params.source, target=params.target, call=call)

    def verify(self, params: ReplicateParams, call: Call) -> Outcome:
        """A receipt from the target."""
        info = self._wanted(params, call)
        return info if isinstance(info, Failed) else receipt_of(self._ports, info, site=params.target, call=call)

    def undo(self, params: ReplicateParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done({"kept": "copy at the target"})

    def _wanted(self, params: ReplicateParams, call: Call) -> SnapshotInfo | Failed:
        snapshot = params.snapshot if params.of is None else call.earlier.get(params.of, {}).get("snapshot")
        if snapshot is None:
            return Failed(f"step '{params.of}' names no snapshot", "Let this step need a step that does (training.hold).")
        info = self._ports.vaults.find(SnapshotId(snapshot), site=params.source)
        return info or Failed(f"snapshot {snapshot} is not at {params.source}", "Verify the source's vault.")
