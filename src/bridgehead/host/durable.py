"""Files that are whole or absent, also after a power cut. Imports ``os`` alone, because the supervisor of each job pays for it."""

from __future__ import annotations

import os
from typing import Any

_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range: Any = None
"""The function of the system once it was looked for; False where there is none (it is Linux's)."""


def write_durably(path: str, data: bytes) -> None:
    """Replace ``path`` by ``data``: new file, fsync, rename, fsync of the folder.

    Raises OSError; the old content is then still there and no temporary file stays.
    """
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        _write_new(temporary, data)
        os.replace(temporary, path)
    except OSError:
        _remove(temporary)
        raise
    sync_folder(os.path.dirname(path))


def create_durably(path: str, data: bytes, *, mode: int = 0o640) -> bool:
    """Like :func:`write_durably`, but never replaces: False when ``path`` exists already (a terminal state is written once, J02).

    Args:
        mode: rights of the new file; the umask can only take from them.
    """
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        _write_new(temporary, data, mode)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        _remove(temporary)
    sync_folder(os.path.dirname(path))
    return True


def reserve(path: str, size_bytes: int) -> None:
    """Claim the space for a record that must be possible later, when the disk is full (V19). Raises OSError when there is none."""
    _write_new(path, b" " * size_bytes)


def commit_reserved(reserved: str, path: str, data: bytes) -> None:
    """Write ``data`` over the reserved space, padded with blanks (which JSON permits), and give it its final name. Raises OSError."""
    descriptor = os.open(reserved, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(descriptor).st_size
        _write_all(descriptor, data.ljust(size_bytes))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(reserved, path)
    sync_folder(os.path.dirname(path))


def sync_file_system(folder: str | os.PathLike[str]) -> None:
    """Make everything durable that was written to the file system of ``folder``; for many files quicker than one by one. Raises OSError.

    Since Linux 5.8 an error of writing back, of whatever file, is told here.
    """
    import ctypes

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fspath(folder))
    finally:
        os.close(descriptor)


def begin_writing(descriptor: int, offset: int, size_bytes: int) -> None:
    """Tell the system to begin with bringing these bytes to the disk; a later fsync has less to wait for. A hint: it never fails."""
    global _sync_file_range
    if _sync_file_range is None:
        import ctypes

        _sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", False)
        if _sync_file_range:
            _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    if _sync_file_range:
        _sync_file_range(descriptor, offset, size_bytes, _SYNC_FILE_RANGE_WRITE)


def sync_folder(folder: str) -> None:
    """Make the names in ``folder`` durable. Raises OSError."""
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_new(path: str, data: bytes, mode: int = 0o640) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _remove(path: str) -> None:
    try:  # noqa: SIM105  (contextlib would cost each supervisor several milliseconds)
        os.unlink(path)
    except OSError:
        pass
