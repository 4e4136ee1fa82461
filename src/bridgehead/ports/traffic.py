"""Traffic: the weights with which a proxy spreads a service over sites (M7.3; G04, G09, G10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.stamp import Stamp


class Traffic(Protocol):
    """The proxy in front of one or more services. Weights are percent, non-negative integers with sum 100."""

    def read(self, service: ServiceId) -> dict[SiteId, int]:
        """The weights *in force*, read back from the proxy itself, never from what was asked.

        Raises NotFound for an unknown service, Transient when the proxy does not answer.
        """
        ...

    def write(self, service: ServiceId, weights: Mapping[SiteId, int], *, stamp: Stamp) -> None:
        """Ask for new weights for all sites of the service; returns before they are in force: read back to know.

        The desired weights are kept by the driver and applied again when the proxy loses them (G09). A site of weight 0 gets no
        new session; streams that are open go on to their end.

        Raises:
            Permanent: the weights do not name exactly the service's sites, are negative or do not add up to 100.
            Conflict: the epoch is old.
        """
        ...

    def reconcile(self, service: ServiceId) -> bool:
        """Put the desired weights back when the proxy lost them or somebody changed them (G09).

        True when there was a drift (the correction may take a moment to be in force), False when all was as desired or nothing was
        ever desired. Raises Transient when the proxy does not answer.
        """
        ...

    def in_flight(self, service: ServiceId, site: SiteId) -> int:
        """Requests and streams now open at the site's backend. Raises Transient when that cannot be seen (never 0 then)."""
        ...
