"""Cut: where a file is divided into blocks. By tensor where the tensors are known, else in pieces of fixed size.

A tensor that did not change is then the same block in the next snapshot, wherever it lies in the file, and a damaged block can be told
by the name of its tensor.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.vault.formats import Contents

MAX_BLOCK_BYTES: Final = 8 << 20
MIN_TENSOR_BLOCK_BYTES: Final = 64 << 10
"""Smaller neighbours share a block: in this cut a block is an object, and an object costs two disk syncs."""
OPAQUE_BLOCK_BYTES: Final = 4 << 20


class Piece(msgspec.Struct, frozen=True):
    """The bytes [offset, offset + size) of a file."""

    offset_bytes: int
    size_bytes: int


def cut(size_bytes: int, contents: Contents) -> list[Piece]:
    """Pieces that cover the file exactly once, in order. An empty file has none."""
    if contents.header_bytes == 0:
        return _split(0, size_bytes, OPAQUE_BLOCK_BYTES)
    bounds = {contents.header_bytes, size_bytes}
    for tensor in contents.tensors:  # tensors may overlap or leave gaps (V01): every begin and end is a possible cut
        bounds.add(tensor.offset_bytes)
        bounds.add(tensor.offset_bytes + tensor.size_bytes)
    pieces = _split(0, contents.header_bytes, MAX_BLOCK_BYTES)
    begin = contents.header_bytes
    for end in sorted(bounds):
        if end - begin >= MIN_TENSOR_BLOCK_BYTES or end == size_bytes:
            pieces += _split(begin, end, MAX_BLOCK_BYTES)
            begin = end
    return pieces


def _split(begin: int, end: int, limit: int) -> list[Piece]:
    return [Piece(at, min(limit, end - at)) for at in range(begin, end, limit)]
