"""NetBox: amounts that people write into the comment of a device type, and units of weight. Pure."""

from __future__ import annotations

import re
from typing import Final

_WATTS: Final = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3}){1,3}|\d{1,7}(?:\.\d{1,6})?) ?(kW|W|watts?)\b")
_WEIGHT: Final = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3}){1,2}|\d{1,6}(?:\.\d{1,6})?) ?(kgs?|lbs?|pounds)\b", re.IGNORECASE)
_KILOGRAMS: Final = {"kg": 1.0, "kilograms": 1.0, "g": 1e-3, "grams": 1e-3, "lb": 0.45359237, "pounds": 0.45359237, "oz": 0.028349523125}
_SAME: Final = 0.01


def pounds(unit: str) -> float | None:
    """Kilograms in a unit of weight, by its value or its label; None where it is none."""
    word = unit.strip().lower()
    return _KILOGRAMS.get(word, _KILOGRAMS.get("oz" if word == "ounces" else word.removesuffix("s")))


def watts_in_words(comment: str) -> tuple[float, str] | None:
    """The largest power that a comment names, in watts, and the words; None where it names none."""
    found = [(_plain(one[1]) * (1000 if one[2] == "kW" else 1), one[0]) for one in _WATTS.finditer(comment)]
    return max(found, default=None)


def weight_in_words(comment: str) -> tuple[float, str] | None:
    """The weight that a comment names, in kilograms, and the words; None where it names none, or several that differ."""
    found = [(round(_plain(one[1]) * (pounds(one[2]) or 0), 6), one[0]) for one in _WEIGHT.finditer(comment)]
    if not found or any(abs(weight - found[0][0]) > _SAME * found[0][0] for weight, _ in found):
        return None
    return found[0]


def _plain(text: str) -> float:
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value
