"""The vaults of all simulated sites behind one port."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence, Receipt, SnapshotInfo, TransferProgress
from bridgehead.model.stamp import Stamp
from bridgehead.ports.vaults import Kept
from bridgehead.simulate.vault import BLOCK_BYTES, HeldSnapshot, SiteVault

READ_BACK_BPS = 2_000_000_000.0


class WorldVaults:
    """Implements ``ports.vaults.Vaults``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def newest(self, workload: WorkloadId, *, site: SiteId) -> SnapshotInfo | None:
        """See the port."""
        vault = self._vault(site)
        return self._calls.read("vaults.newest", site, lambda: vault.newest(workload))

    def find(self, snapshot: SnapshotId, *, site: SiteId) -> SnapshotInfo | None:
        """See the port."""
        vault = self._vault(site)

        def look() -> SnapshotInfo | None:
            held = vault.held.get(snapshot)
            return None if held is None else vault.info(held)

        return self._calls.read("vaults.find", site, look)

    def replicate(self, snapshot: SnapshotId, *, source: SiteId, target: SiteId, budget_s: float, stamp: Stamp) -> TransferProgress:
        """See the port."""
        self._vault(source)
        self._vault(target)
        return self._calls.write(
            "vaults.replicate", target, lambda: self._slice(snapshot, source, target, budget_s), stamp=stamp, place=f"vault@{target}"
        )

    def receipt(self, snapshot: SnapshotId, *, site: SiteId, stamp: Stamp) -> Receipt:
        """See the port."""
        vault = self._vault(site)
        return self._calls.write("vaults.receipt", site, lambda: self._read_back(vault, snapshot), stamp=stamp, place=f"vault@{site}")

    def keep(self, files: Kept, *, workload: WorkloadId, step: int, site: SiteId, context: Mapping[str, str], stamp: Stamp) -> SnapshotInfo:
        """See the port; files on disk have the size that the world's databases gave them."""
        vault = self._vault(site)
        return self._calls.write("vaults.keep", site, lambda: self._keep(vault, files, workload, step), stamp=stamp, place=f"vault@{site}")

    def _keep(self, vault: SiteVault, files: Kept, workload: WorkloadId, step: int) -> SnapshotInfo:
        if not vault.has_space():
            raise Permanent("no space is left", tried="keep files", subject=f"{workload} at {vault.site}")
        copies = self._calls.world.databases.copies
        size_bytes = sum(len(content) if isinstance(content, bytes) else copies[content] for content in files.values())
        digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
        name, now_s = SnapshotId(f"{workload}@{step}.0-{digest}"), self._calls.world.now_s
        held = HeldSnapshot(name, workload, step, Epoch(0), vault.site, now_s, size_bytes, whole=True)
        vault.put(held)
        return vault.info(held)

    def fence(self, fence: Fence, *, site: SiteId, stamp: Stamp) -> Fence:
        """See the port."""
        self._vault(site)
        return self._calls.write("vaults.fence", site, lambda: self._calls.world.fence(site, fence), stamp=stamp, place=f"vault@{site}")

    def newest_fence(self, workload: WorkloadId, *, site: SiteId) -> Fence | None:
        """See the port."""
        vault = self._vault(site)
        return self._calls.read("vaults.newest_fence", site, lambda: vault.fence_in_force(workload))

    def fences(self, workload: WorkloadId, *, site: SiteId) -> tuple[Fence, ...]:
        """See the port."""
        vault = self._vault(site)
        return self._calls.read("vaults.fences", site, lambda: tuple(vault.fences.get(workload, ())))

    def newest_driver(self, run: RunId, *, site: SiteId) -> Epoch:
        """See the port."""
        self._vault(site)
        return self._calls.read("vaults.newest_driver", site, lambda: self._calls.world.seen_epochs.get((f"vault@{site}", run), Epoch(0)))

    def cast(self, ballot: Ballot, *, site: SiteId, stamp: Stamp) -> tuple[Ballot, ...]:
        """See the port."""
        vault = self._vault(site)
        return self._calls.write("vaults.cast", site, lambda: vault.cast(ballot), stamp=stamp, place=f"vault@{site}")

    def _vault(self, site: SiteId) -> SiteVault:
        vault = self._calls.world.vaults.get(site)
        if vault is None:
            raise NotFound("no vault of that site is connected", tried="open a vault", subject=site)
        return vault

    def _slice(self, snapshot: SnapshotId, source: SiteId, target: SiteId, budget_s: float) -> TransferProgress:
        """As many bytes as the link, which others use too, carries in the time; at least one block."""
        network, held = self._calls.world.network, self._vault(source).held.get(snapshot)
        vault = self._vault(target)
        if not network.transfers(source, target):
            raise Transient("nothing travels between the sites", tried="replicate", subject=f"{source} to {target}")
        if held is None:
            raise NotFound("the source does not hold it", tried="replicate", subject=snapshot)
        there = vault.held.get(snapshot)
        if there is not None and there.whole:
            return TransferProgress(True, 0, 0)
        if not held.whole:
            raise Permanent("a block at the source is damaged", tried="replicate", subject=snapshot)
        if not vault.has_space():
            raise Permanent("no space is left", tried="replicate", subject=f"{snapshot} at {target}")
        before = vault.partial_bytes.get(snapshot, 0.0)
        now_s = self._calls.world.now_s
        room_s = max(0.0, budget_s - network.waiting_s(source, target, now_s=now_s))
        sent = min(held.raw_bytes - before, max(float(BLOCK_BYTES), network.rate_bps * room_s))
        self._calls.spend(network.carry(sent, source, target, now_s=now_s))
        vault.partial_bytes[snapshot] = before + sent
        left = int(held.raw_bytes - before - sent)
        if left == 0:
            del vault.partial_bytes[snapshot]
            vault.put(msgspec.structs.replace(held))
        return TransferProgress(left == 0, int(before + sent), left)

    def _read_back(self, vault: SiteVault, snapshot: SnapshotId) -> Receipt:
        held = vault.held.get(snapshot)
        if held is None:
            raise NotFound("it is not committed there", tried="give a receipt", subject=f"{snapshot} at {vault.site}")
        took_s = held.raw_bytes / READ_BACK_BPS
        self._calls.spend(took_s + self._calls.world.bubbles.read_back(vault, snapshot, took_s=took_s))
        if not held.whole:
            raise Permanent("a block is damaged", tried="give a receipt", subject=f"{snapshot} at {vault.site}")
        return Receipt(snapshot, vault.site, held.blocks, held.raw_bytes, self._calls.world.now_s)
