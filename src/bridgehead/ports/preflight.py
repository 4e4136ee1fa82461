"""Preflight: whether a site has everything that a workload needs, looked at there and now (issue 6; J14)."""

from __future__ import annotations

from typing import Protocol

from bridgehead.model.finding import Finding
from bridgehead.model.site_needs import SiteNeeds


class Preflight(Protocol):
    """Looks at sites; changes nothing there."""

    def judge(self, needs: SiteNeeds) -> tuple[Finding, ...]:
        """One finding or more for each thing that is needed. What cannot be seen is UNKNOWN, never an error and never a pass."""
        ...
