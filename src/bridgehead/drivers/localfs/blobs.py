"""LocalBlobs: a directory as a blob store (ports.blobs.Blobs)."""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from io import FileIO
from typing import Final, TypeVar

import msgspec

from bridgehead.drivers.localfs.faults import in_doubt, translated
from bridgehead.drivers.localfs.folders import Folders, sync_folder
from bridgehead.host.direct import write_all
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.hashing import stream_hash
from bridgehead.ports.blobkeys import checked_key, checked_prefix, is_segment
from bridgehead.ports.blobs import BlobDigest
from bridgehead.vault.scratch import claim, release, sweep

T = TypeVar("T")

_PIECE_BYTES: Final = 1 << 20
"""What is hashed goes through memory in pieces of this size."""
_SCRATCH: Final = "~scratch"
"""Holds half-written values. The tilde is not in the alphabet of keys, so no key can name it and no listing shows it."""


class LocalBlobsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the store lives. The directory is created by the first write; reading never creates it."""

    directory: str


class LocalBlobs:
    """Blobs as files: written to a scratch file, fsynced, hard-linked to their name (create-only), folder fsynced.

    A rename would replace an existing value, so a link gives the name. Several processes, also of several hosts on a shared file
    system, may use one directory. The file system must have hard links.
    """

    def __init__(self, options: LocalBlobsOptions) -> None:
        self._root = os.path.abspath(options.directory)
        self._folders = Folders()
        self._counter = itertools.count()
        self._lock = threading.Lock()
        self._scratch = ""
        self._scratch_pid = 0
        self._seen = os.path.isdir(self._root)

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port. Also when it answers False, the value is durable on return.

        Raises Unknown when the value became visible but the folder could not be synced.
        """
        path = self._path(key)
        folder = os.path.dirname(path)
        with translated("store a value", self._subject(key)):
            if os.path.lexists(path):
                self._refuse_folder(key, path)
                written = False
            else:
                self._open_root()
                self._folders.ensure(folder)
                written = self._write(key, path, data)
        with in_doubt("store a value", self._subject(key)):
            sync_folder(folder)
        return written

    def get(self, key: str) -> bytes:
        """See the port."""
        return self._read(key, lambda file: file.readall())

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        return self._read(key, lambda file: _range_of(file, offset_bytes, size_bytes))

    def _read(self, key: str, how: Callable[[FileIO], T]) -> T:
        path = self._path(key)
        with translated("read a value", self._subject(key)):
            try:
                with FileIO(path) as file:
                    return how(file)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._check_root("read a value", key)
                raise NotFound("no such key", tried="read a value", subject=self._subject(key)) from None

    def digest(self, key: str) -> BlobDigest:
        """See the port."""
        return self._read(key, lambda file: BlobDigest(*stream_hash(iter(lambda: file.read(_PIECE_BYTES) or b"", b""))))

    def size(self, key: str) -> int | None:
        """See the port."""
        path = self._path(key)
        with translated("look for a value", self._subject(key)):
            try:
                found = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                self._check_root("look for a value", key)
                return None
            return None if os.path.isdir(path) else found.st_size

    def list(self, prefix: str) -> Iterator[str]:
        """See the port. The listing is taken at the call, not while it is iterated."""
        checked_prefix(prefix)
        start = self._path(prefix.rstrip("/")) if prefix else self._root
        keys: list[str] = []
        with translated("list keys", self._subject(prefix)):
            self._check_root("list keys", prefix)
            _walk(start, prefix, keys)
        keys.sort()
        return iter(keys)

    def delete(self, key: str) -> None:
        """See the port."""
        path = self._path(key)
        with translated("delete a value", self._subject(key)):
            self._check_root("delete a value", key)
            try:
                os.unlink(path)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return
            sync_folder(os.path.dirname(path))

    def _path(self, key: str) -> str:
        return os.path.join(self._root, checked_key(key))

    def _subject(self, key: str) -> str:
        return f"{key} in {self._root}" if key else self._root

    def _check_root(self, tried: str, key: str) -> None:
        """A missing store is not an empty store (J01)."""
        if not os.path.isdir(self._root):
            raise Transient("the directory of the store is not there", tried=tried, subject=self._subject(key), remedy="Is it mounted?")
        self._seen = True

    def _open_root(self) -> None:
        """The first write makes the directory; one that vanished since is not made again, for it would hide the real one."""
        if self._seen:
            self._check_root("store a value", "")
        else:
            self._folders.ensure(self._root)
            self._seen = True

    def _refuse_folder(self, key: str, path: str) -> None:
        if os.path.isdir(path):
            raise Permanent(
                "a folder has this name", tried="store a value", subject=self._subject(key), remedy="Use keys that do not nest."
            )

    def _write(self, key: str, path: str, data: bytes | memoryview) -> bool:
        temporary = self._write_scratch(data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            self._refuse_folder(key, path)
            return False
        except FileNotFoundError:
            # Somebody removed the folder that we remember: make it again, once.
            self._check_root("store a value", key)
            self._folders.forget()
            self._folders.ensure(os.path.dirname(path))
            os.link(temporary, path)
        finally:
            os.unlink(temporary)
        return True

    def _write_scratch(self, data: bytes | memoryview) -> str:
        path = os.path.join(self._scratch_folder(), f"{next(self._counter)}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data, 0)
            os.fsync(descriptor)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(descriptor)
        return path

    def _scratch_folder(self) -> str:
        with self._lock:
            if self._scratch_pid != os.getpid() or not os.path.isdir(self._scratch):
                parent = os.path.join(self._root, _SCRATCH)
                sweep(parent)
                descriptor = None
                while descriptor is None:
                    folder = os.path.join(parent, secrets.token_hex(8))
                    descriptor = claim(folder)
                self._scratch, self._scratch_pid = folder, os.getpid()
                weakref.finalize(self, _release_own, folder, descriptor, os.getpid())
            return self._scratch


def _range_of(file: FileIO, offset_bytes: int, size_bytes: int) -> bytes:
    file.seek(offset_bytes)
    data = file.read(size_bytes) or b""
    while len(data) < size_bytes and (more := file.read(size_bytes - len(data))):  # a read may be short
        data += more
    return data


def _release_own(folder: str, descriptor: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child inherits the lock but must not clean its parent's folder
        release(folder, descriptor)


def _walk(folder: str, prefix: str, keys: list[str]) -> None:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if not is_segment(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            _walk(entry.path, f"{prefix}{entry.name}/", keys)
        else:
            keys.append(prefix + entry.name)
