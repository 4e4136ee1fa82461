"""Erasure code: of k data shares and m parity shares, any k give the data back.

A systematic Reed-Solomon code over GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, and a Cauchy matrix, every square part of which
can be inverted (Blömer et al., "An XOR-based erasure-resilient coding scheme", 1995). Rows and columns are scaled so that the first parity
is the plain exclusive or: with one parity drive nothing is ever multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

_POLYNOMIAL: Final = 0x11D
MAX_SHARES: Final = 256


class TooFewShares(Exception):
    """Fewer than k shares are left."""


class Code:
    """One code: ``data`` shares that hold the bytes, and ``parity`` more of which any may stand in for a lost one."""

    def __init__(self, *, data: int, parity: int) -> None:
        if data < 1 or parity < 0 or data + parity > MAX_SHARES:
            raise ValueError(f"no code has {data} data shares and {parity} parity shares")
        self.data = data
        self.parity = parity

    @property
    def shares(self) -> int:
        """All of them."""
        return self.data + self.parity

    def share_bytes(self, size_bytes: int) -> int:
        """Size of each share of so many bytes; the last data share is filled up with zeros."""
        return -(-size_bytes // self.data)

    def encode(self, stripe: bytes | memoryview) -> list[bytes]:
        """All shares of a stripe, the data shares first."""
        size = self.share_bytes(len(stripe))
        whole = memoryview(stripe)
        parts = [bytes(whole[size * number : size * (number + 1)]).ljust(size, b"\0") for number in range(self.data)]
        return parts + [_combined(_row(self.data, self.parity, number), parts) for number in range(self.parity)]

    def decode(self, shares: Mapping[int, bytes], size_bytes: int) -> bytes:
        """The stripe of ``size_bytes`` from any k intact shares, by number from 0. Raises TooFewShares."""
        lost = [number for number in range(self.data) if number not in shares]
        parts = [shares.get(number, b"") for number in range(self.data)]
        if lost:
            rows = [number for number in range(self.parity) if self.data + number in shares][: len(lost)]
            if len(rows) < len(lost):
                raise TooFewShares
            for number, part in zip(lost, self._solve(lost, rows, shares), strict=True):
                parts[number] = part
        return b"".join(parts)[:size_bytes]

    def _solve(self, lost: Sequence[int], rows: Sequence[int], shares: Mapping[int, bytes]) -> list[bytes]:
        have = [number for number in range(self.data) if number in shares]
        matrix = [_row(self.data, self.parity, row) for row in rows]
        rests = []
        for row, factors in zip(rows, matrix, strict=True):  # what of each parity is due to the lost shares
            known = [shares[self.data + row], *(shares[number] for number in have)]
            rests.append(_combined([1, *(factors[number] for number in have)], known))
        inverse = _inverted([[factors[number] for number in lost] for factors in matrix])
        return [_combined(factors, rests) for factors in inverse]


@cache
def _tables() -> tuple[list[int], list[int]]:
    """Powers of x, twice over, and logarithms."""
    powers, logarithms, value = [0] * 510, [0] * 256, 1
    for exponent in range(255):
        powers[exponent] = powers[exponent + 255] = value
        logarithms[value] = exponent
        value = (value << 1) ^ (_POLYNOMIAL if value & 0x80 else 0)
    return powers, logarithms


def _times(one: int, other: int) -> int:
    powers, logarithms = _tables()
    return powers[logarithms[one] + logarithms[other]] if one and other else 0


def _inverse(value: int) -> int:
    powers, logarithms = _tables()
    return powers[255 - logarithms[value]]


@cache
def _table_of(factor: int) -> bytes:
    return bytes(_times(factor, value) for value in range(256))


@cache
def _row(data: int, parity: int, number: int) -> list[int]:
    """Factors of parity ``number``: Cauchy 1/(x + y) with x = data + number and y = column, scaled to ones in the first row and column."""

    def cauchy(row: int, column: int) -> int:
        return _inverse((data + row) ^ column)

    scaled = [_times(cauchy(number, column), _inverse(cauchy(0, column))) for column in range(data)]
    return [_times(factor, _inverse(scaled[0])) for factor in scaled]


def _combined(factors: Sequence[int], parts: Sequence[bytes]) -> bytes:
    """The sum in the field of all parts, each times its factor."""
    import numpy as np  # not at the top: help and plans do without it

    total = np.zeros(len(parts[0]), dtype=np.uint8)
    for factor, part in zip(factors, parts, strict=True):
        if factor:
            total ^= np.frombuffer(part if factor == 1 else part.translate(_table_of(factor)), dtype=np.uint8)
    return total.tobytes()


def _inverted(matrix: list[list[int]]) -> list[list[int]]:
    """Gauss and Jordan. Every square part of a scaled Cauchy matrix has an inverse."""
    size = len(matrix)
    rows = [[*row, *(int(column == number) for column in range(size))] for number, row in enumerate(matrix)]
    for number in range(size):
        pivot = next(row for row in range(number, size) if rows[row][number])
        rows[number], rows[pivot] = rows[pivot], rows[number]
        scale = _inverse(rows[number][number])
        rows[number] = [_times(scale, value) for value in rows[number]]
        for other in range(size):
            if other != number and (factor := rows[other][number]):
                rows[other] = [value ^ _times(factor, mine) for value, mine in zip(rows[other], rows[number], strict=True)]
    return [row[size:] for row in rows]
