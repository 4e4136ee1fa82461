"""Marks: how a subject fares, for the colours of drawings and the links from them to the evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.model.finding import Finding, FindingStatus, Severity

TIGHT: Final = 0.1
"""A margin below this is shown as tight."""
_RANK = {FindingStatus.FAIL: 0, FindingStatus.UNKNOWN: 1, FindingStatus.PASS: 4}
_WARNING = 2
"""A warning counts less than anything that decides."""


class Mark(msgspec.Struct, frozen=True):
    """How one subject fares.

    Attributes:
        look: ``fail``, ``unknown``, ``tight`` (little room, or a warning), ``pass``, or ``none`` where no check speaks of it.
        finding: the worst finding; None for ``none``.
        href: the place of its evidence in the page.
    """

    look: str
    finding: Finding | None = None
    href: str = ""

    @property
    def margin(self) -> float | None:
        """Of the worst finding."""
        return None if self.finding is None else self.finding.margin

    @property
    def words(self) -> str:
        """For the pointer that rests on it."""
        if self.finding is None:
            return "no check speaks of it"
        margin = "" if self.margin is None else f", margin {self.margin:+.1%}"
        state = f" ({self.finding.state})" if self.finding.state else ""
        return f"{self.finding.status.value}{margin}: {self.finding.text}{state}"


class Marks:
    """All findings by subject."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._by_subject: defaultdict[str, list[tuple[int, Finding]]] = defaultdict(list)
        for number, finding in enumerate(findings):
            self._by_subject[finding.subject].append((number, finding))

    def of(self, subject: str, *, families: Iterable[str] = ()) -> Mark:
        """The worst finding of a subject; only of codes that begin with one of ``families`` where some are given."""
        begins = tuple(families)
        held = [one for one in self._by_subject.get(subject, ()) if not begins or one[1].code.startswith(begins)]
        if not held:
            return Mark("none")
        number, worst = min(held, key=lambda one: (_weight(one[1]), _least(one[1])))
        look = worst.status.value
        warned = worst.status is FindingStatus.FAIL and worst.severity is Severity.WARNING
        if warned or (worst.status is FindingStatus.PASS and _least(worst) < TIGHT):
            look = "tight"
        return Mark(look, worst, anchor(number))


def _weight(finding: Finding) -> int:
    passes = finding.status is FindingStatus.PASS
    return _RANK[finding.status] + (_WARNING if finding.severity is Severity.WARNING and not passes else 0)


def _least(finding: Finding) -> float:
    """The margin; of what passes only that of a quantity, since 3 supplies of 3 that are needed are enough and not tight."""
    counted = finding.status is FindingStatus.PASS and not finding.unit
    return 1e9 if finding.margin is None or counted else finding.margin


def anchor(number: int) -> str:
    """The link to a finding's evidence, by its place among all."""
    return f"#finding-{number}"


def linked(mark: Mark, *children: Markup) -> Markup:
    """Drawn things that lead to their evidence."""
    return svg.tag("a", svg.tag("title", mark.words), *children, href=mark.href) if mark.href else svg.group(children)
