"""Documents: YAML text to a typed value and back. Estate, policy and runbook files are read and written here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, assert_never

import msgspec

from bridgehead.kernel.decode import BAD, Codec, Decoder
from bridgehead.kernel.located import BadFile, Fault, Mark, Node, Path, compose
from bridgehead.kernel.phrase import describe
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.shape import (
    BoolShape,
    ChoiceShape,
    Field,
    FixedShape,
    FreeShape,
    KeyedShape,
    ListShape,
    NumberShape,
    QuantityShape,
    Shape,
    StructShape,
    TableShape,
    TextShape,
    UnionShape,
    WordShape,
    fields_of,
    shape_of,
)  # fmt: skip
from bridgehead.kernel.yamltext import yaml_text

T = TypeVar("T")


def no_check(_value: Any, _decoder: Decoder) -> None:
    """Nothing more to check."""


def read_document(
    text: str,
    kind: type[T],
    *,
    file: str,
    what: str,
    codecs: Mapping[type, Codec] | None = None,
    check: Callable[[T, Decoder], None] = no_check,
) -> tuple[T, Mapping[Path, Mark]]:
    """Read ``text`` as ``kind``; the value and the place of each of its parts.

    Args:
        file: the name that faults carry.
        what: the word for the document in messages.
        codecs: how structs are read whose fields depend on a registry.
        check: reports what the types cannot say, by ``decoder.fault_at``. It is given what could be read, so parts with faults are absent.

    Raises BadFile with all faults.
    """
    return read_node(compose(text, file=file, what=what), kind, file=file, what=what, codecs=codecs, check=check)


def read_node(
    node: Node | None,
    kind: type[T],
    *,
    file: str,
    what: str,
    codecs: Mapping[type, Codec] | None = None,
    check: Callable[[T, Decoder], None] = no_check,
) -> tuple[T, Mapping[Path, Mark]]:
    """As ``read_document``, of a tree: that of a text, or of ``located.node_of``."""
    shape: Shape = shape_of(kind)  # type: ignore[arg-type]  # mypy does not see that a type is hashable
    if node is None:
        raise BadFile(what, file=file, faults=[Fault(file, 1, 1, "", "the file is empty", f"expected {describe(shape)}")])
    decoder = Decoder(file, codecs=codecs or {})
    value = decoder.read(node, shape, ())
    if value is not BAD:
        check(value, decoder)
    decoder.resolve()
    if decoder.faults:
        raise BadFile(what, file=file, faults=decoder.faults)
    assert isinstance(value, kind)
    return value, decoder.marks


def to_file(value: Any, shape: Shape, *, codecs: Mapping[type, Codec] | None = None) -> Any:
    """``value`` as files write it: quantities with their units, keyed tuples as mappings, defaults left out.

    Plain values (what ``Decoder.read(..., plain=True)`` gave) are written like the structs that they stand for.
    """
    codecs = codecs or {}
    match shape:
        case UnionShape():
            return _union_to_file(value, shape, codecs)
        case QuantityShape():
            return format_quantity(value, shape.dimension)
        case WordShape():
            return shape.write(value)
        case ChoiceShape():
            return value if isinstance(value, str) and type(value) is str else value.value
        case TextShape():
            return str(value)
        case NumberShape():
            return int(value) if float(value).is_integer() and abs(value) < 1e15 else value
        case BoolShape() | FreeShape():
            return value
        case ListShape():
            return [to_file(item, shape.item, codecs=codecs) for item in value]
        case FixedShape():
            return [to_file(item, one, codecs=codecs) for item, one in zip(value, shape.items, strict=True)]
        case TableShape():
            return {str(key): to_file(item, shape.value, codecs=codecs) for key, item in value.items()}
        case KeyedShape(keyed=keyed):
            items = {str(getattr(item, keyed.field)): to_file(item, shape.item, codecs=codecs) for item in value}
            for item in items.values():
                item.pop(keyed.field, None)
            return items
        case StructShape():
            codec = codecs.get(shape.type)
            return codec.encode(value) if codec is not None else _struct_to_file(value, shape, codecs)
        case _:
            assert_never(shape)


def _struct_to_file(value: Any, shape: StructShape, codecs: Mapping[type, Codec]) -> dict[str, Any]:
    written: dict[str, Any] = {} if shape.tag is None else dict([shape.tag])
    for field in fields_of(shape.type):
        if isinstance(value, msgspec.Struct):
            part = getattr(value, field.name)
            if not field.required and _same(part, field):
                continue
        elif field.encoded in value:
            part = value[field.encoded]
        else:
            continue
        written[field.key] = to_file(part, field.shape, codecs=codecs)
    return written


def _same(part: Any, field: Field) -> bool:
    default = field.default_value()
    return type(part) is type(default) and part == default


def _union_to_file(value: Any, shape: UnionShape, codecs: Mapping[type, Codec]) -> Any:
    if value is None:
        return None
    if isinstance(value, msgspec.Struct):
        return to_file(value, shape_of(type(value)), codecs=codecs)
    if isinstance(value, dict) and shape.structs:
        tags = [struct for struct in shape.structs if struct.tag is None or value.get(struct.tag[0]) == struct.tag[1]]
        return to_file(value, tags[0], codecs=codecs)
    assert shape.scalar is not None
    return to_file(value, shape.scalar, codecs=codecs)


def dump(data: Any) -> str:
    """YAML for people: block style, keys in the given order, no aliases."""
    return yaml_text(data)
