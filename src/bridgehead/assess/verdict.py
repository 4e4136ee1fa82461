"""Verdict: what all findings together say, the binding constraint first, and the shortest list of what to measure. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict


class Measurement(msgspec.Struct, frozen=True):
    """Something to find out, and what it settles.

    Attributes:
        what: in words.
        settles: codes and subjects of the findings that wait for it, sorted.
        blocking: whether one of them decides the verdict.
    """

    what: str
    settles: tuple[str, ...]
    blocking: bool


_RANK = {FindingStatus.FAIL: 0, FindingStatus.UNKNOWN: 1}
_WARNINGS = 2
_PASSING = 4


def verdict(findings: Iterable[Finding]) -> Verdict:
    """NO_GO when a blocking finding fails, CANNOT_TELL when one is unknown or when there is none at all, else GO."""
    states = {finding.status for finding in findings if finding.severity is Severity.BLOCKING}
    if FindingStatus.FAIL in states:
        return Verdict.NO_GO
    return Verdict.CANNOT_TELL if FindingStatus.UNKNOWN in states or not states else Verdict.GO


def binding_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sorted: what decides before warnings, failing before unknown, what passes last; least margin first, then by code and subject."""
    return tuple(sorted(findings, key=_key))


def measurements(findings: Sequence[Finding]) -> tuple[Measurement, ...]:
    """One entry for each thing to find out, those that decide the verdict and settle most first."""
    waiting: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.status is FindingStatus.UNKNOWN:
            waiting[finding.measurement].append(finding)
    found = [
        Measurement(
            what, tuple(sorted({f"{one.code} {one.subject}" for one in held})), any(one.severity is Severity.BLOCKING for one in held)
        )
        for what, held in waiting.items()
    ]
    return tuple(sorted(found, key=lambda one: (not one.blocking, -len(one.settles), one.what)))


def _key(finding: Finding) -> tuple[int, bool, float, str, str, str]:
    margin = 0.0 if finding.margin is None else finding.margin
    rank = _PASSING if finding.status is FindingStatus.PASS else _RANK[finding.status] + _WARNINGS * (finding.severity is Severity.WARNING)
    return (rank, finding.severity is Severity.WARNING, margin, finding.code, finding.subject, finding.state)
