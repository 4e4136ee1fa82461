"""Counters: what a server and its clients count by service and site, as a page in the Prometheus text format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec


class SiteCounters(msgspec.Struct):
    """Counts of one site.

    Latency is that of plain requests: the length of a stream says nothing about the server. ``in_flight`` stays None, and off the page,
    where nobody counts it.
    """

    requests: int = 0
    errors: int = 0
    wrong: int = 0
    latency_sum_s: float = 0.0
    latency_count: int = 0
    in_flight: int | None = None

    def answered(self, latency_s: float) -> None:
        """A plain request was answered."""
        self.latency_sum_s += latency_s
        self.latency_count += 1


class Counters:
    """Counters of one service by site. A site is on the page from its first mention on, with zeros."""

    def __init__(self, service: str) -> None:
        self._service = service
        self.sites: defaultdict[str, SiteCounters] = defaultdict(SiteCounters)

    def page(self) -> str:
        """The page."""
        series: dict[str, tuple[str, Mapping[str, float]]] = {
            "requests_total": ("counter", {site: c.requests for site, c in self.sites.items()}),
            "errors_total": ("counter", {site: c.errors for site, c in self.sites.items()}),
            "wrong_total": ("counter", {site: c.wrong for site, c in self.sites.items()}),
            "latency_seconds_sum": ("counter", {site: c.latency_sum_s for site, c in self.sites.items()}),
            "latency_seconds_count": ("counter", {site: c.latency_count for site, c in self.sites.items()}),
            "in_flight": ("gauge", {site: c.in_flight for site, c in self.sites.items() if c.in_flight is not None}),
        }
        return "".join(self._family(name, kind, values) for name, (kind, values) in series.items())

    def _family(self, name: str, kind: str, values: Mapping[str, float]) -> str:
        lines = [f'{name}{{service="{self._service}",site="{site}"}} {value}\n' for site, value in sorted(values.items())]
        return f"# TYPE {name} {kind}\n{''.join(lines)}" if lines else ""
