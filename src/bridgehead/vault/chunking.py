"""Chunking: where a file of unknown content is divided, by the content itself, so that what is inserted moves no other boundary.

A gear hash with a window of 32 bytes is computed for all positions of a stretch at once: the sums over 2, 4, 8, 16 and 32 neighbours come
from each other by doubling. A boundary is where the hash is small; the limit is strict before the average size and loose behind it
(normalised chunking, as in FastCDC). The same bytes give the same boundaries on every machine, however the file is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

Read = Callable[[int, int], bytes | memoryview]
"""(offset, size) -> those bytes of the file."""

WINDOW_BYTES: Final = 32
STRETCH_BYTES: Final = 32 << 10
"""Positions that are computed at once: all of it stays in the cache next to the core."""
READ_BYTES: Final = 256 << 10
_MIX: Final = 0x9E3779B1
"""Odd: multiplying by it loses nothing, and brings the low bits, which depend on the last bytes only, into the high ones."""
_SHIFT: Final = 0x7F4A7C15
"""Added, so that a run of one byte, whichever, is no boundary: a stretch of zeros gives the longest chunks."""
_TABLE: Final = bytes(sorted(range(256), key=lambda byte: hashlib.sha256(bytes([byte])).digest()))
"""Each byte's part of the sum. Another table would find other boundaries."""


class Sizes(msgspec.Struct, frozen=True):
    """Bounds of a chunk. ``average_bytes`` is a power of two; of random bytes, chunks come out near it."""

    min_bytes: int
    average_bytes: int
    max_bytes: int


SIZES: Final = Sizes(256 << 10, 1 << 20, 4 << 20)


def chunks(read: Read, begin: int, end: int, *, sizes: Sizes = SIZES) -> Iterator[int]:
    """Ends of the chunks of the bytes [begin, end), in order; the last one is ``end``. Memory is bounded, whatever the size."""
    first = begin
    hasher = _Hasher() if end - first > sizes.min_bytes else None
    while hasher is not None and end - first > sizes.min_bytes:
        cut = _next_cut(hasher, read, first, min(end, first + sizes.max_bytes), sizes)
        yield cut
        first = cut
    if end > first:
        yield end


def _next_cut(hasher: _Hasher, read: Read, first: int, limit: int, sizes: Sizes) -> int:
    """The end of the chunk that begins at ``first``: not behind ``limit``."""
    strict = (1 << 32) // (sizes.average_bytes * 4)
    loose = (1 << 32) // (sizes.average_bytes // 4)
    at = first + sizes.min_bytes
    while at < limit:
        until = min(at + READ_BYTES, limit)
        data = bytes(read(at - WINDOW_BYTES + 1, until - at + WINDOW_BYTES - 1))
        for begin in range(0, until - at, STRETCH_BYTES):
            for position, value in hasher.small(data[begin : begin + STRETCH_BYTES + WINDOW_BYTES - 1], loose):
                if value < strict or at + begin + position - first >= sizes.average_bytes:
                    return at + begin + position + 1
        at = until
    return limit


class _Hasher:
    """The hash of every window of a stretch. Keeps its working space: to ask for it anew each time takes longer than the sums."""

    def __init__(self) -> None:
        import numpy as np  # plain vaults of small files do without

        count = STRETCH_BYTES + WINDOW_BYTES - 1
        self._np = np
        self._narrow = np.empty(count, np.uint16), np.empty(count, np.uint16)
        self._wide = np.empty(count, np.uint32), np.empty(count, np.uint32)

    def small(self, data: bytes, limit: int) -> list[tuple[int, int]]:
        """Windows, by number, whose hash is below ``limit``, with the hash."""
        hashes = self.hashes(data)
        return [(int(at), int(hashes[at])) for at in self._np.flatnonzero(hashes < self._np.uint32(limit))]

    def hashes(self, data: bytes) -> Any:
        """As 32-bit numbers, valid until the next call. Sums of eight parts still fit 16 bits (255 * 255 < 2^16)."""
        np = self._np
        narrow = self._narrow[0][: len(data)]
        narrow[:] = np.frombuffer(data.translate(_TABLE), np.uint8)
        narrow = self._doubled(narrow, self._narrow, (1, 2, 4), np.uint16)
        wide = self._wide[0][: len(narrow)]
        wide[:] = narrow
        wide = self._doubled(wide, self._wide, (8, 16), np.uint32)
        wide *= np.uint32(_MIX)
        wide += np.uint32(_SHIFT)
        return wide

    def _doubled(self, sums: Any, space: tuple[Any, Any], widths: tuple[int, ...], number: Any) -> Any:
        """Sums over twice as many neighbours, once for each width. ``sums`` lies in the first half of ``space``."""
        for turn, width in enumerate(widths, start=1):
            wider = space[turn % 2][: len(sums) - width]
            self._np.left_shift(sums[:-width], number(width), out=wider)
            wider += sums[width:]
            sums = wider
        return sums
