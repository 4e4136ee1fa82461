"""Compare: whether what lies on a disk is what a snapshot says, found by reading and hashing it (V24, V28)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from bridgehead.host.direct import read_at
from bridgehead.kernel.hashing import block_hash
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, Hole, Snapshot
from bridgehead.vault.objects import parallel
from bridgehead.vault.paths import on_disk
from bridgehead.vault.snapshots import places_of

_READ_BYTES = 8 << 20


def same_tree(snapshot: Snapshot, root: Path) -> bool:
    """Whether a folder holds exactly the entries of the snapshot, with their modes. Times are not compared."""
    if root.is_symlink() or not root.is_dir():
        return False
    expected = {on_disk(file.path): file for file in snapshot.files}
    wanted = {folder for path in expected for folder in parents(path)}
    for path, is_folder in _walk(root):
        if path not in expected and not (is_folder and path in wanted):
            return False
    return all(parallel(lambda item: _same_entry(item[1], root / item[0]), list(expected.items())))


def parents(path: str) -> list[str]:
    """The folders above a path, the highest first."""
    segments = path.split("/")
    return ["/".join(segments[:count]) for count in range(1, len(segments))]


def _walk(root: Path) -> list[tuple[str, bool]]:
    found = []
    for folder, names, files in os.walk(root):
        begin = "" if folder == str(root) else os.path.relpath(folder, root) + "/"
        found += [(begin + name, not os.path.islink(os.path.join(folder, name))) for name in names]
        found += [(begin + name, False) for name in files]
    return found


def _same_entry(file: FileEntry, path: Path) -> bool:
    try:
        found = os.lstat(path)
        if file.kind is EntryKind.LINK:
            return stat.S_ISLNK(found.st_mode) and os.readlink(path) == on_disk(file.target or "")
        if stat.S_IMODE(found.st_mode) & 0o777 != file.mode & 0o777:
            return False
        if file.kind is EntryKind.FOLDER:
            return stat.S_ISDIR(found.st_mode)
        return stat.S_ISREG(found.st_mode) and found.st_size == file.size_bytes and _same_content(file, path)
    except FileNotFoundError:
        return False


def _same_content(file: FileEntry, path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return all(holds(descriptor, place) for place in places_of(file))
    finally:
        os.close(descriptor)


def holds(descriptor: int, place: BlockRef | Hole) -> bool:
    """Whether this range of an open file has the hash of the block, or is nothing but zeros."""
    end = place.offset_bytes + place.size_bytes
    if isinstance(place, Hole):
        return all(_zeros(descriptor, at, min(end, at + _READ_BYTES)) for at in range(place.offset_bytes, end, _READ_BYTES))
    return block_hash(read_at(descriptor, place.size_bytes, place.offset_bytes)) == place.block


def _zeros(descriptor: int, begin: int, end: int) -> bool:
    try:
        if os.lseek(descriptor, begin, os.SEEK_DATA) >= end:
            return True
    except OSError as error:
        if error.errno == errno.ENXIO:
            return True  # nothing but a hole up to the end
        raise
    data = bytes(read_at(descriptor, end - begin, begin))  # views are compared item by item
    return data == bytes(len(data))
