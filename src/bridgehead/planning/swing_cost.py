"""Swing cost: how each workload goes over, how long that takes, and what stands still (the table of ``docs/reference/plan-files.md``)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.quantity import format_duration, format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Store
from bridgehead.model.estate import Estate, Workload, WorkloadKind
from bridgehead.model.logistics import Precopy
from bridgehead.model.plan import Assumption, SwingMode
from bridgehead.model.policy import Policy

PRECHECK_S = 600.0
WARM_UP_S = 300.0
REQUEUE_S = 3600.0


class Crossing(msgspec.Struct, frozen=True):
    """How one workload goes over.

    Attributes:
        lost_s: how long it stands still.
        length_s: how long the swing takes.
        checkpoint_bytes: state that has to be there before; 0 for none.
        sync_bps: what its state changes by, from the first copy to the swing.
    """

    mode: SwingMode
    lost_s: float
    length_s: float
    checkpoint_bytes: int = 0
    sync_bps: float = 0.0


class Costing:
    """Finds the crossing that costs least. Collects in ``assumptions`` what was taken for values that nobody gave."""

    def __init__(self, estate: Estate, policy: Policy, *, lane_bps: float) -> None:
        self._policy = policy
        self._lane_bps = lane_bps
        self._stores: dict[str, Store] = {store.id: store for site in estate.sites if site.id == policy.source for store in site.stores}
        reads = [store.read_bps for site in estate.sites if site.id == policy.target for store in site.stores if store.read_bps]
        self._read_bps = max(reads, default=0.0)
        self.assumptions: list[Assumption] = []
        if policy.precopy == Precopy():
            share = format_quantity(policy.precopy.delta_share, Dimension.SHARE)
            self.assumptions.append(
                Assumption("policy.precopy.delta_share", share, "between 21 % one step apart and 56 % ten, as the vault's bench measured")
            )

    def crossing(self, one: Workload, lacks: list[str]) -> Crossing | None:
        """The cheapest; None, with a line in ``lacks``, when what it rests on is not known."""
        canary = self._policy.canary
        if one.kind is WorkloadKind.INFERENCE:
            return Crossing(SwingMode.CANARY, 0.0, len(canary.steps) * canary.soak_s, one.total_checkpoint_bytes or 0)
        size = one.total_checkpoint_bytes
        if size is None and one.kind is WorkloadKind.BATCH:
            lost_s = (
                self._taken(one.checkpoint_every_s, f"workloads.{one.id}.checkpoint_every", REQUEUE_S, "work that a requeue repeats") / 2
            )
            return Crossing(SwingMode.REQUEUE, lost_s, PRECHECK_S + lost_s)
        save_s, restore_s = self._save_s(one), self._restore_s(one)
        if size is None or save_s is None or restore_s is None:
            missing = "checkpoint" if size is None else "save" if save_s is None else "restore"
            lacks.append(f"workloads.{one.id}.{missing}: without it, nobody can say what its move costs")
            return None
        if self._lane_bps <= 0:
            return None
        return min(self._ways(one, size, save_s, restore_s), key=lambda way: way.lost_s)

    def _ways(self, one: Workload, size: int, save_s: float, restore_s: float) -> list[Crossing]:
        precopy, lane_bps = self._policy.precopy, self._lane_bps
        delta_bits = 8 * precopy.delta_share * size
        sync_bps = delta_bits / one.checkpoint_every_s if one.checkpoint_every_s else 0.0
        warm_s = self._taken(one.warm_up_s, f"workloads.{one.id}.warm_up", WARM_UP_S, "time until useful work")
        lost = {SwingMode.RESTART: save_s + delta_bits / lane_bps + restore_s + warm_s}
        if one.kind is WorkloadKind.TRAINING and 0 < sync_bps < lane_bps / 2:
            lost[SwingMode.PRECOPY] = save_s + delta_bits / lane_bps + restore_s * precopy.delta_share + precopy.release_s
        return [Crossing(mode, lost_s, PRECHECK_S + 3 * delta_bits / lane_bps + lost_s, size, sync_bps) for mode, lost_s in lost.items()]

    def _taken(self, value: float | None, path: str, otherwise_s: float, because: str) -> float:
        if value is not None:
            return value
        self.assumptions.append(Assumption(path, format_duration(otherwise_s), f"nobody gave it: {because}"))
        return otherwise_s

    def _save_s(self, one: Workload) -> float | None:
        store = self._stores.get(one.store)
        if one.save_s is not None or one.total_checkpoint_bytes is None or store is None or not store.write_bps:
            return one.save_s
        return 8 * one.total_checkpoint_bytes / store.write_bps

    def _restore_s(self, one: Workload) -> float | None:
        if one.restore_s is not None or one.total_checkpoint_bytes is None or not self._read_bps:
            return one.restore_s
        return 8 * one.total_checkpoint_bytes / self._read_bps
