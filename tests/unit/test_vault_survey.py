"""A survey of many snapshots asks for several at once, and for nothing twice; what it finds is what each would be found alone."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.vault import Vault
from bridgehead.vault.layout import snapshot_name

LM, A = WorkloadId("lm"), SiteId("a")


class Metered(LocalBlobs):
    """Counts reads of snapshot records, and how many went on at once."""

    reads = most = _now = 0
    _lock = threading.Lock()

    def get(self, key: str) -> bytes:
        if not key.startswith("snapshots/"):
            return super().get(key)
        with self._lock:
            self.reads += 1
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.005)  # the way to a store that is far
        with self._lock:
            self._now -= 1
        return super().get(key)


def saved(folder: Path, number: int) -> Vault:
    folder.mkdir()
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))))
    for step in range(number):
        vault.save({"w": os.urandom(100)}, workload=LM, step=step, epoch=Epoch(0), site=A)
    return vault


def test_records_are_read_several_at_once_and_each_once(tmp_path: Path) -> None:
    saved(tmp_path / "vault", 300)
    blobs = Metered(LocalBlobsOptions(str(tmp_path / "vault")))
    vault = Vault.open(blobs)
    first = vault.survey(LM)
    assert [info.step for info in first.usable] == list(range(299, -1, -1))
    assert 4 <= blobs.most <= 8
    assert blobs.reads == 300
    assert vault.survey(LM) == first
    assert blobs.reads == 300, "a record never changes"


def test_who_wants_only_the_newest_reads_one(tmp_path: Path) -> None:
    saved(tmp_path / "vault", 20)
    blobs = Metered(LocalBlobsOptions(str(tmp_path / "vault")))
    newest = Vault.open(blobs).newest(LM)
    assert newest is not None
    assert (newest.step, blobs.reads) == (19, 1)


def test_among_many_each_keeps_its_own_standing(tmp_path: Path) -> None:
    """One torn record, one whose block is gone, one that no fence names: and all others are usable."""
    vault = saved(tmp_path / "vault", 20)
    by_step = {info.step: info for info in vault.list(LM)}
    named = tuple(info.id for step, info in by_step.items() if step != 12)
    vault.fence(Fence(workload=LM, epoch=Epoch(1), holder=A, counts=named, opened_by="t", opened_s=0.0))
    folder = tmp_path / "vault"
    torn = folder / snapshot_name(by_step[7].id).key
    torn.chmod(0o600)
    torn.write_bytes(torn.read_bytes()[:40])
    [place] = vault.place.objects.index.places(vault.snapshot(by_step[3].id).files[0].blocks[0].block)
    [pack] = [file for file in folder.rglob("*") if file.name.startswith(place.pack)]
    pack.unlink()
    survey = Vault.open(LocalBlobs(LocalBlobsOptions(str(folder)))).survey(LM)
    assert [info.step for info in survey.usable] == [step for step in range(19, -1, -1) if step not in (12, 7, 3)]
    assert [(one.key, one.info.step if one.info else None) for one in survey.passed_over] == [
        (snapshot_name(by_step[12].id).key, 12), (snapshot_name(by_step[7].id).key, None), (snapshot_name(by_step[3].id).key, 3)
    ]  # fmt: skip
    assert "does not name it" in survey.passed_over[0].reason
    assert "1 block is missing" in survey.passed_over[2].reason
