"""A view of a store keeps the contract of stores, and the store that it looks at stays as it was (R13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.blobs_suite import BlobsSuite
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import Vault
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.keys import Founding
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.records import Damaged
from bridgehead.vault.view import KnownKeys, ViewBlobs, ViewFile, WrongByte, hits_in, known_snapshots, wrong_bytes

LM, SITE = WorkloadId("lm"), SiteId("site-a")
RAW = b"\7" * 32


class TestViewBlobs(BlobsSuite):
    """What is written through a view lies in its scratch."""

    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Blobs:
        self.scratch = str(tmp_path / "scratch")
        Path(self.scratch).mkdir()
        return self._open()

    def reopened(self, blobs: Blobs) -> Blobs:
        return self._open()

    def _open(self) -> ViewBlobs:
        return ViewBlobs(MemoryBlobs(), LocalBlobs(LocalBlobsOptions(self.scratch)), ViewFile({}))


def test_R13_nothing_that_is_done_in_a_view_reaches_the_store() -> None:
    base = MemoryBlobs()
    base.put_new("a/1", b"one")
    view = ViewBlobs(base, MemoryBlobs(), ViewFile({}))
    assert view.get("a/1") == b"one"
    assert not view.put_new("a/1", b"other"), "it exists, there"
    view.delete("a/1")
    assert view.size("a/1") is None
    assert view.put_new("a/1", b"own")
    assert view.put_new("a/2", b"two")
    assert (list(view.list("")), view.get("a/1")) == (["a/1", "a/2"], b"own")
    assert (list(base.list("")), base.get("a/1")) == (["a/1"], b"one")


def test_R13_what_arrives_after_the_loss_is_not_seen() -> None:
    base = MemoryBlobs()
    base.put_new("snapshots/lm/1", b"one")
    known = KnownKeys("snapshots/lm/", frozenset({"snapshots/lm/1"}))
    view = ViewBlobs(base, MemoryBlobs(), ViewFile({}, known=(known,)))
    base.put_new("snapshots/lm/2", b"two")
    base.put_new("data/ab/2", b"two")
    assert list(view.list("")) == ["data/ab/2", "snapshots/lm/1"]
    assert view.size("snapshots/lm/2") is None
    with pytest.raises(NotFound):
        view.get("snapshots/lm/2")
    assert view.put_new("snapshots/lm/2", b"own")
    assert view.get("snapshots/lm/2") == b"own"


@pytest.mark.parametrize("sealed", [False, True])
def test_R13_damage_of_the_newest_shows_in_the_view_alone(sealed: bool) -> None:
    base, scratch = MemoryBlobs(), MemoryBlobs()
    founding = Founding(KeyRing([new_root(now_s=1.0)]), (key_file_recipient(RAW, now_s=1.0),)) if sealed else None
    vault, key = Vault.init(base, key=founding), Credentials(raw_key=RAW) if sealed else None
    for step in (1, 2):
        vault.save({"weights": bytes([step]) * 100_000}, workload=LM, step=step, epoch=Epoch(0), site=SITE)
    file = ViewFile({}, wrong=wrong_bytes(vault, LM, name="damaged-block:lm"), known=(known_snapshots(vault, base, LM),))
    vault.save({"weights": b"3" * 100_000}, workload=LM, step=3, epoch=Epoch(0), site=SITE)
    view = Vault.open(ViewBlobs(base, scratch, file), key=key)
    newest, older = view.list(LM)
    assert (newest.step, older.step) == (2, 1), "the third came after the view"
    with pytest.raises(Damaged):
        view.load(newest.id)
    assert [info.step for info in view.list(LM)] == [1], "the view notes what is damaged"
    assert view.load(older.id)
    assert vault.load(newest.id), "outside of the view it is whole"
    assert [info.step for info in vault.list(LM)] == [3, 2, 1]
    assert hits_in(scratch) == {"damaged-block:lm"}


def test_wrong_byte_is_the_same_whole_and_in_part() -> None:
    base = MemoryBlobs()
    base.put_new("k", bytes(10))
    view = ViewBlobs(base, MemoryBlobs(), ViewFile({}, wrong=(WrongByte("k", 4, "damaged-block:lm"),)))
    assert view.get("k") == view.get_range("k", 0, 10) == bytes([0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    assert view.get_range("k", 5, 5) == bytes(5)
