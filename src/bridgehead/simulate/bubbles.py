"""Bubbles of a simulated world: a site of its own that begins as a copy of another one's vault (R13)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.bubble import Bubble, BubbleId, DamagedBlock, DeadNode, KillRestore, SiteDown, SlowLine, fault_name
from bridgehead.simulate.desk import Desk
from bridgehead.simulate.vault import SiteVault


class BubbleBook:
    """The open bubbles, and which of their planned faults struck."""

    def __init__(self) -> None:
        self.open: dict[BubbleId, Bubble] = {}
        self.hit: dict[BubbleId, set[str]] = {}
        self._tainted: dict[tuple[SiteId, SnapshotId], str] = {}

    def begin(self, bubble: Bubble, *, of: SiteVault, view: SiteVault) -> None:
        """Copy what the site holds into the bubble's vault; a repeat does nothing."""
        if bubble.id in self.open:
            return
        self.open[bubble.id], self.hit[bubble.id] = bubble, set()
        view.held = {identity: msgspec.structs.replace(held) for identity, held in of.held.items()}
        view.fences = {workload: list(fences) for workload, fences in of.fences.items()}
        for fault in bubble.faults:
            if isinstance(fault, DamagedBlock):
                newest = _second_and_newest(view, fault.workload)
                if newest is not None:
                    self._tainted[view.site, newest] = fault_name(fault)

    def read_back(self, view: SiteVault, snapshot: SnapshotId, *, took_s: float) -> float:
        """Every block of the snapshot is read: planned damage shows, and a slow line takes longer. Returns the seconds it takes more."""
        bubble = next((bubble for bubble in self.open.values() if bubble.site == view.site), None)
        if bubble is None:
            return 0.0
        name = self._tainted.get((view.site, snapshot))
        if name is not None:
            view.held[snapshot].whole = False
            self.hit[bubble.id].add(name)
        more_s = 0.0
        for fault in bubble.faults:
            match fault:
                case SlowLine(rate_bps=rate_bps):
                    self.hit[bubble.id].add(fault_name(fault))
                    more_s = max(more_s, view.held[snapshot].raw_bytes * 8 / rate_bps - took_s)
                case DamagedBlock() | DeadNode() | KillRestore() | SiteDown():
                    pass
        return more_s

    def end(self, bubble: BubbleId, *, view: SiteVault, desk: Desk) -> None:
        """Nothing of it is left."""
        del self.open[bubble]
        view.held, view.fences, view.partial_bytes = {}, {}, {}
        desk.clear()
        self._tainted = {place: name for place, name in self._tainted.items() if place[0] != view.site}


def _second_and_newest(view: SiteVault, workload: WorkloadId) -> SnapshotId | None:
    """The newest snapshot, when there is an older one to fall back on."""
    newest = view.newest(workload)
    others = [held for held in view.held.values() if held.workload == workload and newest is not None and held.id != newest.id]
    return newest.id if newest is not None and others else None
