"""JSON Schema (draft 2020-12) from the same types that the decoder reads, for editors that complete and check YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from bridgehead.kernel.decode import Codec
from bridgehead.kernel.phrase import describe
from bridgehead.kernel.quantity import NUMBER
from bridgehead.kernel.shape import (
    ID_PATTERN,
    BoolShape,
    ChoiceShape,
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
from bridgehead.kernel.units import MEASURES, Dimension, symbols_of

_WORDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_Codecs = Mapping[type, Codec]


def json_schema(kind: type[msgspec.Struct], *, title: str, codecs: _Codecs | None = None) -> dict[str, Any]:
    """The schema of a document."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title} | struct_schema(kind, codecs=codecs)


def struct_schema(kind: type[msgspec.Struct], *, codecs: _Codecs | None = None, key_field: str = "") -> dict[str, Any]:
    """The schema of one struct; ``key_field`` is an attribute that the file gives as the key of the struct."""
    codecs = codecs or {}
    shape = shape_of(kind)
    assert isinstance(shape, StructShape)
    fields = [field for field in fields_of(kind) if field.name != key_field]
    properties: dict[str, Any] = {} if shape.tag is None else {shape.tag[0]: {"const": shape.tag[1]}}
    for field in fields:
        properties[field.key] = schema_of(field.shape, codecs)
        if field.doc:
            properties[field.key]["description"] = field.doc
    required = [*([] if shape.tag is None else [shape.tag[0]]), *[field.key for field in fields if field.required]]
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def schema_of(shape: Shape, codecs: _Codecs) -> dict[str, Any]:
    """The schema of one shape."""
    match shape:
        case TextShape():
            return {"type": "string", "minLength": 1} | ({"pattern": shape.pattern} if shape.pattern else {})
        case NumberShape():
            return {"type": "integer" if shape.whole else "number"} | {_WORDS[word]: limit for word, limit in shape.limits}
        case QuantityShape():
            example = MEASURES[shape.dimension].example
            return {"type": "string", "pattern": quantity_pattern(shape.dimension), "examples": [example], "description": describe(shape)}
        case WordShape():
            return {"type": "string", "pattern": shape.pattern, "examples": [shape.example], "description": describe(shape)}
        case BoolShape():
            return {"type": "boolean"}
        case ChoiceShape():
            return {"enum": list(shape.words)}
        case ListShape():
            return {"type": "array", "items": schema_of(shape.item, codecs), "minItems": shape.at_least}
        case FixedShape():
            count = len(shape.items)
            return {"type": "array", "prefixItems": [schema_of(item, codecs) for item in shape.items], "minItems": count, "maxItems": count}
        case TableShape():
            return {"type": "object", "additionalProperties": schema_of(shape.value, codecs)}
        case KeyedShape():
            item = struct_schema(shape.item.type, codecs=codecs, key_field=shape.keyed.field)
            return {"type": "object", "propertyNames": {"pattern": f"^{ID_PATTERN}$"}, "additionalProperties": item}
        case StructShape():
            codec = codecs.get(shape.type)
            return codec.schema() if codec is not None else struct_schema(shape.type, codecs=codecs)
        case UnionShape():
            return _union_schema(shape, codecs)
        case FreeShape():
            return {}
        case _:
            assert_never(shape)


def quantity_pattern(dimension: Dimension) -> str:
    """A regular expression for quantities of a dimension; it knows the units but not what is too large."""
    units = "|".join(sorted((_escaped(symbol) for symbol in symbols_of(dimension)), key=len, reverse=True))
    sign = "-?" if dimension is Dimension.TEMPERATURE else ""
    part = rf"{NUMBER}\s*(?:{units})"
    return rf"^\s*{sign}{part}(?:\s*{part})*\s*$" if dimension is Dimension.DURATION else rf"^\s*{sign}{part}\s*$"


def _escaped(symbol: str) -> str:
    return symbol.replace("/", r"\/")


def _union_schema(shape: UnionShape, codecs: _Codecs) -> dict[str, Any]:
    if shape.by_key is not None:
        branches = [
            {"if": {"required": [key]}, "then": schema_of(shape_of(kind), codecs), "else": {}} for key, kind in shape.by_key.structs
        ]
        return {"type": "object", "oneOf": [{"required": [key]} for key, _ in shape.by_key.structs], "allOf": branches}
    options = [] if shape.scalar is None else [schema_of(shape.scalar, codecs)]
    options += [schema_of(struct, codecs) for struct in shape.structs]
    options += [{"type": "null"}] if shape.optional else []
    return options[0] if len(options) == 1 else {"anyOf": options}
