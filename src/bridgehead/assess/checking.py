"""Checking: what a check is, and how it states findings (design rule 1; rules section 0). Pure.

A ``Case`` collects the inputs of one finding, so that no number is judged without saying where it came from:

- A missing input makes UNKNOWN, never PASS.
- A guess (``Origin.GUESS``) stands in for a fact that nobody gave. It may make a finding FAIL, since the truth would have to be better than
  the rules expect; what would pass by a guess alone is UNKNOWN. So removing a fact never turns fail or unknown into pass.
- A default (``Origin.DEFAULT``) is a choice, such as a margin: it may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from bridgehead.assess.scope import Scope
from bridgehead.model.finding import Finding, FindingStatus, Input, Origin, Severity, Value

_T = TypeVar("_T", float, int, str, bool)


class Check(msgspec.Struct, frozen=True):
    """One check.

    Attributes:
        code: stable, such as ``PWR-CIRCUIT``.
        title: what it asks, as a question.
        requirement: ids that it serves.
        formula: how it is computed, with its source.
        run: all findings; at least one whenever the scope has something of its kind. Never raises for what an estate may hold.
        severity: what a failure does to the verdict.
    """

    code: str
    title: str
    requirement: tuple[str, ...]
    formula: str
    run: Callable[[Scope], Iterable[Finding]]
    severity: Severity = Severity.BLOCKING


class Case:
    """One finding in the making."""

    def __init__(self, check: Check, subject: str, *, state: str = "") -> None:
        self._check = check
        self._subject = subject
        self._state = state
        self._inputs: list[Input] = []

    def take(self, name: str, value: _T | None, unit: str, source: str, *, origin: Origin = Origin.DECLARED) -> _T | None:
        """Note an input and give it back; None notes that it is missing."""
        self._inputs.append(Input(name, value, unit, Origin.MISSING if value is None else origin, source))
        return value

    def guess(self, name: str, value: float | None, unit: str, source: str, *, otherwise: float, because: str) -> float:
        """An input that the rules can stand in for; what passes by it alone is UNKNOWN."""
        if value is not None:
            self._inputs.append(Input(name, value, unit, Origin.DECLARED, source))
            return value
        self._inputs.append(Input(name, otherwise, unit, Origin.GUESS, f"{because}; nobody gave {source}"))
        return otherwise

    @property
    def missing(self) -> tuple[str, ...]:
        """Sources of what is missing."""
        return tuple(one.source for one in self._inputs if one.origin is Origin.MISSING)

    def at_least_words(self, text: str, *fields: str) -> str:
        """``text``, with "at least" before it where an input of these fields (the last words of their paths) is missing."""
        return f"at least {text}" if any(source.rpartition(".")[2] in fields for source in self.missing) else text

    def at_most(self, value: float, limit: float, unit: str, text: str, *, remedy: str, measurement: str = "") -> Finding:
        """PASS while ``value`` does not exceed ``limit``. Compared without rounding; the margin is a share of the limit."""
        margin = (limit - value) / limit if limit > 0 else (0.0 if value <= limit else -1.0)
        return self._judged(
            value <= limit, text, value=value, limit=limit, margin=margin, unit=unit, remedy=remedy, measurement=measurement
        )

    def at_least(self, value: float, limit: float, unit: str, text: str, *, remedy: str, measurement: str = "") -> Finding:
        """PASS while ``value`` reaches ``limit``."""
        margin = (value - limit) / limit if limit > 0 else (0.0 if value >= limit else -1.0)
        return self._judged(
            value >= limit, text, value=value, limit=limit, margin=margin, unit=unit, remedy=remedy, measurement=measurement
        )

    def holds(
        self, holds: bool, text: str, *, remedy: str, measurement: str = "", value: Value = None, limit: Value = None, unit: str = ""
    ) -> Finding:
        """PASS when it holds; for what has no margin."""
        return self._judged(holds, text, value=value, limit=limit, margin=None, unit=unit, remedy=remedy, measurement=measurement)

    def unknown(self, text: str, *, measurement: str) -> Finding:
        """UNKNOWN; ``measurement`` settles it."""
        return self._finding(FindingStatus.UNKNOWN, text, measurement=measurement)

    def _judged(
        self, holds: bool, text: str, *, value: Value, limit: Value, margin: float | None, unit: str, remedy: str, measurement: str
    ) -> Finding:
        unproved = [one for one in self._inputs if one.origin in (Origin.GUESS, Origin.MISSING)]
        if holds and unproved:
            asked = measurement or "give " + ", ".join(one.source.rpartition("nobody gave ")[2] for one in unproved)
            for origin, words in ((Origin.MISSING, "left out, since nobody knows it"), (Origin.GUESS, "that rests on a guess")):
                names = ", ".join(dict.fromkeys(one.name for one in unproved if one.origin is origin))
                text = f"{text}; {words}: {names}" if names else text
            return self._finding(FindingStatus.UNKNOWN, text, value=value, limit=limit, margin=margin, unit=unit, measurement=asked)
        status = FindingStatus.PASS if holds else FindingStatus.FAIL
        return self._finding(status, text, value=value, limit=limit, margin=margin, unit=unit, remedy="" if holds else remedy)

    def _finding(
        self,
        status: FindingStatus,
        text: str,
        *,
        value: Value = None,
        limit: Value = None,
        margin: float | None = None,
        unit: str = "",
        remedy: str = "",
        measurement: str = "",
    ) -> Finding:
        return Finding(
            code=self._check.code,
            subject=self._subject,
            status=status,
            severity=self._check.severity,
            text=text,
            value=value,
            limit=limit,
            margin=margin,
            unit=unit,
            state=self._state,
            formula=self._check.formula,
            inputs=tuple(self._inputs),
            requirement=self._check.requirement,
            remedy=remedy,
            measurement=measurement,
        )
