"""Predict: what a tensor should be, from tensors that are known already (design section 5).

Elementwise IEEE operations only, one rounding each, in a fixed order: numpy's add, multiply, divide and sqrt are exactly rounded, so that
every machine predicts the same bits. Nothing is fused, summed over elements, or taken from a mathematics library. What is not finite
becomes zero, because the bits of a NaN are not defined. ``exact`` tests the machine itself.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, assert_never

import numpy as np

from bridgehead.vault.codec.forms import Bits, Form

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
CHUNK: Final = 1 << 15
"""Elements that are worked on at a time: the temporary arrays stay in the cache, and memory is bounded."""


class Predictor(enum.IntEnum):
    """The formula. The number is what a frame holds; bases and parameters in this order.

    PREVIOUS: x₀.
    ROUNDED: x in a narrower float, nearest even: the working copy of master weights.
    SCALED: p₀·x₀: a moment that decays.
    SQUARES: p₀·v₀ + m₁·(p₁·m₁ + p₂·m₀) + p₃·m₀·m₀, bases v₀ m₀ m₁: β₂·v₀ + c·g² with g from the first moments, multiplied out.
    ADAM: p₀·w₀ + p₁·m₁/(√v₁ + p₂), bases w₀ m₁ v₁: one step.
    ADAM_FAR: p₀·w₀ + (p₁·m₁/(√v₁ + p₂) + p₃·m₀/(√v₀ + p₂)), bases w₀ m₁ v₁ m₀ v₀: several steps, seen from both ends.
    MOMENTUM: p₀·w₀ + (p₁·m₁ + p₂·m₀), bases w₀ m₁ m₀: SGD with momentum, Nesterov's too.
    """

    PREVIOUS = 1
    ROUNDED = 2
    SCALED = 3
    SQUARES = 4
    ADAM = 5
    ADAM_FAR = 6
    MOMENTUM = 7

    @property
    def bases(self) -> int:
        """How many tensors it needs."""
        return _COUNTS[self][0]

    @property
    def parameters(self) -> int:
        """How many numbers it needs."""
        return _COUNTS[self][1]


_COUNTS: Final = {
    Predictor.PREVIOUS: (1, 0), Predictor.ROUNDED: (1, 0), Predictor.SCALED: (1, 1), Predictor.SQUARES: (3, 4),
    Predictor.ADAM: (3, 3), Predictor.ADAM_FAR: (5, 4), Predictor.MOMENTUM: (3, 3),
}  # fmt: skip


def predict(predictor: Predictor, bases: Sequence[tuple[Bits, Form]], parameters: Sequence[float], form: Form) -> Bits:
    """The predicted bits of one chunk. All bases have its length."""
    if predictor is Predictor.PREVIOUS:
        return bases[0][0]
    wide = np.dtype(np.float64) if Form.FLOAT64 in (form, *[base for _, base in bases]) else np.dtype(np.float32)
    x = [widen(bits, base, wide) for bits, base in bases]
    with np.errstate(all="ignore"):
        p = [wide.type(value) for value in parameters]
        value = formula(predictor, x, p)
        value[~np.isfinite(value)] = 0
        return narrow(value, form)


def formula(predictor: Predictor, x: Sequence[Floats], p: Sequence[Any]) -> Floats:
    """The predictor on floats."""
    value: Floats
    match predictor:
        case Predictor.PREVIOUS | Predictor.ROUNDED:
            value = x[0].copy()
        case Predictor.SCALED:
            value = x[0] * p[0]
        case Predictor.SQUARES:
            v, m0, m1 = x
            value = v * p[0] + m1 * (m1 * p[1] + m0 * p[2]) + m0 * m0 * p[3]
            value[value < 0] = 0
        case Predictor.ADAM:
            w, m1, v1 = x
            value = w * p[0] + _update(m1, v1, p[1], p[2])
        case Predictor.ADAM_FAR:
            w, m1, v1, m0, v0 = x
            value = w * p[0] + (_update(m1, v1, p[1], p[2]) + _update(m0, v0, p[3], p[2]))
        case Predictor.MOMENTUM:
            w, m1, m0 = x
            value = w * p[0] + (m1 * p[1] + m0 * p[2])
        case _:
            assert_never(predictor)
    return value


def _update(m: Floats, v: Floats, rate: Any, epsilon: Any) -> Floats:
    update: Floats = m / (np.sqrt(v) + epsilon) * rate
    update[~np.isfinite(update)] = 0  # 0/0 where nothing ever flowed: the weight itself stays the prediction
    return update


def widen(bits: Bits, form: Form, to: np.dtype[Any]) -> Floats:
    """The values, exactly, in a type that numpy computes with."""
    with np.errstate(all="ignore"):
        match form:
            case Form.BFLOAT16:
                values: Floats = (bits.astype("<u4") << np.uint32(16)).view("<f4")
            case Form.FLOAT16:
                values = bits.view("<f2").astype("<f4")
            case Form.FLOAT32:
                values = bits.view("<f4")
            case Form.FLOAT64:
                values = bits.view("<f8")
            case _:
                raise ValueError(f"nothing can be computed from {form.name}")
        return values.astype(to, copy=False)


def narrow(values: Floats, form: Form) -> Bits:
    """Finite values in ``form``, rounded to nearest even."""
    match form:
        case Form.BFLOAT16:
            bits: Bits = values.astype("<f4").view("<u4")
            return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype("<u2")
        case Form.FLOAT16:
            return values.astype("<f2").view("<u2")
        case Form.FLOAT32:
            return values.astype("<f4", copy=False).view("<u4")
        case Form.FLOAT64:
            return values.astype("<f8", copy=False).view("<u8")
        case _:
            raise ValueError(f"nothing can be predicted in {form.name}")


@cache
def _probe() -> Floats:
    bits = (np.arange(1, 1025, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(1 << 32)).astype(np.uint32)
    bits[:64] %= np.uint32(1 << 23)  # denormals, which some libraries switch off for a whole thread
    values = bits.view(np.float32)
    return np.where(np.isfinite(values), values, np.float32(1.5))


_TERMS: Final = np.array(
    [
        [0x000116C2, 0x00800000, 0x3F800000, 0x3F800001],
        [0x00000000, 0x80400000, 0x33800000, 0x33800000],
        [0x000116C2, 0x00400000, 0x3F800000, 0x3F800002],
    ],
    np.uint32,
)
"""Bits of floats and of their sums: a denormal that is read, one that comes out, and two ties, of which one is rounded down and one up."""


def exact() -> bool:
    """Whether this thread computes as IEEE 754 says: denormals kept, nearest even, nothing fused. Some libraries change the mode of the
    processor; then nothing is predicted, and a predicted block cannot be decoded."""
    return _mode_is_usual() and _computes_exactly()


def _mode_is_usual() -> bool:
    """The mode may change between two blocks, and this is asked for each."""
    one, two = _TERMS[:2].view(np.float32)
    with np.errstate(all="ignore"):
        return np.array_equal((one + two).view(np.uint32), _TERMS[2])


@cache
def _computes_exactly() -> bool:
    """Asked once, in the usual mode: whether every operation gives the bits that a computation in double precision says."""
    one = _probe()
    with np.errstate(all="ignore"):
        two = np.roll(one, 7)
        results = (one * two, one + two, one / two, np.sqrt(np.abs(one)))
        a, b = one.astype(np.float64), two.astype(np.float64)
        # The product of two floats is exact in double, and double rounding is harmless for the others (53 >= 2·24 + 2), denormals apart.
        wanted = (a * b, a + b, a / b, np.sqrt(np.abs(a)))
        normal = [np.abs(w) >= np.float64(np.finfo(np.float32).tiny) for w in wanted]
        same = all(
            np.array_equal(got[where].view(np.uint32), want[where].astype(np.float32).view(np.uint32))
            for got, want, where in zip(results, wanted, normal, strict=True)
        )
        kept = one[:64] * np.float32(1)
        return same and np.array_equal(kept.view(np.uint32), one[:64].view(np.uint32))
