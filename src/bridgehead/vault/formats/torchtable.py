"""The tensors that a ``data.pkl`` of torch describes: names, dtypes, shapes, and where in which storage they lie (V01, V03, V05).

Names are the path through dicts and lists, joined by dots: ``model.layers.0.weight``. What lies inside an object of a class that is not
listed here has no name; its storage is kept whole and anonymous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridgehead.vault.formats.contents import MAX_RANK, MAX_SIZE, is_length, is_text
from bridgehead.vault.formats.pickleshape import Call, Global, Table, Unreadable, read_pickle

MAX_DEPTH: Final = 64
MAX_STEPS: Final = 500_000
"""Containers and tensors that the search for names enters; one that is shared counts each time."""
MAX_ITEMS: Final = 4_000_000
MAX_NAMES: Final = 200_000
_MAX_NAME_CHARACTERS: Final = 32 << 20
_DTYPES: Final = {
    **{"float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "bool": ("BOOL", 1)},
    **{"int64": ("I64", 8), "int32": ("I32", 4), "int16": ("I16", 2), "int8": ("I8", 1)},
    **{"uint64": ("U64", 8), "uint32": ("U32", 4), "uint16": ("U16", 2), "uint8": ("U8", 1)},
    **{"complex64": ("C64", 8), "complex128": ("complex128", 16), "complex32": ("complex32", 4)},
    **{"float8_e4m3fn": ("F8_E4M3", 1), "float8_e5m2": ("F8_E5M2", 1), "float8_e8m0fnu": ("F8_E8M0", 1)},
    **{"float8_e4m3fnuz": ("float8_e4m3fnuz", 1), "float8_e5m2fnuz": ("float8_e5m2fnuz", 1)},
    "float4_e2m1fn_x2": ("float4_e2m1fn_x2", 1),  # two elements a byte, and a shape that counts bytes: not what safetensors calls F4
}
"""torch's dtypes: the text for the table (that of safetensors where it means the same), bytes of an element."""
_STORAGES: Final = {
    **{"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16"},
    **{"LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8"},
    **{"BoolStorage": "bool", "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"},
}
_DICTS: Final = (Global("collections", "OrderedDict"), Global("builtins", "dict"), Global("__builtin__", "dict"))
_DEFAULT_DICT: Final = Global("collections", "defaultdict")
_SIZE: Final = Global("torch", "Size")
_TENSORS: Final = tuple(Global("torch._utils", name) for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"))
_PARAMETERS: Final = tuple(Global("torch._utils", name) for name in ("_rebuild_parameter", "_rebuild_parameter_with_state"))
_FROM_TYPE: Final = Global("torch._tensor", "_rebuild_from_type_v2")


@dataclass(frozen=True, slots=True, eq=False)
class _Storage:
    """A reference to a storage: its key is the name of a member under ``data/``."""

    key: str
    dtype: str | None


@dataclass(frozen=True, slots=True, eq=False)
class TorchTensor:
    """A tensor over the bytes [begin, end) of a storage. ``row_major``: its elements lie one after the other in the order of its shape."""

    storage: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    row_major: bool


class TorchTable(NamedTuple):
    """What a pickle tells.

    Attributes:
        named: names, each once, in the order of the pickle; the same tensor under two names is there twice (V01). The name is empty for a
            tensor that is the whole pickle.
        tensors: all that were found, named or not.
        whole: keys of storages that something unknown uses, so that nobody can say which of their bytes are reached.
    """

    named: tuple[tuple[str, TorchTensor], ...]
    tensors: tuple[TorchTensor, ...]
    whole: frozenset[str]


class _Builder:
    def __init__(self) -> None:
        self.tensors: list[TorchTensor] = []
        self.references: dict[str, int] = {}
        """How often each storage is referred to, less how often that became a tensor."""

    def persistent(self, identity: object) -> object:
        match identity:
            case ("storage", Global() as kind, str(key), _, *_):
                self.references[key] = self.references.get(key, 0) + 1
                return _Storage(key, _STORAGES.get(kind.name))
            case _:
                return None

    def call(self, call: Call) -> object:
        function, arguments = call.function, call.arguments
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            return call
        if (function in _DICTS and not arguments) or function == _DEFAULT_DICT:
            return Table()
        if function == _SIZE and len(arguments) == 1:
            return arguments[0]
        if function in _PARAMETERS and arguments:
            return arguments[0]
        if function == _FROM_TYPE and len(arguments) == 4:
            inner = arguments[0]
            return self.call(Call(inner, arguments[2])) if inner != _FROM_TYPE else call
        if function in _TENSORS:
            tensor = _tensor(arguments)
            if tensor is not None:
                self.tensors.append(tensor)
                self.references[tensor.storage] -= 1
                return tensor
        return call


def _tensor(arguments: tuple[object, ...]) -> TorchTensor | None:
    match arguments:
        case (_Storage() as storage, int(offset), tuple() as shape, tuple() as strides, *rest):
            pass
        case _:
            return None
    dtype = storage.dtype
    if dtype is None and len(rest) > 2 and isinstance(rest[2], Global) and rest[2].module == "torch":
        dtype = rest[2].name
    if dtype not in _DTYPES or not is_length(offset) or len(shape) != len(strides) or len(shape) > MAX_RANK:
        return None
    lengths = [length for length in shape if is_length(length) and isinstance(length, int)]
    steps = [step for step in strides if is_length(step) and isinstance(step, int)]
    if len(lengths) != len(shape) or len(steps) != len(shape):
        return None
    text, item_bytes = _DTYPES[dtype]
    count = math.prod(lengths)
    span = 1 + sum((length - 1) * step for length, step in zip(lengths, steps, strict=True)) if count else 0
    end = (offset + span) * item_bytes
    if max(end, count) >= MAX_SIZE:
        return None
    return TorchTensor(storage.key, text, tuple(lengths), offset * item_bytes, end, count == 0 or _in_rows(lengths, steps))


def _in_rows(shape: list[int], strides: list[int]) -> bool:
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def read_torch_table(data: bytes) -> TorchTable:
    """The table of a ``data.pkl``. Raises Unreadable."""
    builder = _Builder()
    root = read_pickle(data, persistent=builder.persistent, call=builder.call)
    whole = frozenset(key for key, left in builder.references.items() if left > 0)
    return TorchTable(tuple(_names(root)), tuple(builder.tensors), whole)


class _Step(NamedTuple):
    parent: _Step | None
    word: str
    node: object
    depth: int


def _names(root: object) -> list[tuple[str, TorchTensor]]:
    found: list[tuple[str, TorchTensor]] = []
    taken: dict[str, int] = {}
    characters = steps = items = 0
    waiting = [_Step(None, "", root, 0)]
    while waiting:
        step = waiting.pop()
        if isinstance(step.node, TorchTensor):
            name = _path(step)
            taken[name] = taken.get(name, 0) + 1
            if taken[name] > 1:  # {"a": {"b": …}, "a.b": …}
                name += f"#{taken[name]}"
            characters += len(name)
            if is_text(name):
                found.append((name, step.node))
        elif step.depth < MAX_DEPTH and not _contains_itself(step):
            waiting += [_Step(step, word, node, step.depth + 1) for word, node in reversed(_children(step.node))]
            items += _length(step.node)
        steps += 1
        if max(steps, len(waiting)) > MAX_STEPS or items > MAX_ITEMS or len(found) > MAX_NAMES or characters > _MAX_NAME_CHARACTERS:
            raise Unreadable("too many names")
    return found


def _length(node: object) -> int:
    if isinstance(node, Table):
        return len(node.pairs)
    return len(node) if isinstance(node, list | tuple) else 0


def _children(node: object) -> list[tuple[str, object]]:
    """What may hold tensors: numbers and texts, of which there may be many, are left out."""
    if isinstance(node, Table):
        pairs = [(key, value) for key, value in node.pairs if isinstance(value, TorchTensor) or _length(value)]
        return [(str(key), value) for key, value in pairs if isinstance(key, str | int)]
    if isinstance(node, list | tuple):
        return [(str(index), value) for index, value in enumerate(node) if isinstance(value, TorchTensor) or _length(value)]
    return []


def _contains_itself(step: _Step) -> bool:
    above = step.parent
    while above is not None:
        if above.node is step.node:
            return True
        above = above.parent
    return False


def _path(step: _Step) -> str:
    words = []
    at: _Step | None = step
    while at is not None and at.parent is not None:
        words.append(at.word)
        at = at.parent
    return ".".join(reversed(words))


def reached_bytes(ranges: list[tuple[int, int]]) -> int:
    """How many bytes lie in at least one of these ranges [begin, end)."""
    total = 0
    reach = 0
    for begin, end in sorted(ranges):
        total += max(0, end - max(begin, reach))
        reach = max(reach, end)
    return total
