"""Canonical encoding: the same value always gives the same bytes, so that it can be hashed and signed.

JSON with sorted keys and no white space. Floats are written in Python's shortest round-trip form; NaN and infinities are refused,
because JSON has no word for them and a silent ``null`` would lie.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")


def canonical(value: object) -> bytes:
    """Encode ``value`` (msgspec structs, dicts, lists, scalars) canonically.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    builtins = msgspec.to_builtins(value)
    _refuse_non_finite(builtins)
    return _encoder.encode(builtins)


def _refuse_non_finite(value: Any) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise ValueError(f"{value!r} has no canonical encoding")
        case dict():
            for item in value.values():
                _refuse_non_finite(item)
        case list() | tuple():
            for item in value:
                _refuse_non_finite(item)
        case _:
            pass
