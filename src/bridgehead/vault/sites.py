"""SiteVaults: the vaults of all sites behind ports.vaults.Vaults.

Over a network a round trip is what costs. ``newest`` takes two, ``find`` two the first time, ``fence`` four or five, ``receipt`` reads
all blocks eight at a time. ``replicate`` lists the target's blocks once in the life of the process, then takes one round trip for the
stamp, one per eight blocks and two for the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError, NotFound, Permanent, PortError
from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence, Receipt, SnapshotInfo, TransferProgress
from bridgehead.model.stamp import Stamp
from bridgehead.ports.vaults import Kept
from bridgehead.vault.layout import receipt_key
from bridgehead.vault.replicate import Pace, replicate
from bridgehead.vault.stamps import accept, newest_driver
from bridgehead.vault.vault import Vault


class SiteVaults:
    """See the port for the contract of each method.

    Args:
        vaults: the vault of each site, or how to open it: then it is opened at its first use, and again until it succeeds, so that a site
            that is out of reach is Transient for the calls that need it and no trouble for the others.
    """

    def __init__(self, vaults: Mapping[SiteId, Vault | Callable[[], Vault]], *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._vaults = dict(vaults)
        self._monotonic_s = monotonic_s
        self._sent: dict[tuple[SnapshotId, SiteId], int] = {}
        self._committed: dict[tuple[SnapshotId, SiteId], int] = {}
        self._origins: dict[tuple[SnapshotId, SiteId], SiteId] = {}
        self._lock = threading.Lock()

    @property
    def wire_bytes(self) -> int:
        """Bytes that this process has written at targets, blocks and records."""
        with self._lock:
            return sum(self._sent.values())

    @property
    def raw_bytes(self) -> int:
        """Sum of the file sizes of the snapshots that this process has brought to targets: what a plain copy would have sent."""
        with self._lock:
            return sum(self._committed.values())

    def newest(self, workload: WorkloadId, *, site: SiteId) -> SnapshotInfo | None:
        """See the port."""
        return self._at(site).newest(workload)

    def find(self, snapshot: SnapshotId, *, site: SiteId) -> SnapshotInfo | None:
        """See the port."""
        return self._at(site).find(snapshot)

    def replicate(self, snapshot: SnapshotId, *, source: SiteId, target: SiteId, budget_s: float, stamp: Stamp) -> TransferProgress:
        """See the port. ``sent_bytes`` counts all slices of this process that brought this snapshot to this target."""
        if source == target:
            raise Permanent(
                "source and target are the same site", tried="replicate", subject=f"{snapshot} at {source}", remedy="Name two sites."
            )
        origin, goal = self._at(source), self._at(target)
        record = origin.snapshot(snapshot)
        accept(goal.place.objects, stamp)
        transfer = (snapshot, target)
        self._origins[transfer] = source

        def written(size_bytes: int) -> None:
            with self._lock:
                self._sent[transfer] = self._sent.get(transfer, 0) + size_bytes

        pace = Pace(budget_s=budget_s, monotonic_s=self._monotonic_s, written=written)
        left = replicate(record, source=origin.place, target=goal.place, pace=pace)
        with self._lock:
            sent = self._sent.get(transfer, 0)
            if left == 0 and sent:
                self._committed[transfer] = record.raw_bytes
        return TransferProgress(done=left == 0, sent_bytes=sent, left_bytes=left)

    def receipt(self, snapshot: SnapshotId, *, site: SiteId, stamp: Stamp) -> Receipt:
        """See the port."""
        vault = self._at(site)
        accept(vault.place.objects, stamp)
        given = vault.receipt(snapshot, site=site)
        origin = self._origins.get((snapshot, site))
        if origin is not None:  # known there too, its next snapshots are encoded against what this site holds
            with suppress(PortError):
                self._at(origin).place.objects.add(receipt_key(site, snapshot), given)
        return given

    def keep(self, files: Kept, *, workload: WorkloadId, step: int, site: SiteId, context: Mapping[str, str], stamp: Stamp) -> SnapshotInfo:
        """See the port."""
        vault = self._at(site)
        accept(vault.place.objects, stamp)
        sources = {path: content if isinstance(content, bytes) else Path(content) for path, content in files.items()}
        try:
            saved = vault.save(sources, workload=workload, step=step, epoch=Epoch(0), site=site, context=context)
        except PortError:
            raise
        except BridgeheadError as error:
            raise Permanent(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error
        found = vault.find(saved.snapshot.id)
        assert found is not None
        return found

    def fence(self, fence: Fence, *, site: SiteId, stamp: Stamp) -> Fence:
        """See the port."""
        vault = self._at(site)
        accept(vault.place.objects, stamp)
        return vault.fence(fence)

    def fences(self, workload: WorkloadId, *, site: SiteId) -> tuple[Fence, ...]:
        """See the port."""
        return self._at(site).fences(workload)

    def newest_driver(self, run: RunId, *, site: SiteId) -> Epoch:
        """See the port."""
        return newest_driver(self._at(site).place.objects, run)

    def cast(self, ballot: Ballot, *, site: SiteId, stamp: Stamp) -> tuple[Ballot, ...]:
        """See the port."""
        vault = self._at(site)
        accept(vault.place.objects, stamp)
        return vault.cast(ballot)

    def newest_fence(self, workload: WorkloadId, *, site: SiteId) -> Fence | None:
        """See the port."""
        return self._at(site).newest_fence(workload)

    def _at(self, site: SiteId) -> Vault:
        vault = self._vaults.get(site)
        if vault is None:
            raise NotFound(
                "no vault of this site is known", tried="find a vault", subject=site, remedy="Add it to the estate's connections."
            )
        if isinstance(vault, Vault):
            return vault
        opened = vault()  # two threads may do this at once; the later one is kept, and both are right
        self._vaults[site] = opened
        return opened
