"""The metrics port of an estate in which each service names a source of counters of its own."""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.ports.metrics import Metrics, Reading


class ServiceMetrics:
    """Each service has its own source of counters."""

    def __init__(self, sources: Mapping[ServiceId, Metrics]) -> None:
        self._sources = sources

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """See ``ports.metrics``; a service without a source is no data, and no data never passes a gate."""
        source = self._sources.get(service)
        return source.read(service, site) if source is not None else Reading(counters={}, read_s=0.0)
