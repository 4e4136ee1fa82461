"""Judge: how findings of objectives are made. What passes by a guess alone, or lacks an input, is UNKNOWN (design rule 1)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.kernel.quantity import format_bytes, format_duration, format_rate
from bridgehead.model.finding import Finding, FindingStatus, Input, Origin, Severity, Value, Verdict
from bridgehead.model.objective import Bound


class Check(msgspec.Struct, frozen=True):
    """One kind of finding.

    Attributes:
        code: stable.
        title: what it asks.
        requirement: ids that it serves.
        formula: how it is judged.
        severity: whether it decides the verdict.
    """

    code: str
    title: str
    requirement: tuple[str, ...]
    formula: str
    severity: Severity = Severity.BLOCKING


class Price(msgspec.Struct, frozen=True):
    """What it takes to get out of a conflict.

    Attributes:
        month: money a month; None when money does not help, or nobody knows how much.
        currency: its three letters.
        what: what it buys, or why there is no price.
        guess: whether a price in it is a guess.
        more: whether it comes on top of what is paid as things are.
    """

    month: float | None
    currency: str
    what: str
    guess: bool = False
    more: bool = False


Offer = Callable[[], Price]
"""A price that is worked out only where something fails."""


class ObjectiveFinding(Finding, frozen=True, kw_only=True):
    """A finding, and what it takes to resolve it."""

    price: Price | None = None


class Judge:
    """One finding in the making."""

    def __init__(self, check: Check, subject: str, *, state: str = "") -> None:
        self._check, self._subject, self._state = check, subject, state
        self._inputs: list[Input] = []

    def take(self, name: str, value: Value, unit: str, source: str, *, origin: Origin = Origin.DECLARED) -> Judge:
        """Note an input; None notes that it is missing."""
        self._inputs.append(Input(name, value, unit, Origin.MISSING if value is None else origin, source))
        return self

    def bound(self, name: str, bound: Bound | None, source: str) -> Judge:
        """Note a time that somebody asks for."""
        if bound is None:
            return self.take(name, None, "s", source)
        return self.take(name, bound.value_s, "s", bound.source, origin=bound.origin)

    def noted(self, inputs: tuple[Input, ...]) -> Judge:
        """Note inputs that were used elsewhere."""
        self._inputs += inputs
        return self

    def at_most(
        self, value: float, limit: float, unit: str, text: str, *, remedy: str, price: Offer | None = None, measurement: str = ""
    ) -> ObjectiveFinding:
        """PASS while ``value`` does not exceed ``limit``; the margin is a share of the limit."""
        margin = (limit - value) / limit if limit > 0 else (0.0 if value <= limit else -1.0)
        return self.holds(
            value <= limit,
            text,
            remedy=remedy,
            price=price,
            measurement=measurement,
            value=value,
            limit=limit,
            unit=unit,
            margin=margin,
        )

    def holds(
        self,
        holds: bool,
        text: str,
        *,
        remedy: str,
        price: Offer | None = None,
        measurement: str = "",
        value: Value = None,
        limit: Value = None,
        unit: str = "",
        margin: float | None = None,
    ) -> ObjectiveFinding:
        """PASS when it holds and every input is known."""
        weak = [one for one in self._inputs if one.origin in (Origin.GUESS, Origin.MISSING)]
        status = FindingStatus.FAIL if not holds else FindingStatus.UNKNOWN if weak else FindingStatus.PASS
        if status is FindingStatus.UNKNOWN:
            text += f"; rests on what nobody gave: {', '.join(dict.fromkeys(one.name for one in weak))}"
            measurement = measurement or "give " + ", ".join(dict.fromkeys(one.name for one in weak))
        return self._finding(
            status,
            text,
            value=value,
            limit=limit,
            unit=unit,
            margin=margin,
            remedy=remedy if status is FindingStatus.FAIL else "",
            price=price() if status is FindingStatus.FAIL and price is not None else None,
            measurement=measurement if status is FindingStatus.UNKNOWN else "",
        )

    def unknown(self, text: str, *, measurement: str) -> ObjectiveFinding:
        """UNKNOWN; ``measurement`` settles it."""
        return self._finding(FindingStatus.UNKNOWN, text, measurement=measurement)

    def _finding(
        self,
        status: FindingStatus,
        text: str,
        *,
        value: Value = None,
        limit: Value = None,
        unit: str = "",
        margin: float | None = None,
        remedy: str = "",
        price: Price | None = None,
        measurement: str = "",
    ) -> ObjectiveFinding:
        check = self._check
        return ObjectiveFinding(
            code=check.code,
            subject=self._subject,
            status=status,
            severity=check.severity,
            text=text,
            value=value,
            limit=limit,
            margin=margin,
            unit=unit,
            state=self._state,
            formula=check.formula,
            inputs=tuple(self._inputs),
            requirement=check.requirement,
            remedy=remedy,
            measurement=measurement,
            price=price,
        )


def verdict_of(findings: tuple[Finding, ...]) -> Verdict:
    """NO_GO when a blocking one fails, else CANNOT_TELL when a blocking one is unknown or there is none at all, else GO."""
    blocking = {one.status for one in findings if one.severity is Severity.BLOCKING}
    if FindingStatus.FAIL in blocking:
        return Verdict.NO_GO
    return Verdict.CANNOT_TELL if FindingStatus.UNKNOWN in blocking or not findings else Verdict.GO


def time_words(value_s: float) -> str:
    """A duration for a sentence."""
    return format_duration(value_s, digits=3)


def rate_words(value_bps: float) -> str:
    """A data rate for a sentence."""
    return format_rate(value_bps, digits=3)


def size_words(value_bytes: float) -> str:
    """A size for a sentence."""
    return format_bytes(round(value_bytes), digits=3)
