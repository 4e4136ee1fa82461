"""The table of a sealed pack opens behind its own blocks alone (feature ``bound-1``); vaults from before it are read as ever."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.courier.gather import Gathered
from bridgehead.vault.courier.layout import Manifest, SetHead
from bridgehead.vault.courier.receive import check_target
from bridgehead.vault.crypt import keys
from bridgehead.vault.crypt.credentials import Credentials
from bridgehead.vault.crypt.recipients import key_file_recipient
from bridgehead.vault.crypt.ring import KeyRing, new_root
from bridgehead.vault.layout import pack_key
from bridgehead.vault.packs import read_table
from bridgehead.vault.replicate import check_families

RAW = bytes(range(32))
TRAIN = WorkloadId("train")


def made(folder: Path, *, bound: bool, ring: KeyRing | None = None) -> Vault:
    founding = keys.Founding(ring or KeyRing([new_root(now_s=1.0)]), (key_file_recipient(RAW, now_s=1.0),))
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))), key=founding, bound=bound)


def opened(folder: Path) -> Vault:
    return Vault.open(LocalBlobs(LocalBlobsOptions(str(folder))), key=Credentials(raw_key=RAW))


def saved(vault: Vault, step: int) -> tuple[SnapshotId, bytes, Path]:
    """A snapshot of one block, and its pack."""
    root = Path(vault.place.objects.blobs._blobs._root)  # type: ignore[attr-defined]  # the folder below the sealed store
    before = set((root / "data").glob("*/*"))
    content = os.urandom(100_000)
    found = vault.save({"w.bin": content}, workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a")).id
    (pack,) = set((root / "data").glob("*/*")) - before
    return found, content, pack


def crossed(blocks: Path, table: Path) -> bytes:
    """A pack of the blocks of one and the table of another, such as somebody without a key can make."""
    first, second = blocks.read_bytes(), table.read_bytes()
    begin = len(first) - 16 - int.from_bytes(first[-16:-8], "little")
    length = int.from_bytes(second[-16:-8], "little")
    return first[:begin] + second[-16 - length :]


def put_as_pack(folder: Path, data: bytes) -> Path:
    path = folder / pack_key(block_hash(data))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("read_data", [False, True])
def test_swapped_table_is_damage_and_no_home_for_blocks(tmp_path: Path, read_data: bool) -> None:
    vault = made(tmp_path, bound=True)
    (first, first_content, one), (second, second_content, two) = saved(vault, 1), saved(vault, 2)
    forged = put_as_pack(tmp_path, crossed(one, two))
    report = opened(tmp_path).verify(read_data=read_data)
    assert [damage.key for damage in report.damages] == [pack_key(forged.name)]
    assert "table cannot be read" in report.damages[0].happened
    for index in (tmp_path / "index").iterdir():  # nobody but the packs themselves says what lies in them
        index.unlink()
    repaired = opened(tmp_path).repair()
    assert repaired.unreadable == (pack_key(forged.name),)
    assert repaired.lost_blocks == 0
    opened(tmp_path).collect()
    after = opened(tmp_path)
    assert (after.load(first), after.load(second)) == ({"w.bin": first_content}, {"w.bin": second_content})


def test_whole_pack_under_its_own_blocks_is_read_without_an_index(tmp_path: Path) -> None:
    vault = made(tmp_path, bound=True)
    assert "bound-1" in vault.file.features
    snapshot, content, pack = saved(vault, 1)
    for index in (tmp_path / "index").iterdir():
        index.unlink()
    assert opened(tmp_path).repair().indexed_packs == 1
    assert opened(tmp_path).load(snapshot) == {"w.bin": content}
    cipher, data = opened(tmp_path).place.objects.cipher, pack.read_bytes()
    found = read_table(pack.name, len(data), lambda offset, size: data[offset : offset + size], cipher)
    assert len(found.entries) == 1


def test_vault_from_before_is_read_written_and_repaired(tmp_path: Path) -> None:
    vault = made(tmp_path, bound=False)
    assert "bound-1" not in vault.file.features
    snapshot, content, _ = saved(vault, 1)
    other, other_content, _ = saved(opened(tmp_path), 2)
    for index in (tmp_path / "index").iterdir():
        index.unlink()
    assert opened(tmp_path).repair().indexed_packs == 2
    assert opened(tmp_path).verify().intact
    assert opened(tmp_path).load(snapshot) == {"w.bin": content}
    assert opened(tmp_path).load(other) == {"w.bin": other_content}


def test_feature_that_was_taken_out_of_vault_json_shows(tmp_path: Path) -> None:
    """A table never opens by the other label, so that nobody falls back."""
    vault = made(tmp_path, bound=True)
    _, _, pack = saved(vault, 1)
    data = pack.read_bytes()
    _, other = keys.sealed(vault.place.objects.blobs, vault.ring, binds_tables=False)  # type: ignore[arg-type]  # a sealed vault has one
    with pytest.raises(Damaged, match="table cannot be read"):
        read_table(pack.name, len(data), lambda offset, size: data[offset : offset + size], other)


def test_one_family_is_of_one_kind(tmp_path: Path) -> None:
    ring = KeyRing([new_root(now_s=1.0)])
    old, new = made(tmp_path / "old", bound=False, ring=ring), made(tmp_path / "new", bound=True, ring=ring)
    for source, target in ((old, new), (new, old)):
        with pytest.raises(Permanent, match="bound-1"):
            check_families(source.place, target.place, subject="x")
        head = SetHead(1, "0" * 32, source.file.id, source.file.family, source.file.features, 1.0, 1, 1, 10, 1, 10, ())
        with pytest.raises(Permanent, match="bound-1"):
            check_target(Gathered(head, Manifest("", (), "", "", ""), {}, ()), target.file)
        check_target(Gathered(head, Manifest("", (), "", "", ""), {}, ()), source.file)
    assert msgspec.json.encode(old.file) != msgspec.json.encode(new.file)
