"""Typed loads: tensors by name, each of the dtype and shape that the caller says, or an error; nothing is ever cast (V06)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.snapshot import FileEntry, Snapshot, TensorEntry
from bridgehead.vault.objects import Objects
from bridgehead.vault.restore import pieces


class Wanted(msgspec.Struct, frozen=True):
    """What a tensor must be. ``dtype`` as ``vault show`` names it."""

    dtype: str
    shape: tuple[int, ...]


def load_tensors(objects: Objects, snapshot: Snapshot, template: Mapping[str, Wanted]) -> dict[str, bytearray]:
    """The bytes of the tensors of the template, verified, in row-major order.

    Everything is compared before anything is read.

    Raises:
        BridgeheadError: BAD_INPUT: a tensor is missing, is there twice, or has another dtype or shape.
        Damaged: a block is.
    """
    found: dict[str, list[tuple[FileEntry, TensorEntry]]] = {}
    for file in snapshot.files:
        for tensor in file.tensors if not file.same_as else ():
            found.setdefault(tensor.name, []).append((file, tensor))
    faults = [fault for name, wanted in template.items() if (fault := _fault(name, wanted, found.get(name, [])))]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="load tensors",
            subject=snapshot.id,
            happened="; ".join(faults[:3]) + more,
            remedy="Ask for what is there, and cast it yourself: nothing is cast here.",
        )
    return {name: _read(objects, snapshot, *found[name][0]) for name in template}


def _fault(name: str, wanted: Wanted, found: list[tuple[FileEntry, TensorEntry]]) -> str:
    if len(found) != 1:
        return f"there is no tensor {name!r}" if not found else f"{len(found)} files have a tensor {name!r}"
    tensor = found[0][1]
    if (tensor.dtype, tensor.shape) == (wanted.dtype, wanted.shape):
        return ""
    return f"{name!r} is {tensor.dtype} {list(tensor.shape)}, not {wanted.dtype} {list(wanted.shape)}"


def _read(objects: Objects, snapshot: Snapshot, file: FileEntry, tensor: TensorEntry) -> bytearray:
    data = bytearray()
    for piece in pieces(objects, snapshot, file, tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes):
        data += piece
    return data
