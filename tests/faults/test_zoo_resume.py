"""Restores that were broken off: what they left is used as far as it is right, and no further (V10, V24, V28)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.testing.disk_trees import look, sparse
from bridgehead.testing.faulty_blobs import FaultyBlobs
from bridgehead.vault import SaveResult, Vault, compare

A, TRAIN = SiteId("a"), WorkloadId("train")
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    made.mkdir()
    return made


def save(vault: Vault, what: object, step: int = 1) -> SaveResult:
    return vault.save(what, workload=TRAIN, step=step, epoch=Epoch(0), site=A)


class Counting(FaultyBlobs):
    """Counts the bytes that are read."""

    read_bytes = 0

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        data = super().get_range(key, offset_bytes, size_bytes)
        if key.startswith("data/"):
            self.read_bytes += len(data)
        return data


class Died(BaseException):
    """The process ends here."""


@pytest.fixture
def broken_off(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Counting, Vault, Path]:
    """A restore that died when most blocks were written."""
    (folder / "large.bin").write_bytes(os.urandom(24 * MIB))
    (folder / "small.bin").write_bytes(b"small")
    (folder / "link").symlink_to("small.bin")
    (folder / "d").mkdir(mode=0o555)
    os.link(folder / "small.bin", folder / "again.bin")
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault")))
    save(Vault.init(store), folder)
    real, written = os.pwrite, [0]

    def write(descriptor: int, data: bytes, at: int) -> int:
        written[0] += len(data)
        if written[0] > 20 * MIB:
            raise Died
        return real(descriptor, data, at)

    vault = Vault.open(store)
    notes: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write)
        with pytest.raises(Died):
            vault.restore(vault.newest(TRAIN).id, to=tmp_path / "out", note=notes.append)
    assert not (tmp_path / "out").exists()
    assert "goes on from there" in notes[0]
    counting = Counting(store, [])
    return counting, Vault.open(counting), tmp_path / "out"


def test_V24_V28_partial_restore_is_adopted_and_only_the_rest_is_read(
    broken_off: tuple[Counting, Vault, Path], folder: Path, tmp_path: Path
) -> None:
    counting, vault, out = broken_off
    vault.restore(vault.newest(TRAIN).id, to=out)
    assert counting.read_bytes < 16 * MIB
    assert look(out) == look(folder)
    assert not (tmp_path / ".out.restoring").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "out", "vault"]


@pytest.mark.parametrize("spoil", ["flip", "shorter", "longer", "link", "folder", "foreign", "hard"])
def test_V24_what_is_wrong_in_a_partial_restore_is_not_believed(
    broken_off: tuple[Counting, Vault, Path], folder: Path, tmp_path: Path, spoil: str
) -> None:
    _, vault, out = broken_off
    left = tmp_path / ".out.restoring" / "files" / "large.bin"
    outside = tmp_path / "outside"
    outside.write_bytes(b"outside")
    match spoil:
        case "flip":
            with open(left, "r+b") as file:
                file.seek(5 * MIB)
                byte = file.read(1)
                file.seek(5 * MIB)
                file.write(bytes([byte[0] ^ 1]))
        case "shorter":
            os.truncate(left, MIB)
        case "longer":
            os.truncate(left, 40 * MIB)
        case "link":
            left.unlink()
            left.symlink_to(outside)
        case "folder":
            left.unlink()
            (left / "deep").mkdir(parents=True)
        case "foreign":
            (left.parent / "foreign.bin").write_bytes(b"foreign")
        case "hard":
            left.unlink()
            os.link(outside, left)
    vault.restore(vault.newest(TRAIN).id, to=out)
    assert look(out) == look(folder)
    assert outside.read_bytes() == b"outside"


def test_V24_partial_restore_of_another_step_is_used_as_far_as_it_is_the_same(
    broken_off: tuple[Counting, Vault, Path], folder: Path
) -> None:
    counting, vault, out = broken_off
    with open(folder / "large.bin", "r+b") as file:
        file.write(b"changed")
    (folder / "small.bin").unlink()
    newer = save(vault, folder, step=2)
    counting.read_bytes = 0
    vault.restore(newer.id, to=out)
    assert counting.read_bytes < 16 * MIB
    assert look(out) == look(folder)


def test_V10_space_is_judged_before_anything_is_written_and_by_the_true_figure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault"))))
    (folder / "a.bin").write_bytes(os.urandom(MIB))
    os.link(folder / "a.bin", folder / "b.bin")
    sparse(folder / "s.img", 1 << 40, {0: os.urandom(MIB)})
    snapshot = save(vault, folder).id
    free = [0]
    real = os.statvfs

    def full(path: str) -> os.statvfs_result:
        found = list(real(path))
        found[1], found[4] = 4096, free[0] // 4096
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", full)
    free[0] = 2 * MIB - 4096
    with pytest.raises(BridgeheadError, match="no space left for it: 2 MiB are needed and 2044 KiB are free"):
        vault.restore(snapshot, to=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "vault"]
    free[0] = 2 * MIB + 2 * 65536
    vault.restore(snapshot, to=tmp_path / "out")
    assert look(tmp_path / "out") == look(folder)


class Meeting:
    """Four calls at once must meet here, once; with fewer it breaks."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(4, timeout=20)
        self.met = False

    def attend(self) -> None:
        if not self.met:
            self._barrier.wait()
            self.met = True


def test_V27_one_file_is_restored_by_several_workers_at_once(tmp_path: Path) -> None:
    meeting = Meeting()

    class Store(FaultyBlobs):
        def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
            if key.startswith("data/") and size_bytes > 100_000:
                meeting.attend()
            return super().get_range(key, offset_bytes, size_bytes)

    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault")))
    data = os.urandom(32 * MIB)
    saved = save(Vault.init(store), {"one.bin": data})
    assert len(saved.snapshot.files[0].blocks) >= 8
    Vault.open(Store(store, [])).restore(saved.id, to=tmp_path / "out")
    assert meeting.met
    assert (tmp_path / "out" / "one.bin").read_bytes() == data


def test_V28_what_is_there_is_checked_by_several_workers_at_once(
    broken_off: tuple[Counting, Vault, Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, vault, out = broken_off
    meeting, real = Meeting(), compare.read_at

    def read(descriptor: int, size: int, offset: int) -> bytes | memoryview:
        if size > 100_000:
            meeting.attend()
        return real(descriptor, size, offset)

    newest = vault.newest(TRAIN).id
    with monkeypatch.context() as patch:
        patch.setattr(compare, "read_at", read)
        vault.restore(newest, to=out)
    assert meeting.met
    assert look(out) == look(folder)
