"""Svg: elements as safe markup. Everything that comes from outside is escaped here, and only here.

Colours, strokes and fonts are classes of ``style.css``, so that one drawing serves light, dark and paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

Point = tuple[float, float]

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CHARACTER_WIDTH = 0.56
"""Mean width of a character of a sans-serif font, in font sizes; on the wide side, so that what is estimated to fit does fit."""


def clean(text: str) -> str:
    """``text`` without the characters that no HTML or XML document may hold."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element. ``class_`` writes ``class``, other underscores become hyphens; None leaves an attribute out. Children are escaped."""
    written = "".join(
        f' {_attribute_name(key)}="{escape(clean(_number(value)))}"' for key, value in attributes.items() if value is not None
    )
    inner = Markup("").join(child if isinstance(child, Markup) else clean(child) for child in children)
    # safe: the name is ours, values and children were escaped above
    return Markup(f"<{name}{written}>{inner}</{name}>")


def group(children: Iterable[Markup], *, class_: str | None = None) -> Markup:
    """Elements that belong together."""
    return tag("g", *children, class_=class_)


def line(begin: Point, end: Point, *, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=begin[0], y1=begin[1], x2=end[0], y2=end[1], class_=class_)


def rect(corner: Point, width: float, height: float, *, class_: str, radius: float | None = None, title: str = "") -> Markup:
    """A rectangle; never of negative size. ``title`` is shown while the pointer rests on it."""
    children = [tag("title", title)] if title else []
    return tag("rect", *children, x=corner[0], y=corner[1], width=max(0.0, width), height=max(0.0, height), rx=radius, class_=class_)


def text(place: Point, words: str, *, class_: str, anchor: str = "start") -> Markup:
    """A line of text; ``anchor`` is start, middle or end."""
    return tag("text", words, x=place[0], y=place[1], class_=class_, text_anchor=None if anchor == "start" else anchor)


def polyline(points: Sequence[Point], *, class_: str) -> Markup:
    """A line through points; nothing without points."""
    if not points:
        return Markup("")
    return tag("polyline", points=" ".join(f"{_number(x)},{_number(y)}" for x, y in points), class_=class_)


def picture(name: str, width: float, height: float, children: Iterable[Markup], *, title: str, description: str) -> Markup:
    """A whole drawing. ``name`` must be unique in the page: it makes the ids by which screen readers find title and description."""
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-desc"),
        *children,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def text_width(words: str, *, size_px: float) -> float:
    """About how wide a line of text becomes, in pixels."""
    return len(words) * size_px * _CHARACTER_WIDTH


def shortened(words: str, *, width_px: float, size_px: float) -> str:
    """``words``, cut off with an ellipsis where they would be wider than ``width_px``."""
    limit = max(1, int(width_px / (size_px * _CHARACTER_WIDTH)))
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def mark(center: Point, *, good: bool | None, radius: float, title: str) -> Markup:
    """A verdict: a tick, a cross, or a ring for neither. Told apart by shape, not by colour alone."""
    x, y = center
    r = radius * 0.45
    verdict = "open" if good is None else "good" if good else "bad"
    drawn = [tag("circle", cx=x, cy=y, r=radius, class_=f"mark-{verdict}")]
    if good is True:
        drawn.append(polyline([(x - r, y + r * 0.1), (x - r * 0.25, y + r * 0.8), (x + r, y - r * 0.75)], class_="mark-sign"))
    elif good is False:
        drawn.append(line((x - r * 0.8, y - r * 0.8), (x + r * 0.8, y + r * 0.8), class_="mark-sign"))
        drawn.append(line((x - r * 0.8, y + r * 0.8), (x + r * 0.8, y - r * 0.8), class_="mark-sign"))
    return tag("g", tag("title", title), *drawn)


def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1f}".removesuffix(".0")
