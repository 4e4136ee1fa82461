"""Fit: the numbers of a predictor, from a sample. Computed in double precision and stored, so that nothing here has to be repeatable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

import numpy as np

from bridgehead.vault.codec.predict import Floats, Predictor

Parameters = tuple[float, ...]
_EPSILONS: Final = (0.0, 1e-10, 3e-9, 1e-8, 1e-7, 3e-7, 1e-6, 1e-4)
"""Where the search for ε begins; trainers use 1e-8 mostly, and bias correction makes it smaller at the beginning."""
_ROUNDS: Final = 8
_CLOSE: Final = 1e-4
_BINS: Final = 2000
_ROWS: Final = 2048
"""Elements of a fit."""


def fit(predictor: Predictor, target: Floats, bases: Sequence[Floats], *, epsilons: Sequence[float] = ()) -> list[Parameters]:
    """Parameters worth a trial; none when the sample does not allow a fit. All arrays have one length. ``epsilons``: those that a fit of
    ADAM to the same target found, for ADAM_FAR."""
    every = max(len(target) // _ROWS, 1)
    y: Floats = target[::every].astype(np.float64)
    x: list[Floats] = [base[::every].astype(np.float64) for base in bases]
    with np.errstate(all="ignore"):
        found = _fit(predictor, y, x, epsilons)
        limit = float(np.finfo(np.float32).max)
        return [values for values in found if all(np.isfinite(value) and abs(value) < limit for value in values)]


def _fit(predictor: Predictor, y: Floats, x: list[Floats], epsilons: Sequence[float]) -> list[Parameters]:
    match predictor:
        case Predictor.PREVIOUS | Predictor.ROUNDED:
            return [()]
        case Predictor.SCALED:
            return [*_solve([x[0]], y), *_common_ratio(y, x[0])]
        case Predictor.SQUARES:
            v, m0, m1 = x
            # Relative errors count: the bits of a float are those of its logarithm, nearly.
            weight = np.where((v > 0) & (y > 0), 1 / y, 0.0)
            return _solve([v * weight, m1 * m1 * weight, m0 * m1 * weight, m0 * m0 * weight], y * weight)
        case Predictor.ADAM:
            return _adam(y, *x)
        case Predictor.ADAM_FAR:
            w, m1, v1, m0, v0 = x
            return [
                (p0, p1, epsilon, p3)
                for epsilon in epsilons or [values[2] for values in _adam(y, w, m1, v1)]
                for p0, p1, p3 in _solve([w, _ratio(m1, v1, epsilon), _ratio(m0, v0, epsilon)], y)
            ]
        case Predictor.MOMENTUM:
            return _solve(x, y)
        case _:
            assert_never(predictor)


def _adam(y: Floats, w: Floats, m: Floats, v: Floats) -> list[Parameters]:
    """p₀, p₁, ε: the best start, then Gauss–Newton on ε."""
    best = _best_start(y, w, m, v)
    if best is None:
        return []
    epsilon = best[2]
    refined: Parameters = best
    step = 0.0
    for _ in range(_ROUNDS):
        slope = _ratio(_ratio(m, v, epsilon), v, epsilon)
        for _, p1, p2 in _solve([w, _ratio(m, v, epsilon), slope], y):
            step = -p2 / p1 if p1 else 0.0
            epsilon = min(max(epsilon + step, epsilon / 8, 0.0), 8 * epsilon + 1e-10)
        if abs(step) <= _CLOSE * epsilon:
            break
    for p0, p1 in _solve([w, _ratio(m, v, epsilon)], y):
        refined = (p0, p1, epsilon)
    return [best, refined] if refined != best else [best]


def _best_start(y: Floats, w: Floats, m: Floats, v: Floats) -> tuple[float, float, float] | None:
    """p₀, p₁ and the ε of ``_EPSILONS`` that leaves the least error: least squares of two unknowns for all of them at a time."""
    good = np.isfinite(y) & np.isfinite(w)
    y, w, m, v = y[good], w[good], m[good], v[good]
    updates = _ratio(m, v, np.array(_EPSILONS)[:, None])
    change = y - w  # p₀ is close to 1: what remains is not lost in rounding
    ww, uw, uu = w @ w, updates @ w, (updates * updates).sum(1)
    wc, uc = w @ change, updates @ change
    p1 = (ww * uc - uw * wc) / (ww * uu - uw * uw)
    p0 = 1 + (wc - uw * p1) / ww
    errors = np.abs(change - (p0 - 1)[:, None] * w - p1[:, None] * updates).sum(1)
    if len(y) < 8 or not np.isfinite(errors).any():
        return None
    best = int(np.nanargmin(np.where(np.isfinite(errors), errors, np.nan)))
    return float(np.float32(p0[best])), float(np.float32(p1[best])), _EPSILONS[best]


def _ratio(m: Floats, v: Floats, epsilon: Any) -> Floats:
    update = m / (np.sqrt(v) + epsilon)
    return np.where(np.isfinite(update), update, 0.0)


def _common_ratio(y: Floats, x: Floats) -> list[Parameters]:
    """The ratio that many elements share: the decay of moments whose gradient was zero, as in rows of an embedding that were not used."""
    ratios = y / x
    ratios = ratios[(ratios > 0) & (ratios < 1)]
    if len(ratios) < 16:
        return []
    counts, edges = np.histogram(ratios, bins=_BINS, range=(0, 1))
    # A value on an edge of a bin falls to either side: two neighbours are looked at.
    pairs = counts[:-1] + counts[1:]
    peak = int(np.argmax(pairs))
    near = ratios[(ratios >= edges[peak]) & (ratios <= edges[peak + 2])]
    return [(float(np.median(near)),)] if len(near) >= max(16, len(ratios) // 50) else []


def _solve(columns: Sequence[Floats], y: Floats) -> list[tuple[Any, ...]]:
    """Least squares over the rows that are finite; empty when there is no solution."""
    good = np.isfinite(sum(columns, y))
    if not good.all():
        columns, y = [column[good] for column in columns], y[good]
    if len(y) < 4 * len(columns):
        return []
    scale = np.array([np.sqrt(column @ column / len(y)) for column in columns])
    if not np.isfinite(scale).all() or scale[0] == 0:
        return []
    scale[scale == 0] = 1
    left = np.stack([column / size for column, size in zip(columns, scale, strict=True)], axis=1)
    try:
        solution = np.linalg.lstsq(left, y, rcond=1e-15)[0]
    except np.linalg.LinAlgError:
        return []
    return [tuple(float(np.float32(value)) for value in solution / scale)]
