"""A save does not count on a pack that a verification found damaged, whoever saves and whenever (V22, V31)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.layout import pack_key

TRAIN = WorkloadId("train")
RAW = bytes(range(32))
FILES = {f"f{number}": random.Random(number).randbytes(100_000) for number in range(4)}


class Lab:
    """A vault with one snapshot, opened anew for every call, as by another process."""

    def __init__(self, folder: Path, *, codec: bool, sealed: bool) -> None:
        self.folder, self.key = folder, Credentials(raw_key=RAW) if sealed else None
        founding = keys.Founding(KeyRing([new_root(now_s=1.0)]), (key_file_recipient(RAW, now_s=1.0),)) if sealed else None
        Vault.init(self.store(), codec=codec, key=founding, pack_bytes=150_000)
        self.first = self.save(1)

    def store(self) -> LocalBlobs:
        return LocalBlobs(LocalBlobsOptions(str(self.folder)))

    def vault(self) -> Vault:
        return Vault.open(self.store(), key=self.key)

    def save(self, step: int) -> SnapshotId:
        return self.vault().save(FILES, workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a")).id

    def packs(self) -> list[Path]:
        return sorted((self.folder / "data").glob("*/*"))

    def flip(self) -> Path:
        path = self.packs()[0]
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
        return path

    def notes(self) -> int:
        return sum(1 for _ in self.vault().place.objects.blobs.list("state/damaged/"))


@pytest.fixture(params=[(False, False), (True, False), (True, True)], ids=["plain", "codec", "sealed"])
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Lab:
    codec, sealed = request.param
    return Lab(tmp_path, codec=codec, sealed=sealed)


def test_V22_save_after_a_verification_that_found_damage_writes_those_blocks_anew(lab: Lab) -> None:
    lab.flip()
    assert not lab.vault().verify().intact
    assert lab.notes() == 1
    second = lab.save(2)
    assert lab.vault().load(second) == FILES
    assert lab.vault().load(lab.first) == FILES  # the intact copy serves the older one, too
    lab.vault().repair()
    assert lab.notes() == 0
    assert lab.vault().verify().intact


def test_save_of_the_same_step_heals_what_was_found_damaged(lab: Lab) -> None:
    lab.flip()
    lab.vault().verify()
    assert lab.save(1) == lab.first
    assert lab.vault().load(lab.first) == FILES


def test_without_a_verification_a_save_trusts_sizes_and_the_next_reader_finds_it(lab: Lab) -> None:
    """What docs/failure-model.md says is not promised."""
    lab.flip()
    second = lab.save(2)
    assert lab.notes() == 0
    with pytest.raises(Damaged):
        lab.vault().load(second)


def test_note_goes_when_the_pack_is_whole_again(lab: Lab) -> None:
    path = lab.packs()[0]
    whole = path.read_bytes()
    lab.flip()
    lab.vault().verify()
    path.write_bytes(whole)
    lab.vault().verify(read_data=False)  # which read nothing, so that it knows nothing
    assert lab.notes() == 1
    lab.vault().verify()
    assert lab.notes() == 0


def test_note_of_a_pack_that_was_collected_goes(lab: Lab) -> None:
    lab.flip()
    lab.vault().verify()
    second = lab.save(2)
    lab.vault().collect()
    lab.vault().verify()
    assert lab.vault().load(second) == FILES
    assert lab.notes() == sum(
        1 for pack in lab.packs() if lab.vault().place.objects.blobs.digest(f"data/{pack.name[:2]}/{pack.name}").blake3 != pack.name
    )


def test_a_store_that_takes_no_note_is_verified_all_the_same(tmp_path: Path) -> None:
    lab = Lab(tmp_path, codec=False, sealed=False)
    lab.flip()
    store = FaultyBlobs(lab.store(), [Fault(FaultKind.NO_SPACE, 1, Operation.PUT)])
    assert len(Vault.open(store).verify().damages) == 1
    assert store.missed == []
    assert lab.notes() == 0


def test_verified_vault_gets_no_note(lab: Lab) -> None:
    assert lab.vault().verify().intact
    assert lab.notes() == 0
    assert not (lab.folder / "state" / "damaged").exists()


@pytest.mark.parametrize("codec", [False, True])
def test_V22_collection_leaves_a_damaged_pack_where_it_is_and_frees_the_rest(codec: bool) -> None:
    """Its blocks do not move into a new pack, whose name would vouch for them; nor does the damage stop the collection."""
    blobs = MemoryBlobs()
    vault = Vault.init(blobs, codec=codec, pack_bytes=10_000_000)
    small, large = random.Random(1).randbytes(20_000), random.Random(2).randbytes(90_000)

    def save(step: int, files: dict[str, bytes]) -> SnapshotId:
        return Vault.open(blobs).save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a")).id

    gone, kept = save(1, {"small": small, "large": large}), save(2, {"small": small})
    other, whole = save(3, {"large": large[::-1], "third": small[::-1]}), save(4, {"third": small[::-1]})
    objects = vault.place.objects
    ref = vault.snapshot(kept).files[0].blocks[0]
    objects.index.refresh()
    (place,) = objects.index.places(ref.stored or ref.block)
    key = pack_key(place.pack)
    data = bytearray(blobs.get(key))
    data[place.offset_bytes + 100] ^= 1
    blobs.delete(key)
    blobs.put_new(key, bytes(data))
    for snapshot in (gone, other):
        Vault.open(blobs).forget(snapshot)
    before = sum(blobs.size(one) or 0 for one in blobs.list("data/"))
    done = Vault.open(blobs).collect()
    assert done.repacked_packs == 1
    assert done.freed_bytes == before - sum(blobs.size(one) or 0 for one in blobs.list("data/")) > 0
    assert blobs.size(key) is not None
    assert Vault.open(blobs).load(whole) == {"third": small[::-1]}
    with pytest.raises(Damaged):
        Vault.open(blobs).load(kept)
    assert [damage.key for damage in Vault.open(blobs).verify().damages] == [key]
    assert save(2, {"small": small}) == kept  # which heals it
    Vault.open(blobs).collect()
    assert Vault.open(blobs).verify().intact
    assert Vault.open(blobs).load(kept) == {"small": small}
