"""A replica made without a key: everything arrives, what can be checked is, and it opens with the key later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.vault import Vault
from bridgehead.vault.crypt import keys, signing
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.mirror import mirror
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root

TRAIN, SITE = WorkloadId("train"), SiteId("a")
RAW = Credentials(raw_key=b"\7" * 32)


class Both:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target = (LocalBlobs(LocalBlobsOptions(str(folder / name))) for name in ("a", "b"))
        founding = keys.Founding(KeyRing([new_root(now_s=1.0)]), (key_file_recipient(b"\7" * 32, now_s=1.0),))
        self.vault = Vault.init(self.source, key=founding, pack_bytes=1 << 16)
        self.vault.signer = KeyFolder(folder / "keys")

    def save(self, step: int) -> SnapshotId:
        files = {"w.bin": os.urandom(200_000), "n.txt": b"%d" % step}
        return self.vault.save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=SITE).id

    def opened(self) -> Vault:
        return Vault.open(self.target, key=RAW)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path)


def test_who_opens_the_mirror_with_the_key_finds_everything(both: Both) -> None:
    first, second = both.save(1), both.save(2)
    both.vault.receipt(first, site=SITE)
    both.vault.fence(Fence(TRAIN, Epoch(1), SITE, (first, second), "run", 5.0))
    done = mirror(both.source, both.target)
    assert [done.failed, done.present] == [(), 0]
    there = both.opened()
    assert there.verify().intact
    assert there.load(second) == both.vault.load(second)
    assert [info.id for info in there.list(TRAIN)] == [second, first]
    assert there.receipt_names() == both.vault.receipt_names()
    assert there.newest_fence(TRAIN) == both.vault.newest_fence(TRAIN)
    assert signing.read(there.place.objects, first) == signing.read(both.vault.place.objects, first)


def test_again_it_copies_what_is_new_and_removes_nothing(both: Both) -> None:
    first = both.save(1)
    copied = mirror(both.source, both.target)
    again = mirror(both.source, both.target)
    assert [again.objects, again.sent_bytes, again.present] == [0, 0, copied.objects]
    both.vault.forget(first)
    both.vault.collect()
    second = both.save(2)
    said: list[str] = []
    more = mirror(both.source, both.target, said=said.append)
    assert more.objects == len(said) > 0
    assert said[-1].startswith("snapshots/"), "the record comes last"
    there = both.opened()
    assert {info.id for info in there.list(TRAIN)} == {first, second}
    assert there.verify().intact


def test_broken_off_anywhere_it_leaves_a_vault_and_goes_on(both: Both) -> None:
    saved = both.save(1)
    total = mirror(both.source, LocalBlobs(LocalBlobsOptions(str(both.folder / "whole")))).objects
    for limit in range(total):
        target = LocalBlobs(LocalBlobsOptions(str(both.folder / f"b{limit}")))
        left = iter(range(limit))

        def stop(key: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            mirror(both.source, target, said=stop)
        mirror(both.source, target)
        assert Vault.open(target, key=RAW).load(saved) == both.vault.load(saved)


def test_damaged_packs_and_keys_of_the_source_are_named_and_not_copied(both: Both) -> None:
    both.save(1)
    pack = next(iter(both.source.list("data/")))
    wrapped = next(key for key in both.source.list("keys/") if key.endswith(".age"))
    for key in (pack, wrapped):
        path = both.folder / "a" / key
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(bytes(data))
    done = mirror(both.source, both.target)
    assert {one.key for one in done.failed} == {pack, wrapped}
    assert both.target.size(pack) is None
    assert both.target.size(wrapped) is None


def test_another_vault_at_the_target_is_left_alone(both: Both) -> None:
    Vault.init(both.target)
    before = list(both.target.list(""))
    with pytest.raises(Permanent, match="another vault"):
        mirror(both.source, both.target)
    assert list(both.target.list("")) == before
    with pytest.raises(NotFound):
        mirror(LocalBlobs(LocalBlobsOptions(str(both.folder))), both.target)
