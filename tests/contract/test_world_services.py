"""Simulated proxies, counters and backends keep their ports' contracts, in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.services import WorldMetrics, WorldServing, WorldTraffic
from bridgehead.kernel.ids import JobName
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.world import World
from bridgehead.testing import metrics_suite, serving_suite, traffic_suite
from bridgehead.testing.metrics_suite import MetricsSuite
from bridgehead.testing.serving_suite import ServingSuite
from bridgehead.testing.traffic_suite import SERVICE, A, B, TrafficSuite


def quiet_world() -> World:
    """Without a load of its own, so that clients can be counted."""
    return World(Blueprint(sites=(A, B), services=(ServicePlan(SERVICE, {A: 100, B: 0}, rate_rps=0.0),)))


class Session:
    def __init__(self, rig):
        self.rig, self.home = rig, None

    def send(self):
        if self.home is None or self.rig.proxy.in_force[self.home] == 0:
            self.home = self.rig.pick()
        return self.home


class Stream:
    def __init__(self, rig):
        self.rig, self.site = rig, rig.pick()
        self.ends_s = rig.world.now_s + 2.0
        rig.proxy.clients.append((self.site, self.ends_s))

    def finish(self):
        self.rig.world.timeline.run_until(self.ends_s)
        return True


class Traffic(traffic_suite.TrafficRig):
    """Clients take turns by the weights in force; sessions keep their home while it has a weight, as every proxy here does."""

    def __init__(self):
        self.world = quiet_world()
        self.proxy = self.world.proxies[SERVICE]
        self.credit = {A: 0, B: 0}

    def driver(self):
        return WorldTraffic(Calls(self.world))

    def pick(self):
        for site, weight in self.proxy.in_force.items():
            self.credit[site] += weight
        site = max(self.credit, key=lambda site: self.credit[site])
        self.credit[site] -= 100
        return site

    def send(self, count):
        self.credit = {A: 0, B: 0}
        return Counter(self.pick() for _ in range(count))

    def session(self):
        return Session(self)

    def stream(self):
        return Stream(self)

    def lose_weights(self):
        self.proxy.forget()

    def kill(self):
        self.world.network.cut_off(EDGE)

    def now_s(self):
        return self.world.now_s

    def advance(self, duration_s):
        self.world.timeline.run_until(self.world.now_s + duration_s)


class TestWorldTraffic(TrafficSuite):
    @pytest.fixture
    def rig(self):
        return Traffic()


class Metrics(metrics_suite.MetricsRig):
    def __init__(self):
        self.world = quiet_world()

    def driver(self):
        return WorldMetrics(Calls(self.world))

    def show(self, counters):
        self.world.proxies[SERVICE].counters = {site: dict(values) for site, values in counters.items()}

    def unplug(self):
        self.world.network.cut_off(EDGE)


class TestWorldMetrics(MetricsSuite):
    @pytest.fixture
    def rig(self):
        return Metrics()


class Serving(serving_suite.ServingRig):
    def __init__(self):
        self.world = quiet_world()
        self.number = 0

    def driver(self):
        return WorldServing(Calls(self.world))

    def show(self, site, health):
        self.number += 1
        warm_s = 0.0 if health.warm else 1e6
        self.world.add_backend(
            BackendPlan(
                site,
                JobName(f"backend-{self.number}"),
                SERVICE,
                running=False,
                warm_s=warm_s,
                model=health.model_hash,
                snapshot=health.snapshot,
            )
        )

    def unplug(self, site):
        self.world.network.cut_off(site)


class TestWorldServing(ServingSuite):
    @pytest.fixture
    def rig(self):
        return Serving()
