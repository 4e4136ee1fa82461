"""Decode a located tree into values of a type. Every fault is kept with its place; reading goes on, so that all are reported together."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol, assert_never

import msgspec

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.located import Fault, Mark, Node, Path, Scalar, Sequence, path_text
from bridgehead.kernel.located import Mapping as MappingNode
from bridgehead.kernel.phrase import describe, found, limit_fault, near_word, nearest
from bridgehead.kernel.quantity import parse
from bridgehead.kernel.shape import (
    ID_PATTERN,
    BoolShape,
    ByKey,
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

BAD: Final = object()
"""Stands for a value that has a fault."""
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?(0|[1-9]\d*)")
_DECIMAL = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


class Codec(Protocol):
    """How one struct type is read whose fields depend on a registry (the parameters of an action, the options of a driver)."""

    def decode(self, decoder: Decoder, node: Node, path: Path) -> Any:
        """The value, or BAD after at least one fault."""
        ...

    def encode(self, value: Any) -> Any:
        """The value as files write it."""
        ...

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...


class Decoder:
    """One document being read.

    Attributes:
        faults: what was found wrong so far.
        marks: where each path is in the file.
    """

    def __init__(self, file: str, *, codecs: Mapping[type, Codec]) -> None:
        self.faults: list[Fault] = []
        self.marks: dict[Path, Mark] = {}
        self._file = file
        self._codecs = codecs
        self._defined: dict[str, dict[Path, dict[str, None]]] = {}  # names in their order, by kind and scope
        self._references: list[tuple[tuple[str, ...], str, Path, Mark]] = []

    def fault(self, mark: Mark, path: Path, found: str, expected: str) -> Any:
        """Keep a fault; returns BAD."""
        self.faults.append(Fault(self._file, mark.line, mark.column, path_text(path), found, expected))
        return BAD

    def fault_at(self, path: Path, found: str, expected: str) -> None:
        """Keep a fault of something that was read: its place is that of the longest known beginning of ``path``."""
        known = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in self.marks)
        self.fault(self.marks[known], path, found, expected)

    def define(self, kind: str, scope: Path, name: str) -> None:
        """``name`` may be referred to from everywhere below ``scope``."""
        self._defined.setdefault(kind, {}).setdefault(scope, {})[name] = None

    def resolve(self) -> None:
        """Report references to what is not defined."""
        for kinds, name, path, mark in self._references:
            scopes = [self._defined.get(kind, {}).get(path[:depth], {}) for kind in kinds for depth in range(len(path) + 1)]
            if not any(name in names for names in scopes):
                known = [known for names in scopes for known in names]
                self.fault(mark, path, f"there is no {' or '.join(kinds)} '{name}'", nearest(name, known))

    def read(self, node: Node, shape: Shape, path: Path, *, plain: bool = False) -> Any:
        """The value of ``node``, or BAD. ``plain`` gives JSON-like values with the names that msgspec reads, only what is in the file."""
        self.marks[path] = node.mark
        match shape:
            case UnionShape():
                return self._union(node, shape, path, plain)
            case TextShape() | NumberShape() | QuantityShape() | WordShape() | BoolShape() | ChoiceShape():
                return self._scalar(node, shape, path, plain)
            case ListShape() | FixedShape():
                return self._list(node, shape, path, plain)
            case TableShape() | KeyedShape():
                return self._table(node, shape, path, plain)
            case StructShape():
                codec = self._codecs.get(shape.type)
                return codec.decode(self, node, path) if codec is not None else self.struct(node, shape, path, plain=plain)
            case FreeShape():
                return self._free(node)
            case _:
                assert_never(shape)

    def struct(
        self, node: Node, shape: StructShape, path: Path, *, plain: bool = False, given: Mapping[str, Any] | None = None, hidden: str = ""
    ) -> Any:
        """A struct from a mapping.

        ``given`` are fields (by attribute) that are known already; their keys in the file are passed over. ``hidden`` is one of them that
        the file may not have, because it is written elsewhere.
        """
        self.marks[path] = node.mark
        if not isinstance(node, MappingNode):
            return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
        given = given or {}
        by_key = {field.key: field for field in fields_of(shape.type) if field.name != hidden}
        values: dict[str, Any] = dict(given)
        seen: set[str] = set()
        for name, child in node.entries:
            seen.add(name.text)
            field = by_key.get(name.text)
            if field is None:
                if shape.tag is None or name.text != shape.tag[0]:
                    seen.add(self.unknown_key(name, path, by_key.values()))
            elif field.name not in given:
                values[field.name] = self.read(child, field.shape, (*path, field.key), plain=plain)
        for field in by_key.values():
            if field.required and field.name not in values:
                values[field.name] = BAD
                if field.key not in seen:
                    self.fault(node.mark, (*path, field.key), f"the key '{field.key}' is missing", f"expected {describe(field.shape)}")
        return self._built(node, shape, values, path, plain)

    def _built(self, node: MappingNode, shape: StructShape, values: dict[str, Any], path: Path, plain: bool) -> Any:
        fields = fields_of(shape.type)
        if any(values.get(field.name) is BAD for field in fields if field.required):
            return BAD
        good = {name: value for name, value in values.items() if value is not BAD}
        if plain:
            tag = {} if shape.tag is None else dict([shape.tag])
            return tag | {field.encoded: good[field.name] for field in fields if field.name in good}
        try:
            return shape.type(**good)
        except ValueError as error:
            return self.fault(node.mark, path, str(error), f"expected {describe(shape)}")

    def plain_struct(self, node: Node, kind: type[msgspec.Struct], path: Path) -> Any:
        """Plain values that ``msgspec.convert`` turns into ``kind``; BAD when they do not."""
        before = len(self.faults)
        value = self.struct(node, _struct_shape(kind), path, plain=True)
        if value is BAD or len(self.faults) > before:
            return BAD
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            return self.fault(node.mark, path, str(error), f"expected what {kind.__name__} allows")
        except BridgeheadError as error:
            return self.fault(node.mark, path, f"{error.subject}: {error.happened}", error.remedy)
        return value

    def unknown_key(self, name: Scalar, path: Path, fields: Collection[Field]) -> str:
        """Refuse a key, with the nearest right one, which is returned (empty: none is near)."""
        by_name = {field.name: field for field in fields if field.name != field.key}
        if name.text in by_name:
            field = by_name[name.text]
            meant, hint = field.key, f"write '{field.key}: ...' with {describe(field.shape)}"
        else:
            keys = [field.key for field in fields]
            meant, hint = near_word(name.text, keys), nearest(name.text, keys)
        self.fault(name.mark, (*path, name.text), f"unknown key '{name.text}'", hint)
        return meant

    def _union(self, node: Node, shape: UnionShape, path: Path, plain: bool) -> Any:
        if is_nothing(node) and shape.optional:
            return None
        if shape.by_key is not None and isinstance(node, MappingNode):
            return self._by_key(node, shape.by_key, path, plain)
        if isinstance(node, MappingNode) and len(shape.structs) == 1:
            return self.read(node, shape.structs[0], path, plain=plain)
        if isinstance(node, MappingNode) and shape.structs:
            return self._tagged(node, shape, path, plain)
        if shape.scalar is not None and not (isinstance(node, MappingNode) and shape.structs):
            other = isinstance(shape.scalar, ChoiceShape) and isinstance(node, Scalar) and node.text not in shape.scalar.words
            if shape.structs and (other or not isinstance(node, Scalar)):
                return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
            return self.read(node, shape.scalar, path, plain=plain)
        return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")

    def _by_key(self, node: MappingNode, by_key: ByKey, path: Path, plain: bool) -> Any:
        keys = [key for key, _ in by_key.structs]
        present = [name for name, _ in node.entries if name.text in keys]
        if len(present) == 1:
            return self.read(node, shape_of(dict(by_key.structs)[present[0].text]), path, plain=plain)
        if present:
            both = " and ".join(f"'{name.text}'" for name in present)
            return self.fault(present[1].mark, path, f"found {both} together", f"expected exactly one of {', '.join(keys)}")
        candidates = [name for name, _ in node.entries if difflib.get_close_matches(name.text, keys, n=1, cutoff=0.75)]
        if candidates:
            return self.fault(
                candidates[0].mark, (*path, candidates[0].text), f"unknown key '{candidates[0].text}'", nearest(candidates[0].text, keys)
            )
        return self.fault(node.mark, path, "no key says of which kind it is", f"expected exactly one of {', '.join(keys)}")

    def _tagged(self, node: MappingNode, shape: UnionShape, path: Path, plain: bool) -> Any:
        by_tag = {struct.tag[1]: struct for struct in shape.structs if struct.tag is not None}
        key = next(struct.tag[0] for struct in shape.structs if struct.tag is not None)
        word = node.get(key)
        if word is None:
            return self.fault(node.mark, (*path, key), f"the key '{key}' is missing", f"expected one of {', '.join(by_tag)}")
        if not isinstance(word, Scalar) or word.text not in by_tag:
            hint = nearest(word.text, by_tag) if isinstance(word, Scalar) else f"expected one of {', '.join(by_tag)}"
            return self.fault(word.mark, (*path, key), found(word), hint)
        return self.read(node, by_tag[word.text], path, plain=plain)

    def _list(self, node: Node, shape: ListShape | FixedShape, path: Path, plain: bool) -> Any:
        if not isinstance(node, Sequence):
            return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
        if isinstance(shape, FixedShape):
            shapes = shape.items
            if len(node.items) != len(shapes):
                return self.fault(node.mark, path, _counted(node), f"expected {describe(shape)}")
        else:
            shapes = (shape.item,) * len(node.items)
            if len(node.items) < shape.at_least:
                return self.fault(node.mark, path, _counted(node), f"expected at least {shape.at_least}")
        pairs = zip(node.items, shapes, strict=True)
        items = [self.read(item, one, (*path, _index(item, number)), plain=plain) for number, (item, one) in enumerate(pairs)]
        if any(item is BAD for item in items):
            # Positions count in a list, so half a list is no list (a table with a bad entry still has its others).
            return BAD
        return items if plain else tuple(items)

    def _table(self, node: Node, shape: TableShape | KeyedShape, path: Path, plain: bool) -> Any:
        if not isinstance(node, MappingNode):
            return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
        values: dict[Any, Any] = {}
        for name, child in node.entries:
            if isinstance(shape, KeyedShape):
                key: Any = name.text
                if not re.fullmatch(ID_PATTERN, key):
                    self.fault(name.mark, (*path, key), f"'{key}' cannot be an id", "use letters, digits, '.', '_', '-', at most 63")
                self.define(shape.keyed.defines, path[:-1], key)
                field = shape.keyed.field
                given = self._id(name, shape, (*path, key), plain)
                value = self.struct(child, shape.item, (*path, key), given={field: given}, hidden=field)
            else:
                key = self._scalar(name, shape.key, (*path, name.text), plain)
                value = self.read(child, shape.value, (*path, name.text), plain=plain)
            if key is not BAD and value is not BAD:
                values[key] = value
        return tuple(values.values()) if isinstance(shape, KeyedShape) else values

    def _id(self, name: Scalar, shape: KeyedShape, path: Path, plain: bool) -> Any:
        """The id of an entry: a text, or one word of a choice where its field is one."""
        kind = next(field.shape for field in fields_of(shape.item.type) if field.name == shape.keyed.field)
        return self._scalar(name, kind, path, plain) if isinstance(kind, ChoiceShape) else name.text

    def _scalar(self, node: Node, shape: Shape, path: Path, plain: bool) -> Any:
        if not isinstance(node, Scalar) or is_nothing(node):
            return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
        match shape:
            case QuantityShape() | WordShape():
                return self._quantity(node, shape, path, plain)
            case TextShape():
                if shape.refs:
                    self._references.append((shape.refs, node.text, path, node.mark))
                if shape.pattern and not re.search(shape.pattern, node.text):
                    return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")
                return node.text
            case NumberShape():
                return self._number(node, shape, path)
            case BoolShape() if node.text in ("true", "false") and node.plain:
                return node.text == "true"
            case ChoiceShape() if node.text in shape.words:
                return node.text if plain else shape.make(node.text)
            case ChoiceShape():
                return self.fault(node.mark, path, found(node), nearest(node.text, shape.words))
            case _:
                return self.fault(node.mark, path, found(node), f"expected {describe(shape)}")

    def _quantity(self, node: Scalar, shape: QuantityShape | WordShape, path: Path, plain: bool) -> Any:
        try:
            if isinstance(shape, WordShape):
                word = shape.read(node.text)
                return msgspec.to_builtins(word) if plain else word
            value = parse(node.text, shape.dimension)
        except BridgeheadError as error:
            return self.fault(node.mark, path, f"{found(node)}: {error.happened}", error.remedy[:1].lower() + error.remedy[1:].rstrip("."))
        return self._within(node, shape, value, path)

    def _number(self, node: Scalar, shape: NumberShape, path: Path) -> Any:
        pattern = _INTEGER if shape.whole else _DECIMAL
        if not node.plain or not pattern.fullmatch(node.text) or (not shape.whole and re.match(r"[-+]?0\d", node.text)):
            hint = "; remove the leading zero" if node.plain and re.fullmatch(r"[-+]?0\d+", node.text) else ""
            return self.fault(node.mark, path, found(node), f"expected {describe(shape)}{hint}")
        if shape.whole and len(node.text) > 19:
            return self.fault(node.mark, path, found(node), "expected a smaller number")
        value = int(node.text) if shape.whole else float(node.text)
        if not math.isfinite(value):
            return self.fault(node.mark, path, found(node), "expected a finite number")
        return self._within(node, shape, value, path)

    def _within(self, node: Scalar, shape: NumberShape | QuantityShape, value: float, path: Path) -> Any:
        wrong = limit_fault(shape, value)
        return self.fault(node.mark, path, found(node), wrong) if wrong else value

    def _free(self, node: Node) -> Any:
        match node:
            case Scalar():
                return _guessed(node)
            case Sequence():
                return [self._free(item) for item in node.items]
            case MappingNode():
                return {name.text: self._free(child) for name, child in node.entries}
            case _:
                assert_never(node)


def is_nothing(node: Node) -> bool:
    """Whether it is YAML's null, written or left out."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULLS


def _guessed(node: Scalar) -> Any:
    """A scalar without a schema: only what looks the same in every dialect of YAML is not text."""
    if not node.plain:
        return node.text
    if is_nothing(node):
        return None
    if node.text in ("true", "false"):
        return node.text == "true"
    if _INTEGER.fullmatch(node.text) and len(node.text) < 19:
        return int(node.text)
    if re.fullmatch(r"[-+]?(0|[1-9]\d*)\.\d+", node.text):
        return float(node.text)
    return node.text


def _counted(node: Sequence) -> str:
    return "found an empty list" if not node.items else f"found {len(node.items)} item{'s' if len(node.items) > 1 else ''}"


def _index(item: Node, number: int) -> str:
    """List items with an ``id`` are named by it."""
    name = item.get("id") if isinstance(item, MappingNode) else None
    return f"[{name.text if isinstance(name, Scalar) and name.text else number}]"


def _struct_shape(kind: type[msgspec.Struct]) -> StructShape:
    shape = shape_of(kind)
    assert isinstance(shape, StructShape)
    return shape
