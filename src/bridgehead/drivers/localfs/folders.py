"""Folders of a store: made durably, once, also when several threads want the same one."""

from __future__ import annotations

import os
import threading


def sync_folder(path: str) -> None:
    """Put the entries of a folder on stable storage."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Folders:
    """Remembers which folders exist and are durable."""

    def __init__(self) -> None:
        self._durable: set[str] = set()
        self._lock = threading.Lock()

    def ensure(self, path: str) -> None:
        """``path`` and its parents exist and survive a power cut. Raises OSError."""
        if path in self._durable:
            return
        with self._lock:
            missing = []
            at = path
            while not os.path.isdir(at):
                missing.append(at)
                at = os.path.dirname(at)
            for folder in reversed(missing):
                try:
                    os.mkdir(folder, 0o755)
                except FileExistsError:
                    if not os.path.isdir(folder):
                        raise NotADirectoryError(f"{folder} is not a folder") from None
                sync_folder(os.path.dirname(folder))
            self._durable.add(path)

    def forget(self) -> None:
        """Somebody removed folders: look again."""
        with self._lock:
            self._durable.clear()
