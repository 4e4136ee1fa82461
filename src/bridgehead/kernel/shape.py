"""Shapes: what a document type looks like in a file. Made once from the types; the decoder, the writer and the JSON Schema share them.

- A field that is a quantity is called like the attribute without its unit suffix: ``grace_s`` is ``grace: 30 s`` in a file. It is a
  quantity when its annotation says so (``kernel.quantity.Seconds``), or when its name ends in ``_s``, ``_bytes``, ``_bps`` or ``_w``.
- ``Keyed`` tuples are mappings from id to item, so that no id occurs twice.
- ``Ref`` names what must be defined elsewhere in the same document.
"""

from __future__ import annotations

import enum
import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import msgspec

from bridgehead.kernel.moment import IsMoment, format_moment, parse_moment
from bridgehead.kernel.quantity import NUMBER, EnergyPrice, Unit, format_energy_price, parse_energy_price
from bridgehead.kernel.units import MEASURES, Dimension

ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


class Keyed(msgspec.Struct, frozen=True):
    """Metadata: a tuple of structs that a file writes as a mapping; the key is the attribute ``field``.

    ``defines`` is the kind of thing that a ``Ref`` may refer to.
    """

    defines: str
    field: str = "id"


class Ref(msgspec.Struct, frozen=True):
    """Metadata: an id that one of ``kinds`` must define, in the same part of the document or further out (a rack: within its site)."""

    kinds: tuple[str, ...]


class ByKey(msgspec.Struct, frozen=True):
    """Metadata for a union of structs without tags: the one of these keys that is present says which."""

    structs: tuple[tuple[str, Any], ...]


class TextShape(msgspec.Struct, frozen=True):
    """A text; with ``refs`` the id of something that the document defines."""

    refs: tuple[str, ...] = ()
    pattern: str = ""


class NumberShape(msgspec.Struct, frozen=True):
    """A plain number with its limits; ``whole`` for integers."""

    whole: bool
    limits: tuple[tuple[str, float], ...] = ()


class QuantityShape(msgspec.Struct, frozen=True):
    """A number with its unit."""

    dimension: Dimension
    limits: tuple[tuple[str, float], ...] = ()


class WordShape(msgspec.Struct, frozen=True):
    """A value with a notation of its own; ``read`` raises BridgeheadError."""

    what: str
    example: str
    pattern: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]


PRICE = WordShape("a price", "0.12 EUR/kWh", rf"^{NUMBER}\s*[A-Z]{{3}}/[kM]Wh$", parse_energy_price, format_energy_price)
MOMENT = WordShape(
    "a date and time with its zone",
    "2026-03-01 20:00+01:00",
    r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$",
    parse_moment,
    format_moment,
)


class BoolShape(msgspec.Struct, frozen=True):
    """true or false."""


class ChoiceShape(msgspec.Struct, frozen=True):
    """One word of several; ``make`` turns it into the value."""

    words: tuple[str, ...]
    make: Any


class ListShape(msgspec.Struct, frozen=True):
    """A list of any length from ``at_least`` up."""

    item: Shape
    at_least: int = 0


class FixedShape(msgspec.Struct, frozen=True):
    """A list of exactly these items."""

    items: tuple[Shape, ...]


class TableShape(msgspec.Struct, frozen=True):
    """A mapping from text to values of one kind."""

    key: Shape
    value: Shape


class KeyedShape(msgspec.Struct, frozen=True):
    """A mapping from id to structs."""

    item: StructShape
    keyed: Keyed


class StructShape(msgspec.Struct, frozen=True):
    """A mapping with known keys; ``tag`` is the (key, word) that a tagged union adds."""

    type: Any
    tag: tuple[str, str] | None = None


class UnionShape(msgspec.Struct, frozen=True):
    """One of several structs by tag or by key, or a word, or nothing. At most one of each."""

    optional: bool
    scalar: Shape | None
    structs: tuple[StructShape, ...]
    by_key: ByKey | None


class FreeShape(msgspec.Struct, frozen=True):
    """Anything; read as plain values."""


Shape = (
    TextShape | NumberShape | QuantityShape | WordShape | BoolShape | ChoiceShape | ListShape | FixedShape
    | TableShape | KeyedShape | StructShape | UnionShape | FreeShape
)  # fmt: skip


class Field(msgspec.Struct, frozen=True):
    """One field of a struct: attribute, key in files, key in plain values, shape, and its default (``NODEFAULT`` when required)."""

    name: str
    key: str
    encoded: str
    shape: Shape
    default: Any
    factory: Any
    doc: str

    @property
    def required(self) -> bool:
        """Whether a file must give it."""
        return self.default is msgspec.NODEFAULT and self.factory is msgspec.NODEFAULT

    def default_value(self) -> Any:
        """The default of a field that is not required."""
        return self.default if self.default is not msgspec.NODEFAULT else self.factory()


