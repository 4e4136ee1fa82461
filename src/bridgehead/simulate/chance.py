"""Chance: random numbers that belong to a place and not to an order: the same seed, run, hazard and activity give the same number.

So two plans are compared on the same luck, a shard draws what one run over all would draw, and a hazard that is made worse never takes
another's numbers. The numbers are splitmix64 of their place, whose finaliser mixes all bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def keys_of(names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """One key for each name."""
    return np.array([int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") for name in names], dtype=np.uint64)


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = (value ^ (value >> _S30)) * _MIX_1
    value = (value ^ (value >> _S27)) * _MIX_2
    return value ^ (value >> _S31)


def uniforms(keys: npt.NDArray[np.uint64], *, seed: int, run: int, streams: int) -> Numbers:
    """``streams`` rows of numbers between 0 and 1 (both excluded), one column for each key."""
    place = int.from_bytes(hashlib.sha256(f"{seed}/{run}".encode()).digest()[:8], "big")
    with np.errstate(over="ignore"):
        rows = _mixed(np.arange(1, streams + 1, dtype=np.uint64) * _GOLDEN + np.uint64(place))
        bits = _mixed((keys[None, :] ^ rows[:, None]) + _GOLDEN) >> _S11
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def exponential(numbers: Numbers, mean: Numbers | float) -> Numbers:
    """Times with that mean."""
    return -np.log1p(-numbers) * mean


def poisson(numbers: Numbers, mean: Numbers) -> Numbers:
    """Counts with these means: the smallest k whose distribution function reaches the number. A larger mean never gives a smaller count."""
    counts = np.zeros_like(mean)
    term = np.exp(-mean)
    total = term.copy()
    k = 0
    while True:
        short = numbers > total
        # Far in the tail the terms no longer add anything: there the count is as good as found.
        if not short.any() or (k > mean.max() and float(term[short].max()) < 1e-18):
            return counts
        k += 1
        counts += short
        term = term * mean / k
        total += np.where(short, term, 0.0)
