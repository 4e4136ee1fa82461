"""numpy's ``.npz``: a zip of ``.npy`` members, each named after its array. Members that are compressed stay opaque."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.formats.contents import Reader, is_text
from bridgehead.vault.formats.numpyfile import MAX_HEADER_BYTES, entry_of, read_header
from bridgehead.vault.formats.zipdirectory import Member


def npz_tables(members: Sequence[Member], read: Reader) -> tuple[list[TensorEntry], list[TensorEntry]]:
    """The arrays in row-major order, and those in Fortran order."""
    rows: list[TensorEntry] = []
    columns: list[TensorEntry] = []
    for member in members:
        name = member.name.removesuffix(".npy")
        if member.place is None or name == member.name or not is_text(name):
            continue
        array = read_header(read(member.place.offset_bytes, min(member.place.size_bytes, MAX_HEADER_BYTES + 12)))
        if array is not None and array.header_bytes + array.size_bytes <= member.place.size_bytes:
            (rows if array.row_major else columns).append(entry_of(array, name, member.place.offset_bytes))
    return rows, columns
