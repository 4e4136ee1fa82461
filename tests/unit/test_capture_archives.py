"""Archives of captures: read in place, bounded, and nothing in them is believed (M5.1)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from bridgehead.app import archives
from bridgehead.app.archives import Entry, entries, is_packed

TEXT = b"some words\n" * 50


def read(path: Path) -> dict[str, Entry]:
    return {one.path: one for one in entries(path)}


def info(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname, made.mtime = size, kind, target, 1796000000
    return made


@pytest.fixture
def tar(tmp_path: Path) -> Path:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as stream:
        stream.addfile(info("gpu01", kind=tarfile.DIRTYPE))
        stream.addfile(info("gpu01/a.txt", len(TEXT)), io.BytesIO(TEXT))
        stream.addfile(info("gpu01/b.txt", len(TEXT)), io.BytesIO(TEXT))
    return path


def test_tar_gives_files_with_their_times(tar: Path) -> None:
    assert is_packed(tar)
    found = read(tar)
    assert list(found) == ["gpu01/a.txt", "gpu01/b.txt"]
    assert found["gpu01/a.txt"] == Entry("gpu01/a.txt", TEXT, 1796000000.0)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_tar_and_compressed_file(tar: Path, tmp_path: Path, pack: object) -> None:
    squeezed, single = tmp_path / "any.name", tmp_path / "dmesg.gz"
    squeezed.write_bytes(pack(tar.read_bytes()))  # type: ignore[operator]  # one of three functions
    single.write_bytes(pack(TEXT))  # type: ignore[operator]  # one of three functions
    assert [one.data for one in entries(squeezed)] == [TEXT, TEXT]
    [only] = entries(single)
    assert (only.path, only.data, only.reason) == ("", TEXT, "")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip(tmp_path: Path, method: int) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as stream:
        stream.writestr("gpu01/", b"")
        stream.writestr("gpu01/a.txt", TEXT)
    assert {name: one.data for name, one in read(path).items()} == {"gpu01/a.txt": TEXT}


def test_what_is_unwelcome_in_a_tar_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as stream:
        for name in ("../up.txt", "/etc/passwd", "a/../../b.txt"):
            stream.addfile(info(name, len(TEXT)), io.BytesIO(TEXT))
        stream.addfile(info("link", kind=tarfile.SYMTYPE, target="/etc/passwd"))
        stream.addfile(info("hard", kind=tarfile.LNKTYPE, target="good.txt"))
        stream.addfile(info("device", kind=tarfile.CHRTYPE))
        inner = gzip.compress(TEXT)
        stream.addfile(info("inner.gz", len(inner)), io.BytesIO(inner))
        stream.addfile(info("good.txt", len(TEXT)), io.BytesIO(TEXT))
    found = read(path)
    assert all("leads out" in found[name].reason for name in ("../up.txt", "/etc/passwd", "a/../../b.txt"))
    assert all("link or no ordinary file" in found[name].reason for name in ("link", "hard", "device"))
    assert "archive inside an archive" in found["inner.gz"].reason
    assert [name for name, one in found.items() if not one.reason] == ["good.txt"]


def test_what_is_unwelcome_in_a_zip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("../up.txt", TEXT)
        stream.writestr("a\\..\\..\\b.txt", TEXT)
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        stream.writestr(link, "/etc/passwd")
        stream.writestr("good.txt", TEXT)
    found = read(path)
    assert [name for name, one in found.items() if not one.reason] == ["good.txt"]
    assert "link" in found["link"].reason


def test_cut_archive_gives_what_comes_before_the_cut(tar: Path, tmp_path: Path) -> None:
    whole = tar.read_bytes()
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole[: whole.index(b"gpu01/b.txt") + 512 + 100])
    found = list(entries(cut))
    assert found[0].data == TEXT
    assert "cut off" in found[-1].reason
    squeezed = tmp_path / "cut.tar.gz"
    packed = gzip.compress(whole, mtime=0)
    squeezed.write_bytes(packed[: len(packed) - 20])
    assert "cut off" in list(entries(squeezed))[-1].reason


@pytest.mark.parametrize("at", range(0, 3000, 137))
def test_damage_anywhere_never_raises(tar: Path, tmp_path: Path, at: int) -> None:
    zipped = tmp_path / "x.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as stream:
        stream.writestr("gpu01/a.txt", bytes(range(256)) * 20)
    for whole in (tar.read_bytes(), gzip.compress(tar.read_bytes(), 1), zipped.read_bytes()):
        broken = bytearray(whole)
        broken[at % len(whole)] ^= 0xFF
        path = tmp_path / "broken"
        path.write_bytes(broken)
        for one in entries(path):
            assert one.data or one.reason or one.path


def test_encrypted_zip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as stream:
        stream.writestr("a.txt", TEXT)
    data = bytearray(path.read_bytes())
    for head in (data.index(b"PK\x03\x04") + 6, data.index(b"PK\x01\x02") + 8):
        data[head] |= 1
    path.write_bytes(data)
    [only] = entries(path)
    assert "cannot be read" in only.reason


def test_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_CAPTURE_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 3 << 20)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(2 << 20)))
    [only] = entries(bomb)
    assert "larger than 1 MiB" in only.reason
    many = tmp_path / "many.tar.gz"
    with tarfile.open(many, "w:gz") as stream:
        for number in range(8):
            stream.addfile(info(f"{number}.txt", 1 << 20), io.BytesIO(bytes(1 << 20)))
    assert "the archive is not read further" in list(entries(many))[-1].reason
    zipped = tmp_path / "many.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as stream:
        for number in range(8):
            stream.writestr(f"{number}.txt", bytes(1 << 20))
    assert "the archive is not read further" in list(entries(zipped))[-1].reason


def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 3)
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as stream:
        for number in range(5):
            stream.addfile(info(f"{number}.txt", len(TEXT)), io.BytesIO(TEXT))
    found = list(entries(path))
    assert len(found) == 4
    assert "more than 3 entries" in found[-1].reason


@pytest.mark.parametrize("data", [b"", b"words\n", b"PK\x03", b"\x1f", b"\0" * 512, b"GPU0\tGPU1\n" * 100])
def test_other_files_are_not_taken_for_archives(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    assert not is_packed(path)
