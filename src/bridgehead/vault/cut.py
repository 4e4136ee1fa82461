"""Cut: where a file is divided into blocks: by tensor where the tensors are known, else by content. Zeros need no block.

A tensor that did not change is then the same block in the next snapshot, wherever it lies in the file, and a damaged block can be told
by the name of its tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain, pairwise
from typing import Final

import msgspec

from bridgehead.model.snapshot import Hole
from bridgehead.vault.chunking import chunks
from bridgehead.vault.formats import Contents
from bridgehead.vault.sources import MIN_HOLE_BYTES, Range, Source

MAX_BLOCK_BYTES: Final = 8 << 20
MIN_TENSOR_BLOCK_BYTES: Final = 64 << 10
"""Smaller neighbours share a block: in this cut a block is an object, and an object costs two disk syncs. A tensor of this size or more
shares its blocks with nothing, so that they are the same in every file and in every format that holds it."""
_PROBE_BYTES: Final = 64


class Piece(msgspec.Struct, frozen=True):
    """The bytes [offset, offset + size) of a file."""

    offset_bytes: int
    size_bytes: int


def divide(source: Source, contents: Contents) -> list[Piece]:
    """Pieces for all that may be data, in order. Of a file whose contents are known they cover all of it, holes too."""
    if contents.header_bytes:
        return cut(source.size_bytes, contents)
    pieces = []
    for begin, end in source.data_ranges():
        for cut_at in chunks(source.read, begin, end):
            pieces.append(Piece(begin, cut_at - begin))
            begin = cut_at
    return pieces


def without_zeros(source: Source, pieces: list[Piece]) -> tuple[list[Piece], tuple[Hole, ...]]:
    """The pieces that hold anything but zeros, and the holes between them (V09). Pieces below MIN_HOLE_BYTES are kept as they are."""
    ranges = source.data_ranges()
    kept = [piece for piece in pieces if piece.size_bytes < MIN_HOLE_BYTES or not _is_zeros(source, piece, ranges)]
    holes = []
    at = 0
    for begin, end in [*((piece.offset_bytes, piece.offset_bytes + piece.size_bytes) for piece in kept), (source.size_bytes, 0)]:
        if begin > at:
            holes.append(Hole(at, begin - at))
        at = end
    return kept, tuple(holes)


def _is_zeros(source: Source, piece: Piece, ranges: list[Range]) -> bool:
    begin, end = piece.offset_bytes, piece.offset_bytes + piece.size_bytes
    near = bisect_right(ranges, begin, key=lambda one: one[1])
    if near == len(ranges) or ranges[near][0] >= end:
        return True
    if any(source.read(begin, _PROBE_BYTES)) or any(source.read(end - _PROBE_BYTES, _PROBE_BYTES)):
        return False
    return bytes(source.read(begin, piece.size_bytes)) == bytes(piece.size_bytes)


def cut(size_bytes: int, contents: Contents) -> list[Piece]:
    """Pieces that cover the file exactly once, in order, cut by what is in it. An empty file has none."""
    pieces = _split(0, contents.header_bytes, MAX_BLOCK_BYTES)
    waiting = contents.header_bytes  # where the small ranges begin that have no block yet
    for begin, end in pairwise(_bounds(size_bytes, contents)):
        if end - begin >= MIN_TENSOR_BLOCK_BYTES:
            pieces += [*_split(waiting, begin, MAX_BLOCK_BYTES), *_split(begin, end, MAX_BLOCK_BYTES)]
            waiting = end
        elif end - waiting >= MIN_TENSOR_BLOCK_BYTES:
            pieces += _split(waiting, end, MAX_BLOCK_BYTES)
            waiting = end
    return pieces + _split(waiting, size_bytes, MAX_BLOCK_BYTES)


def _bounds(size_bytes: int, contents: Contents) -> list[int]:
    """Where a cut may be: at both ends of every range, which may overlap or leave gaps (V01), except that a small view does not divide
    the large tensor or storage that it looks into (V05)."""
    ranges = [(tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes) for tensor in contents.tensors]
    ranges += [(extent.offset_bytes, extent.end_bytes) for extent in contents.extents]
    large = sorted(found for found in ranges if found[1] - found[0] >= MIN_TENSOR_BLOCK_BYTES)
    bounds = {contents.header_bytes, size_bytes, *chain.from_iterable(large)}
    begins: list[int] = []  # of the parts of the file that large ranges cover, put together where they overlap
    ends: list[int] = []
    for begin, end in large:
        if begins and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    for at in {*chain.from_iterable(ranges)} - bounds:
        part = bisect_right(begins, at) - 1
        if part < 0 or at > ends[part]:
            bounds.add(at)
    return sorted(bounds)


def _split(begin: int, end: int, limit: int) -> list[Piece]:
    return [Piece(at, min(limit, end - at)) for at in range(begin, end, limit)]
