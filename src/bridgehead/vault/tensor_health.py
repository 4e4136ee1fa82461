"""Tensor health: what the bytes of tensors say, NaN, infinities, zeros and norms; read piece by piece in bounded memory (V15).

A dtype that is not known here is reported as such: it is never taken for fine (V03).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from bridgehead.model.snapshot import FileEntry, Snapshot
from bridgehead.vault.tensor_alarm import Alarm, AlarmCode, alarm_of
from bridgehead.vault.tensor_ledger import Fate, Known, Role, ambiguous, common_paths, fate, tensors_of

Read = Callable[[Snapshot, FileEntry, int, int], Iterator[bytes | memoryview]]
"""(snapshot, file, offset, size) -> the bytes, in pieces."""

NORM_JUMP: Final = 10.0
"""The norm of a weight that grows or shrinks by more than this factor from one save to the next is worth a look."""
_NAMED: Final = 3

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Health(msgspec.Struct, frozen=True):
    """What one tensor holds. ``norm``: Euclidean norm of its finite elements."""

    elements: int
    nan: int
    inf: int
    zeros: int
    norm: float

    @property
    def all_zero(self) -> bool:
        """Nothing but zeros."""
        return self.elements > 0 and self.zeros == self.elements


_PLAIN: Final = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<f4", "C128": "<f8", "complex128": "<f8", "complex32": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "<u1",
}  # fmt: skip


def _e4m3() -> Floats:
    """All values of F8_E4M3 (fn): no infinities, NaN where all bits but the sign are set (OCP 8-bit floating point, revision 1.0)."""
    values = []
    for bits in range(256):
        sign, exponent, mantissa = -1.0 if bits & 128 else 1.0, bits >> 3 & 15, bits & 7
        value = math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)
        values.append(math.nan if bits & 127 == 127 else sign * value)
    return np.array(values, dtype=np.float32)


def _e5m2() -> Floats:
    """All values of F8_E5M2: the upper byte of a binary16."""
    return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)


_TABLES: Final = {"F8_E4M3": _e4m3(), "F8_E5M2": _e5m2()}
_WIDTHS: Final = {**{name: np.dtype(kind).itemsize for name, kind in _PLAIN.items()}, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1}


def is_known(dtype: str) -> bool:
    """Whether the values of this dtype can be told."""
    return dtype in _WIDTHS


def health(dtype: str, pieces: Iterator[bytes | memoryview]) -> Health:
    """Count over all pieces. Raises KeyError for a dtype that is not known."""
    width = _WIDTHS[dtype]
    total, nan, inf, zeros, squares, rest = 0, 0, 0, 0, 0.0, b""
    for piece in pieces:
        data = rest + bytes(piece) if rest else piece
        count = len(data) // width
        rest = bytes(data[count * width :])  # pieces end where blocks end, which may be inside an element
        values = _values(dtype, data, count)
        total += count
        zeros += count - int(np.count_nonzero(values))
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                nan += int(np.count_nonzero(np.isnan(values)))
                inf += int(np.count_nonzero(np.isinf(values)))
                values = values[finite]
        wide = values.astype(np.float64)
        squares += float(np.dot(wide, wide))
    return Health(total, nan, inf, zeros, math.sqrt(squares))


def _values(dtype: str, data: bytes | memoryview, count: int) -> Floats:
    if dtype == "BF16":
        return (np.frombuffer(data, dtype="<u2", count=count).astype("<u4") << np.uint32(16)).view("<f4")
    table = _TABLES.get(dtype)
    if table is not None:
        found: Floats = table[np.frombuffer(data, dtype=np.uint8, count=count)]
        return found
    return np.frombuffer(data, dtype=_PLAIN[dtype], count=count)


def read_alarms(chain: Sequence[Snapshot], read: Read) -> tuple[Alarm, ...]:
    """What the data of the last snapshot of ``chain`` says, against the one before. Earlier ones are read only to find since when there
    are NaN or infinities, and of them only the tensors that are hurt. Raises Damaged when a block is."""
    return _Reading(chain, read).alarms() if chain else ()


class _Reading:
    def __init__(self, chain: Sequence[Snapshot], read: Read) -> None:
        self._chain, self._read = chain, read
        self._doubled = ambiguous(*chain[-2:])
        self._common = common_paths(*chain[-2:])
        self._tensors: dict[int, dict[str, Known]] = {}
        self._read_already: dict[tuple[int, str], Health] = {}

    def alarms(self) -> tuple[Alarm, ...]:
        newest, last = self._chain[-1], len(self._chain) - 1
        now = self._of(last)
        known = [name for name in now if is_known(now[name].tensor.dtype)]
        found = [self._unknown([name for name in now if name not in known])] if len(known) < len(now) else []
        measured = {name: self._health(last, name) for name in known}
        total = sum(one.elements for one in measured.values())
        for code in (AlarmCode.NAN, AlarmCode.INF):
            hurt = {name: count for name, one in measured.items() if (count := _count(one, code))}
            if hurt:
                since = self._since(list(hurt), code)
                what = "NaN" if code is AlarmCode.NAN else "infinite elements"
                worst = ", ".join(f"{name} ({hurt[name] / measured[name].elements:.1%})" for name in list(hurt)[:_NAMED])
                more = f" and {len(hurt) - _NAMED} more" if len(hurt) > _NAMED else ""
                text = f"{what} in {worst}{more}; {sum(hurt.values()) / total:.2%} of all elements; since step {since}"
                found.append(alarm_of(newest, code, tuple(hurt), text, since_step=since))
        if last:
            found += self._against_before(measured)
        return tuple(found)

    def _against_before(self, measured: dict[str, Health]) -> list[Alarm]:
        last, now = len(self._chain) - 1, self._of(len(self._chain) - 1)
        zero, jumped, factors = [], [], []
        for name, one in measured.items():
            before = self._of(last - 1).get(name)
            if before is None or not is_known(before.tensor.dtype) or fate(before, now[name]) is Fate.SAME:
                continue
            earlier = self._health(last - 1, name)
            if one.all_zero and not earlier.all_zero:
                zero.append(name)
            elif now[name].role is Role.WEIGHTS and earlier.norm > 0 and one.norm > 0:
                factor = one.norm / earlier.norm
                if not 1 / NORM_JUMP <= factor <= NORM_JUMP:
                    jumped.append(name)
                    factors.append(f"{name} ({earlier.norm:.3g} to {one.norm:.3g})")
        newest, step = self._chain[-1], self._chain[-2].step
        found = []
        if zero:
            text = f"{', '.join(zero[:_NAMED])}: all zero, and was not at step {step} ({len(zero)} in all)"
            found.append(alarm_of(newest, AlarmCode.ALL_ZERO, tuple(zero), text, since_step=newest.step))
        if jumped:
            text = f"the norm of {', '.join(factors[:_NAMED])} jumped since step {step} ({len(jumped)} in all)"
            found.append(alarm_of(newest, AlarmCode.NORM_JUMP, tuple(jumped), text, since_step=newest.step))
        return found

    def _unknown(self, names: list[str]) -> Alarm:
        newest = self._chain[-1]
        dtypes = sorted({self._of(len(self._chain) - 1)[name].tensor.dtype for name in names})
        text = f"{len(names)} tensors have a dtype whose values are not known here ({', '.join(dtypes[:_NAMED])}): cannot tell"
        return alarm_of(newest, AlarmCode.CANNOT_TELL, tuple(names), text, since_step=newest.step)

    def _since(self, hurt: list[str], code: AlarmCode) -> int:
        """The first step, without a break up to the newest, in which any of these tensors is hurt."""
        since = self._chain[-1].step
        for number in range(len(self._chain) - 2, -1, -1):
            here = self._of(number)
            names = [name for name in hurt if name in here and is_known(here[name].tensor.dtype)]
            if not any(_count(self._health(number, name), code) for name in names):
                break
            since = self._chain[number].step
        return since

    def _of(self, number: int) -> dict[str, Known]:
        if number not in self._tensors:
            self._tensors[number] = tensors_of(self._chain[number], self._doubled, self._common)
        return self._tensors[number]

    def _health(self, number: int, name: str) -> Health:
        """Of a tensor that did not change, that of the snapshot after: it is not read again."""
        found = self._read_already.get((number, name))
        if found is None:
            known, after = self._of(number)[name], self._read_already.get((number + 1, name))
            if after is not None and fate(known, self._of(number + 1)[name]) is Fate.SAME:
                found = after
            else:
                tensor = known.tensor
                pieces = self._read(self._chain[number], known.file, tensor.offset_bytes, tensor.size_bytes)
                found = health(tensor.dtype, pieces)
            self._read_already[(number, name)] = found
        return found


def _count(one: Health, code: AlarmCode) -> int:
    return one.nan if code is AlarmCode.NAN else one.inf
