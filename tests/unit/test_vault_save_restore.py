"""Saving and restoring (V11, V12, V13, V28, V30; R10)."""

import errno
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import SaveResult, Vault
from bridgehead.vault.scratch import claim, release
from bridgehead.vault.sources import DiskSource

A, TRAIN = SiteId("a"), WorkloadId("train")


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def vault(tmp_path: Path, request: pytest.FixtureRequest) -> Vault:
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault"))), codec=request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    (made / "deep" / "er").mkdir(parents=True)
    (made / "a.bin").write_bytes(os.urandom(9_000_000))
    (made / "deep" / "er" / "empty").write_bytes(b"")
    (made / "deep" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (made / "deep" / "run.sh").chmod(0o755)
    (made / "ümläut").write_bytes(b"x")
    return made


def save(vault: Vault, what: object, step: int = 1, **context: str) -> SaveResult:
    return vault.save(what, workload=TRAIN, step=step, epoch=Epoch(0), site=A, context=context)


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777) for path in root.rglob("*") if path.is_file()
    }


def test_folder_comes_back_bit_for_bit_with_its_modes(vault: Vault, folder: Path, tmp_path: Path) -> None:
    saved = save(vault, folder, loss="1.25", commit="abc")
    vault.restore(saved.id, to=tmp_path / "new" / "place")
    assert tree(tmp_path / "new" / "place") == tree(folder)
    assert vault.load(saved.id) == {path: data for path, (data, _) in tree(folder).items()}
    assert vault.snapshot(saved.id).context == {"loss": "1.25", "commit": "abc"}
    assert saved.snapshot.raw_bytes == saved.written_bytes == 9_000_000 + 10 + 1
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["place"], "no scratch stays"


def test_what_is_there_is_not_written_again(vault: Vault) -> None:
    assert save(vault, {"a": b"1" * 100, "b": b"2" * 100}, step=1).written_blocks == 2
    second = save(vault, {"a": b"1" * 100, "b": b"3" * 100}, step=2)
    assert second.written_blocks == 1
    assert second.written_bytes == 100 or (vault.file.encodes and second.written_bytes < 100)


def test_equal_blocks_of_one_snapshot_are_written_once(vault: Vault) -> None:
    assert save(vault, {f"f{index}": b"same" * 100 for index in range(20)}).written_blocks == 1


def test_repeated_save_is_the_same_snapshot(vault: Vault) -> None:
    first, second = save(vault, {"a": b"1"}, loss="1"), save(vault, {"a": b"1"}, loss="2")
    assert second.snapshot == first.snapshot
    assert second.written_blocks == 0


@pytest.mark.parametrize("what", [{"../a": b""}, {"/a": b""}, {"a": b"", "a/b": b""}, {"": b""}, {}])
def test_paths_that_are_none_are_refused(vault: Vault, what: dict[str, bytes]) -> None:
    with pytest.raises(BridgeheadError) as caught:
        save(vault, what)
    assert caught.value.code is ErrorCode.BAD_INPUT
    assert vault.newest(TRAIN) is None


@pytest.mark.parametrize(("step", "epoch"), [(-1, 0), (10**12, 0), (0, -1), (0, 10**8)])
def test_numbers_that_do_not_fit_a_name_are_refused(vault: Vault, step: int, epoch: int) -> None:
    with pytest.raises(BridgeheadError, match="bad-input"):
        vault.save({"a": b""}, workload=TRAIN, step=step, epoch=Epoch(epoch), site=A)


