"""Sources: what a save reads, looked at so that a change under way is noticed (V11, V13).

Symbolic links inside a folder are kept as links, hard links as other names of one file, holes as holes; nothing is left out silently.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final, Protocol

from bridgehead.host.direct import read_at
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.snapshot import EntryKind
from bridgehead.vault.paths import recorded

Files = Mapping[str, bytes | bytearray | memoryview | os.PathLike[str]]
"""Path in the snapshot to the content, or to where the file or folder lies on disk."""

Range = tuple[int, int]
"""Begin and end in a file."""

MIN_HOLE_BYTES: Final = 64 << 10
"""Smaller holes are read as the zeros that they are: to go round them would cost more than it saves."""
PLAIN_FOLDER_MODE: Final = 0o755
"""The mode that a restore gives to a folder of which the record says nothing."""
_SPECIAL: Final = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class Source(Protocol):
    """One file to save, or a symbolic link or folder, which have no content.

    ``path`` and ``target`` are in the form of records (see ``vault.paths``); ``kind`` is None for a file; ``same_as`` names the file of
    which this is another name.
    """

    path: str
    mode: int
    size_bytes: int
    kind: EntryKind | None
    target: str
    same_as: str
    mtime_ns: int | None

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """At most ``size`` bytes; fewer only at the end."""
        ...

    def data_ranges(self) -> list[Range]:
        """Ranges outside of which there are only zeros, in order."""
        ...

    def check_unchanged(self) -> None:
        """Raises BridgeheadError when the file was changed, cut or removed since it was looked at."""
        ...


class MemorySource:
    """Bytes that the caller holds and does not change during the save."""

    def __init__(self, path: str, data: bytes | bytearray | memoryview) -> None:
        self._view = memoryview(data).cast("B")
        self.path = path
        self.mode = 0o644
        self.size_bytes = len(self._view)
        self.kind: EntryKind | None = None
        self.target = self.same_as = ""
        self.mtime_ns: int | None = None

    def read(self, offset: int, size: int) -> memoryview:
        """A view, no copy."""
        return self._view[offset : offset + size]

    def data_ranges(self) -> list[Range]:
        """All of it."""
        return [(0, self.size_bytes)] if self.size_bytes else []

    def check_unchanged(self) -> None:
        """Nothing to look at."""


class DiskSource:
    """A regular file. Nothing stays open between reads, so that a folder may hold any number of files.

    ``follow``: the path may be a symbolic link to the file. Else it is not followed, even if it becomes one during the save.
    """

    def __init__(self, path: str, full_path: str, *, follow: bool = True) -> None:
        found = os.stat(full_path, follow_symlinks=follow)
        if not stat.S_ISREG(found.st_mode):
            what = _SPECIAL.get(stat.S_IFMT(found.st_mode), "neither a regular file nor a folder")
            raise bad_input(full_path, f"it is {what}, which cannot be saved", "Save a folder that holds only files, folders and links.")
        self.path = path
        self.mode = stat.S_IMODE(found.st_mode) & 0o777
        self.size_bytes = found.st_size
        self.kind: EntryKind | None = None
        self.target = self.same_as = ""
        self.mtime_ns: int | None = found.st_mtime_ns
        self.inode = (found.st_dev, found.st_ino) if found.st_nlink > 1 and not follow else None
        self._full_path = full_path
        self._flags = os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        self._follow = follow
        self._dense = found.st_blocks * 512 >= found.st_size
        self._identity = _identity(found)

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """See Source. Raises BridgeheadError when the file is shorter than it was."""
        wanted = max(min(size, self.size_bytes - offset), 0)
        try:
            descriptor = os.open(self._full_path, self._flags)
            try:
                data = read_at(descriptor, wanted, offset)
                if len(data) < wanted:
                    raise self._changed("it became shorter")
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise self._changed("it was removed") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._changed("it was replaced by a symbolic link") from error
            raise _unreadable(error, self._full_path) from error
        return data

    def data_ranges(self) -> list[Range]:
        """Between holes of at least MIN_HOLE_BYTES, as the file system knows them (V09)."""
        if self._dense:
            return [(0, self.size_bytes)] if self.size_bytes else []
        try:
            descriptor = os.open(self._full_path, self._flags)
            try:
                return _data_ranges(descriptor, self.size_bytes)
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise self._changed("it was removed") from error
        except OSError as error:
            raise _unreadable(error, self._full_path) from error

    def check_unchanged(self) -> None:
        """See Source."""
        try:
            found = os.stat(self._full_path, follow_symlinks=self._follow)
        except FileNotFoundError as error:
            raise self._changed("it was removed") from error
        if _identity(found) != self._identity:
            raise self._changed("it was changed")

    def _changed(self, happened: str) -> BridgeheadError:
        return _changed(self._full_path, happened)


class BareSource:
    """A symbolic link, or a folder that has to be made for itself."""

    def __init__(self, path: str, full_path: str, found: os.stat_result) -> None:
        self.path = path
        self.mode = 0o777 if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode) & 0o777
        self.size_bytes = 0
        self.kind: EntryKind | None = EntryKind.LINK if stat.S_ISLNK(found.st_mode) else EntryKind.FOLDER
        self.target = recorded(os.readlink(full_path)) if self.kind is EntryKind.LINK else ""
        self.same_as = ""
        self.mtime_ns: int | None = found.st_mtime_ns if self.kind is EntryKind.LINK else None
        self._full_path = full_path

    def read(self, offset: int, size: int) -> bytes:
        """Nothing."""
        return b""

    def data_ranges(self) -> list[Range]:
        """None."""
        return []

    def check_unchanged(self) -> None:
        """See Source."""
        try:
            same = recorded(os.readlink(self._full_path)) == self.target if self.target else os.path.isdir(self._full_path)
        except OSError:
            same = False
        if not same:
            raise _changed(self._full_path, "it was changed or removed")


def sources_of(what: str | os.PathLike[str] | Files) -> list[Source]:
    """The files to save, sorted by path. Raises BridgeheadError for what cannot be saved whole; never leaves anything out."""
    found: list[Source] = []
    if isinstance(what, Mapping):
        for path, content in what.items():
            found += _chosen(path, content)
    else:
        root = os.fspath(what)
        if not os.path.isdir(root):
            raise bad_input(root, "it is not a folder", "Give the folder of the checkpoint.")
        found += _tree(root, "")
    found.sort(key=lambda source: source.path)
    _name_hard_links(found)
    return found


def _chosen(path: str, content: bytes | bytearray | memoryview | os.PathLike[str]) -> list[Source]:
    try:
        name = recorded(path)
    except UnicodeEncodeError as error:
        raise bad_input(path, "no file can have this name", "Rename it.") from error
    if not isinstance(content, os.PathLike):
        return [MemorySource(name, content)]
    full = os.fspath(content)
    return _tree(full, f"{path}/") if os.path.isdir(full) else [_on_disk(path, full, follow=True)]


def _tree(root: str, prefix: str) -> list[Source]:
    """What is in a folder, each under ``prefix``; the folder itself leaves no entry unless it is empty and has a name."""
    found: list[Source] = []
    waiting = [(root, prefix)]
    while waiting:
        folder, begin = waiting.pop()
        try:
            with os.scandir(folder) as scanned:
                entries = list(scanned)
            if begin:
                state = os.stat(folder, follow_symlinks=folder == root)
                if not entries or stat.S_IMODE(state.st_mode) & 0o777 != PLAIN_FOLDER_MODE:
                    found.append(BareSource(recorded(begin.rstrip("/")), folder, state))
        except OSError as error:
            raise _unreadable(error, folder) from error
        for entry in entries:
            path = f"{begin}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, f"{path}/"))
            else:
                found.append(_on_disk(path, entry.path, follow=False))
    return found


def _on_disk(path: str, full_path: str, *, follow: bool) -> Source:
    try:
        found = os.stat(full_path, follow_symlinks=follow)
        if stat.S_ISLNK(found.st_mode):
            return BareSource(recorded(path), full_path, found)
        return DiskSource(recorded(path), full_path, follow=follow)
    except FileNotFoundError as error:
        raise bad_input(full_path, "it was removed while the folder was read, or its link leads nowhere", "Save again.") from error
    except OSError as error:
        raise _unreadable(error, full_path) from error


def _name_hard_links(sources: list[Source]) -> None:
    """The first name of a file by the order of paths holds it, all others say that they are the same (V10)."""
    first: dict[tuple[int, int], str] = {}
    for source in sources:
        if isinstance(source, DiskSource) and source.inode is not None:
            name = first.setdefault(source.inode, source.path)
            source.same_as = name if name != source.path else ""


def _data_ranges(descriptor: int, size_bytes: int) -> list[Range]:
    ranges: list[Range] = []
    at = 0
    while at < size_bytes:
        try:
            begin = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # only a hole is left
            raise
        if begin >= size_bytes:
            break
        at = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size_bytes)
        if begin - (ranges[-1][1] if ranges else 0) >= MIN_HOLE_BYTES:
            ranges.append((begin, at))
        else:
            ranges[-1:] = [(ranges[-1][0] if ranges else 0, at)]
    if ranges and 0 < size_bytes - ranges[-1][1] < MIN_HOLE_BYTES:
        ranges[-1] = (ranges[-1][0], size_bytes)
    return ranges


def bad_input(subject: str, happened: str, remedy: str) -> BridgeheadError:
    """The error for files or arguments that cannot be saved."""
    readable = subject.encode("utf-8", "backslashreplace").decode()
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="save a snapshot", subject=readable, happened=happened, remedy=remedy)


def _changed(full_path: str, happened: str) -> BridgeheadError:
    return bad_input(
        full_path,
        f"{happened} while it was being saved; nothing was committed",
        "Save after the writer has finished; older snapshots are untouched.",
    )


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _unreadable(error: OSError, path: str) -> BridgeheadError:
    return bad_input(path, f"it cannot be read ({error.strerror})", "Check the rights, and the disk.")
