"""Landing: the entries of a snapshot written into a scratch folder, where an earlier try may have left some of them.

Nothing is written through a symbolic link: the folder is private, files are opened without following, and links are made last.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bridgehead.host.direct import write_all
from bridgehead.host.durable import begin_writing, sync_file_system
from bridgehead.kernel.errors import Conflict, Permanent, Transient
from bridgehead.kernel.quantity import format_bytes
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, Snapshot
from bridgehead.vault.compare import holds, parents
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.paths import on_disk, shown
from bridgehead.vault.reader import Reader
from bridgehead.vault.sources import PLAIN_FOLDER_MODE

_UNIT_BYTES: Final = 4096
"""Disk space is given in units of this size on nearly all file systems."""
_SLACK_BYTES: Final = 1 << 20
"""What a file system may take besides the data of one file before it is said that it keeps no holes."""
_SYNCED_ONE_BY_ONE: Final = 100
"""More files than this are brought to the disk together, with all else that waits in this file system (V29)."""
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def needed_bytes(snapshot: Snapshot) -> int:
    """Disk space that a restore takes: hard links and holes take none (V10)."""
    return sum(_space(file) for file in snapshot.files if file.is_file and not file.same_as)


def _space(file: FileEntry) -> int:
    return -(-sum(ref.size_bytes for ref in file.blocks) // _UNIT_BYTES) * _UNIT_BYTES


class Landing:
    """One restore into ``root``, which will be ``to``. ``landed``: something is there that the next try can use. ``sync``: wait for the
    disk at the end."""

    def __init__(self, objects: Objects, snapshot: Snapshot, root: Path, *, to: Path, note: Callable[[str], None], sync: bool) -> None:
        self._sync = sync
        self._objects, self._snapshot, self._root, self._to, self._note = objects, snapshot, root, to, note
        self._files = [file for file in snapshot.files if file.is_file]
        self._apart: list[FileEntry] = []
        """Files that have content of their own here: all but hard links."""
        self._adopted: set[str] = set()
        self.landed = False

    def write(self) -> None:
        """All entries, verified, and on disk with ``sync``. Raises Damaged, Permanent, OSError."""
        self._lay_out()
        places = self._lacking()
        self._check_space(places)
        reader = Reader(self._objects, self._snapshot)
        reader.each(places, lambda place, data: self._write_block(*place, data), ref_of=lambda place: place[1])
        alone = self._sync and len(self._apart) <= _SYNCED_ONE_BY_ONE
        parallel(lambda file: self._finish(file, to_disk=alone), self._apart)
        self._link()
        self._close_folders(to_disk=alone)
        if self._sync and not alone:
            sync_file_system(self._root)

    def _path(self, entry: FileEntry) -> Path:
        return self._root / on_disk(entry.path)

    def _lay_out(self) -> None:
        """Folders, and files of the right size without content; what an earlier try left and is not of this snapshot is removed."""
        self._root.mkdir(exist_ok=True)
        folders = {folder for file in self._snapshot.files for folder in parents(on_disk(file.path))}
        folders |= {on_disk(entry.path) for entry in self._snapshot.files if entry.kind is EntryKind.FOLDER}
        own = {on_disk(file.path) for file in self._files if not file.same_as}
        self._sweep(self._root, folders, own)
        for folder in sorted(folders):  # a folder comes before what is in it
            (self._root / folder).mkdir(mode=0o700, exist_ok=True)
        refused: list[str] = []
        for file in sorted(self._files, key=lambda file: bool(file.same_as)):
            if file.same_as and self._linked(file, refused):
                continue
            self._prepare(file)
            self._apart.append(file)
        if refused:
            more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            self._note(f"hard links are not possible here: {shown(refused[0])}{more} became copies")

    def _sweep(self, root: Path, folders: set[str], files: set[str]) -> None:
        waiting = [("", root)]
        while waiting:
            begin, folder = waiting.pop()
            os.chmod(folder, 0o700 if begin else stat.S_IMODE(os.lstat(folder).st_mode) | 0o700)
            with os.scandir(folder) as scanned:
                entries = list(scanned)
            for entry in entries:
                path = f"{begin}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if path in folders:
                        waiting.append((f"{path}/", Path(entry.path)))
                    else:
                        shutil.rmtree(entry.path)
                elif path in files and entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_nlink == 1:
                    self._adopted.add(path)
                    self.landed = True
                else:
                    os.unlink(entry.path)

    def _linked(self, file: FileEntry, refused: list[str]) -> bool:
        try:
            os.link(self._root / on_disk(file.same_as or ""), self._path(file), follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            refused.append(file.path)
            return False
        return True

    def _prepare(self, file: FileEntry) -> None:
        path = self._path(file)
        if on_disk(file.path) in self._adopted:
            os.chmod(path, 0o600)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.ftruncate(descriptor, file.size_bytes)
                if os.fstat(descriptor).st_blocks and all(holds(descriptor, hole) for hole in file.holes or ()):
                    return
            finally:
                os.close(descriptor)
            path.unlink()
            self._adopted.discard(on_disk(file.path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(descriptor, file.size_bytes)
        finally:
            os.close(descriptor)

    def _lacking(self) -> list[tuple[FileEntry, BlockRef]]:
        """What is not there yet. What an earlier try wrote is read and hashed, by as many workers as write."""
        places = [(file, ref) for file in self._apart for ref in file.blocks]
        doubtful = [place for place in places if on_disk(place[0].path) in self._adopted]
        right = parallel(lambda place: self._is_right(*place), doubtful)
        there = {(file.path, ref.offset_bytes) for (file, ref), found in zip(doubtful, right, strict=True) if found}
        return [(file, ref) for file, ref in places if (file.path, ref.offset_bytes) not in there]

    def _is_right(self, file: FileEntry, ref: BlockRef) -> bool:
        descriptor = os.open(self._path(file), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return holds(descriptor, ref)
        finally:
            os.close(descriptor)

    def _check_space(self, places: list[tuple[FileEntry, BlockRef]]) -> None:
        """Raises Permanent when it cannot fit, before anything is written (V10)."""
        lacking: dict[str, int] = {}
        for file, ref in places:
            lacking[file.path] = lacking.get(file.path, 0) + ref.size_bytes
        needed = 0
        for file in self._apart:
            if file.path in lacking:
                allocated = os.lstat(self._path(file)).st_blocks * 512
                needed += min(max(0, _space(file) - allocated), lacking[file.path] + _UNIT_BYTES)
        found = os.statvfs(self._root)
        free = found.f_bavail * found.f_frsize
        if needed > free:
            happened = f"no space left for it: {format_bytes(needed)} are needed and {format_bytes(free)} are free"
            raise _permanent(self._to, happened, "Free space and repeat, or restore to another disk.")

    def _write_block(self, file: FileEntry, ref: BlockRef, data: bytes | memoryview) -> None:
        descriptor = os.open(self._path(file), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            write_all(descriptor, data, ref.offset_bytes)
            if self._sync:
                begin_writing(descriptor, ref.offset_bytes, len(data))
        finally:
            os.close(descriptor)
        self.landed = True

    def _finish(self, file: FileEntry, *, to_disk: bool) -> None:
        descriptor = os.open(self._path(file), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, file.mode & 0o777)
            if isinstance(file.mtime_ns, int):
                os.utime(descriptor, ns=(os.fstat(descriptor).st_atime_ns, file.mtime_ns))
            if to_disk:
                os.fsync(descriptor)
            taken = os.fstat(descriptor).st_blocks * 512
        finally:
            os.close(descriptor)
        if file.holes and taken > _space(file) + _SLACK_BYTES:
            what = f"{format_bytes(taken)} instead of {format_bytes(_space(file))}"
            self._note(f"the file system keeps no holes: {shown(file.path)} takes {what}")

    def _link(self) -> None:
        """Symbolic links, which come last and lead wherever they say."""
        for entry in self._snapshot.files:
            if entry.kind is not EntryKind.LINK:
                continue
            path = self._path(entry)
            try:
                os.symlink(on_disk(entry.target or ""), path)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                happened = f"the file system has no symbolic links, and {shown(entry.path)} is one"
                raise _permanent(self._to, happened, "Restore to another file system.") from error
            if isinstance(entry.mtime_ns, int):
                os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)

    def _close_folders(self, *, to_disk: bool) -> None:
        modes = {on_disk(entry.path): entry.mode & 0o777 for entry in self._snapshot.files if entry.kind is EntryKind.FOLDER}
        for folder, _, _ in os.walk(self._root, topdown=False):
            path = os.path.relpath(folder, self._root)
            sync(Path(folder), mode=None if path == "." else modes.get(path, PLAIN_FOLDER_MODE), to_disk=to_disk)


def sync(folder: Path, *, mode: int | None = None, to_disk: bool = True) -> None:
    """Entries of a folder, and its new mode, are on disk on return."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)
        if to_disk:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def conflict(to: Path, happened: str, remedy: str) -> Conflict:
    """The error for a place that cannot be used now."""
    return Conflict(happened, tried="restore a snapshot", subject=_readable(to), remedy=remedy)


def port_error(error: OSError, to: Path) -> Conflict | Permanent | Transient:
    """What an error of the file system comes to."""
    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
        return conflict(to, "something else appeared there meanwhile", "Restore to a folder that does not exist yet.")
    happened = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _permanent(to, f"no space left ({happened})", "Free space and repeat.")
    if error.errno in (errno.EIO, errno.ESTALE):
        return Transient(happened, tried="restore a snapshot", subject=_readable(to), remedy="Look at the disk if it stays.")
    return _permanent(to, happened, "Check the path and the rights.")


def _permanent(to: Path, happened: str, remedy: str) -> Permanent:
    return Permanent(happened, tried="restore a snapshot", subject=_readable(to), remedy=remedy)


def _readable(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode()
