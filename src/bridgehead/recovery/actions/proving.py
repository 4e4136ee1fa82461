"""Prove: which snapshot is the newest that can really be restored here, found by reading every block of it (R6, R13; V16)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending


class ProveParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``vault.prove``: of which workload, in the vault of which site.

    Attributes:
        at_least_step: what was promised to those who approved; an older snapshot would lose more than they know of.
    """

    workload: WorkloadId
    site: SiteId
    at_least_step: int = 0


class ProveNewest:
    """Read back the newest snapshot; when it is damaged, the one before it, and so on. Changes nothing that counts.

    The evidence names it (``snapshot``), its age when it was taken up (the recovery point, ``age_s``), and the one that was newest by name.
    """

    name = "vault.prove"
    params_type = ProveParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ProveParams, call: Call) -> Outcome:
        """There is one. Its age counts from here: what takes long afterwards is no loss of data."""
        newest = self._newest(params)
        return newest if isinstance(newest, Failed) else Done({"newest": newest.id, "asked_s": call.now_s})

    def apply(self, params: ProveParams, call: Call) -> Outcome:
        """Nothing to do: reading is what verify does."""
        return Done()

    def verify(self, params: ProveParams, call: Call) -> Outcome:
        """Every block of it is there and right."""
        info = self._newest(params)
        if isinstance(info, Failed):
            return info
        try:
            receipt = self._ports.vaults.receipt(info.id, site=params.site, stamp=call.stamp)
        except Permanent as error:
            again = self._newest(params)
            damaged = f"snapshot {info.id} at {params.site} is damaged ({error.happened})"
            if isinstance(again, Failed):
                return Failed(f"{damaged}; {again.reason}", again.remedy)
            if again.id == info.id:
                return Failed(f"{damaged}, and there is none before it", "Replicate an intact one from another site.")
            return Pending(0.0, {"damaged": info.id, "next": again.id})
        first = self._ports.vaults.find(SnapshotId(call.recorded["newest"]), site=params.site)
        return Done(
            {
                "snapshot": info.id,
                "step": info.step,
                "created_s": info.created_s,
                "age_s": max(0.0, call.recorded["asked_s"] - info.created_s),
                "raw_bytes": receipt.raw_bytes,
                "passed_over": [] if first is not None and first.step <= info.step else [call.recorded["newest"]],
            }
        )

    def undo(self, params: ProveParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()

    def _newest(self, params: ProveParams) -> SnapshotInfo | Failed:
        newest = self._ports.vaults.newest(params.workload, site=params.site)
        if newest is None:
            return Failed(f"{params.site} holds no verified snapshot of {params.workload}", "Replicate one, and save more often.")
        if newest.step < params.at_least_step:
            return Failed(
                f"the newest usable snapshot is {newest.id} of step {newest.step}, and the loss that was approved counts from step "
                f"{params.at_least_step}",
                "End this run by `bridgehead run abort`; a new failover states the new loss and asks again.",
            )
        return newest
