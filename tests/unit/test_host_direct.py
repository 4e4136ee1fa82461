"""Direct writing: the same bytes at any place and size, past the cache or not."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from bridgehead.host import direct
from bridgehead.host.direct import read_at, write_all
from bridgehead.host.pages import are_pages, pages

MIB = 1 << 20


def written(path: Path, data: bytes, offset: int) -> bytes:
    before = bytes(range(256)) * 24576  # 6 MiB that must stay where nothing is written
    path.write_bytes(before)
    descriptor = os.open(path, os.O_RDWR)
    try:
        write_all(descriptor, data, offset)
    finally:
        os.close(descriptor)
    found = path.read_bytes()
    assert found[:offset] == before[:offset]
    assert found[offset + len(data) :] == before[offset + len(data) :]
    return found[offset : offset + len(data)]


@pytest.mark.parametrize("offset", [0, 1, 4095, 4096, 100_003])
@pytest.mark.parametrize("size", [0, 1, 4096, 256 << 10, MIB + 1, 9 * MIB + 4097])
def test_V30_same_bytes_at_any_place(tmp_path: Path, offset: int, size: int) -> None:
    data = os.urandom(size)
    assert written(tmp_path / "file", data, offset) == data


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP])
def test_file_system_that_cannot_write_directly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = os.pwrite
    refused = []

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        direct = os.O_DIRECT & int(Path(f"/proc/self/fdinfo/{descriptor}").read_text().split("flags:")[1].split()[0], 8)
        if direct and len(refused) < 3:
            refused.append(at)
            raise OSError(code, os.strerror(code))
        return real(descriptor, data, at)

    data = os.urandom(2 * MIB + 77)
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert written(tmp_path / "file", data, 13) == data
    assert refused == [4096], "asked once, then written as always"


def test_short_direct_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: real(descriptor, bytes(data[: 300 << 10]), at))
    data = os.urandom(3 * MIB)
    assert written(tmp_path / "file", data, 5) == data


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_V19_V21_other_errors_are_told_and_the_descriptor_is_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def pwrite(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        monkeypatch.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match=os.strerror(code)):
            write_all(descriptor, bytes(MIB), 0)
        assert fcntl.fcntl(descriptor, fcntl.F_GETFL) == flags
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("offset", [0, 1, 8192])
def test_V30_memory_of_whole_pages_is_written_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int) -> None:
    memory = pages(5 * MIB)
    memory[:] = data = os.urandom(5 * MIB)
    copied = []
    aligned = direct._aligned
    monkeypatch.setattr(direct, "_aligned", lambda piece: copied.append(len(piece)) or aligned(piece))
    assert written(tmp_path / "file", memory, offset) == data
    assert bool(copied) == bool(offset % 4096), "copied only where memory and file do not begin alike"


@pytest.mark.parametrize("offset", [0, 1, 4097])
@pytest.mark.parametrize("size", [0, 100, 512 << 10, 3 * MIB + 5])
def test_same_bytes_are_read_from_any_place(tmp_path: Path, offset: int, size: int) -> None:
    data = os.urandom(4 * MIB)
    (tmp_path / "file").write_bytes(data)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        found = read_at(descriptor, size, offset)
        assert found == data[offset : offset + size]
        assert are_pages(found) == (size >= 512 << 10)
        assert read_at(descriptor, 2 * MIB, 4 * MIB - 7) == data[-7:], "fewer at the end"
        assert read_at(descriptor, 2 * MIB, 5 * MIB) == b""
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", ["pread", "preadv"])
def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = os.urandom(MIB)
    (tmp_path / "file").write_bytes(data)
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 999), at))
    monkeypatch.setattr(os, "preadv", lambda descriptor, rooms, at: preadv(descriptor, [rooms[0][:99_999]], at))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        size = 10_000 if name == "pread" else MIB
        assert read_at(descriptor, size, 0) == data[:size]
    finally:
        os.close(descriptor)
