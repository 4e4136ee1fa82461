"""What the file system can do to a store (V19, V20, V21, V24, J01)."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import NotFound, Permanent, Transient, Unknown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def blobs(root: Path) -> LocalBlobs:
    made = LocalBlobs(LocalBlobsOptions(str(root)))
    made.put_new("folder/old", b"old")
    return made


def failing(code: int) -> Callable[..., int]:
    def call(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def leftovers(root: Path) -> list[Path]:
    return [path for path in (root / "~scratch").rglob("*") if path.is_file() and path.name != "lock"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "pwrite", "fsync", "link"])
def test_V19_no_space_at_any_call_leaves_nothing(
    blobs: LocalBlobs, root: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(code))
        with pytest.raises(Permanent, match="no space"):
            blobs.put_new("folder/new", b"value")
    assert blobs.size("folder/new") is None
    assert list(blobs.list("")) == ["folder/old"]
    assert leftovers(root) == []
    assert blobs.put_new("folder/new", b"value")


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["pwrite", "fsync", "link"])
def test_V21_error_that_may_pass_is_transient(blobs: LocalBlobs, root: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(code))
        with pytest.raises(Transient):
            blobs.put_new("folder/new", b"value")
    assert leftovers(root) == []
    assert blobs.put_new("folder/new", b"value")
    assert blobs.get("folder/new") == b"value"


def test_folder_that_cannot_be_synced_leaves_doubt(blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: failing(errno.EIO)() if os.path.isdir(f"/proc/self/fd/{fd}") else real(fd))
        with pytest.raises(Unknown):
            blobs.put_new("folder/new", b"value")
    assert blobs.get("folder/new") == b"value"
    assert blobs.put_new("folder/new", b"value") is False


def test_short_writes_are_continued(blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    value = os.urandom(10_000)
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, at: calls.append(1) or real(fd, bytes(data[:777]), at))
        assert blobs.put_new("folder/new", value)
    assert len(calls) == 13
    assert blobs.get("folder/new") == value


def test_reading_error_is_not_an_absence(blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing(errno.ESTALE))
        with pytest.raises(Transient):
            blobs.size("folder/old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", failing(errno.EIO))
        with pytest.raises(Transient):
            blobs.list("folder/")


def test_J01_store_that_went_away_is_not_an_empty_store(blobs: LocalBlobs, root: Path) -> None:
    root.rename(root.with_name("elsewhere"))
    for call in (
        lambda: blobs.get("folder/old"),
        lambda: blobs.size("folder/old"),
        lambda: list(blobs.list("")),
        lambda: blobs.put_new("x", b""),
    ):
        with pytest.raises(Transient, match="not there"):
            call()
    assert not root.exists(), "a write must not hide the real store under a new one"
    root.with_name("elsewhere").rename(root)
    assert blobs.get("folder/old") == b"old"
    assert blobs.put_new("folder/new", b"new")


def test_folder_that_was_removed_is_made_again(blobs: LocalBlobs, root: Path) -> None:
    (root / "folder" / "old").unlink()
    (root / "folder").rmdir()
    assert blobs.put_new("folder/new", b"new")
    with pytest.raises(NotFound):
        blobs.get("folder/old")


def test_key_through_a_value_or_on_a_folder_is_refused(blobs: LocalBlobs) -> None:
    with pytest.raises(Permanent):
        blobs.put_new("folder/old/below", b"x")
    with pytest.raises(Permanent):
        blobs.put_new("folder", b"x")
    with pytest.raises(Permanent):
        blobs.put_new("long/" + "x" * 300, b"x")
    with pytest.raises(Permanent):
        blobs.list("folder")


def test_file_system_without_links_is_refused(blobs: LocalBlobs, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(Permanent):
        blobs.put_new("folder/new", b"value")
    assert leftovers(root) == []


WRITER = """
import sys
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
blobs = LocalBlobs(LocalBlobsOptions(sys.argv[1]))
blobs.put_new("written/by-child", b"x")
print("ready", flush=True)
n = 0
while True:
    blobs.put_new(f"written/{n}", bytes(3_000_000))
    n += 1
"""


def test_V24_scratch_of_a_killed_writer_is_cleaned_and_that_of_a_living_one_is_not(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            LocalBlobs(LocalBlobsOptions(str(root))).put_new("by/first", b"")
            assert len(list((root / "~scratch").iterdir())) >= 1, "the child's scratch must stay while it lives"
            assert child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
    (folder,) = [path for path in (root / "~scratch").iterdir() if (path / "lock").exists()]
    (folder / "half").write_bytes(b"half a value")
    survivor = LocalBlobs(LocalBlobsOptions(str(root)))
    survivor.put_new("by/second", b"")
    assert not folder.exists()
    assert survivor.size("written/by-child") == 1
    sizes = {survivor.size(key) for key in survivor.list("written/")}
    assert sizes <= {1, 3_000_000}, "a killed writer leaves whole values or none"


FULL = """
import sys
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent
blobs = LocalBlobs(LocalBlobsOptions(sys.argv[1] + "/store"))
value = bytes(300_000)
n = 0
try:
    while n < 100:
        blobs.put_new(f"data/{n}", value)
        n += 1
except Permanent as error:
    assert "no space" in str(error), error
assert 1 <= n < 100, n
keys = list(blobs.list(""))
assert len(keys) == n, keys
assert all(blobs.size(key) == len(value) for key in keys)
blobs.delete("data/0")
assert blobs.put_new("data/again", value)
print("full at", n)
"""


def test_V19_really_full_file_system(tmp_path: Path) -> None:
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=2m none "$0" && exec "$@"', str(tmp_path)]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here (no user namespaces)")
    done = subprocess.run([*mount, sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "full at" in done.stdout
