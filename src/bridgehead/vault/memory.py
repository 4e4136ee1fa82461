"""Memory: one budget for what the threads of a save or a restore hold together (issue 3: peak memory within the stated budget)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from bridgehead.host.pages import MAX_FREE_BYTES
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.quantity import parse_bytes

MEMORY_VARIABLE: Final = "BRIDGEHEAD_MEMORY"
DEFAULT_BYTES: Final = 512 << 20
MIN_BYTES: Final = 256 << 20
"""With less, hardly anything is left for blocks beside the packs that are under way. A family that is larger is encoded alone."""
PROCESS_BYTES: Final = 80 << 20
"""Interpreter, libraries, index and records."""
PACKS_BYTES: Final = 112 << 20
"""An open pack and two that are being written, of 32 MiB and one block."""
FREE_BYTES: Final = MAX_FREE_BYTES // 2
"""What was let go and waits to be used again; the other half is in what is counted for threads that wait."""


class Budget:
    """Bytes that may be held at a time. Safe for threads."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._held_bytes = 0
        self._freed = threading.Condition()

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Wait until so many bytes are free. What is larger than the whole budget waits until it is alone."""
        with self._freed:
            self._freed.wait_for(lambda: self._held_bytes == 0 or self._held_bytes + size_bytes <= self.total_bytes)
            self._held_bytes += size_bytes
        try:
            yield
        finally:
            with self._freed:
                self._held_bytes -= size_bytes
                self._freed.notify_all()


def memory_bytes() -> int:
    """The stated budget of a process: ``BRIDGEHEAD_MEMORY`` (such as ``1 GiB``), else 512 MiB. Raises BridgeheadError when it is no size
    or below 256 MiB."""
    text = os.environ.get(MEMORY_VARIABLE, "")
    found = parse_bytes(text) if text else DEFAULT_BYTES
    if found < MIN_BYTES:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the memory budget",
            subject=MEMORY_VARIABLE,
            happened=f"{text!r} is less than 256 MiB",
            remedy="Give at least 256 MiB, or unset it for 512 MiB.",
        )
    return found


@cache
def keep_freed_pages() -> None:
    """Have the C library keep the pages of a block that was let go for the next block: to give them back and get them anew costs as much
    as hashing the block. glibc keeps pieces up to the size of the largest one of at most 32 MiB that was freed; others pay no attention.
    """
    bytearray(31 << 20)


def working_bytes() -> int:
    """What blocks may take of it: for a save, together with the plain bytes that it keeps for the next one."""
    keep_freed_pages()
    return memory_bytes() - PROCESS_BYTES - PACKS_BYTES - FREE_BYTES
