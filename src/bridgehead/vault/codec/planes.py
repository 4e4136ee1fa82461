"""Planes: the first bytes of all elements, then the second, ...; each compressed by itself or stored (V30: sizes bounded before use).

Bytes of one significance have one distribution: exponents are skewed, low bits of a mantissa are noise. What zstd has to do for such bytes
is entropy coding. Matches of three or four bytes in it are accidents that cost more than they save, so the first method finds none shorter
than seven: within 3 % of the entropy at several times the speed of the ordinary levels.
"""

from __future__ import annotations

import enum
import threading
from typing import Any, Final

import msgspec
import numpy as np
import zstandard

from bridgehead.vault.codec.forms import Bits, Form

_NOISE: Final = 0.985
"""A plane that does not get below this share is stored."""
_SAMPLE_BYTES: Final = 1 << 14

ByteArray = np.ndarray[Any, np.dtype[np.uint8]]


class Method(enum.IntEnum):
    """How a run of bytes is written. The number is what a frame holds; a reader needs to know only whether it is zstd."""

    STORED = 0
    ZSTD = 1


class Run(msgspec.Struct, frozen=True):
    """Compressed or stored bytes."""

    method: Method
    payload: bytes | memoryview


class Level(enum.IntEnum):
    """What the trial chooses from; not part of a frame."""

    ENTROPY = 0
    FAST = 1
    USUAL = 3
    THOROUGH = 12


def room(count: int, form: Form) -> list[ByteArray]:
    """Planes for ``count`` elements, to be filled, the most significant first."""
    return [np.empty(count, dtype=np.uint8) for _ in range(form.width)]


def scatter(bits: Bits, planes: list[ByteArray], at: int) -> None:
    """Write elements into the planes from element ``at`` on."""
    width = len(planes)
    columns = np.ascontiguousarray(bits).view(np.uint8).reshape(-1, width)
    for index, plane in enumerate(planes):
        plane[at : at + len(bits)] = columns[:, width - 1 - index]


def gather(planes: list[ByteArray], begin: int, end: int) -> Bits:
    """The inverse: elements ``begin`` to ``end``."""
    width = len(planes)
    columns = np.empty((end - begin, width), dtype=np.uint8)
    for index, plane in enumerate(planes):
        columns[:, width - 1 - index] = plane[begin:end]
    return columns.reshape(-1).view(f"<u{width}")


def pack(plain: ByteArray, levels: tuple[Level, ...] = (Level.ENTROPY, Level.FAST)) -> Run:
    """Compress with the level that a sample finds best, or store."""
    data = plain.data
    sample = sample_of(plain)
    sizes = {level: len(_compressor(level).compress(sample)) for level in levels}
    level = min(levels, key=lambda level: sizes[level])
    if sizes[level] < _NOISE * len(sample):
        packed = _compressor(level).compress(data)
        if len(packed) < len(data):
            return Run(Method.ZSTD, packed)
    return Run(Method.STORED, data)


def unpack(run: Run, size_bytes: int) -> bytes | memoryview:
    """``size_bytes`` bytes. Raises ValueError when the run does not give exactly that many; never allocates more."""
    if run.method is Method.STORED:
        if len(run.payload) != size_bytes:
            raise ValueError(f"a stored run has {len(run.payload)} bytes instead of {size_bytes}")
        return run.payload
    try:
        # A size inside the stream would be believed before it is checked: what this package writes has none.
        inside = zstandard.get_frame_parameters(run.payload).content_size
        if inside not in (0, zstandard.CONTENTSIZE_UNKNOWN):
            raise ValueError("a compressed run states a size of its own")
        plain: bytes = _decompressor().decompress(run.payload, max_output_size=size_bytes, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(f"a compressed run cannot be read ({error})") from error
    if len(plain) != size_bytes:
        raise ValueError(f"a compressed run has {len(plain)} bytes instead of {size_bytes}")
    return plain


def estimate(planes: list[ByteArray]) -> int:
    """Bytes that these (small) planes take, at the entropy level."""
    compressor = _compressor(Level.ENTROPY)
    return sum(min(len(plane), len(compressor.compress(plane.data))) for plane in planes)


def sample_of(plain: ByteArray) -> bytes:
    """Four stretches that stand for the whole."""
    if len(plain) <= 2 * _SAMPLE_BYTES:
        return plain.tobytes()
    length = _SAMPLE_BYTES // 4
    step = (len(plain) - length) // 3
    return b"".join(plain[at : at + length].tobytes() for at in range(0, 3 * step + 1, step))


_mine = threading.local()
"""zstd contexts are big and not safe to share: one of each per thread."""


def _compressor(level: Level) -> zstandard.ZstdCompressor:
    made: dict[Level, zstandard.ZstdCompressor] = _mine.__dict__.setdefault("compressors", {})
    if level not in made:
        if level is Level.ENTROPY:
            parameters = zstandard.ZstdCompressionParameters(
                strategy=zstandard.STRATEGY_FAST, min_match=7, window_log=17, hash_log=6, chain_log=6, search_log=1, target_length=0,
                write_content_size=False,
            )  # fmt: skip
            made[level] = zstandard.ZstdCompressor(compression_params=parameters)
        else:
            made[level] = zstandard.ZstdCompressor(level=int(level), write_content_size=False)
    return made[level]


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_mine, "decompressor"):
        _mine.decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    found: zstandard.ZstdDecompressor = _mine.decompressor
    return found