def test_what_cannot_be_saved_whole_is_refused_and_not_left_out(
    vault: Vault, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(BridgeheadError, match="named pipe"):
        save(vault, folder)
    (folder / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(folder)  # the path of a socket must be short
        listening.bind("socket")
        with pytest.raises(BridgeheadError, match="a socket"):
            save(vault, folder)
    (folder / "socket").unlink()
    (folder / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BridgeheadError, match="leads nowhere"):
        save(vault, {"link": folder / "link"})
    with pytest.raises(BridgeheadError, match="a device"):
        save(vault, {"null": Path("/dev/null")})
    with pytest.raises(BridgeheadError, match="not a folder"):
        save(vault, tmp_path / "nowhere")
    assert vault.newest(TRAIN) is None


@pytest.mark.parametrize("change", ["grow", "cut", "rewrite", "remove", "replace"])
def test_V13_file_that_changes_during_the_save_commits_nothing(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = folder / "a.bin"
    real = DiskSource.read

    def read_then_change(source: DiskSource, offset: int, size: int) -> bytes:
        data = real(source, offset, size)
        if source.path == "a.bin" and offset == 0 and size > 8:
            match change:
                case "grow":
                    path.write_bytes(path.read_bytes() + b"x")
                case "cut":
                    os.truncate(path, 5_000_000)
                case "rewrite":
                    os.utime(path, ns=(1, 1))
                case "remove":
                    path.unlink()
                case "replace":
                    other = folder.parent / "other"
                    other.write_bytes(bytes(9_000_000))
                    other.rename(path)
        return data

    with monkeypatch.context() as patch:  # the trainer, at the worst moment
        patch.setattr(DiskSource, "read", read_then_change)
        with pytest.raises(BridgeheadError, match="while it was being saved"):
            save(vault, folder)
    assert vault.newest(TRAIN) is None
    assert vault.verify().intact


def test_V12_file_that_was_cut_off_is_kept_but_no_default(vault: Vault) -> None:
    good = save(vault, {"model.safetensors": b"\x02\0\0\0\0\0\0\0{}"}, step=1)
    torn = save(vault, {"model.safetensors": b"\x02\0\0\0\0\0\0\0"}, step=2)
    assert torn.snapshot.incomplete == ("model.safetensors",)
    assert vault.newest(TRAIN).id == good.id
    assert "cut off" in vault.survey(TRAIN).passed_over[0].reason
    assert vault.load(torn.id) == {"model.safetensors": b"\x02\0\0\0\0\0\0\0"}


def _header(**places: list[int]) -> bytes:
    table = {name: {"dtype": "U8", "shape": [place[1] - place[0]], "data_offsets": place} for name, place in places.items()}
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.safetensors", bytes(range(1, 200)), "no header"),
        ("m.safetensors", b"<html>not found</html>" * 9, "no header"),
        ("m.safetensors", _header(a=[0, 60], b=[40, 100]) + bytes(100), "a and b overlap"),
        ("m.safetensors", _header(a=[0, 60], b=[0, 60]) + bytes(60), ""),
        ("m.safetensors", _header(a=[0, 0], b=[0, 60], c=[60, 60]) + bytes(60), ""),
        ("m.safetensors", _header() + b"", ""),
        ("a.npy", b"no array at all", ".npy"),
        ("a.npz", b"no archive", ".npz"),
        ("a.pt", b"<html>", ".pt"),
        ("a.pth", b"\x80\x02legacy", ""),
        ("notes.txt", b"<html>", ""),
    ],
)
def test_V08_file_that_is_not_what_its_name_says_is_kept_and_it_is_said(vault: Vault, name: str, content: bytes, said: str) -> None:
    snapshot = save(vault, {name: content, "other.bin": b"x"}).snapshot
    found = snapshot.findings or ()
    assert [(one.path, one.kind.value) for one in found] == ([(name, "unreadable")] if said else [])
    assert said in "".join(one.happened for one in found)
    assert vault.load(snapshot.id)[name] == content
    newest = vault.newest(snapshot.workload)
    assert newest is not None
    assert newest.id == snapshot.id


def test_restore_twice_is_quiet_and_over_other_data_is_refused(vault: Vault, folder: Path, tmp_path: Path) -> None:
    snapshot = save(vault, folder).id
    to = tmp_path / "out"
    to.mkdir()
    vault.restore(snapshot, to=to)  # an empty folder is no data
    before = (to / "a.bin").stat()
    vault.restore(snapshot, to=to)
    after = (to / "a.bin").stat()  # reading may have changed the time of the last access
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (before.st_ino, before.st_mtime_ns, before.st_ctime_ns)
    for spoil in (
        lambda: (to / "extra").write_bytes(b""),
        lambda: (to / "deep" / "run.sh").chmod(0o644),
        lambda: (to / "ümläut").write_bytes(b"y"),
        lambda: (to / "deep" / "er" / "empty").unlink(),
    ):
        spoil()
        with pytest.raises(Conflict):
            vault.restore(snapshot, to=to)
        for path in sorted(to.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        vault.restore(snapshot, to=to)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Conflict):
        vault.restore(snapshot, to=tmp_path / "file")


def test_restored_folder_appears_at_once_and_whole(vault: Vault, tmp_path: Path) -> None:
    snapshot = save(vault, {f"f{index}": bytes([index]) * 5000 for index in range(250)}).id
    to = tmp_path / "out"
    with ThreadPoolExecutor(1) as pool:
        restoring = pool.submit(vault.restore, snapshot, to=to)
        while not to.exists():
            assert not restoring.done() or to.exists()
        seen = len(os.listdir(to))
        restoring.result()
    assert seen == 250


def test_V24_restore_cleans_what_a_killed_one_left_and_waits_for_no_living_one(vault: Vault, tmp_path: Path) -> None:
    snapshot = save(vault, {"a": b"1"}).id
    scratch = tmp_path / ".out.restoring"
    lock = claim(str(scratch))
    assert lock is not None
    with pytest.raises(Conflict, match="another process"):
        vault.restore(snapshot, to=tmp_path / "out")
    release(str(scratch), lock)
    (scratch / "files").mkdir(parents=True)
    (scratch / "files" / "half").write_bytes(b"half")
    vault.restore(snapshot, to=tmp_path / "out")
    assert tree(tmp_path / "out") == {"a": (b"1", 0o644)}
    assert not scratch.exists()


def test_unknown_snapshot(vault: Vault, tmp_path: Path) -> None:
    unknown = "train@1.0-0123456789abcdef"
    assert vault.find(unknown) is None
    for call in (lambda: vault.load(unknown), lambda: vault.restore(unknown, to=tmp_path / "out"), lambda: vault.receipt(unknown, site=A)):
        with pytest.raises(NotFound):
            call()


def test_workloads_do_not_mix(vault: Vault) -> None:
    save(vault, {"a": b"1"}, step=5)
    vault.save({"a": b"1"}, workload="other", step=9, epoch=Epoch(0), site=A)
    assert vault.newest(TRAIN).step == 5
    assert [info.step for info in vault.list("other")] == [9]
    assert vault.newest("third") is None


def test_restore_without_sync_does_not_wait_for_the_disk(
    vault: Vault, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = save(vault, folder).id

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    vault.restore(saved, to=tmp_path / "quick", sync=False)
    assert tree(tmp_path / "quick") == tree(folder)
    with pytest.raises(BridgeheadError, match="Input/output error"):
        vault.restore(saved, to=tmp_path / "sure")
    assert not (tmp_path / "sure").exists(), "what may not be on the disk does not appear"
