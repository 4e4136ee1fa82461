"""Records and names (V20, V31)."""

import msgspec
import pytest

from bridgehead.kernel.errors import ErrorCode, Permanent
from bridgehead.kernel.hashing import document_hash
from bridgehead.model.snapshot import BlockRef, Fence, FileEntry, Receipt, Snapshot
from bridgehead.vault.layout import SnapshotName, content_digest, fence_key, receipt_key, snapshot_name, snapshot_name_of_key
from bridgehead.vault.paths import path_fault
from bridgehead.vault.records import Damaged, decode, encode
from bridgehead.vault.snapshots import decode_snapshot

FENCE = Fence("train", 3, "b", ("train@5.2-0123456789abcdef",), "run-1", 17.25)


def snapshot(**changes: object) -> Snapshot:
    files = changes.pop("files", (FileEntry("m.bin", 0o644, 5, (BlockRef("ab" * 32, 0, 5),)),))
    name = SnapshotName("train", 2, 5, content_digest("train", 5, 2, files))
    made = Snapshot(name.id, "train", 5, 2, "a", 1.5, sum(file.size_bytes for file in files), files)
    return msgspec.structs.replace(made, **changes)


def test_record_is_read_back_and_carries_the_hash_of_its_content() -> None:
    data = encode(FENCE)
    assert decode(data, Fence, key="k") == FENCE
    assert msgspec.json.decode(data)["hash"] == document_hash(FENCE)


def test_V31_every_flipped_bit_of_a_record_is_noticed() -> None:
    data = encode(FENCE)
    for index in range(len(data) - 1):  # the last byte is a newline, not part of the document
        for bit in range(8):
            flipped = data[:index] + bytes([data[index] ^ 1 << bit]) + data[index + 1 :]
            with pytest.raises(Damaged) as caught:
                decode(flipped, Fence, key="fences/train/00000003.json")
            assert caught.value.subject == "fences/train/00000003.json"
            assert caught.value.code is ErrorCode.VAULT_DAMAGED


def test_V20_record_cut_off_anywhere_is_noticed() -> None:
    data = encode(FENCE)
    for end in range(len(data) - 1):
        with pytest.raises(Damaged):
            decode(data[:end], Fence, key="k")


def test_intact_record_of_another_kind_is_not_taken() -> None:
    receipt = Receipt("train@5.2-0123456789abcdef", "b", 3, 100, 2.0)
    with pytest.raises(Damaged, match="not of the form"):
        decode(encode(receipt), Fence, key="k")


def test_snapshot_name_goes_to_key_and_back() -> None:
    name = snapshot_name("train@1200.3-0123456789abcdef")
    assert name == SnapshotName("train", 3, 1200, "0123456789abcdef")
    assert name.key == "snapshots/train/000000001200-3-0123456789abcdef.json"
    assert snapshot_name_of_key("train", name.key) == name
    assert name.id == "train@1200.3-0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["", "train", "train@1.2", "../x@1.2-0123456789abcdef", "a/b@1.2-0123456789abcdef", "t@-1.2-0123456789abcdef"]
)
def test_text_that_is_no_snapshot_id(text: str) -> None:
    with pytest.raises(Permanent, match="not a snapshot id"):
        snapshot_name(text)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a b", ".hidden", "ä"])
def test_name_that_cannot_be_part_of_a_key(name: str) -> None:
    with pytest.raises(Permanent):
        fence_key(name, 1)
    with pytest.raises(Permanent):
        receipt_key(name, "train@1.2-0123456789abcdef")


def test_snapshot_record_under_its_name() -> None:
    made = snapshot()
    assert decode_snapshot(encode(made), snapshot_name(made.id)) == made


def test_snapshot_record_under_another_name_is_damage() -> None:
    other = SnapshotName("train", 2, 6, snapshot_name(snapshot().id).digest)
    with pytest.raises(Damaged, match="speaks of"):
        decode_snapshot(encode(snapshot()), other)


def test_snapshot_whose_files_do_not_make_its_digest_is_damage() -> None:
    made = snapshot()
    forged = msgspec.structs.replace(made, files=(FileEntry("m.bin", 0o644, 5, (BlockRef("cd" * 32, 0, 5),)),))
    with pytest.raises(Damaged):
        decode_snapshot(encode(forged), snapshot_name(made.id))


@pytest.mark.parametrize(
    "file",
    [
        FileEntry("../out", 0o644, 5, (BlockRef("ab" * 32, 0, 5),)),
        FileEntry("/out", 0o644, 5, (BlockRef("ab" * 32, 0, 5),)),
        FileEntry("a", 0o644, 5, ()),
        FileEntry("a", 0o644, 5, (BlockRef("ab" * 32, 0, 4),)),
        FileEntry("a", 0o644, 5, (BlockRef("ab" * 32, 1, 5),)),
        FileEntry("a", 0o644, 0, (BlockRef("ab" * 32, 0, 0),)),
        FileEntry("a", 0o644, 5, (BlockRef("../../../../etc/passwd", 0, 5),)),
    ],
)
def test_snapshot_that_would_be_unsafe_to_restore_is_damage(file: FileEntry) -> None:
    made = snapshot(files=(file,))
    with pytest.raises(Damaged):
        decode_snapshot(encode(made), snapshot_name(made.id))


def test_paths_of_one_folder() -> None:
    assert path_fault(["a", "b/c", "b/d", "b.e", "b-f"]) == ""
    for bad in (["a", "a"], ["a/b", "a"], ["a", "a-b", "a/b"], ["a//b"], ["a/"], ["./a"], [""], ["a\0b"], ["x" * 5000]):
        assert path_fault(bad), bad
