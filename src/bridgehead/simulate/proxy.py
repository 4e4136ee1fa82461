"""Proxy: one simulated service: weights that come into force late, requests that are spread by them, counters, open streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.simulate.blueprint import ServicePlan
from bridgehead.simulate.timeline import Timeline

COUNTERS = ("requests_total", "errors_total", "wrong_total", "latency_seconds_sum", "latency_seconds_count")
LATENCY_S = 0.02


class BackendView(msgspec.Struct, frozen=True):
    """A backend as requests find it."""

    up: bool
    warm: bool
    model: str
    wrong_share: float
    capacity_rps: float
    snapshot: str = ""
    died: bool = False
    """It was killed by a fault of the world, and not by the run."""


class Proxy:
    """Requests are not simulated one by one: between two changes their number is rate times share times time.

    Args:
        backends: looks at the backend of a site.
    """

    def __init__(self, plan: ServicePlan, timeline: Timeline, backends: Callable[[ServiceId, SiteId], BackendView]) -> None:
        self.plan = plan
        self._timeline = timeline
        self._backends = backends
        self.asked: dict[SiteId, int] = dict(plan.weights)
        self.in_force: dict[SiteId, int] = dict(plan.weights)
        self.before: dict[SiteId, int] = dict(plan.weights)
        """What a stale read shows: the weights that were in force before."""
        self._history: list[tuple[float, dict[SiteId, int]]] = [(timeline.now_s, dict(plan.weights))]
        self._settled_s = timeline.now_s
        self._asks = 0
        self._pending = False
        self.forgotten = False
        """Its weights in force are those of its configuration, because it lost the others and was not yet told again."""
        self.counters: dict[SiteId, dict[str, float]] = {site: dict.fromkeys(COUNTERS, 0.0) for site in plan.weights}
        self.streams_cut = 0
        self.clients: list[tuple[SiteId, float]] = []
        """Streams of single clients beside the load: where, and when they end."""

    def ask(self, weights: Mapping[SiteId, int]) -> None:
        """Ask for weights; the newest ask wins, and a repeat changes nothing."""
        if self._pending and self.asked == weights:
            return
        self.asked = dict(weights)
        self._asks += 1
        self._pending = True
        number = self._asks
        self._timeline.after(self.plan.lag_s, lambda: self._enforce(number))

    def forget(self) -> None:
        """The proxy is started anew with the weights of its own configuration (G09)."""
        self._pending = False
        self._asks += 1
        self.forgotten = self.in_force != self.plan.weights
        self._set(self.plan.weights)

    def reconcile(self) -> bool:
        """Ask again for what was asked when something else is in force; False when all is well or an ask is still on its way."""
        if self._pending or self.in_force == self.asked:
            return False
        self.ask(self.asked)
        return True

    def _enforce(self, number: int) -> None:
        if number == self._asks:
            self._pending = self.forgotten = False
            self._set(self.asked)

    def _set(self, weights: Mapping[SiteId, int]) -> None:
        if weights == self.in_force:
            return
        self.settle()
        self.before, self.in_force = self.in_force, dict(weights)
        self._history.append((self._timeline.now_s, self.in_force))
        while len(self._history) > 2 and self._history[1][0] < self._timeline.now_s - self.plan.stream_s:
            self._history.pop(0)

    def settle(self) -> None:
        """Count what was requested since the last change; called before anything changes and before counters are read."""
        passed_s = self._timeline.now_s - self._settled_s
        if passed_s <= 0:
            return
        self._settled_s = self._timeline.now_s
        total = sum(self.in_force.values())
        for site, weight in self.in_force.items():
            requests = self.plan.rate_rps * passed_s * weight / total
            if not requests:
                continue
            backend = self._backends(self.plan.service, site)
            counters = self.counters[site]
            counters["requests_total"] += requests
            counters["latency_seconds_sum"] += requests * LATENCY_S
            counters["latency_seconds_count"] += requests
            if not (backend.up and backend.warm):
                counters["errors_total"] += requests
            elif backend.model != self.plan.model:
                counters["wrong_total"] += requests
            else:
                counters["wrong_total"] += requests * backend.wrong_share

    def open_streams(self, site: SiteId) -> int:
        """Streams of the load that began at ``site`` within the last ``stream_s`` seconds and are still open, and those of clients."""
        now_s = self._timeline.now_s
        ends = [begun_s for begun_s, _ in self._history[1:]] + [now_s]
        opened = 0.0
        for (begun_s, weights), end_s in zip(self._history, ends, strict=True):
            seconds = end_s - max(begun_s, now_s - self.plan.stream_s)
            if seconds > 0:
                opened += seconds * self.plan.rate_rps * self.plan.stream_share * weights.get(site, 0) / sum(weights.values())
        return math.ceil(opened - 1e-6) + sum(there == site and end_s > now_s for there, end_s in self.clients)

    def capacity_rps(self) -> float:
        """What stands, warm and with the right model, behind weights above 0."""
        total = 0.0
        for site, weight in self.in_force.items():
            if weight > 0:
                backend = self._backends(self.plan.service, site)
                if backend.up and backend.warm and backend.model == self.plan.model:
                    total += backend.capacity_rps
        return total
