"""Inside: do something in a network namespace of this machine, without a process of its own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from bridgehead.kernel.errors import Permanent, Transient

T = TypeVar("T")
NETNS_FOLDER: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000


def inside(name: str, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own that has entered the namespace; sockets that it opens belong there. "" is where we are.

    Raises Transient when there is no such namespace (yet), Permanent without the right to enter, and what ``work`` raises.
    """
    if not name:
        return work()

    def there() -> T:
        _enter(name)
        return work()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(there).result()


def _enter(name: str) -> None:
    try:
        descriptor = os.open(NETNS_FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Transient("there is no such network namespace", tried="enter a network namespace", subject=name) from None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, _CLONE_NEWNET):
            reason = os.strerror(ctypes.get_errno())
            raise Permanent(reason, tried="enter a network namespace", subject=name, remedy="Run as root.")
    finally:
        os.close(descriptor)
