"""The doors of a Kubernetes site keep the admission port's contract, but for reservations, which Kubernetes does not have."""

from __future__ import annotations

from contextlib import contextmanager

import msgspec
import pytest

from bridgehead.drivers.kubernetes import KubeLogin, KubernetesAdmission, KubernetesOptions, KubernetesScheduler, OnDrain, PodRequest
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.model.equipment import NodeId
from bridgehead.ports.admission import Reservation
from bridgehead.ports.scheduler import JobRunning, JobSpec
from bridgehead.testing.admission_suite import JOB, WHY, AdmissionRig, AdmissionSuite
from bridgehead.testing.kube_server import TOKEN, FakeCluster, Strike
from bridgehead.testing.scheduler_suite import stamp

SPACE = "train"


class KubeRig(AdmissionRig):
    first, second = NodeId("node-1"), NodeId("node-2")

    def __init__(self, folder):
        self.cluster = FakeCluster()
        (folder / "token").write_text(TOKEN)
        login = KubeLogin(kubeconfig=self.cluster.kubeconfig(folder / "config", tokenFile="token"), timeout_s=5.0)
        self.options = KubernetesOptions(login=login, jobs={"*": PodRequest(image="x")})

    def driver(self, **changes):
        return KubernetesAdmission("site-a", self.with_changes(**changes), now=lambda: self.cluster.now_s)

    def scheduler(self):
        return KubernetesScheduler("site-a", self.options, now=lambda: self.cluster.now_s)

    def with_changes(self, **changes):
        return msgspec.structs.replace(self.options, **changes)

    def submit(self, name):
        containers = [{"name": "main", "image": "x", "command": ["sleeps"]}]
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        self.cluster.store.create("Job", SPACE, document)
        self.advance(0.3)

    def begun(self, name):
        pods = self.cluster.store.all("Pod", SPACE, {"job-name": name})
        return any(pod["metadata"]["uid"] in self.cluster.nodes.running(self.cluster.now_s) for pod in pods)

    def end(self, name):
        self.cluster.store.delete("Job", SPACE, name, {"propagationPolicy": "Background"})

    def close_by_hand(self, node, reason):
        self.cluster.store.patch("Node", "", node, {"spec": {"unschedulable": True}})

    @contextmanager
    def blinded(self):
        self.cluster.strikes = [Strike(times=1_000_000)]
        yield
        self.cluster.strikes = []

    def advance(self, seconds_s):
        self.cluster.advance(seconds_s)

    # services

    def serve(self, replicas, *, labels=None, **budget):
        pod = {"containers": [{"name": "s", "image": "x"}], "terminationGracePeriodSeconds": 1}
        template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
        store = self.cluster.store
        store.create("Deployment", "web", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": spec})
        if budget:
            spec = {"selector": {"matchLabels": {"app": "chat"}}, **budget}
            kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
            store.create("PodDisruptionBudget", "web", {**kind, "metadata": {"name": "chat"}, "spec": spec})
        self.advance(2.0)

    def ready(self):
        """Replicas that can serve."""
        pods = self.cluster.store.all("Pod", "web")
        running = self.cluster.nodes.running(self.cluster.now_s)
        return sum(pod["metadata"]["uid"] in running and "deletionTimestamp" not in pod["metadata"] for pod in pods)


class TestKubernetesAdmission(AdmissionSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        rig = KubeRig(tmp_path)
        yield rig
        rig.cluster.close()

    def test_what_somebody_else_drained_keeps_its_reason_and_stays_closed(self, rig):
        """Kubernetes keeps no reason: it is said to be cordoned."""
        rig.close_by_hand(rig.first, "")
        driver = rig.driver()
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        driver.resume(rig.both, stamp=stamp("resume"))
        first, second = driver.nodes(rig.both)
        assert (first.open, first.drained_here, first.reason, second.open) == (False, False, "cordoned", True)

    def test_a_reservation_is_made_read_and_removed(self, rig):
        """There are none, and that is said."""
        driver = rig.driver()
        with pytest.raises(Permanent, match="no reservations"):
            driver.reserve(Reservation("moved", rig.both), stamp=stamp("reserve"))
        assert driver.reservation("moved") is None
        driver.unreserve("moved", stamp=stamp("unreserve"))

    test_another_reservation_in_the_way_is_a_conflict = None

    def test_a_reservation_of_what_is_not_there_is_refused(self, rig):
        """Nothing is made."""
        with pytest.raises(NotFound):
            rig.driver().reserve(Reservation("moved", (NodeId("no-such-node"),)), stamp=stamp("reserve"))

    # beyond the suite

    def test_J01_a_node_that_does_not_answer_is_neither_open_nor_empty(self, rig):
        rig.cluster.nodes.silence(rig.first, now_s=rig.cluster.now_s)
        (view,) = rig.driver().nodes((rig.first,))
        assert (view.open, view.empty, view.reason) == (False, False, "it does not answer")

    def test_a_drain_leaves_services_by_default(self, rig):
        rig.serve(2)
        rig.driver().drain(rig.both, reason=WHY, stamp=stamp("drain"))
        rig.advance(5.0)
        assert rig.ready() == 2
        assert not any(view.empty for view in rig.driver().nodes(rig.both))

    def test_evictions_respect_the_budget_and_go_on_when_it_allows(self, rig):
        """Never fewer than two replicas; jobs and what belongs to the node stay."""
        rig.serve(4, minAvailable=2)
        rig.submit(JOB)
        driver = rig.driver(on_drain=OnDrain.EVICT)
        with pytest.raises(Transient, match="disruption budget"):
            driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        rig.advance(5.0)
        assert rig.ready() == 2
        driver.resume((rig.second,), stamp=stamp("resume"))
        rig.advance(5.0)
        assert rig.ready() == 4
        for _ in range(4):
            try:
                driver.drain((rig.first,), reason=WHY, stamp=stamp("drain"))
            except Transient:
                assert rig.ready() >= 2
            rig.advance(3.0)
        assert rig.ready() == 4
        homes = {pod["spec"]["nodeName"] for pod in rig.cluster.store.all("Pod", "web") if "deletionTimestamp" not in pod["metadata"]}
        assert homes == {rig.second}
        assert rig.begun(JOB)

    def test_evictions_need_no_budget_to_be_there(self, rig):
        rig.serve(2)
        rig.driver(on_drain=OnDrain.EVICT).drain(rig.both, reason=WHY, stamp=stamp("drain"))
        rig.advance(3.0)
        assert rig.ready() == 0
        rig.eventually(lambda: all(view.empty for view in rig.driver().nodes(rig.both)))

    def test_J13_a_late_cordon_is_refused(self, rig):
        """Between its look and its change a newer driver opens the node."""
        newer = rig.driver()
        hook = Strike(method="PATCH", part="/nodes", hook=lambda: newer.resume(rig.both, stamp=stamp("undo", epoch=2)))
        rig.cluster.strikes = [hook]
        with pytest.raises(Conflict, match="epoch 1"):
            rig.driver().drain(rig.both, reason=WHY, stamp=stamp("again", epoch=1))
        assert all(view.open for view in newer.nodes(rig.both))

    def test_a_job_that_is_over_does_not_wait(self, rig):
        """Also when its pods were collected."""
        scheduler = rig.scheduler()
        scheduler.start(JobSpec(name=JOB, command=("exits", "0")), stamp=stamp())
        rig.eventually(lambda: not isinstance(scheduler.observe(JOB), JobRunning))
        [pod] = rig.cluster.store.all("Pod", SPACE)
        rig.cluster.store.delete("Pod", SPACE, pod["metadata"]["name"], {})
        assert rig.cluster.store.all("Pod", SPACE) == []
        assert rig.driver().queue(JOB) == ()

    def test_jobs_of_ours_are_held_too_and_are_not_over_for_that(self, rig):
        scheduler, driver = rig.scheduler(), rig.driver()
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        identity = scheduler.start(JobSpec(name=JOB, command=("sleeps",)), stamp=stamp())
        rig.advance(2.0)
        assert scheduler.observe(JOB).waiting_for == "Unschedulable"
        driver.hold(JOB, stamp=stamp("hold"))
        rig.advance(20.0)
        assert scheduler.observe(JOB) == JobRunning(identity, "suspended")
        assert [job.held for job in driver.queue(JOB)] == [True]
        driver.resume(rig.both, stamp=stamp("resume"))
        driver.release(JOB, stamp=stamp("release"))
        rig.advance(2.0)
        assert scheduler.observe(JOB).waiting_for == ""
        assert driver.queue(JOB) == ()
        assert driver.graces(JOB).kill_wait_s == 30.0
