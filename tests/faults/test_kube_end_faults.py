"""When is a job on Kubernetes over? Silent nodes, deleted Jobs, evictions, Jobs by hand: never an invented end, never a hidden restart."""

from __future__ import annotations

import pytest

from bridgehead.drivers.kubernetes import OnDisruption, PodRequest
from bridgehead.drivers.kubernetes.book import WORD_OF_A_PERSON
from bridgehead.drivers.kubernetes.manifest import HELD
from bridgehead.kernel.errors import Conflict, Permanent, Transient
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning
from bridgehead.testing.kube_hooks import SPACE, KubeHooks
from bridgehead.testing.kube_server import Strike
from bridgehead.testing.scheduler_suite import JOB, stamp

BOOK = "bridgehead-site-a"


def by_hand(name, **spec):
    """A Job as somebody would write it."""
    containers = [{"name": "main", "image": "x", "command": ["sleeps"]}]
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": containers}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


class TestEndFaults(KubeHooks):
    def started(self, scheduler, command=("sleeps",), **how):
        identity = scheduler.start(self.spec(command), stamp=stamp(**how))
        self.advance(2.0)
        return identity

    def node(self):
        return self.pods()[0]["spec"]["nodeName"]

    def truly_runs(self):
        return bool(self.cluster.nodes.running(self.cluster.now_s))

    def delete_job(self, policy="Background"):
        job = self.jobs()[0]["metadata"]
        self.cluster.store.delete("Job", SPACE, job["name"], {"propagationPolicy": policy})

    # nodes that do not answer

    @pytest.mark.parametrize("after_s", [1.0, 290.0, 400.0, 4000.0])
    def test_J01_a_pod_of_a_silent_node_is_cannot_tell(self, scheduler, after_s):
        """Also after Kubernetes has marked the pod for deletion; and when the node is back the job is the same."""
        identity = self.started(scheduler)
        node = self.node()
        self.cluster.nodes.silence(node, now_s=self.cluster.now_s)
        self.advance(after_s)
        with pytest.raises(Transient, match=node):
            scheduler.observe(JOB)
        with pytest.raises(Transient, match=node):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp("another"))
        assert self.truly_runs()
        self.cluster.nodes.wake(node)
        self.advance(2.0)
        state = scheduler.observe(JOB)
        assert state.identity == identity
        assert isinstance(state, JobRunning) is (after_s < 300), state

    @pytest.mark.parametrize("how", ["stop", "kill"])
    def test_J01_asked_to_end_on_a_silent_node_is_not_ended(self, scheduler, how):
        self.started(scheduler)
        node = self.node()
        self.cluster.nodes.silence(node, now_s=self.cluster.now_s)
        getattr(scheduler, how)(JOB, stamp=stamp(how))
        self.advance(200.0)
        with pytest.raises(Transient, match=node):
            scheduler.observe(JOB)
        assert self.truly_runs()
        self.cluster.nodes.wake(node)
        self.wait_ended(scheduler)
        assert not self.truly_runs()

    def test_J01_without_the_right_to_see_nodes_an_overdue_pod_is_cannot_tell(self, scheduler):
        self.cluster.forbidden = {"nodes"}
        self.started(scheduler)
        self.cluster.nodes.silence(self.node(), now_s=self.cluster.now_s)
        self.advance(10.0)
        scheduler.kill(JOB, stamp=stamp("kill"))
        self.advance(30.0)
        assert isinstance(scheduler.observe(JOB), JobRunning)
        self.advance(120.0)
        with pytest.raises(Transient, match="does not answer"):
            scheduler.observe(JOB)

    # Jobs that are deleted

    def test_the_end_outlives_a_job_that_its_time_to_live_deletes(self, scheduler):
        """Nobody looked before: the pods wait for it."""
        driver = self.make(jobs={"*": PodRequest(image="x", keep_s=1.0)})
        identity = self.started(driver, ("exits", "3"))
        self.advance(60.0)
        ended = driver.observe(JOB)
        assert (ended.identity, ended.exit_code) == (identity, 3)
        self.advance(60.0)
        assert self.jobs() == self.pods() == []
        assert self.make().observe(JOB) == ended

    @pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
    def test_a_job_that_was_deleted_by_hand_ends_when_its_pods_have(self, scheduler, policy):
        identity = self.started(scheduler)
        self.delete_job(policy)
        self.advance(0.1)
        assert isinstance(scheduler.observe(JOB), JobRunning)
        if policy == "Orphan":
            self.advance(100.0)
            assert self.running(scheduler) == identity
            scheduler.kill(JOB, stamp=stamp("kill"))
        ended = self.wait_ended(scheduler)
        assert (ended.identity, ended.exit_code) == (identity, 0)
        assert not self.truly_runs()

    def test_a_job_without_any_trace_is_not_ended_until_a_person_says_so(self, scheduler):
        """Somebody deleted Job and pods by force, finalizers and all."""
        identity = self.started(scheduler)
        self.delete_job()
        for pod in self.pods():
            name = pod["metadata"]["name"]
            self.cluster.store.patch("Pod", SPACE, name, {"metadata": {"finalizers": []}})
            self.cluster.store.delete("Pod", SPACE, name, {"gracePeriodSeconds": 0})
        self.advance(1000.0)
        with pytest.raises(Transient, match="no record tells its end") as caught:
            scheduler.observe(JOB)
        with pytest.raises(Transient):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp("another"))
        uid = identity.native_id.partition("/")[2]
        assert f"annotate --overwrite configmap {BOOK} {WORD_OF_A_PERSON}={uid}" in caught.value.remedy
        self.cluster.store.patch("ConfigMap", SPACE, BOOK, {"metadata": {"annotations": {WORD_OF_A_PERSON: uid}}})
        assert scheduler.observe(JOB) == JobEnded(identity, None, None)
        self.cluster.store.patch("ConfigMap", SPACE, BOOK, {"metadata": {"annotations": None}})
        assert scheduler.observe(JOB) == JobEnded(identity, None, None)

    def test_pods_are_let_go_once_their_end_is_on_record(self, scheduler):
        self.started(scheduler, ("exits", "0"))
        assert HELD in self.pods()[0]["metadata"]["finalizers"]
        self.wait_ended(scheduler)
        assert HELD not in self.pods()[0]["metadata"].get("finalizers", [])

    def test_a_pod_that_never_came_to_a_node_holds_nothing(self, scheduler):
        nowhere = self.make(jobs={"*": PodRequest(image="x", node_labels={"gpu": "none"})})
        nowhere.start(self.spec(self.sleeps()), stamp=stamp())
        self.advance(2.0)
        assert scheduler.observe(JOB).waiting_for == "Unschedulable"
        scheduler.stop(JOB, stamp=stamp("stop"))
        assert self.wait_ended(scheduler).exit_code is None
        self.advance(1.0)
        assert self.pods() == []

    # executions that are not the first

    def evict(self):
        """As a drain does: the pod is marked, and deleted."""
        pod = self.pods()[0]
        conditions = [*pod["status"]["conditions"], {"type": "DisruptionTarget", "status": "True"}]
        self.cluster.store.set_status(pod, {"conditions": conditions})
        self.cluster.store.delete("Pod", SPACE, pod["metadata"]["name"], {})

    def test_J12_an_eviction_ends_the_job_by_default(self, scheduler):
        identity = self.started(scheduler, ("ignores-stop",))
        self.evict()
        ended = self.wait_ended(scheduler)
        assert (ended.identity, ended.exit_code) == (identity, 137)
        self.advance(60.0)
        assert not self.truly_runs()

    def test_J12_a_restart_by_kubernetes_is_another_execution_and_never_beside_the_first(self, scheduler):
        driver = self.make(jobs={"*": PodRequest(image="x", on_disruption=OnDisruption.RESTART)})
        identity = self.started(driver, ("ignores-stop",))
        assert self.running(driver) == identity
        self.evict()
        most = 0
        for _ in range(80):
            self.advance(0.5)
            most = max(most, len(self.cluster.nodes.running(self.cluster.now_s)))
        assert most == 1
        again = self.running(driver)
        assert (again.native_id, again.restarts) == (identity.native_id, 1)
        assert self.running(self.make()) == again
        driver.kill(JOB, stamp=stamp("kill"))
        assert self.wait_ended(driver).identity == again
        assert not self.truly_runs()

    def test_J02_a_job_that_somebody_lets_go_again_is_another_execution(self, scheduler):
        self.started(scheduler)
        scheduler.stop(JOB, stamp=stamp("stop"))
        ended = self.wait_ended(scheduler)
        name = self.jobs()[0]["metadata"]["name"]
        self.cluster.store.patch("Job", SPACE, name, {"spec": {"suspend": False}})
        assert scheduler.observe(JOB) != ended
        self.advance(2.0)
        assert self.running(scheduler).restarts == ended.identity.restarts + 1

    def test_a_repeated_start_lets_nothing_go_that_was_stopped(self, scheduler):
        identity = self.started(scheduler)
        scheduler.stop(JOB, stamp=stamp("stop"))
        ended = self.wait_ended(scheduler)
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp()) == identity
        self.advance(5.0)
        assert scheduler.observe(JOB) == ended

    def test_several_pods_are_one_job(self, scheduler):
        driver = self.make(jobs={"*": PodRequest(image="x", pods=3)})
        identity = self.started(driver)
        assert len(self.cluster.nodes.running(self.cluster.now_s)) == 3
        assert self.running(driver) == identity
        pod = self.pods()[1]
        self.cluster.nodes.silence(pod["spec"]["nodeName"], now_s=self.cluster.now_s)
        with pytest.raises(Transient):
            driver.observe(JOB)
        self.cluster.nodes.wake(pod["spec"]["nodeName"])
        driver.stop(JOB, stamp=stamp("stop"))
        assert self.wait_ended(driver).exit_code == 0
        assert self.cluster.nodes.running(self.cluster.now_s) == []

    # ending

    def test_a_stopped_job_is_killed_by_kubernetes_after_its_grace(self, scheduler):
        self.started(scheduler, ("ignores-stop",))
        scheduler.stop(JOB, stamp=stamp("stop"))
        self.advance(25.0)
        assert isinstance(scheduler.observe(JOB), JobRunning)
        self.advance(10.0)
        assert scheduler.observe(JOB).exit_code == 137

    def test_the_end_waits_for_the_controller_of_jobs(self, scheduler):
        """While it is down, a suspended Job's pods go on."""
        self.started(scheduler)
        self.cluster.jobs.paused = True
        scheduler.stop(JOB, stamp=stamp("stop"))
        self.advance(60.0)
        assert isinstance(scheduler.observe(JOB), JobRunning)
        assert self.truly_runs()
        self.cluster.jobs.paused = False
        assert self.wait_ended(scheduler).exit_code == 0

    def test_a_job_that_is_released_and_stopped_at_once_ends_only_when_no_pod_can_come(self, scheduler):
        """Its status still says Suspended from before, while its first pod may be on its way."""

        def wait(where):
            self.advance(1.0 if where == "claimed" else 0.0)

        self.make(checkpoint=wait).start(self.spec(self.sleeps()), stamp=stamp())
        assert self.jobs()[0]["status"]["conditions"][0]["type"] == "Suspended"
        scheduler.stop(JOB, stamp=stamp("stop"))
        assert isinstance(scheduler.observe(JOB), JobRunning)
        ended = self.wait_ended(scheduler)
        assert ended.exit_code is None
        self.advance(60.0)
        assert not self.truly_runs()

    def test_a_conflict_in_between_is_looked_at_again(self, scheduler):
        """Somebody changes the Job between the look and the change: 409, and all is decided anew."""
        self.started(scheduler)
        name = self.jobs()[0]["metadata"]["name"]
        change = {"metadata": {"labels": {"touched": "yes"}}}
        self.cluster.strikes = [Strike(method="PATCH", part="/jobs", hook=lambda: self.cluster.store.patch("Job", SPACE, name, change))]
        scheduler.stop(JOB, stamp=stamp("stop"))
        assert self.cluster.store.get("Job", SPACE, name)["metadata"]["labels"]["touched"] == "yes"
        assert self.wait_ended(scheduler).exit_code == 0

    def test_J13_an_older_driver_whose_stop_comes_late_is_refused(self, scheduler):
        """Between its look and its change a newer driver asks for the same, and notes its epoch."""
        self.started(scheduler)
        newer = self.make()
        hook = Strike(method="PATCH", part="/jobs", hook=lambda: newer.stop(JOB, stamp=stamp("stop", epoch=2)))
        self.cluster.strikes = [hook]
        with pytest.raises(Conflict, match="epoch 1"):
            scheduler.stop(JOB, stamp=stamp("old-stop", epoch=1))

    # Jobs of others

    def test_a_job_by_hand_is_seen_stopped_and_not_started_beside(self, scheduler):
        self.cluster.store.create("Job", SPACE, by_hand("train"))
        self.advance(2.0)
        assert self.running(scheduler).restarts == 0
        with pytest.raises(Conflict, match="somebody else"):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        scheduler.stop(JOB, stamp=stamp("stop"))
        ended = self.wait_ended(scheduler)
        assert not self.truly_runs()
        assert self.make().observe(JOB) == ended
        scheduler.start(self.spec(self.sleeps()), stamp=stamp("again"))
        self.advance(2.0)
        assert self.running(scheduler) != ended.identity

    def test_a_lost_book_does_not_hide_a_job(self, scheduler):
        identity = self.started(scheduler)
        self.cluster.store.delete("ConfigMap", SPACE, BOOK, {})
        assert self.running(scheduler).native_id == identity.native_id
        with pytest.raises(Conflict):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp("another"))
        scheduler.kill(JOB, stamp=stamp("kill"))
        assert self.wait_ended(scheduler).identity.native_id == identity.native_id

    def test_a_namespace_belongs_to_one_site(self, scheduler):
        self.started(scheduler)
        book = self.cluster.store.get("ConfigMap", SPACE, BOOK)
        damaged = {"data": {"book.json": book["data"]["book.json"].replace("site-a", "site-b")}}
        self.cluster.store.patch("ConfigMap", SPACE, BOOK, damaged)
        with pytest.raises(Permanent, match="belongs to site site-b"):
            scheduler.observe(JOB)
        self.cluster.store.patch("ConfigMap", SPACE, BOOK, {"data": {"book.json": "{"}})
        with pytest.raises(Permanent, match="damaged"):
            scheduler.observe(JOB)

    # answers

    def test_lists_come_in_pages_and_an_expired_one_is_read_anew(self, scheduler):
        self.cluster.page = 1
        driver = self.make(jobs={"*": PodRequest(image="x", pods=3)})
        self.started(driver)
        touch = {"metadata": {"labels": {"touched": "yes"}}}
        hook = Strike(part="continue=", hook=lambda: self.cluster.store.patch("ConfigMap", SPACE, BOOK, touch))
        self.cluster.strikes = [hook]
        self.running(driver)
        assert any("continue=" in request for request in self.cluster.requests)
        self.cluster.strikes = [Strike(part="continue=", status=410, times=9)]
        with pytest.raises(Transient, match="changes faster"):
            driver.observe(JOB)

    @pytest.mark.parametrize("status", [500, 503, 429, 0])
    def test_J01_an_answer_that_says_nothing_is_cannot_tell(self, scheduler, status):
        self.started(scheduler)
        scheduler.observe(JOB)
        reads = len(self.cluster.requests)
        scheduler.observe(JOB)
        for number in range(len(self.cluster.requests) - reads):
            self.cluster.strikes = [Strike(method="GET", status=status, spare=number)]
            with pytest.raises(Transient):
                scheduler.observe(JOB)
        self.running(scheduler)

    def test_never_started_is_absent_only_by_the_word_of_an_api_server(self, scheduler):
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        self.cluster.strikes = [Strike(status=404, times=9)]
        with pytest.raises(Permanent, match="404"):
            scheduler.observe(JOB)
