"""Pages: memory for large pieces, in whole pages, used again when nobody looks at it any more.

Memory that the system has to clear first costs as much as hashing what comes into it, and small pages cost more than that.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
import weakref
from typing import Any, Final

MAX_FREE_BYTES: Final = 64 << 20
"""So much waits to be used again, at most."""
PAGE_BYTES: Final = 4096
"""Places and sizes of direct writes are multiples of it, too: no disk in use has larger blocks."""
_HUGE_BYTES: Final = 2 << 20
"""Huge pages are given to a mapping that begins and ends with one."""

_free: Final[dict[int, list[mmap.mmap]]] = {}
"""By size, what was let go last at the end."""
_keeping: Final = threading.Lock()
"""Never waited for: memory may be let go in the middle of anything, also of this."""
_kinds: Final[dict[int, Any]] = {}


def pages(size_bytes: int) -> memoryview:
    """Memory with anything in it, which begins with a page, so that it can be written from without a copy; in huge pages where the system
    has them. It is good as long as a view of it is held. Raises MemoryError."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return memoryview(bytearray(size_bytes))
    length = _length(size_bytes)
    try:
        memory = _free[length].pop()
        memory.resize(length)  # refused as long as there is a view: the collector of garbage may tell of the end of one too early
    except (KeyError, IndexError, BufferError):
        memory = _fresh(length)
    # Views hold what they are of, and this is told when the last of them is gone; an mmap cannot tell it.
    room = _kind(length).from_buffer(memory)
    weakref.finalize(room, _let_go, memory).atexit = False
    return memoryview(room).cast("B")[:size_bytes]


def are_pages(data: bytes | memoryview) -> bool:
    """Whether these bytes lie in what ``pages`` gave: nobody else writes to them."""
    return isinstance(data, memoryview) and type(data.obj) in _kinds.values()


def _length(size_bytes: int) -> int:
    """What is got for it: few different lengths, at most an eighth longer, so that what waits fits the next one. What is not written to
    takes no memory."""
    step = max(1 << max(size_bytes.bit_length() - 4, 0), PAGE_BYTES)
    length = max(size_bytes + -size_bytes % step, PAGE_BYTES)
    lost = -length % _HUGE_BYTES
    return length + lost if length + lost - size_bytes <= size_bytes // 8 else length


def _fresh(length: int) -> mmap.mmap:
    try:
        memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no {length} bytes of memory") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _let_go(memory: mmap.mmap) -> None:
    """Keep it for the next piece of its size; for that, what was of no use for longest goes."""
    if not _keeping.acquire(blocking=False):
        return
    try:
        same = _free.pop(len(memory), [])
        same.append(memory)
        _free[len(memory)] = same
        while sum(length * len(waiting) for length, waiting in _free.items()) > MAX_FREE_BYTES:
            oldest = next(iter(_free))
            del _free[oldest][:1]
            if not _free[oldest]:
                del _free[oldest]
    finally:
        _keeping.release()


def _kind(length: int) -> Any:
    """A type of its own for each size, so that views of it are known among all others."""
    if length not in _kinds:
        import ctypes  # commands that handle nothing large do without it

        _kinds.setdefault(length, type("Pages", (ctypes.c_ubyte * length,), {}))
    return _kinds[length]
