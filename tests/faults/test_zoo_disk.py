"""The odd-checkpoint zoo, what lies on a disk: links, holes, folders, names, times (V09, V10, V24, V28)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, Permanent
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, FindingKind, Hole, Snapshot
from bridgehead.testing.disk_trees import look, sparse
from bridgehead.vault import Damaged, SaveResult, Vault
from bridgehead.vault.landing import needed_bytes
from bridgehead.vault.layout import SnapshotName, content_digest
from bridgehead.vault.paths import leads_out, on_disk, recorded
from bridgehead.vault.records import encode
from bridgehead.vault.snapshots import decode_snapshot

A, TRAIN = SiteId("a"), WorkloadId("train")
MIB = 1 << 20


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def vault(tmp_path: Path, request: pytest.FixtureRequest) -> Vault:
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault"))), codec=request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    made.mkdir()
    return made


def save(vault: Vault, what: object, step: int = 1) -> SaveResult:
    return vault.save(what, workload=TRAIN, step=step, epoch=Epoch(0), site=A)


def there_and_back(vault: Vault, folder: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    vault.restore(save(vault, folder).id, to=out)
    assert look(out) == look(folder)
    vault.restore(vault.newest(TRAIN).id, to=out)  # it is seen that all of it is there
    return out


def test_V10_symbolic_links_stay_links_wherever_they_lead(vault: Vault, folder: Path, tmp_path: Path) -> None:
    (folder / "step-1").mkdir()
    (folder / "step-1" / "w.bin").write_bytes(b"w" * 1000)
    (folder / "latest").symlink_to("step-1")
    (folder / "step-1" / "up.bin").symlink_to("../step-1/w.bin")
    (folder / "gone.pt").symlink_to("nowhere")
    (folder / "out").symlink_to("../../etc")
    (folder / "root").symlink_to("/etc/passwd")
    os.utime(folder / "latest", ns=(5, 5), follow_symlinks=False)
    there_and_back(vault, folder, tmp_path)
    snapshot = vault.snapshot(vault.newest(TRAIN).id)
    assert snapshot.incomplete == ()
    assert [(one.kind, one.path) for one in snapshot.findings] == [(FindingKind.LEADS_OUT, "out"), (FindingKind.LEADS_OUT, "root")]
    assert sorted(vault.load(snapshot.id)) == ["step-1/w.bin"]


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("a", "b", False),
        ("a", "./b/../c", False),
        ("a", "../b", True),
        ("d/a", "../b", False),
        ("d/a", "../../b", True),
        ("d/a", "x/../../../d", True),
        ("a", "/b", True),
        ("a", "b/../../a", True),
    ],
)
def test_link_that_leads_out_is_told_by_its_words(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) is out


def test_nothing_is_written_through_a_link(vault: Vault, folder: Path, tmp_path: Path) -> None:
    """A record that was made to do it is refused, and so is a scratch folder that somebody prepared."""
    (folder / "a").mkdir()
    (folder / "a" / "w").write_bytes(b"evil")
    snapshot = save(vault, folder).snapshot
    outside = tmp_path / "outside"
    outside.mkdir()
    for files in (
        [FileEntry("a", 0o777, 0, (), kind=EntryKind.LINK, target=str(outside)), *snapshot.files],
        [msgspec.structs.replace(snapshot.files[0], path="../w")],
        [FileEntry("a", 0o755, 0, (), kind=EntryKind.FOLDER), FileEntry("a", 0o777, 0, (), kind=EntryKind.LINK, target="x")],
        [FileEntry("b", 0o777, 0, (), kind=EntryKind.LINK)],
        [msgspec.structs.replace(snapshot.files[0], kind=EntryKind.LINK, target="x")],
        [msgspec.structs.replace(snapshot.files[0], same_as="b")],
        [msgspec.structs.replace(snapshot.files[0], path="\0c3\0a9")],
        [msgspec.structs.replace(snapshot.files[0], path="nul\0")],
        [msgspec.structs.replace(snapshot.files[0], mode=0o1777)],
        [msgspec.structs.replace(snapshot.files[0], mtime_ns=1 << 70)],
        [msgspec.structs.replace(snapshot.files[0], holes=(Hole(4, 0),))],
        [msgspec.structs.replace(snapshot.files[0], holes=(Hole(2, 2),))],
    ):
        with pytest.raises(Damaged):
            decoded(snapshot, files)
    prepared = tmp_path / ".out.restoring"
    (prepared / "files").mkdir(parents=True)
    prepared.chmod(0o777)
    (prepared / "files" / "a").symlink_to(outside)
    with pytest.raises(Conflict, match="private"):
        vault.restore(snapshot.id, to=tmp_path / "out")
    prepared.chmod(0o700)
    vault.restore(snapshot.id, to=tmp_path / "out")
    assert list(outside.iterdir()) == []
    assert look(tmp_path / "out") == look(folder)


def decoded(snapshot: Snapshot, files: list[FileEntry]) -> Snapshot:
    digest = content_digest(snapshot.workload, snapshot.step, snapshot.epoch, tuple(files))
    name = SnapshotName(snapshot.workload, snapshot.epoch, snapshot.step, digest)
    return decode_snapshot(encode(msgspec.structs.replace(snapshot, id=name.id, files=tuple(files))), name)


def test_V10_hard_links_are_one_file_and_take_its_space_once(vault: Vault, folder: Path, tmp_path: Path) -> None:
    (folder / "d").mkdir()
    (folder / "a.bin").write_bytes(os.urandom(3 * MIB))
    os.link(folder / "a.bin", folder / "b.bin")
    os.link(folder / "a.bin", folder / "d" / "c.bin")
    (folder / "other.bin").write_bytes((folder / "a.bin").read_bytes())
    saved = save(vault, folder)
    assert saved.written_bytes <= 3 * MIB
    assert saved.raw_bytes == 12 * MIB
    assert needed_bytes(saved.snapshot) == 6 * MIB
    out = there_and_back(vault, folder, tmp_path)
    assert (out / "a.bin").stat().st_nlink == 3
    assert (out / "other.bin").stat().st_nlink == 1
    vault.restore(saved.id, to=tmp_path / "part", only=["b.bin"])
    assert (tmp_path / "part" / "b.bin").read_bytes() == (folder / "b.bin").read_bytes()


def test_V10_hard_links_become_copies_where_there_are_none_and_it_is_said(
    vault: Vault, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.bin").write_bytes(b"a" * 5000)
    os.link(folder / "a.bin", folder / "b.bin")
    snapshot = save(vault, folder).id

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    notes: list[str] = []
    with monkeypatch.context() as patch:  # a file system such as exFAT
        patch.setattr(os, "link", refuse)
        vault.restore(snapshot, to=tmp_path / "out", note=notes.append)
    assert notes == ["hard links are not possible here: b.bin became copies"]
    assert [(tmp_path / "out" / name).stat().st_nlink for name in ("a.bin", "b.bin")] == [1, 1]
    assert (tmp_path / "out" / "b.bin").read_bytes() == b"a" * 5000
    (folder / "l").symlink_to("a.bin")
    linked = save(vault, folder, step=2).id
    with monkeypatch.context() as patch:
        patch.setattr(os, "symlink", refuse)
        with pytest.raises(Permanent, match="no symbolic links"):
            vault.restore(linked, to=tmp_path / "out2")


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_V09_holes_are_stored_as_nothing_and_come_back_as_holes(vault: Vault, folder: Path, tmp_path: Path) -> None:
    size = 4 << 40
    sparse(folder / "disk.img", size, {0: b"begin" * 1000, 1 << 40: os.urandom(300_000), size - 9: b"the end!!"})
    sparse(folder / "hole.img", 1 << 40, {})
    sparse(folder / "dense.bin", 8 * MIB, {0: bytes(8 * MIB - 1) + b"x"})
    saved = save(vault, folder)
    assert saved.written_bytes < 4 * MIB + 300_000 + 4 * 65536
    assert saved.raw_bytes == size + (1 << 40) + 8 * MIB
    out = there_and_back(vault, folder, tmp_path)
    assert allocated(out / "disk.img") < MIB
    assert allocated(out / "hole.img") < 65536
    assert allocated(out / "dense.bin") < 6 * MIB, "zeros that took space before take none"
    with open(out / "disk.img", "rb") as file:
        for at, length in ((0, 5000), (1 << 40, 300_000), (size - 9, 9)):
            file.seek(at)
            with open(folder / "disk.img", "rb") as original:
                original.seek(at)
                assert file.read(length) == original.read(length)
    image = next(file for file in saved.snapshot.files if file.path == "disk.img")
    middle = b"".join(vault.read(saved.snapshot, image, offset_bytes=(1 << 40) - 3, size_bytes=9))
    assert middle[:3] == bytes(3)
    assert middle[3:] != bytes(6)


def test_V09_zero_tensor_is_a_hole_and_keeps_its_place_in_the_table(vault: Vault, tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    (tmp_path / "c").mkdir()
    tensors = {"m": np.zeros(300_000, np.float32), "w": np.arange(100_000, dtype=np.float32), "z": np.zeros(5, np.int8)}
    save_file(tensors, tmp_path / "c" / "m.safetensors")
    saved = save(vault, tmp_path / "c")
    (file,) = saved.snapshot.files
    assert [hole.size_bytes for hole in file.holes] == [1_200_000]
    assert {tensor.name for tensor in file.tensors} == {"m", "w", "z"}
    assert vault.load(saved.id)["m.safetensors"] == (tmp_path / "c" / "m.safetensors").read_bytes()
    vault.restore(saved.id, to=tmp_path / "out")
    back = load_file(tmp_path / "out" / "m.safetensors")
    assert all((back[name] == tensors[name]).all() for name in tensors)


def test_V09_holes_that_the_file_system_does_not_keep_are_reported(
    vault: Vault, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sparse(folder / "s.img", 20 * MIB, {5: b"x"})
    snapshot = save(vault, folder).id
    real = os.ftruncate

    def fill(descriptor: int, size: int) -> None:
        """As a file system without holes does."""
        real(descriptor, size)
        if size:
            os.posix_fallocate(descriptor, 0, size)

    notes: list[str] = []
    monkeypatch.setattr(os, "ftruncate", fill)
    vault.restore(snapshot, to=tmp_path / "out", note=notes.append)
    assert len(notes) == 1
    assert "keeps no holes: s.img takes 2" in notes[0]


def test_folders_modes_and_times(vault: Vault, folder: Path, tmp_path: Path) -> None:
    for name, mode in {"empty": 0o755, "private": 0o700, "shared": 0o2775, "deep/er/empty": 0o750, "closed": 0o555}.items():
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(mode & 0o777)
    for name, mode in {"w.bin": 0o640, "private/key": 0o400, "closed/run": 0o755, "deep/none": 0o000}.items():
        (folder / name).parent.chmod(0o700)
        (folder / name).write_bytes(name.encode())
        (folder / name).chmod(mode)
    os.utime(folder / "w.bin", ns=(1_000_000_000, 1_234_567_890_123_456_789))
    (folder / "closed").chmod(0o555)
    (folder / "deep").chmod(0o755)
    out = there_and_back(vault, folder, tmp_path)
    assert (out / "w.bin").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert stat.S_IMODE((out / "closed").stat().st_mode) == 0o555
    (tmp_path / "private").mkdir(mode=0o500)
    vault.restore(vault.newest(TRAIN).id, to=tmp_path / "private")
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o500, "a folder that is there and empty keeps its mode"
    paths = [file.path for file in vault.snapshot(vault.newest(TRAIN).id).files if file.kind is EntryKind.FOLDER]
    assert paths == ["closed", "deep/er/empty", "empty", "private", "shared"], "folders of the usual mode that hold something say nothing"


def test_plain_snapshot_has_the_id_that_it_always_had(vault: Vault, folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "d" / "a").write_bytes(b"hello")
    (folder / "d" / "a").chmod(0o644)
    from_disk = save(vault, folder).snapshot
    assert from_disk.id == save(vault, {"d/a": b"hello"}).id
    block = from_disk.files[0].blocks[0].block
    assert from_disk.files[0].blocks == (BlockRef(block, 0, 5),)
    os.utime(folder / "d" / "a", ns=(5, 5))
    assert save(vault, folder).snapshot == from_disk, "another time alone is no other snapshot"


NAMES = [b"plain", "ümläut".encode(), b"\xff\xfe", b"\xc3", b"\xc3\xa9", b"back\\xff", b"\xe2\x82", b"%00", b"new\nline", b"\xed\xb2\x80"]


def test_names_that_are_not_utf8_come_back_to_the_byte(vault: Vault, folder: Path, tmp_path: Path) -> None:
    root = os.fsencode(folder)
    for number, name in enumerate(NAMES):
        with open(os.path.join(root, name), "wb") as file:
            file.write(name + bytes([number]))
    os.mkdir(os.path.join(root, b"d\xff"))
    os.symlink(b"../\xff\xfe", os.path.join(root, b"d\xff", b"l\xf0"))
    there_and_back(vault, folder, tmp_path)
    assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == sorted([*NAMES, b"d\xff"])
    paths = [file.path for file in vault.snapshot(vault.newest(TRAIN).id).files]
    assert len(set(paths)) == len(paths) == len(NAMES) + 1
    assert "\0ff\0fe" in paths


@pytest.mark.parametrize("name", [*NAMES, b"\x80", b"a\xffb/\xffc"])
def test_every_name_has_one_form_in_a_record(name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    assert on_disk(recorded(text)) == text
    assert recorded(text) == text or "\0" in recorded(text)


def test_V13_link_that_becomes_another_during_the_save_commits_nothing(vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridgehead.vault.sources import DiskSource

    (folder / "w.bin").write_bytes(b"w" * 100)
    (folder / "latest").symlink_to("step-1")
    real = DiskSource.read

    def read_then_move(source: DiskSource, offset: int, size: int) -> bytes:
        (folder / "latest").unlink(missing_ok=True)
        (folder / "latest").symlink_to("step-2")
        return real(source, offset, size)

    with monkeypatch.context() as patch:
        patch.setattr(DiskSource, "read", read_then_move)
        with pytest.raises(BridgeheadError, match="while it was being saved"):
            save(vault, folder)
    assert vault.newest(TRAIN) is None
