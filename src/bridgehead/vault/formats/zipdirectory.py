"""Zip directories: where the members of an archive lie, read from the end with bounds (V12).

A file may be several archives one after the other, each with offsets of its own: torch's distributed checkpoints are written so.
Only what zip calls "stored" has bytes that can be pointed at; what is compressed or encrypted stays opaque.
Formulas of the layout: APPNOTE 6.3 sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 (zip64) and 4.3.16 (end record).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bridgehead.vault.formats.contents import Extent, Reader

LOCAL_MAGIC: Final = b"PK\x03\x04"
MAX_DIRECTORY_BYTES: Final = 64 << 20
MAX_MEMBERS: Final = 200_000
"""In all archives of a file together."""
_MAX_ARCHIVES: Final = 50_000
_END_MAGIC: Final = b"PK\x05\x06"
_MAX_COMMENT: Final = 65535
_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_BYTES: Final = 20
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_ENCRYPTED: Final = 1
_IN_ZIP64: Final = 0xFFFFFFFF


class Member(NamedTuple):
    """A file in an archive. ``place``: its bytes in the whole file; None when they are not there as they are."""

    name: str
    place: Extent | None


class Archive(NamedTuple):
    """One archive. ``begin``: where it starts in the file; members in the order of their place."""

    begin: int
    members: tuple[Member, ...]


class Archives(NamedTuple):
    """All archives of a file, in order. ``unfinished``: what follows the last one is the beginning of another without its end."""

    archives: tuple[Archive, ...]
    unfinished: bool


class _Row(NamedTuple):
    name: str
    header: int
    size: int
    stored: bool


def read_archives(size_bytes: int, read: Reader) -> Archives | None:
    """The archives that end the file, or None when it does not end with a directory that can be followed."""
    tail_begin = max(0, size_bytes - _MAX_COMMENT - _END.size)
    tail = read(tail_begin, size_bytes - tail_begin)
    at = tail.rfind(_END_MAGIC, 0, max(0, len(tail) - _END.size + len(_END_MAGIC)))
    if at < 0:
        return None
    behind = at + _END.size + int.from_bytes(tail[at + 20 : at + 22], "little")
    found: list[Archive] = []
    end, left = tail_begin + at, MAX_MEMBERS
    while len(found) < _MAX_ARCHIVES:
        archive = _archive(end, read, left)
        if archive is None:
            break
        found.append(archive)
        left -= len(archive.members)
        end = archive.begin - _END.size  # an archive before it ends here, without a comment
        if end < 0 or read(end, len(_END_MAGIC)) != _END_MAGIC:
            break
    return Archives(tuple(reversed(found)), tail[behind : behind + 4] == LOCAL_MAGIC) if found else None


def _archive(end: int, read: Reader, members_left: int) -> Archive | None:
    """The archive whose end record is at byte ``end``."""
    record = read(end, _END.size)
    if len(record) < _END.size:
        return None
    _, _, _, _, count, size, offset, _ = _END.unpack(record)
    begin64 = end - _LOCATOR_BYTES - _END64.size
    record64 = read(begin64, _END64.size + 4) if begin64 >= 0 else b""
    if record64[:4] == b"PK\x06\x06" and record64[_END64.size :] == b"PK\x06\x07":
        end = begin64
        *_, count, size, offset = _END64.unpack_from(record64)
    begin = end - size - offset
    if begin < 0 or size > MAX_DIRECTORY_BYTES or count > members_left or count * _ENTRY.size > size:
        return None
    rows = _rows(read(end - size, size), count)
    members = _members(rows, begin, end - size, read) if rows is not None else None
    return Archive(begin, members) if members is not None else None


def _rows(directory: bytes, count: int) -> list[_Row] | None:
    rows = []
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(directory):
            return None
        fields = _ENTRY.unpack_from(directory, at)
        magic, flags, method, packed, size, offset = fields[0], fields[3], fields[4], fields[8], fields[9], fields[16]
        name_size, extra_size, comment_size = fields[10:13]
        extra_at = at + _ENTRY.size + name_size
        at = extra_at + extra_size + comment_size
        if magic != b"PK\x01\x02" or at > len(directory):
            return None
        name = directory[extra_at - name_size : extra_at].decode("utf-8", "replace")
        if _IN_ZIP64 in (packed, size, offset):
            wide = _wide(directory[extra_at : extra_at + extra_size], size, packed, offset)
            if wide is None:
                return None
            size, packed, offset = wide
        rows.append(_Row(name, offset, size, method == 0 and size == packed and not flags & _ENCRYPTED))
    return rows


def _wide(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int] | None:
    """The three numbers from the zip64 field (id 1), which holds just those that do not fit, in this order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            numbers = [
                int.from_bytes(extra[place : place + 8], "little") for place in range(at + 4, min(at + 4 + length, len(extra)) - 7, 8)
            ]
            if len(numbers) < (size, packed, offset).count(_IN_ZIP64):
                return None
            rest = iter(numbers)
            wide = [next(rest) if number == _IN_ZIP64 else number for number in (size, packed, offset)]
            return wide[0], wide[1], wide[2]
        at += 4 + length
    return None


def _members(rows: list[_Row], begin: int, end: int, read: Reader) -> tuple[Member, ...] | None:
    """Members with their places; None when two of them overlap, which no writer does and which would make a small file a lot of work."""
    rows.sort(key=lambda row: row.header)
    members = []
    free = 0
    for row in rows:
        if row.header < free or row.header + _LOCAL.size > end - begin:
            return None
        free = row.header + _LOCAL.size
        place = None
        if row.stored:
            local = read(begin + row.header, _LOCAL.size)
            if len(local) < _LOCAL.size or local[:4] != LOCAL_MAGIC:
                return None
            name_size, extra_size = struct.unpack_from("<2H", local, 26)
            place = Extent(begin + row.header + _LOCAL.size + name_size + extra_size, row.size)
            if place.end_bytes > end:
                return None
            free = place.end_bytes - begin
        members.append(Member(row.name, place))
    return tuple(members)
