"""The Kubernetes traffic driver keeps the traffic port's contract, with a fake API server and a fake gateway in virtual time."""

from __future__ import annotations

from collections import Counter

import pytest

from bridgehead.drivers.kubernetes import KubeLogin, KubernetesTraffic, KubernetesTrafficOptions, RouteBackend, RouteService
from bridgehead.kernel.errors import BridgeheadError, Conflict, NotFound, Permanent, Transient, Unknown
from bridgehead.testing.kube_gateway import Gateway
from bridgehead.testing.kube_server import TOKEN, FakeCluster, Strike
from bridgehead.testing.pages import PageServer
from bridgehead.testing.traffic_suite import SERVICE, A, B, TrafficRig, TrafficSuite, shift, stamp

SPACE = "train"
ROUTE = "chat-route"
BACKENDS = {A: "chat-a", B: "chat-b"}
STREAM_S = 2.0


def rule(weights, **more):
    refs = [{"name": BACKENDS[site], "port": 80, "weight": weight} for site, weight in weights.items()]
    return {"backendRefs": refs, **more}


class Session:
    def __init__(self, rig):
        self.rig, self.home = rig, None

    def send(self):
        if self.home is None or self.rig.in_force()[self.home] == 0:
            self.home = self.rig.pick()
        return self.home


class Stream:
    def __init__(self, rig):
        self.rig, self.site, self.ends_s = rig, rig.pick(), rig.now_s() + STREAM_S
        rig.streams.append(self)
        rig.show()

    def finish(self):
        self.rig.advance(max(0.0, self.ends_s - self.rig.now_s()))
        return True


class KubeRig(TrafficRig):
    """Clients take turns by the weights that the fake gateway has in force; sessions keep their home while it has a weight."""

    def __init__(self, folder):
        self.cluster = FakeCluster()
        self.gateway = Gateway(self.cluster.store)
        self.cluster.extra.append(self.gateway.step)
        self.page = PageServer()
        self.streams, self.credit = [], {A: 0, B: 0}
        self.create({A: 100, B: 0})
        (folder / "token").write_text(TOKEN)
        login = KubeLogin(kubeconfig=self.cluster.kubeconfig(folder / "config", tokenFile="token"), timeout_s=5.0)
        sites = {site: RouteBackend(name, f"{self.page.url}/{site}") for site, name in BACKENDS.items()}
        self.options = KubernetesTrafficOptions(services={SERVICE: RouteService(ROUTE, sites)}, login=login)
        self.advance(1.0)

    def create(self, weights, **spec):
        meta = {"name": ROUTE}
        spec = {"parentRefs": [{"name": "edge"}], "rules": [rule(weights)], **spec}
        document = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": meta, "spec": spec}
        self.cluster.store.create("HTTPRoute", SPACE, document)

    def route(self):
        return self.cluster.store.get("HTTPRoute", SPACE, ROUTE)

    def edit(self, **spec):
        """By hand."""
        self.cluster.store.patch("HTTPRoute", SPACE, ROUTE, {"spec": spec})

    def close(self):
        self.cluster.close()
        self.page.unplug()

    def driver(self):
        return KubernetesTraffic(self.options)

    def in_force(self):
        found = self.gateway.in_force[ROUTE]
        return {site: found[name] for site, name in BACKENDS.items()}

    def pick(self):
        weights = self.in_force()
        for site, weight in weights.items():
            self.credit[site] += weight
        site = max(self.credit, key=lambda site: self.credit[site])
        self.credit[site] -= sum(weights.values())
        return site

    def send(self, count):
        self.credit = {A: 0, B: 0}
        return Counter(self.pick() for _ in range(count))

    def session(self):
        return Session(self)

    def stream(self):
        return Stream(self)

    def lose_weights(self):
        self.edit(rules=[rule({A: 33, B: 67})])
        self.advance(1.0)

    def kill(self):
        self.cluster.close()

    def now_s(self):
        return self.cluster.now_s

    def advance(self, duration_s):
        self.cluster.advance(duration_s)
        self.show()

    def show(self):
        """What the backends' pages say."""
        for site in BACKENDS:
            count = sum(stream.site == site and stream.ends_s > self.now_s() for stream in self.streams)
            self.page.pages[f"/{site}"] = (200, f"# TYPE requests_in_flight gauge\nrequests_in_flight {count}\n".encode())


