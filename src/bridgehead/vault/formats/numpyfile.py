"""numpy's ``.npy``: one array behind a header of plain text (format versions 1 to 3).

Format: ``\\x93NUMPY``, major and minor version, the header's length (2 bytes little endian, 4 from version 2 on), a Python dict in text:
descr, fortran_order, shape. The text is matched, not evaluated.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.formats.contents import CUT_OFF, MAX_RANK, MAX_SIZE, OPAQUE, Contents, Extent, FileFormat, Reader

MAGIC: Final = b"\x93NUMPY"
MAX_HEADER_BYTES: Final = 4096
"""Far more than a plain dtype and shape need. Arrays of records may have longer headers; their files are opaque anyway."""
_KEY: Final = r"""\s*(?:'descr':\s*'(?P<descr>[^']*)'|'fortran_order':\s*(?P<fortran>True|False)|'shape':\s*\((?P<shape>[^()]*)\))\s*"""
_ENTRY: Final = re.compile(_KEY)
_DESCR: Final = re.compile(r"(?P<order>[<>|=])(?P<kind>[biufcSUVmM])(?P<size>[0-9]{1,9})(?:\[[0-9A-Za-z/]{1,20}\])?")
_LENGTH: Final = re.compile(r"\s*([0-9]{1,19})L?\s*")
_NAMES: Final = {
    **{"b1": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64", "u8": "U64"},
    **{"f2": "F16", "f4": "F32", "f8": "F64", "c8": "C64"},
}


class Array(NamedTuple):
    """What a header says. ``extent``: the elements; ``row_major``: False when they lie in Fortran order."""

    header_bytes: int
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    row_major: bool


def examine_npy(path: str, size_bytes: int, read: Reader) -> Contents:
    """One tensor, named after the file, since the format has no name for it.

    An array in Fortran order is cut in the same way, but stands in ``views``. Arrays of records or of Python objects are opaque. A header
    that promises more than the file has marks it as cut off (V12), as does an end inside the header.
    """
    head = read(0, min(size_bytes, MAX_HEADER_BYTES + 12))
    if len(head) < 12 or len(head) < 12 + _header_length(head) <= MAX_HEADER_BYTES + 12:
        return CUT_OFF
    array = read_header(head)
    if array is None:
        return OPAQUE
    if array.header_bytes + array.size_bytes > size_bytes:
        return Contents(cut_off_at=array.header_bytes + array.size_bytes)
    entry = entry_of(array, stem(path), 0)
    tensors, views = ((entry,), ()) if array.row_major else ((), (entry,))
    extents = (Extent(array.header_bytes, array.size_bytes),)
    return Contents(array.header_bytes, tensors, format=FileFormat.NPY, extents=extents, views=views)


def stem(path: str) -> str:
    """The name of a file without folder and last extension: the name of a tensor that has none of its own."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def entry_of(array: Array, name: str, base: int) -> TensorEntry:
    """The row of the table for an array whose file begins at byte ``base``."""
    return TensorEntry(name, array.dtype, array.shape, base + array.header_bytes, array.size_bytes)


def _header_length(head: bytes) -> int:
    """Bytes of text that are promised, counted from byte 12, where the text of a version 2 header begins."""
    return int.from_bytes(head[8:10], "little") - 2 if head[6] == 1 else int.from_bytes(head[8:12], "little")


def read_header(head: bytes) -> Array | None:
    """Read the first bytes of a ``.npy``; None when they are none, or speak of elements that have no plain dtype."""
    if len(head) < 12 or not head.startswith(MAGIC) or head[6] not in (1, 2, 3):
        return None
    end = 12 + _header_length(head)
    if not 12 <= end <= len(head):
        return None
    try:
        text = head[10 if head[6] == 1 else 12 : end].decode("utf-8" if head[6] == 3 else "latin-1").strip()
    except UnicodeDecodeError:
        return None
    found = _fields(text)
    descr = _DESCR.fullmatch(found.get("descr", ""))
    shape = _shape(found["shape"]) if "shape" in found else None
    if descr is None or shape is None or "fortran" not in found:
        return None
    item_bytes = int(descr["size"]) * (4 if descr["kind"] == "U" else 1)
    size = math.prod(shape) * item_bytes
    if size >= MAX_SIZE:
        return None
    dtype = found["descr"] if descr["order"] == ">" else _NAMES.get(descr["kind"] + descr["size"], found["descr"])
    row_major = found["fortran"] == "False" or size == 0 or sum(length > 1 for length in shape) <= 1
    return Array(end, dtype, shape, size, row_major)


def _fields(text: str) -> dict[str, str]:
    """The three entries of the dict, in any order; fewer when the text has another form."""
    found: dict[str, str] = {}
    if not (text.startswith("{") and text.endswith("}")):
        return found
    at, end = 1, len(text) - 1
    while match := _ENTRY.match(text, at, end):
        found |= {name: value for name, value in match.groupdict().items() if value is not None}
        at = match.end()
        if at == end:
            return found
        if text[at] != ",":
            break
        at += 1
    return found if not text[at:end].strip() else {}


def _shape(text: str) -> tuple[int, ...] | None:
    parts = text.split(",")
    if not parts[-1].strip():
        parts.pop()
    elif len(parts) == 1:
        return None  # "(3)" is a number
    matches = [_LENGTH.fullmatch(part) for part in parts]
    if len(parts) > MAX_RANK or None in matches:
        return None
    shape = tuple(int(match[1]) for match in matches if match)
    return shape if all(length < MAX_SIZE for length in shape) else None
