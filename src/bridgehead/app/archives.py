"""Archives: the files inside tar and zip archives and compressed files, read in place. Nothing is unpacked to a disk.

Bounded: by entries, by bytes that come out, and by what headers may take. Names that lead out of the archive, links, devices, encrypted
and nested entries are passed over, each with its reason; a damaged archive gives what comes before the damage.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from bridgehead.discovery.parsing import MAX_CAPTURE_BYTES

MAX_ENTRIES: Final = 1_000_000
MAX_UNPACKED_BYTES: Final = 8 << 30
_MAX_HEADER_BYTES: Final = 4 << 20
_BLOCK: Final = 512
_OPENERS: Final[tuple[tuple[bytes, Callable[..., Any]], ...]] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
_DAMAGE: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)
"""What the libraries raise for broken input; RuntimeError and NotImplementedError are zipfile's words for passwords and methods."""


class Entry(NamedTuple):
    """A file in an archive: its path (empty for a compressed file, which holds one), and the bytes or why there are none."""

    path: str
    data: bytes
    at_s: float | None
    reason: str = ""


class _TooLarge(Exception):
    """More comes out than is allowed."""


class _Bounded:
    """A stream that ends with an error where more is read than was allowed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._total = 0
        self._allowed = 0

    def allow(self, size_bytes: int) -> None:
        """So much may be read from now on."""
        self._allowed = size_bytes

    def read(self, size: int = -1) -> bytes:
        """As a file."""
        data = self._stream.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self._allowed -= len(data)
        self._total += len(data)
        if self._allowed < 0 or self._total > MAX_UNPACKED_BYTES:
            raise _TooLarge(
                "its headers are too large" if self._allowed < 0 else f"more than {MAX_UNPACKED_BYTES >> 30} GiB come out of it"
            )
        return data


def is_packed(path: Path) -> bool:
    """Whether it is an archive or a compressed file, by its content. Raises OSError."""
    with path.open("rb") as stream:
        head = stream.read(_BLOCK)
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06", *(magic for magic, _ in _OPENERS))) or _is_tar(head)


def entries(path: Path, *, wanted: Callable[[str], bool] = lambda _path: True) -> Iterator[Entry]:
    """What is inside, in its order. Entries that are not ``wanted`` come without their bytes and without a reason. Never raises for what
    the archive holds: damage is the reason of a last entry."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_BLOCK)
        if head.startswith(b"PK"):
            yield from _zip_entries(path, wanted)
            return
        opener = next((opener for magic, opener in _OPENERS if head.startswith(magic)), open)
        with opener(path, "rb") as inner:
            first = inner.read(_BLOCK)
            inner.seek(0)
            yield from _tar_entries(inner, wanted) if _is_tar(first) else _only_entry(inner, path, wanted)
    except _TooLarge as error:
        yield Entry("", b"", None, f"the archive is not read further: {error}")
    except _DAMAGE as error:
        yield Entry("", b"", None, f"the archive is damaged or cut off here: {error}")


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _only_entry(stream: IO[bytes], path: Path, wanted: Callable[[str], bool]) -> Iterator[Entry]:
    data = stream.read(MAX_CAPTURE_BYTES + 1) if wanted("") else b""
    at_s = path.stat().st_mtime
    yield Entry("", b"", at_s, _too_large()) if len(data) > MAX_CAPTURE_BYTES else Entry("", data, at_s)


def _tar_entries(stream: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[Entry]:
    bounded = _Bounded(stream)
    bounded.allow(_MAX_HEADER_BYTES)
    with tarfile.open(fileobj=bounded, mode="r|", bufsize=20 * _BLOCK) as archive:  # type: ignore[call-overload]  # a stream needs only read
        for number, member in enumerate(archive):
            if number >= MAX_ENTRIES:
                raise _TooLarge(f"it has more than {MAX_ENTRIES} entries")
            archive.members = []  # tarfile would keep all of them
            bounded.allow(max(0, member.size) + 2 * _MAX_HEADER_BYTES)
            if member.isdir():
                continue
            reason = _unwelcome(member.name, member.size)
            if not member.isreg():
                reason = "it is a link or no ordinary file"
            if reason or not wanted(member.name):
                yield Entry(member.name, b"", None, reason)
                continue
            inside = archive.extractfile(member)
            data = inside.read(MAX_CAPTURE_BYTES) if inside is not None else b""
            if len(data) < member.size:
                yield Entry(member.name, b"", None, "the archive is cut off inside it")
            else:
                yield Entry(member.name, data, float(member.mtime) or None, _nested(data))


def _zip_entries(path: Path, wanted: Callable[[str], bool]) -> Iterator[Entry]:
    left = MAX_UNPACKED_BYTES
    with zipfile.ZipFile(path) as archive:
        found = archive.infolist()
        if len(found) > MAX_ENTRIES:
            raise _TooLarge(f"it has more than {MAX_ENTRIES} entries")
        for info in found:
            if info.is_dir():
                continue
            reason = _unwelcome(info.filename, info.file_size)
            if (info.external_attr >> 16) & 0o170000 not in (0, 0o100000):
                reason = "it is a link or no ordinary file"
            if reason or not wanted(info.filename):
                yield Entry(info.filename, b"", None, reason)
                continue
            try:
                with archive.open(info) as inside:
                    data = inside.read(min(left, MAX_CAPTURE_BYTES) + 1)
            except _DAMAGE as error:
                yield Entry(info.filename, b"", None, f"it cannot be read: {error}")
                continue
            left -= len(data)
            if left < 0:
                raise _TooLarge(f"more than {MAX_UNPACKED_BYTES >> 30} GiB come out of it")
            reason = _too_large() if len(data) > MAX_CAPTURE_BYTES else _nested(data)
            yield Entry(info.filename, data if not reason else b"", _zip_time(info.extra), reason)


def _unwelcome(name: str, size: int) -> str:
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        return "its name leads out of the archive"
    return _too_large() if size > MAX_CAPTURE_BYTES else ""


def _too_large() -> str:
    return f"it is larger than {MAX_CAPTURE_BYTES >> 20} MiB"


def _nested(data: bytes) -> str:
    nested = data.startswith((b"PK\x03\x04", *(magic for magic, _ in _OPENERS))) or _is_tar(data[:_BLOCK])
    return "it is an archive inside an archive; unpack it once" if nested else ""


def _zip_time(extra: bytes) -> float | None:
    """The time in UTC that most programs add; the other one of a zip archive says no zone."""
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        if kind == 0x5455 and size >= 5 and len(extra) >= 9 and extra[4] & 1:
            return float(int.from_bytes(extra[5:9], "little", signed=True)) or None
        extra = extra[4 + size :]
    return None
