"""What a look into a file found, in the same words for every format."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.model.snapshot import TensorEntry

MAX_TENSORS: Final = 1_000_000
MAX_RANK: Final = 64
MAX_TEXT: Final = 4096
MAX_SIZE: Final = 1 << 62
"""No dimension, offset or size of a file that exists is larger."""

Reader = Callable[[int, int], bytes]
"""(offset, size) -> at most ``size`` bytes of the file."""


class FileFormat(enum.StrEnum):
    """What the bytes of a file are, whatever its name says (V08)."""

    OPAQUE = "opaque"
    SAFETENSORS = "safetensors"
    TORCH = "torch"
    """One torch zip, or several one after the other as in the ``.distcp`` files of torch's distributed checkpoints."""
    NPY = "npy"
    NPZ = "npz"
    ZIP = "zip"
    DCP_METADATA = "dcp-metadata"
    """The ``.metadata`` of a torch distributed checkpoint: a pickle; stored like an opaque file."""


class Extent(msgspec.Struct, frozen=True):
    """The bytes [offset, offset + size) of a file belong together: a storage of torch, a member of a zip."""

    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        """One behind the last byte."""
        return self.offset_bytes + self.size_bytes


class Contents(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        header_bytes: bytes before the first tensor; 0 for a file that is not cut by what is in it.
        tensors: in the order of their place in the file. The bytes of each are those of its shape in row-major order; two may share bytes.
        cut_off_at: None, or the size that the header promises to a file that is shorter (V12); -1 when even the header is cut off.
        format: what the bytes are.
        extents: further ranges that are cut at both ends, named or not.
        views: tensors whose elements do not lie one after the other (a transposed view), with the range that they span. They are not in
            ``tensors``, since nobody could read that range as a tensor of this shape.
        unreached_bytes: bytes of storages that no tensor of the file reaches (V05); None where the table of tensors is not known.
    """

    header_bytes: int = 0
    tensors: tuple[TensorEntry, ...] = ()
    cut_off_at: int | None = None
    format: FileFormat = FileFormat.OPAQUE
    extents: tuple[Extent, ...] = ()
    views: tuple[TensorEntry, ...] = ()
    unreached_bytes: int | None = None


OPAQUE: Final = Contents()
CUT_OFF: Final = Contents(cut_off_at=-1)


def by_place(tensors: list[TensorEntry]) -> tuple[TensorEntry, ...]:
    """By offset, then size, then name."""
    return tuple(sorted(tensors, key=lambda tensor: (tensor.offset_bytes, tensor.size_bytes, tensor.name)))


def is_length(value: object) -> bool:
    """Whether this is a whole number that can be a dimension, an offset or a size."""
    return type(value) is int and 0 <= value < MAX_SIZE


def is_text(text: str) -> bool:
    """Whether a record can hold it: not too long, and no lone surrogate, which has no UTF-8 form though JSON can escape one."""
    if len(text) > MAX_TEXT:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
