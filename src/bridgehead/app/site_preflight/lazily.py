"""The preflight, imported when something is asked of it: most runs ask nothing, and a run that is resumed must start at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridgehead.model.finding import Finding
    from bridgehead.model.site_needs import SiteNeeds


class LazyPreflight:
    """Implements ``ports.preflight.Preflight``. ``connections``: as ``SitePreflight`` takes them."""

    def __init__(self, connections: Mapping[str, Any]) -> None:
        self._connections = connections

    def judge(self, needs: SiteNeeds) -> tuple[Finding, ...]:
        """See the port."""
        from bridgehead.app.site_preflight.judging import SitePreflight

        return SitePreflight(self._connections).judge(needs)
