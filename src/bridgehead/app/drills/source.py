"""Source: what was known of the workloads' home at the moment in which a drill takes it for lost; the stated loss hangs on it (R1)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from bridgehead.kernel.errors import BridgeheadError, PortError
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.recovery import Protected
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.losing import last_seen
from bridgehead.recovery.loss import LastSeen, Loss, loss_of

LOOKERS = 8


class Source(msgspec.Struct, frozen=True):
    """What the homes of drilled workloads had.

    Attributes:
        trainers: the last report of each trainer that answered.
        newest: the newest snapshot at home, of what is served; None: home holds none.
    """

    trainers: dict[WorkloadId, LastSeen] = {}
    newest: dict[WorkloadId, SnapshotId | None] = {}


class Looking:
    """Looks at the homes beside a drill, whose clock does not stop for a home that is slow to answer."""

    def __init__(self, ports: Switchboard, workloads: Sequence[Protected]) -> None:
        self._ports, self._workloads, self._found = ports, workloads, Source()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Look now; only the first call counts."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()

    def found(self, *, patience_s: float) -> Source:
        """What was seen; nothing of a home that has not answered within ``patience_s``."""
        if self._thread is not None:
            self._thread.join(patience_s)
        return self._found

    def _look(self) -> None:
        with ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="source") as pool:
            seen = list(pool.map(self._trainer, self._workloads))
            saved = list(pool.map(self._saved, self._workloads))
        trainers = {one.id: last for one, last in zip(self._workloads, seen, strict=True) if last is not None}
        self._found = Source(trainers, {name: newest for name, newest in saved if name is not None})

    def _trainer(self, one: Protected) -> LastSeen | None:
        if not one.computes:
            return None
        try:
            return last_seen(self._ports, one.home, one.job(one.home).name)
        except (PortError, BridgeheadError):
            return None

    def _saved(self, one: Protected) -> tuple[WorkloadId | None, SnapshotId | None]:
        if one.computes or one.service is None:
            return None, None
        try:
            newest = self._ports.vaults.newest(one.served, site=one.home)
        except (PortError, BridgeheadError):
            return None, None
        return one.id, newest.id if newest is not None else None


def loss_for(one: Protected, snapshot: SnapshotInfo, source: Source, *, lost_s: float) -> Loss:
    """What a loss of its home at ``lost_s`` would have cost a workload that computes."""
    return loss_of(one.id, point=snapshot, last=source.trainers.get(one.id), lost_s=lost_s, gpus=one.gpus)


def find(ports: Switchboard, snapshots: Mapping[WorkloadId, str], *, site: SiteId) -> dict[WorkloadId, SnapshotInfo]:
    """What the site's own vault says of snapshots that a drill has proved; those that it cannot be asked about are left out."""
    found = {}
    for workload, snapshot in snapshots.items():
        try:
            info = ports.vaults.find(SnapshotId(snapshot), site=site)
        except (PortError, BridgeheadError):
            continue
        if info is not None:
            found[workload] = info
    return found
