"""Safetensors: the tensor table, read with bounds and without trust (V01, V02, V03, V12).

Format: 8 bytes little endian N, then N bytes of JSON: name -> {dtype, shape, data_offsets: [begin, end]} with offsets counted from byte
8 + N, and optionally ``__metadata__``.
"""

from __future__ import annotations

import json
from typing import Final

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.formats.contents import (
    CUT_OFF,
    MAX_RANK,
    MAX_TENSORS,
    OPAQUE,
    Contents,
    FileFormat,
    Reader,
    by_place,
    is_length,
    is_text,
)

MAX_HEADER_BYTES: Final = 100_000_000
"""As in the reference reader."""


def examine_safetensors(path: str, size_bytes: int, read: Reader) -> Contents:
    """The table, or OPAQUE. ``path`` matters only for an incomplete file: an empty ``.safetensors`` was cut off, an empty file of another
    name may be meant so."""
    cut_off = CUT_OFF if path.endswith(".safetensors") else OPAQUE
    if size_bytes < 8:
        return cut_off
    header_size = int.from_bytes(read(0, 8), "little")
    if header_size == 0:
        return cut_off  # no header is empty: space that was reserved and never written
    if header_size > MAX_HEADER_BYTES or read(8, 1) not in (b"{", b""):
        return OPAQUE
    if 8 + header_size > size_bytes:
        return cut_off
    tensors = _table(read(8, header_size), 8 + header_size)
    if tensors is None:
        return OPAQUE
    end = max((tensor.offset_bytes + tensor.size_bytes for tensor in tensors), default=8 + header_size)
    if end > size_bytes:
        return Contents(cut_off_at=end)
    return Contents(header_bytes=8 + header_size, tensors=tensors, format=FileFormat.SAFETENSORS)


def _table(header: bytes, base: int) -> tuple[TensorEntry, ...] | None:
    """The tensors by offset, then name; None when this is no safetensors header."""
    try:
        document = json.loads(header)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or len(document) > MAX_TENSORS:
        return None
    tensors = []
    for name, entry in document.items():
        if name == "__metadata__":
            continue
        tensor = _tensor(name, entry, base)
        if tensor is None:
            return None
        tensors.append(tensor)
    return by_place(tensors)


def _tensor(name: str, entry: object, base: int) -> TensorEntry | None:
    """One row. A dtype that nobody knows is kept as the file writes it; whether shape and size agree is the reader's business."""
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            return None
    if not (is_length(begin) and is_length(end) and begin <= end) or len(shape) > MAX_RANK:
        return None
    if not all(is_length(length) for length in shape) or not (is_text(name) and is_text(dtype)):
        return None
    return TensorEntry(name=name, dtype=dtype, shape=tuple(shape), offset_bytes=base + begin, size_bytes=end - begin)
