"""Traffic, metrics and serving health of simulated services."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.metrics import Reading
from bridgehead.ports.serving import ServingHealth
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.proxy import Proxy


def _proxy(calls: Calls, service: ServiceId) -> Proxy:
    proxy = calls.world.proxies.get(service)
    if proxy is None:
        raise NotFound("the proxy knows no such service", tried="look at a service", subject=service)
    return proxy


class WorldTraffic:
    """Implements ``ports.traffic.Traffic``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def read(self, service: ServiceId) -> dict[SiteId, int]:
        """See the port."""
        return self._calls.read(
            "traffic.read",
            EDGE,
            lambda: dict(_proxy(self._calls, service).in_force),
            stale=lambda: dict(_proxy(self._calls, service).before),
        )

    def write(self, service: ServiceId, weights: Mapping[SiteId, int], *, stamp: Stamp) -> None:
        """See the port."""
        self._calls.write("traffic.write", EDGE, lambda: self._ask(service, weights), stamp=stamp, place=f"traffic/{service}")

    def reconcile(self, service: ServiceId) -> bool:
        """See the port."""
        proxy = _proxy(self._calls, service)
        return self._calls.read("traffic.reconcile", EDGE, proxy.reconcile)

    def in_flight(self, service: ServiceId, site: SiteId) -> int:
        """See the port."""
        return self._calls.read("traffic.in_flight", EDGE, lambda: self._open(service, site))

    def _ask(self, service: ServiceId, weights: Mapping[SiteId, int]) -> None:
        proxy = _proxy(self._calls, service)
        percents = list(weights.values())
        if set(weights) != set(proxy.plan.weights) or sum(percents) != 100 or any(type(one) is not int or one < 0 for one in percents):
            raise Permanent(f"{dict(weights)} are no weights of it", tried="change weights", subject=service)
        proxy.ask(weights)

    def _open(self, service: ServiceId, site: SiteId) -> int:
        proxy = _proxy(self._calls, service)
        if site not in proxy.plan.weights:
            raise NotFound("the service has no backend there", tried="count open requests", subject=f"{service} at {site}")
        return proxy.open_streams(site)


class WorldMetrics:
    """Implements ``ports.metrics.Metrics``: the counters are the proxy's."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def read(self, service: ServiceId, site: SiteId) -> Reading:
        """See the port."""
        return self._calls.read("metrics.read", EDGE, lambda: self._counters(service, site))

    def _counters(self, service: ServiceId, site: SiteId) -> Reading:
        world = self._calls.world
        proxy = world.proxies.get(service)
        if proxy is None or site not in proxy.counters:
            return Reading({}, world.now_s)
        proxy.settle()
        counters = {name: value if name.endswith("_sum") else float(math.floor(value)) for name, value in proxy.counters[site].items()}
        return Reading(counters, world.now_s)


class WorldServing:
    """Implements ``ports.serving.Serving``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def health(self, service: ServiceId, site: SiteId) -> ServingHealth:
        """See the port."""
        world = self._calls.world
        if site not in _proxy(self._calls, service).plan.weights:
            raise NotFound("the service has no backend there", tried="ask for health", subject=f"{service} at {site}")
        return self._calls.read("serving.health", site, lambda: self._seen(world.backend(service, site).up, service, site))

    def _seen(self, up: bool, service: ServiceId, site: SiteId) -> ServingHealth:
        if not up:
            raise Transient("it does not answer", tried="ask for health", subject=f"{service} at {site}")
        view = self._calls.world.backend(service, site)
        return ServingHealth(warm=view.warm, model_hash=view.model, snapshot=view.snapshot)
