"""Phrases of fault messages: what was found, what was expected, and what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import assert_never

from bridgehead.kernel.located import Mapping, Node, Scalar, Sequence
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.shape import (
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
)  # fmt: skip
from bridgehead.kernel.units import MEASURES, with_article

_MOST = 12
_WORDS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def found(node: Node) -> str:
    """What is there."""
    match node:
        case Scalar(text="") if node.plain:
            return "found nothing"
        case Scalar():
            text = node.text if len(node.text) <= 60 else node.text[:57] + "..."
            return f"found '{text}'" if node.plain else f"found '{text}' in quotes"
        case Sequence():
            return "found a list"
        case Mapping():
            return "found a mapping"
        case _:
            assert_never(node)


def describe(shape: Shape) -> str:
    """What should be there."""
    match shape:
        case TextShape(refs=refs) if refs:
            return f"the id of a {' or '.join(refs)}"
        case TextShape():
            return f"a text like {shape.pattern}" if shape.pattern else "a text"
        case NumberShape(whole=whole):
            return " ".join(["a whole number" if whole else "a number", *_limits(shape)])
        case QuantityShape():
            return f"{with_article(shape.dimension)} such as '{MEASURES[shape.dimension].example}'"
        case WordShape():
            return f"{shape.what} such as '{shape.example}'"
        case BoolShape():
            return "true or false"
        case ChoiceShape():
            return one_of(shape.words)
        case ListShape():
            return "a list such as [a, b]"
        case FixedShape():
            return f"a list of {len(shape.items)} items, [a, b]" if len(shape.items) == 2 else f"a list of {len(shape.items)} items"
        case TableShape():
            return "a mapping"
        case KeyedShape():
            return f"a mapping from the id of each {shape.keyed.defines} to its fields"
        case StructShape():
            return f"a mapping with {_keys(shape)}"
        case UnionShape():
            return _union(shape)
        case FreeShape():
            return "a mapping"
        case _:
            assert_never(shape)


def one_of(words: Iterable[str]) -> str:
    """The choice, cut when it is long."""
    words = sorted(words)
    more = f" and {len(words) - _MOST} more" if len(words) > _MOST else ""
    return f"one of {', '.join(words[:_MOST])}{more}" if len(words) > 1 else f"'{''.join(words)}'"


def near_word(word: str, known: Iterable[str]) -> str:
    """The right word if one is near, else the empty text."""
    known = sorted(set(known))
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.7) or [right for right in known if right.casefold() == word.casefold()]
    return close[0] if close else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """A question for the right word if one is near, else the whole choice."""
    known = set(known)
    meant = near_word(word, known)
    if not known:
        return "none is defined here"
    return f"did you mean '{meant}'?" if meant else f"expected {one_of(known)}"


def limit_fault(shape: NumberShape | QuantityShape, value: float) -> str:
    """What is expected of a number outside its limits; empty when it is inside."""
    inside = {
        "gt": lambda limit: value > limit,
        "ge": lambda limit: value >= limit,
        "lt": lambda limit: value < limit,
        "le": lambda limit: value <= limit,
    }
    if all(inside[word](limit) for word, limit in shape.limits):
        return ""
    return f"expected {' and '.join(_limits(shape))}"


def _limits(shape: NumberShape | QuantityShape) -> list[str]:
    shown = [f"{limit:g}" if isinstance(shape, NumberShape) else format_quantity(limit, shape.dimension) for _, limit in shape.limits]
    return [f"{_WORDS[word]} {text}" for (word, _), text in zip(shape.limits, shown, strict=True)]


def _keys(shape: StructShape) -> str:
    fields = fields_of(shape.type)
    wanted = [field.key for field in fields if field.required] or [field.key for field in fields]
    return ", ".join(wanted[:_MOST])


def _union(shape: UnionShape) -> str:
    parts = [] if shape.scalar is None else [describe(shape.scalar)]
    parts += [describe(struct) for struct in shape.structs]
    if shape.by_key is not None:
        parts.append(f"a mapping with one of {', '.join(key for key, _ in shape.by_key.structs)}")
    return " or ".join(parts)
