"""Direct writing: large values go to the disk past the page cache.

A copy into fresh pages of the cache costs as much as all hashing, and nobody reads a checkpoint right after it was written as often as
such pages push out what is read. Where the file system cannot do it, the same bytes are written as always.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from typing import Final

from bridgehead.host.pages import PAGE_BYTES, pages

_DIRECT: Final = getattr(os, "O_DIRECT", 0)
_MIN_BYTES: Final = 256 << 10
"""Less is quicker through the cache, where the system puts neighbours together."""
_PAGED_BYTES: Final = 512 << 10
"""What is read in smaller pieces is mostly copied or searched and let go at once."""
_PIECE_BYTES: Final = 4 << 20
_CANNOT: Final = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)

_mine = threading.local()
"""One aligned buffer per thread."""


def read_at(descriptor: int, size_bytes: int, offset: int) -> bytes | memoryview:
    """So many bytes at ``offset``, fewer at the end of the file only; what is large lies in ``pages``. Raises OSError, MemoryError."""
    if size_bytes < _PAGED_BYTES:
        data = os.pread(descriptor, size_bytes, offset)
        while 0 < len(data) < size_bytes and (more := os.pread(descriptor, size_bytes - len(data), offset + len(data))):
            data += more
        return data
    room, done = pages(size_bytes), 0
    while done < size_bytes and (count := os.preadv(descriptor, [room[done:]], offset + done)):
        done += count
    return room[:done].toreadonly()


def write_all(descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
    """Write all of ``data`` at ``offset``. Durable no sooner than with plain writes: fsync says when. Raises OSError."""
    view = memoryview(data).cast("B")
    begin = min(-offset % PAGE_BYTES, len(view))
    end = begin + (len(view) - begin) // PAGE_BYTES * PAGE_BYTES
    if _DIRECT and end - begin >= _MIN_BYTES:
        done = begin + _past_cache(descriptor, view[begin:end], offset + begin)
        _plain(descriptor, view[:begin], offset)
        _plain(descriptor, view[done:], offset + done)
    else:
        _plain(descriptor, view, offset)


def _past_cache(descriptor: int, whole: memoryview, offset: int) -> int:
    """How many bytes were written: fewer than all where the file system cannot, or wrote no whole pages."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    done = 0
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _DIRECT)
        while done < len(whole):
            piece = whole[done : done + _PIECE_BYTES]
            if not _begins_page(piece):
                piece = _aligned(piece)
            done += os.pwrite(descriptor, piece, offset + done)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    return done


def _begins_page(piece: memoryview) -> bool:
    if piece.readonly:  # its place is not told
        return False
    import ctypes  # commands that write nothing large do without it

    return ctypes.addressof(ctypes.c_char.from_buffer(piece)) % PAGE_BYTES == 0


def _aligned(piece: memoryview) -> memoryview:
    """A copy at the begin of a page in memory, good until the next call of this thread."""
    if not hasattr(_mine, "buffer"):
        _mine.buffer = memoryview(mmap.mmap(-1, _PIECE_BYTES))
    room: memoryview = _mine.buffer[: len(piece)]
    room[:] = piece
    return room


def _plain(descriptor: int, left: memoryview, offset: int) -> None:
    while len(left) > 0:  # a write may be short
        count = os.pwrite(descriptor, left, offset)
        left, offset = left[count:], offset + count
