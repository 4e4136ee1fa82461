"""What is inside a file: the tensor table of safetensors, read with bounds and without trust (V01, V02, V03, V08, V12).

The format is seen in the bytes, not in the name. A file that does not parse is opaque: stored as it is, never refused.
Format: 8 bytes little endian N, then N bytes of JSON: name -> {dtype, shape, data_offsets: [begin, end]} with offsets counted from byte
8 + N, and optionally ``__metadata__``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.model.snapshot import TensorEntry

MAX_HEADER_BYTES: Final = 100_000_000
"""As in the reference reader."""
MAX_TENSORS: Final = 1_000_000
MAX_RANK: Final = 64
MAX_TEXT: Final = 4096

Reader = Callable[[int, int], bytes]
"""(offset, size) -> at most ``size`` bytes of the file."""


class Contents(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        header_bytes: bytes before the first tensor; 0 for an opaque file.
        tensors: in the order of their place in the file.
        cut_off_at: None, or the size that the header promises to a file that is shorter (V12); -1 when even the header is cut off.
    """

    header_bytes: int = 0
    tensors: tuple[TensorEntry, ...] = ()
    cut_off_at: int | None = None


OPAQUE: Final = Contents()


def examine(path: str, size_bytes: int, read: Reader) -> Contents:
    """Look into a file of ``size_bytes``. ``path`` matters only for an incomplete file: an empty ``.safetensors``
    was cut off, an empty file of another name may be meant so."""
    named = path.endswith(".safetensors")
    cut_off = Contents(cut_off_at=-1) if named else OPAQUE
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
    return Contents(header_bytes=8 + header_size, tensors=tensors)


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
    return tuple(sorted(tensors, key=lambda tensor: (tensor.offset_bytes, tensor.size_bytes, tensor.name)))


def _tensor(name: str, entry: object, base: int) -> TensorEntry | None:
    """One row. A dtype that nobody knows is kept as the file writes it; whether shape and size agree is the reader's business."""
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            pass
        case _:
            return None
    if not 0 <= begin <= end < 1 << 62 or len(shape) > MAX_RANK or len(name) > MAX_TEXT or len(dtype) > MAX_TEXT:
        return None
    if isinstance(begin, bool) or isinstance(end, bool) or not all(type(length) is int and 0 <= length < 1 << 62 for length in shape):
        return None
    if not (_is_text(name) and _is_text(dtype)):
        return None
    return TensorEntry(name=name, dtype=dtype, shape=tuple(shape), offset_bytes=base + begin, size_bytes=end - begin)


def _is_text(text: str) -> bool:
    """A lone surrogate is legal in JSON escapes but has no UTF-8 form, so a record could not hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
