"""The fence: before anyone is promoted, the old epoch is closed (design rule 8; J05, J06)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome


class FenceParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``training.fence``: ``holder`` may write from now on; ``sites`` record it, the one that loses the right first."""

    workload: WorkloadId
    holder: SiteId
    sites: tuple[SiteId, ...]
    of: StepId
    """The step (a hold) that names the last snapshot of the old epoch that counts."""


class RaiseFence:
    """Record at every site that epoch e+1 belongs to ``holder`` and which older snapshots count.

    Undo opens epoch e+2 for the site that had the right before, counting what came back from the other side.
    """

    name = "training.fence"
    params_type = FenceParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: FenceParams, call: Call) -> Outcome:
        """Every site holds the snapshot, verified; all sites agree on the epoch."""
        snapshot = call.earlier.get(params.of, {}).get("snapshot")
        if snapshot is None:
            return Failed(f"step '{params.of}' names no snapshot", "Let this step need a step that does (training.hold).")
        info = self._ports.vaults.find(SnapshotId(snapshot), site=params.holder)
        if info is None or not info.verified or not info.counts:
            return Failed(f"{params.holder} does not hold snapshot {snapshot}, verified", "Replicate it and get its receipt first.")
        fences = [self._ports.vaults.newest_fence(params.workload, site=site) for site in params.sites]
        epochs = {0 if fence is None else fence.epoch for fence in fences}
        if len(epochs) != 1:
            return Failed(f"the sites do not agree on the epoch of {params.workload}: {sorted(epochs)}", "Finish the earlier move first.")
        before = fences[0]
        counts = tuple(dict.fromkeys([*(before.counts if before else ()), snapshot]))
        holder = before.holder if before else ""
        # Who opens it is recorded, because another run may undo this one.
        return Done({"epoch": epochs.pop(), "holder": holder, "snapshot": snapshot, "counts": counts, "opened_by": call.stamp.key})

    def apply(self, params: FenceParams, call: Call) -> Outcome:
        """Record it everywhere."""
        wanted = Fence(
            workload=params.workload,
            epoch=Epoch(call.recorded["epoch"] + 1),
            holder=params.holder,
            counts=tuple(call.recorded["counts"]),
            opened_by=call.recorded["opened_by"],
            opened_s=call.now_s,
        )
        return self._raise(wanted, params.sites, call)

    def verify(self, params: FenceParams, call: Call) -> Outcome:
        """Read back everywhere."""
        for site in params.sites:
            fence = self._ports.vaults.newest_fence(params.workload, site=site)
            if fence is None or fence.opened_by != call.recorded["opened_by"]:
                return Failed(f"the fence is not in force at {site}", "Look at the vault of the site.")
        return Done({"epoch": call.recorded["epoch"] + 1, "holder": params.holder, "counts": list(call.recorded["counts"])})

    def undo(self, params: FenceParams, call: Call) -> Outcome:
        """Give the right back. The site that loses it is closed first.

        The fence is raised and taken back even where none is seen: a call of a driver that is no more may still be on its way, and would
        close the epoch of a trainer that has long gone on. When someone else opened the epoch, ours can never be recorded.
        """
        fences = {site: self._ports.vaults.newest_fence(params.workload, site=site) for site in params.sites}
        ours, back = call.recorded["opened_by"], f"{call.recorded['opened_by']}/undo"
        others = [f for f in fences.values() if f is not None and f.epoch > call.recorded["epoch"] and f.opened_by not in (ours, back)]
        if any(fence.epoch > call.recorded["epoch"] + 1 for fence in others):
            later = max(others, key=lambda fence: fence.epoch)
            return Failed(
                f"{params.workload} has been moved on since: {later.opened_by} opened epoch {later.epoch} for {later.holder}",
                "Undo that move first, or move the workload back by a move of its own.",
            )
        if others:
            return Done({"epoch": call.recorded["epoch"]})
        before = SiteId(call.recorded["holder"] or next(site for site in params.sites if site != params.holder))
        first = next((fence for fence in fences.values() if fence is not None and fence.opened_by == back), None)
        if first is None:
            # A site that the fence never reached gets it now, so that epochs stay without a gap everywhere.
            self.apply(params, call)
            newest = self._ports.vaults.newest(params.workload, site=before)
            counts = (*call.recorded["counts"], *([newest.id] if newest is not None else []))
            first = Fence(
                workload=params.workload,
                epoch=Epoch(call.recorded["epoch"] + 2),
                holder=before,
                counts=tuple(dict.fromkeys(counts)),
                opened_by=back,
                opened_s=call.now_s,
            )
        return self._raise(first, tuple(sorted(params.sites, key=lambda site: site == before)), call)

    def _raise(self, fence: Fence, sites: tuple[SiteId, ...], call: Call) -> Outcome:
        for site in sites:
            recorded = self._ports.vaults.fence(fence, site=site, stamp=call.stamp)
            # What was recorded first is what all sites must say, even when a repeat would word it otherwise.
            fence = recorded
        return Done({"epoch": fence.epoch, "holder": fence.holder})