class TestKubernetesTraffic(TrafficSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        rig = KubeRig(tmp_path)
        yield rig
        rig.close()

    # what is in force

    def test_until_the_gateway_has_taken_a_change_over_the_old_weights_are_in_force(self, rig):
        driver = rig.driver()
        rig.gateway.lag_s = 30.0
        driver.write(SERVICE, {A: 40, B: 60}, stamp=stamp())
        assert rig.route()["spec"]["rules"] == [rule({A: 40, B: 60})]
        assert rig.driver().read(SERVICE) == {A: 100, B: 0}
        driver.write(SERVICE, {A: 10, B: 90}, stamp=stamp())
        assert rig.driver().read(SERVICE) == {A: 100, B: 0}
        rig.advance(31.0)
        rig.eventually(lambda: driver.read(SERVICE) == {A: 10, B: 90}, within_s=1.0)

    def test_a_change_by_somebody_else_is_cannot_tell_until_it_is_taken_over(self, rig):
        driver = rig.driver()
        shift(rig, driver, 20, 80)
        rig.edit(rules=[rule({A: 1, B: 1})])
        with pytest.raises(Transient, match="has not taken over generation"):
            driver.read(SERVICE)
        rig.advance(1.0)
        assert driver.read(SERVICE) == {A: 50, B: 50}

    @pytest.mark.parametrize(
        "said", [{"Accepted": "False"}, {"ResolvedRefs": "False"}, {"PartiallyInvalid": "True"}, {"Accepted": "Unknown"}]
    )
    def test_what_a_gateway_refuses_is_never_in_force(self, rig, said):
        driver = rig.driver()
        rig.gateway.conditions = said
        driver.write(SERVICE, {A: 0, B: 100}, stamp=stamp())
        rig.advance(2.0)
        with pytest.raises(Transient, match="gateway edge"):
            driver.read(SERVICE)
        assert driver.reconcile(SERVICE) is False
        rig.gateway.conditions = {}
        rig.advance(2.0)
        assert driver.read(SERVICE) == {A: 0, B: 100}

    def test_every_gateway_of_the_route_counts(self, rig):
        driver = rig.driver()
        rig.edit(parentRefs=[{"name": "edge"}, {"name": "second"}])
        rig.advance(1.0)
        with pytest.raises(Transient, match="gateway second says nothing"):
            driver.read(SERVICE)
        second = Gateway(rig.cluster.store, "second", lag_s=5.0)
        rig.cluster.extra.append(second.step)
        rig.advance(6.0)
        assert driver.read(SERVICE) == {A: 100, B: 0}
        driver.write(SERVICE, {A: 50, B: 50}, stamp=stamp())
        rig.advance(2.0)
        assert driver.read(SERVICE) == {A: 100, B: 0}
        rig.advance(6.0)
        assert driver.read(SERVICE) == {A: 50, B: 50}

    def test_a_route_without_gateway_is_in_force_nowhere(self, rig):
        rig.edit(parentRefs=[])
        with pytest.raises(Transient, match="no gateway"):
            rig.driver().read(SERVICE)

    # weights

    @pytest.mark.parametrize(
        ("weights", "percent"),
        [({A: 2, B: 8}, {A: 20, B: 80}), ({A: 1, B: 999}, {A: 1, B: 99}), ({A: 1, B: 2}, {A: 33, B: 67}), ({A: 7, B: 0}, {A: 100, B: 0})],
    )
    def test_G10_proportions_are_told_as_percent(self, rig, weights, percent):
        rig.edit(rules=[rule(weights)])
        rig.advance(1.0)
        assert rig.driver().read(SERVICE) == percent

    def test_G10_all_at_zero_is_no_weight(self, rig):
        driver = rig.driver()
        shift(rig, driver, 30, 70)
        rig.edit(rules=[rule({A: 0, B: 0})])
        rig.advance(1.0)
        with pytest.raises(Transient, match="every request fails"):
            driver.read(SERVICE)
        assert driver.reconcile(SERVICE) is True
        rig.advance(1.0)
        assert driver.read(SERVICE) == {A: 30, B: 70}

    def test_the_same_proportions_are_no_drift(self, rig):
        driver = rig.driver()
        shift(rig, driver, 20, 80)
        rig.edit(rules=[rule({A: 1, B: 4})])
        assert driver.reconcile(SERVICE) is False
        rig.edit(rules=[rule({A: 1, B: 5})])
        assert driver.reconcile(SERVICE) is True

    def test_every_rule_is_changed_and_nothing_else_of_the_route(self, rig):
        other = {"backendRefs": [{"name": "docs", "port": 80}], "matches": [{"path": {"type": "PathPrefix", "value": "/docs"}}]}
        matched = rule({A: 100, B: 0}, timeouts={"request": "10s"})
        rig.edit(rules=[rule({B: 0, A: 100}), other, matched], hostnames=["chat.example"])
        rig.advance(1.0)
        shift(rig, rig.driver(), 25, 75)
        after = rig.route()["spec"]
        assert after["rules"] == [rule({B: 75, A: 25}), other, rule({A: 25, B: 75}, timeouts={"request": "10s"})]
        assert after["hostnames"] == ["chat.example"]

    def test_rules_that_differ_are_made_equal(self, rig):
        rig.edit(rules=[rule({A: 100, B: 0}), rule({A: 50, B: 50})])
        rig.advance(1.0)
        with pytest.raises(Transient, match="different weights"):
            rig.driver().read(SERVICE)
        rig.driver().write(SERVICE, {A: 100, B: 0}, stamp=stamp())
        rig.advance(1.0)
        assert rig.driver().read(SERVICE) == {A: 100, B: 0}
        assert rig.route()["spec"]["rules"] == [rule({A: 100, B: 0})] * 2

    @pytest.mark.parametrize("refs", [[{"name": "chat-a", "port": 80}], [], [{"name": n, "port": 80} for n in ("chat-a", "chat-b", "x")]])
    def test_a_route_that_spreads_otherwise_is_refused_and_nothing_is_recorded(self, rig, refs):
        rig.edit(rules=[{"backendRefs": refs}])
        driver = rig.driver()
        with pytest.raises(Permanent, match="rule"):
            driver.write(SERVICE, {A: 50, B: 50}, stamp=stamp())
        assert rig.cluster.store.all("ConfigMap") == []

    # what goes wrong

    def test_G09_a_route_that_was_made_anew_gets_its_weights_back(self, rig):
        shift(rig, rig.driver(), 20, 80, epoch=4)
        rig.cluster.store.delete("HTTPRoute", SPACE, ROUTE, {})
        with pytest.raises(NotFound):
            rig.driver().reconcile(SERVICE)
        rig.create({A: 100, B: 0})
        rig.advance(1.0)
        assert rig.driver().reconcile(SERVICE) is True
        rig.advance(1.0)
        assert rig.driver().read(SERVICE) == {A: 20, B: 80}
        with pytest.raises(Conflict, match="epoch"):
            rig.driver().write(SERVICE, {A: 100, B: 0}, stamp=stamp(epoch=3))

    def test_J13_a_write_that_comes_late_changes_nothing(self, rig):
        """Between its look and its change a newer driver shifts the traffic."""
        newer = rig.driver()
        late = Strike(method="PATCH", hook=lambda: newer.write(SERVICE, {A: 0, B: 100}, stamp=stamp(epoch=2)))
        rig.cluster.strikes = [late]
        with pytest.raises(Conflict, match="epoch 1"):
            rig.driver().write(SERVICE, {A: 60, B: 40}, stamp=stamp(epoch=1))
        rig.advance(1.0)
        assert rig.driver().read(SERVICE) == {A: 0, B: 100}
        assert rig.driver().reconcile(SERVICE) is False

    @pytest.mark.parametrize(("status", "done"), [(0, True), (0, False), (500, True), (429, False), (403, False)])
    def test_a_change_whose_answer_is_lost_is_unknown_and_comes_into_force(self, rig, status, done):
        driver = rig.driver()
        rig.cluster.strikes = [Strike(method="PATCH", status=status, done=done)]
        with pytest.raises(Unknown):
            driver.write(SERVICE, {A: 5, B: 95}, stamp=stamp())
        assert driver.reconcile(SERVICE) is not done
        rig.advance(1.0)
        assert driver.read(SERVICE) == {A: 5, B: 95}

    def test_a_server_that_is_away_is_transient_and_nothing_is_recorded(self, rig):
        rig.cluster.strikes = [Strike(times=9)]
        with pytest.raises(Transient):
            rig.driver().write(SERVICE, {A: 5, B: 95}, stamp=stamp())
        assert rig.cluster.store.all("ConfigMap") == []

    def test_what_cannot_be_counted_is_transient(self, rig):
        rig.page.pages["/a"] = (200, b"other 1\n")
        with pytest.raises(Transient, match="no usable value"):
            rig.driver().in_flight(SERVICE, A)

    def test_one_route_for_two_services_is_refused(self, rig):
        service = rig.options.services[SERVICE]
        with pytest.raises(BridgeheadError, match="belongs to two services"):
            KubernetesTrafficOptions(services={"chat": service, "other": service})
