"""Metrics: monotonic counters by service and site, from which gates compute (M7.3; G01-G03)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cumulative counters at one moment. A counter that is missing is *no data*; it is never taken as 0.

    Attributes:
        counters: name → cumulative value, e.g. ``requests_total``, ``errors_total``, ``latency_seconds_sum``.
        read_s: when it was read.
    """

    counters: dict[str, float]
    read_s: float


class Metrics(Protocol):
    """A source of counters."""

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """The counters of ``service`` at ``site`` now; an empty dict when the source knows none.

        Raises Transient when the source cannot be read.
        """
        ...


class Measures(Protocol):
    """A source of single numbers, for objectives: what a query in the source's own language is at this moment."""

    def value(self, query: str) -> float | None:
        """The number, None when there is no data: that is never 0, and never good.

        Raises Transient when the source cannot be read, Permanent when it refuses the query.
        """
        ...
