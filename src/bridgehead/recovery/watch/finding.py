"""Findings of the watch: what it says of one workload, site or plan, with the time of the measurement (R1, R2, R6, R13)."""

from __future__ import annotations

from bridgehead.model.finding import Finding, FindingStatus


class WatchFinding(Finding, frozen=True, kw_only=True):
    """A finding, and of whom and when it speaks.

    Attributes:
        workload: whose; empty for what belongs to a site or the estate.
        site: which; empty where there is none.
        measured_s: when the oldest of what it rests on was seen, seconds since 1970-01-01 UTC; None: never.
        foreseen: it passes now and will not for long; ``text`` says when and why.
        breaks_s: when it will fail if nothing changes; None where that cannot be told or does not happen.
    """

    workload: str = ""
    site: str = ""
    measured_s: float | None = None
    foreseen: bool = False
    breaks_s: float | None = None

    @property
    def key(self) -> str:
        """Stable name of what is judged: of the code and the subject."""
        return f"{self.code} {self.subject}" + (f" {self.state}" if self.state else "")


def worst(findings: list[WatchFinding] | tuple[WatchFinding, ...]) -> FindingStatus:
    """FAIL when one fails, else UNKNOWN when one is unknown or there is none at all, else PASS. Severity does not matter here: a warning
    is not green."""
    found = {one.status for one in findings}
    if FindingStatus.FAIL in found:
        return FindingStatus.FAIL
    return FindingStatus.UNKNOWN if FindingStatus.UNKNOWN in found or not found else FindingStatus.PASS
