"""A storm on a vault: writers, a replicator and collectors at once, on a store that fails now and then (rule 6; V17 to V22).

Threads race for real, so that a seed fixes what each of them does and which calls fail, not the order in which they meet.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

from bridgehead.kernel.errors import BridgeheadError, Transient
from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.blobs import BlobDigest, Blobs
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import SiteVaults, Vault

A, B = SiteId("a"), SiteId("b")
STEPS = 6
FAULT_SHARE = 0.02


class UnsteadyBlobs:
    """Fails some calls, before or after their effect, as its seed says. See the port for the calls."""

    def __init__(self, inner: Blobs, seed: int) -> None:
        self._inner = inner
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.faults = 0

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        after = self._before(key)
        written = self._inner.put_new(key, data)
        self._fail(after, key)
        return written

    def get(self, key: str) -> bytes:
        """See the port."""
        self._fail(self._before(key), key)
        return self._inner.get(key)

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        self._fail(self._before(key), key)
        return self._inner.get_range(key, offset_bytes, size_bytes)

    def digest(self, key: str) -> BlobDigest:
        """See the port."""
        self._fail(self._before(key), key)
        return self._inner.digest(key)

    def size(self, key: str) -> int | None:
        """See the port."""
        self._fail(self._before(key), key)
        return self._inner.size(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See the port."""
        self._fail(self._before(prefix), prefix)
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        after = self._before(key)
        self._inner.delete(key)
        self._fail(after, key)

    def _before(self, key: str) -> bool:
        """Fails, or says whether to fail after the effect."""
        with self._lock:
            drawn = self._random.random()
        self._fail(drawn < FAULT_SHARE / 2, key)
        return FAULT_SHARE / 2 <= drawn < FAULT_SHARE

    def _fail(self, now: bool, key: str) -> None:
        if now:
            self.faults += 1
            raise Transient("a planned fault", tried="use a blob store", subject=key)


class _Storm:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stores = {A: MemoryBlobs(), B: MemoryBlobs()}
        self.unsteady = {site: UnsteadyBlobs(store, seed * 7 + n) for n, (site, store) in enumerate(self.stores.items())}
        self.promised: dict[SiteId, dict[SnapshotId, dict[str, bytes]]] = {A: {}, B: {}}
        self.faults: list[str] = []
        codec = seed % 2 == 0
        for store in self.stores.values():
            Vault.init(store, codec=codec, pack_bytes=random.Random(seed).choice([1, 3000, 1 << 20]))

    def save(self, number: int) -> None:
        draw = random.Random(self.seed * 100 + number)
        workload = WorkloadId(f"train-{number}")
        shared = random.Random(self.seed).randbytes(2000)
        vault = Vault.open(self.stores[A])
        for step in range(STEPS):
            files = {"shared.bin": shared, "own.bin": draw.randbytes(3000), "half.bin": shared[: draw.randrange(1, 2000)]}
            try:
                vault = Vault.open(self.unsteady[A]) if draw.random() < 0.3 else vault
                saved = vault.save(files, workload=workload, step=step, epoch=Epoch(0), site=A)
                self.promised[A][saved.id] = files
                if draw.random() < 0.4:
                    victim = draw.choice(sorted(one for one in self.promised[A] if one.startswith(workload)))
                    self.promised[A].pop(victim)  # before: what is being forgotten is promised no longer
                    vault.forget(victim)
            except BridgeheadError:
                continue

    def replicate(self) -> None:
        draw = random.Random(self.seed * 100 + 50)
        stamp = Stamp(run=RunId("storm"), step=StepId("s"), attempt=1, epoch=Epoch(1))
        for _ in range(2 * STEPS):
            known = dict(self.promised[A])
            if not known:
                continue
            chosen = draw.choice(sorted(known))
            try:
                sites = SiteVaults({site: Vault.open(store) for site, store in self.unsteady.items()})
                if sites.replicate(chosen, source=A, target=B, budget_s=draw.choice([0.0, 9.0]), stamp=stamp).done:
                    self.promised[B][chosen] = known[chosen]
            except BridgeheadError:
                continue

    def collect(self) -> None:
        draw = random.Random(self.seed * 100 + 60)
        for _ in range(STEPS):
            site = draw.choice([A, B])
            try:
                Vault.open(self.unsteady[site]).collect(wait_s=0.05, evict=draw.random() < 0.3)
            except BridgeheadError:
                continue


def storm(seed: int) -> list[str]:
    """Let it blow. Returns what was lost, in words; nothing when all that was promised is there to the last byte."""
    world = _Storm(seed)
    threads = [
        threading.Thread(target=world.save, args=(0,)),
        threading.Thread(target=world.save, args=(1,)),
        threading.Thread(target=world.replicate),
        threading.Thread(target=world.collect),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost: list[str] = []
    for site, store in world.stores.items():
        vault = Vault.open(store)
        Vault.open(store).collect(wait_s=0.0)
        lost += [f"seed {seed}, {site}: {damage.key} {damage.happened} {damage.hurts}" for damage in vault.verify().damages]
        for snapshot, files in world.promised[site].items():
            try:
                if vault.load(snapshot) != files:
                    lost.append(f"seed {seed}, {site}: {snapshot} has other content")
            except BridgeheadError as error:
                lost.append(f"seed {seed}, {site}: {snapshot}: {error}")
    return lost
