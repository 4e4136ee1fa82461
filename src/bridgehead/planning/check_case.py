"""Case: one finding of the checker in the making, and how it says numbers, moments and names to a tired person. Pure.

Of one rule and one subject there is one finding: it fails by its first fault, with the others named after it; without a fault it is unknown
when something is not known; else it passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.finding import Finding, FindingStatus

TICK_S = 0.001
"""Moments closer than this are one: files write them in microseconds."""
SLACK = 1e-6
"""Relative; what files round is no fault."""
_SHOWN = 3
_LONGEST_S = 1e12


class _Fault(msgspec.Struct, frozen=True):
    text: str
    remedy: str
    value: float | None
    limit: float | None
    margin: float | None
    unit: str


class Case:
    """Collects faults and gaps of one subject."""

    def __init__(self, code: str, subject: str) -> None:
        self._code = code
        self._subject = subject
        self._faults: list[_Fault] = []
        self._lacks: list[tuple[str, str]] = []
        self._tightest = _Fault("", "", None, None, None, "")

    @property
    def broken(self) -> bool:
        """Whether a fault was found."""
        return bool(self._faults)

    def fault(self, text: str, *, remedy: str, value: float | None = None, limit: float | None = None, unit: str = "") -> None:
        """Something is broken; ``value`` against ``limit`` where it is a number."""
        margin = -abs(value - limit) / abs(limit) if value is not None and limit else None
        self._faults.append(_Fault(text, remedy, value, limit, margin, unit))

    def lack(self, text: str, *, measurement: str) -> None:
        """Something is not known; ``measurement`` settles it."""
        if (text, measurement) not in self._lacks:
            self._lacks.append((text, measurement))

    def at_most(self, value: float, limit: float, text: str, *, unit: str, remedy: str) -> bool:
        """A fault when ``value`` exceeds ``limit``. Returns whether it holds."""
        return self._compared(value, limit, limit - value, text, unit, remedy)

    def at_least(self, value: float, limit: float, text: str, *, unit: str, remedy: str) -> bool:
        """A fault when ``value`` does not reach ``limit``. Returns whether it holds."""
        return self._compared(value, limit, value - limit, text, unit, remedy)

    def _compared(self, value: float, limit: float, room: float, text: str, unit: str, remedy: str) -> bool:
        slack = TICK_S if unit == "s" else SLACK * max(abs(limit), 1e-3)
        margin = room / abs(limit) if limit and math.isfinite(room) and math.isfinite(limit) else None
        one = _Fault(text, remedy, value, limit, margin, unit)
        if room < -slack:
            self._faults.append(one)
            return False
        if margin is not None and (self._tightest.margin is None or margin < self._tightest.margin):
            self._tightest = one
        return True

    def finding(self, passes: str) -> Finding:
        """What came out; ``passes`` is what is said when all is well."""
        if self._faults:
            first = self._faults[0]
            texts = [one.text for one in self._faults[:_SHOWN]]
            return self._made(FindingStatus.FAIL, "; ".join(texts) + _more(len(self._faults)), first, remedy=first.remedy)
        if self._lacks:
            text = "; ".join(text for text, _ in self._lacks[:_SHOWN]) + _more(len(self._lacks))
            return self._made(FindingStatus.UNKNOWN, text, self._tightest, measurement=self._lacks[0][1])
        return self._made(FindingStatus.PASS, passes, self._tightest)

    def _made(self, status: FindingStatus, text: str, one: _Fault, *, remedy: str = "", measurement: str = "") -> Finding:
        return Finding(
            code=self._code,
            subject=self._subject,
            status=status,
            text=text,
            value=one.value,
            limit=one.limit,
            margin=one.margin,
            unit=one.unit,
            remedy=remedy,
            measurement=measurement,
        )


def _more(count: int) -> str:
    return f"; and {count - _SHOWN} more" if count > _SHOWN else ""


def when(moment_s: float) -> str:
    """A moment, to the minute where it is one."""
    if not math.isfinite(moment_s) or abs(moment_s) > _LONGEST_S:
        return "never"
    try:
        text = format_moment(round(moment_s, 3))
    except (ValueError, OverflowError, OSError):
        return "never"
    return text.replace(":00Z", "Z") if text.count(":") == 2 else text


def lasting(duration_s: float) -> str:
    """A length of time."""
    if not math.isfinite(duration_s) or abs(duration_s) > _LONGEST_S:
        return "without end"
    return ("-" if duration_s < 0 else "") + format_quantity(abs(round(duration_s, 3)), Dimension.DURATION, digits=4)


def amount(value: float, dimension: Dimension) -> str:
    """A quantity."""
    if not math.isfinite(value):
        return "without limit"
    return ("-" if value < 0 else "") + format_quantity(abs(value), dimension, digits=4)


def number(value: float) -> str:
    """A plain number with thousands apart."""
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-6 else f"{value:,.2f}"


def counted(count: int, word: str) -> str:
    """``1 rack``, ``3 racks``."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def listed(names: Iterable[str], *, most: int = 4) -> str:
    """Names, cut when there are many."""
    found = sorted(dict.fromkeys(names))
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
