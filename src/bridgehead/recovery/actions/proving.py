"""Prove: which snapshot is the newest that can really be restored here, found by reading every block of it (R6, R13; V16)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending


class ProveParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``vault.prove``: of which workload, in the vault of which site."""

    workload: WorkloadId
    site: SiteId


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
            if isinstance(again, Failed) or again.id == info.id:
                reason = f"snapshot {info.id} at {params.site} is damaged, and there is none before it: {error.happened}"
                return Failed(reason, "Replicate an intact one from another site.")
            return Pending(0.0, {"damaged": info.id, "next": again.id})
        first = SnapshotId(call.recorded["newest"])
        return Done(
            {
                "snapshot": info.id,
                "step": info.step,
                "age_s": max(0.0, call.recorded["asked_s"] - info.created_s),
                "raw_bytes": receipt.raw_bytes,
                "passed_over": [] if info.id == first else [first],
            }
        )

    def undo(self, params: ProveParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()

    def _newest(self, params: ProveParams) -> SnapshotInfo | Failed:
        newest = self._ports.vaults.newest(params.workload, site=params.site)
        return newest or Failed(f"{params.site} holds no verified snapshot of {params.workload}", "Replicate one, and save more often.")
