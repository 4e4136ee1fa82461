"""Many restores at once stay within the memory that one process may take (R14; V30)."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import SiteVaults, Vault
from bridgehead.vault.memory import PROCESS_BYTES

NEAR, FAR = SiteId("near"), SiteId("far")
PACK_BYTES = 4 << 20
MANY = 28


class SlowStore(MemoryBlobs):
    """Takes its time for packs, and knows how many bytes of them were on their way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most_bytes = self._now_bytes = 0
        self._counting = threading.Lock()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        size_bytes = len(data) if len(data) > PACK_BYTES // 2 else 0
        with self._counting:
            self._now_bytes += size_bytes
            self.most_bytes = max(self.most_bytes, self._now_bytes)
        time.sleep(0.2 if size_bytes else 0.0)
        with self._counting:
            self._now_bytes -= size_bytes
        return super().put_new(key, data)


def test_R14_many_streams_have_no_more_under_way_than_the_budget_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGEHEAD_MEMORY", "256 MiB")
    source, store, dice = Vault.init(MemoryBlobs(), pack_bytes=PACK_BYTES), SlowStore(), random.Random(1)
    Vault.init(store)
    saved: list[SnapshotId] = []
    for number in range(MANY):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "file").write_bytes(dice.randbytes(PACK_BYTES - 100_000))
        saved.append(source.save(tmp_path / "data", workload=WorkloadId(f"w{number}"), step=1, epoch=Epoch(0), site=NEAR).id)
    sites = SiteVaults({NEAR: source, FAR: Vault.open(store)})
    stamp = Stamp(run=RunId("r"), step=StepId("s"), attempt=1, epoch=Epoch(1))

    def restore(snapshot: SnapshotId) -> None:
        while not sites.replicate(snapshot, source=NEAR, target=FAR, budget_s=0.01, stamp=stamp).done:
            pass

    with ThreadPoolExecutor(MANY) as pool:
        list(pool.map(restore, saved))
    allowed_bytes = ((256 << 20) - PROCESS_BYTES) // 2
    assert 4 * PACK_BYTES < store.most_bytes <= allowed_bytes < MANY * PACK_BYTES
    assert all(sites.find(snapshot, site=FAR) is not None for snapshot in saved)
