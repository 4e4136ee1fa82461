"""Scratch folders that the next process can clean: a folder belongs to a living process as long as that process holds its lock file.

A process id in the name would not do: ids are reused, and a store on a shared file system is written by several hosts.
"""

from __future__ import annotations

import fcntl
import os
import shutil

_LOCK = "lock"


def claim(folder: str) -> int | None:
    """Take ``folder``, creating it when it is missing. None when a live process has it, or took it away in this moment.

    Returns:
        A descriptor that holds the lock; the kernel gives it back when the process dies, however it dies.
    """
    lock_path = os.path.join(folder, _LOCK)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A cleaner may have removed the folder between open and lock: then the lock is on a file that nobody else sees.
        if os.stat(lock_path).st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def release(folder: str, descriptor: int) -> None:
    """Remove the folder with all that is in it and give the lock back."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)


def sweep(parent: str) -> int:
    """Remove every scratch folder under ``parent`` that no live process holds; returns how many (V24)."""
    removed = 0
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return 0
    for name in names:
        folder = os.path.join(parent, name)
        try:
            descriptor = claim(folder)
        except (PermissionError, NotADirectoryError, FileExistsError):
            continue  # another user's, or not ours at all
        if descriptor is not None:
            release(folder, descriptor)
            removed += 1
    return removed
