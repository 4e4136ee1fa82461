"""Files as torch writes them, made without torch: the zip by the standard library, the pickle opcode by opcode."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

STORAGE_NAMES = {"F32": "FloatStorage", "F64": "DoubleStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage", "I64": "LongStorage"}
STORAGE_NAMES |= {"BOOL": "BoolStorage", "U8": "ByteStorage", "C64": "ComplexFloatStorage"}
ITEM_BYTES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I64": 8, "BOOL": 1, "U8": 1, "C64": 8}


class Tensor(NamedTuple):
    """A tensor over a storage of the file.

    ``dtype``: a key of STORAGE_NAMES, or a name of torch such as ``float8_e4m3fn``, which newer files write beside an untyped storage.
    ``stride``: in elements; None for row-major order.
    """

    storage: str
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0
    stride: tuple[int, ...] | None = None


class Raw(NamedTuple):
    """Opcodes that push one value, as they are."""

    opcodes: bytes


def pickled(value: object) -> bytes:
    """``data.pkl`` for a value of dicts, lists, tuples, texts, whole numbers, None, Tensor and Raw."""
    return b"\x80\x02" + _opcodes(value) + b"."


def torch_file(value: object, storages: Mapping[str, bytes], *, root: str = "archive", compressed: bool = False) -> bytes:
    """A ``.pt`` with this value, whose tensors lie in these storages."""
    members = {f"{root}/data.pkl": pickled(value), f"{root}/byteorder": b"little"}
    members |= {f"{root}/data/{key}": content for key, content in storages.items()}
    members[f"{root}/version"] = b"3\n"
    return zipped(members, compressed=compressed)


def zipped(members: Mapping[str, bytes], *, compressed: bool = False) -> bytes:
    """A zip archive of these members, always the same for the same members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, archive.compression)
    return out.getvalue()


def _opcodes(value: object) -> bytes:
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            raw = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
            return b"\x8a" + bytes([len(raw)]) + raw
        case str():
            raw = value.encode()
            return b"X" + len(raw).to_bytes(4, "little") + raw
        case Raw():
            return value.opcodes
        case Tensor():
            return _tensor(value)
        case tuple():
            return b"(" + b"".join(_opcodes(item) for item in value) + b"t"
        case list():
            return b"](" + b"".join(_opcodes(item) for item in value) + b"e"
        case dict():
            return b"}(" + b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items()) + b"u"
        case _:
            raise TypeError(f"cannot write {type(value).__name__}")


def _tensor(tensor: Tensor) -> bytes:
    typed = tensor.dtype in STORAGE_NAMES
    kind = _name("torch", STORAGE_NAMES[tensor.dtype]) if typed else _name("torch.storage", "UntypedStorage")
    stride = tensor.stride if tensor.stride is not None else _row_major(tensor.shape)
    storage = Raw(_opcodes(("storage", kind, tensor.storage, "cpu", 0)) + b"Q")
    hooks = Raw(_name("collections", "OrderedDict").opcodes + b")R")
    arguments = (storage, tensor.offset, tensor.shape, stride, False, hooks)
    if typed:
        return _name("torch._utils", "_rebuild_tensor_v2").opcodes + _opcodes(arguments) + b"R"
    return _name("torch._utils", "_rebuild_tensor_v3").opcodes + _opcodes((*arguments, _name("torch", tensor.dtype))) + b"R"


def _name(module: str, name: str) -> Raw:
    return Raw(f"c{module}\n{name}\n".encode())


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))
