"""Sources: what a save reads, a folder of files or bytes in memory, looked at so that a change under way is noticed (V11, V13)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Protocol

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

Files = Mapping[str, bytes | bytearray | memoryview | os.PathLike[str]]
"""Path in the snapshot to the content, or to where the file lies on disk."""


class Source(Protocol):
    """One file to save."""

    path: str
    mode: int
    size_bytes: int

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """At most ``size`` bytes; fewer only at the end."""
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

    def read(self, offset: int, size: int) -> memoryview:
        """A view, no copy."""
        return self._view[offset : offset + size]

    def check_unchanged(self) -> None:
        """Nothing to look at."""


class DiskSource:
    """A regular file. Nothing stays open between reads, so that a folder may hold any number of files."""

    def __init__(self, path: str, full_path: str) -> None:
        found = os.stat(full_path)
        if not stat.S_ISREG(found.st_mode):
            raise bad_input(full_path, "it is neither a regular file nor a folder", "Save a folder that holds only files and folders.")
        self.path = path
        self.mode = stat.S_IMODE(found.st_mode) & 0o777
        self.size_bytes = found.st_size
        self._full_path = full_path
        self._identity = _identity(found)

    def read(self, offset: int, size: int) -> bytes:
        """See Source. Raises BridgeheadError when the file is shorter than it was."""
        try:
            descriptor = os.open(self._full_path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, size, offset)
                while len(data) < min(size, self.size_bytes - offset):
                    more = os.pread(descriptor, size - len(data), offset + len(data))
                    if not more:
                        raise self._changed("it became shorter")
                    data += more
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise self._changed("it was removed") from error
        except OSError as error:
            raise _unreadable(error, self._full_path) from error
        return data

    def check_unchanged(self) -> None:
        """See Source."""
        try:
            found = os.stat(self._full_path)
        except FileNotFoundError as error:
            raise self._changed("it was removed") from error
        if _identity(found) != self._identity:
            raise self._changed("it was changed")

    def _changed(self, happened: str) -> BridgeheadError:
        return bad_input(
            self._full_path,
            f"{happened} while it was being saved; nothing was committed",
            "Save after the writer has finished; older snapshots are untouched.",
        )


def sources_of(what: str | os.PathLike[str] | Files) -> list[Source]:
    """The files to save, sorted by path. Raises BridgeheadError for what cannot be saved whole; never leaves anything out."""
    if isinstance(what, Mapping):
        return [_chosen(path, what[path]) for path in sorted(what)]
    root = os.fspath(what)
    if not os.path.isdir(root):
        raise bad_input(root, "it is not a folder", "Give the folder of the checkpoint.")
    found: list[Source] = []
    for folder, names, files in os.walk(root, onerror=_refuse_unreadable):
        for name in names:
            if os.path.islink(os.path.join(folder, name)):
                raise bad_input(
                    os.path.join(folder, name), "it is a symbolic link to a folder", "Put the files themselves into the folder."
                )
        for name in files:
            full = os.path.join(folder, name)
            found.append(_on_disk(os.path.relpath(full, root).replace(os.sep, "/"), full))
    return sorted(found, key=lambda source: source.path)


def _chosen(path: str, content: bytes | bytearray | memoryview | os.PathLike[str]) -> Source:
    return _on_disk(path, os.fspath(content)) if isinstance(content, os.PathLike) else MemorySource(path, content)


def _on_disk(path: str, full_path: str) -> DiskSource:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise bad_input(ascii(full_path), "its name is not UTF-8", "Rename it.") from error
    try:
        return DiskSource(path, full_path)
    except FileNotFoundError as error:
        raise bad_input(full_path, "it was removed while the folder was read, or its link leads nowhere", "Save again.") from error
    except OSError as error:
        raise _unreadable(error, full_path) from error


def bad_input(subject: str, happened: str, remedy: str) -> BridgeheadError:
    """The error for files or arguments that cannot be saved."""
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="save a snapshot", subject=subject, happened=happened, remedy=remedy)


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _refuse_unreadable(error: OSError) -> None:
    raise _unreadable(error, str(error.filename))


def _unreadable(error: OSError, path: str) -> BridgeheadError:
    return bad_input(path, f"it cannot be read ({error.strerror})", "Check the rights, and the disk.")
