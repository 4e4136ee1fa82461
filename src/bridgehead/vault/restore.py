"""Restore: files bit for bit, each block hashed in the buffer that is used (V30, V31), visible all at once or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.hashing import block_hash
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.reader import Reader
from bridgehead.vault.scratch import claim, release


def load(objects: Objects, snapshot: Snapshot) -> dict[str, bytes]:
    """The files in memory. Raises Damaged."""
    reader = Reader(objects, snapshot)
    fetched = iter(reader.parallel(reader.fetch, _refs(snapshot)))
    loaded = {file.path: b"".join([next(fetched) for _ in file.blocks]) for file in snapshot.files}
    # Hashed after landing in the buffer that the caller gets, not before.
    places = [(memoryview(loaded[file.path]), ref) for file in snapshot.files for ref in file.blocks]
    parallel(
        lambda place: objects.check_block(
            place[1].block,
            place[0][place[1].offset_bytes : place[1].offset_bytes + place[1].size_bytes],
            place[1].size_bytes,
            owner=snapshot,
        ),
        places,
    )
    return loaded


def restore(objects: Objects, snapshot: Snapshot, to: Path) -> None:
    """Write the files into the folder ``to``, which appears at once when all is verified and on disk.

    A folder that already holds exactly these files is left as it is.

    Raises:
        Conflict: ``to`` holds something else, or another process is restoring to it.
        Damaged: a block is missing or damaged; nothing appears.
        Permanent: no space left, or no right to write; nothing appears.
    """
    if _occupied(to):
        if not _same(snapshot, to):
            raise _conflict(to, "it is there and holds something else", "Restore to a folder that does not exist yet.")
        return
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        scratch = to.parent / f".{to.name}.restoring"
        lock = claim(str(scratch))
        if lock is None:
            raise _conflict(to, "another process is restoring to it", "Wait for it.")
        try:
            files = scratch / "files"
            shutil.rmtree(files, ignore_errors=True)  # what a killed restore left
            _write(objects, snapshot, files)
            os.rename(files, to)
            _sync(to.parent)
        finally:
            release(str(scratch), lock)
    except OSError as error:
        raise _port_error(error, to) from error


def part(snapshot: Snapshot, paths: Collection[str]) -> Snapshot:
    """The snapshot as if it had only the files of these paths. Raises NotFound for one that it does not have."""
    have = {file.path: file for file in snapshot.files}
    for path in paths:
        if path not in have:
            raise NotFound(
                f"there is no file {path!r}", tried="restore a file", subject=snapshot.id, remedy="`bridgehead vault show` lists its files."
            )
    return msgspec.structs.replace(snapshot, files=tuple(file for file in snapshot.files if file.path in paths))


def pieces(objects: Objects, snapshot: Snapshot, file: FileEntry, begin: int, end: int) -> Iterator[memoryview]:
    """The bytes [begin, end) of a file, block by block, each verified before it is handed out. Raises Damaged."""
    reader = Reader(objects, snapshot)
    for ref in file.blocks:
        first, last = max(begin, ref.offset_bytes), min(end, ref.offset_bytes + ref.size_bytes)
        if first < last:
            block = memoryview(reader.read(ref))
            yield block[first - ref.offset_bytes : last - ref.offset_bytes]


def _write(objects: Objects, snapshot: Snapshot, root: Path) -> None:
    root.mkdir()
    for file in snapshot.files:
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "xb") as out:
            out.truncate(file.size_bytes)
    reader = Reader(objects, snapshot)
    reader.parallel(lambda item: _write_block(reader, root / item[0].path, item[1]), _places(snapshot))
    parallel(lambda file: _finish(root / file.path, file), snapshot.files)
    for folder, _, _ in os.walk(root, topdown=False):
        _sync(Path(folder))


def _write_block(reader: Reader, path: Path, ref: BlockRef) -> None:
    left = memoryview(reader.read(ref))
    at = ref.offset_bytes
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        while len(left) > 0:
            count = os.pwrite(descriptor, left, at)
            left, at = left[count:], at + count
    finally:
        os.close(descriptor)


def _finish(path: Path, file: FileEntry) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, file.mode & 0o777)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _occupied(to: Path) -> bool:
    return os.path.lexists(to) and not (to.is_dir() and not to.is_symlink() and not any(to.iterdir()))


def _same(snapshot: Snapshot, to: Path) -> bool:
    found = {path.relative_to(to).as_posix() for path in to.rglob("*") if not path.is_dir()}
    if found != {file.path for file in snapshot.files} or not to.is_dir():
        return False
    return all(_same_file(file, to / file.path) for file in snapshot.files)


def _same_file(file: FileEntry, path: Path) -> bool:
    if path.is_symlink() or path.stat().st_size != file.size_bytes or path.stat().st_mode & 0o777 != file.mode & 0o777:
        return False
    with open(path, "rb") as opened:
        return all(block_hash(opened.read(ref.size_bytes)) == ref.block for ref in file.blocks)


def _refs(snapshot: Snapshot) -> list[BlockRef]:
    return [ref for file in snapshot.files for ref in file.blocks]


def _places(snapshot: Snapshot) -> list[tuple[FileEntry, BlockRef]]:
    return [(file, ref) for file in snapshot.files for ref in file.blocks]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _conflict(to: Path, happened: str, remedy: str) -> Conflict:
    return Conflict(happened, tried="restore a snapshot", subject=str(to), remedy=remedy)


def _port_error(error: OSError, to: Path) -> Conflict | Permanent | Transient:
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
        return _conflict(to, "something else appeared there meanwhile", "Restore to a folder that does not exist yet.")
    happened = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Permanent(f"no space left ({happened})", tried="restore a snapshot", subject=str(to), remedy="Free space and repeat.")
    if error.errno in (errno.EIO, errno.ESTALE):
        return Transient(happened, tried="restore a snapshot", subject=str(to), remedy="Look at the disk if it stays.")
    return Permanent(happened, tried="restore a snapshot", subject=str(to), remedy="Check the path and the rights.")
