"""Traffic place: at which of its two sites a service is, by where its traffic goes. What computes is located by its fence instead."""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.kernel.ids import SiteId


def by_traffic(weights: Mapping[SiteId, int], *, home: SiteId, refuge: SiteId) -> SiteId:
    """The site that gets more of it; its home when both get the same, also nothing."""
    return refuge if weights.get(refuge, 0) > weights.get(home, 0) else home
