"""Forms: what the bytes of a block are, as far as coding them cares: width, and where a sign may be (V03).

A wrong form costs ratio, never bits: every step below is a bijection on the bits of unsigned integers.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np

Bits = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]
"""Elements as unsigned integers of their width."""


class Form(enum.IntEnum):
    """The number is what a frame holds."""

    BYTES = 0
    FLOAT8 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    FLOAT32 = 4
    FLOAT64 = 5
    INT16 = 6
    INT32 = 7
    INT64 = 8

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return _WIDTHS[self]

    @property
    def signed_magnitude(self) -> bool:
        """The highest bit is a sign and the rest a magnitude, as in all IEEE floats."""
        return Form.FLOAT8 <= self <= Form.FLOAT64

    @property
    def computable(self) -> bool:
        """numpy can compute with it exactly, after widening."""
        return Form.FLOAT16 <= self <= Form.FLOAT64


_WIDTHS: Final = {
    Form.BYTES: 1, Form.FLOAT8: 1, Form.FLOAT16: 2, Form.BFLOAT16: 2, Form.FLOAT32: 4, Form.FLOAT64: 8,
    Form.INT16: 2, Form.INT32: 4, Form.INT64: 8,
}  # fmt: skip
_UINTS: Final = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_NAMES: Final = {
    "F16": Form.FLOAT16, "BF16": Form.BFLOAT16, "F32": Form.FLOAT32, "F64": Form.FLOAT64,
    "F8_E4M3": Form.FLOAT8, "F8_E5M2": Form.FLOAT8, "I16": Form.INT16, "U16": Form.INT16,
    "I32": Form.INT32, "U32": Form.INT32, "I64": Form.INT64, "U64": Form.INT64, "C64": Form.FLOAT32, "C128": Form.FLOAT64,
}  # fmt: skip


def form_of(dtype: str) -> Form:
    """The form of a dtype as safetensors writes it. One that nobody knows is bytes."""
    return _NAMES.get(dtype, Form.BYTES)


def elements(data: bytes | memoryview, form: Form) -> Bits:
    """The whole elements of ``data``, no copy; bytes after the last one are left out."""
    return np.frombuffer(data, dtype=_UINTS[form.width], count=len(data) // form.width)


def rotate(bits: Bits, form: Form) -> Bits:
    """The sign goes to the lowest bit, so that the exponent fills the highest byte of bf16 and f32."""
    if not form.signed_magnitude:
        return bits
    kind, top = bits.dtype.type, 8 * form.width - 1
    return (bits << kind(1)) | (bits >> kind(top))


def unrotate(bits: Bits, form: Form) -> Bits:
    """The inverse of ``rotate``."""
    if not form.signed_magnitude:
        return bits
    kind, top = bits.dtype.type, 8 * form.width - 1
    return (bits >> kind(1)) | (bits << kind(top))


def ordered(bits: Bits, form: Form) -> Bits:
    """Integers in the order of the values: neighbouring floats become neighbouring integers, also across zero."""
    if not form.signed_magnitude:
        return bits
    top = bits.dtype.type(1 << (8 * form.width - 1))
    return bits ^ (_sign_mask(bits) | top)


def unordered(values: Bits, form: Form) -> Bits:
    """The inverse of ``ordered``."""
    if not form.signed_magnitude:
        return values
    top = values.dtype.type(1 << (8 * form.width - 1))
    return values ^ (~_sign_mask(values) | top)


def zigzag(difference: Bits) -> Bits:
    """Small differences of either sign become small numbers; modulo 2^n."""
    return (difference << difference.dtype.type(1)) ^ _sign_mask(difference)


def unzigzag(folded: Bits) -> Bits:
    """The inverse of ``zigzag``."""
    one = folded.dtype.type(1)
    return (folded >> one) ^ (~(folded & one) + one)


def _sign_mask(bits: Bits) -> Bits:
    """All ones where the highest bit is set, else zero."""
    width = bits.dtype.itemsize
    return (bits.view(f"<i{width}") >> (8 * width - 1)).view(bits.dtype)