_BY_SUFFIX = {MEASURES[d].suffix: d for d in (Dimension.DURATION, Dimension.SIZE, Dimension.RATE, Dimension.POWER)}


@functools.cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a struct type, in order."""
    docs = _attribute_docs(struct.__doc__ or "")
    return tuple(_field(info, docs.get(info.name, "")) for info in msgspec.structs.fields(struct))


def _field(info: Any, doc: str) -> Field:
    shape = shape_of(info.type)
    dimension = next((d for suffix, d in _BY_SUFFIX.items() if info.name.endswith(suffix)), None)
    if dimension is not None:
        shape = _as_quantity(shape, dimension)
    inner = shape.scalar if isinstance(shape, UnionShape) else shape
    key: str = info.encode_name
    if isinstance(inner, QuantityShape):
        key = key.removesuffix(MEASURES[inner.dimension].suffix)
    elif inner is MOMENT:
        key = key.removesuffix(MEASURES[Dimension.DURATION].suffix)
    return Field(info.name, key, info.encode_name, shape, info.default, info.default_factory, doc)


def _as_quantity(shape: Shape, dimension: Dimension) -> Shape:
    match shape:
        case NumberShape():
            return QuantityShape(dimension, shape.limits)
        case UnionShape(scalar=NumberShape() as number):
            return msgspec.structs.replace(shape, scalar=_as_quantity(number, dimension))
        case _:
            return shape


@functools.cache
def shape_of(kind: Any) -> Shape:
    """The shape of a type. Raises TypeError for types that no document may have."""
    notes: list[Any] = []
    while True:
        if get_origin(kind) is Annotated:
            notes += kind.__metadata__
            kind = kind.__origin__
        elif isinstance(kind, NewType):
            kind = kind.__supertype__
        else:
            break
    return _noted(kind, notes)


def _noted(kind: Any, notes: list[Any]) -> Shape:
    limits = tuple(
        (word, float(limit)) for note in notes if isinstance(note, msgspec.Meta) for word in ("gt", "ge", "lt", "le")
        if (limit := getattr(note, word)) is not None
    )  # fmt: skip
    for note in notes:
        match note:
            case IsMoment():
                return MOMENT
            case Unit():
                return QuantityShape(note.dimension, limits)
            case Keyed():
                item = shape_of(get_args(kind)[0])
                assert isinstance(item, StructShape)
                return KeyedShape(item, note)
            case Ref():
                return TextShape(refs=note.kinds)
            case ByKey():
                return UnionShape(False, None, (), note)
            case _:
                pass
    if kind in (int, float):
        return NumberShape(kind is int, limits)
    if kind is str:
        return TextShape(pattern=next((note.pattern for note in notes if isinstance(note, msgspec.Meta) and note.pattern), ""))
    at_least = max((note.min_length or 0 for note in notes if isinstance(note, msgspec.Meta)), default=0)
    return _plain_shape(kind, at_least)


def _plain_shape(kind: Any, at_least: int) -> Shape:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return ChoiceShape(tuple(map(str, args)), str)
    if origin in (tuple, list):
        if origin is list or args[-1] is Ellipsis:
            return ListShape(shape_of(args[0]), at_least)
        return FixedShape(tuple(map(shape_of, args)))
    if origin in (dict, Mapping):
        return FreeShape() if args[1] is Any else TableShape(shape_of(args[0]), shape_of(args[1]))
    if kind is bool:
        return BoolShape()
    if kind is EnergyPrice:
        return PRICE
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ChoiceShape(tuple(str(member.value) for member in kind), kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        return StructShape(kind, (config.tag_field or "type", str(config.tag)) if config.tag is not None else None)
    if kind in (Any, dict):
        return FreeShape()
    raise TypeError(f"no document can hold {kind!r}")


def _union(members: tuple[Any, ...]) -> UnionShape:
    scalar: Shape | None = None
    structs: list[StructShape] = []
    by_key = None
    for member in members:
        if member is types.NoneType:
            continue
        match shape_of(member):
            case StructShape() as shape:
                structs.append(shape)
            case UnionShape(by_key=ByKey() as keys):
                by_key = keys
            case shape if scalar is None:
                scalar = shape
            case _:
                raise TypeError(f"two kinds of plain values cannot be told apart: {members}")
    return UnionShape(types.NoneType in members, scalar, tuple(structs), by_key)


def _attribute_docs(docstring: str) -> dict[str, str]:
    """The lines of an ``Attributes:`` section, by name."""
    section = docstring.partition("Attributes:")[2]
    found = re.findall(r"^ {4,}(\w+): (.*(?:\n {12,}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
