"""Jobs that are Deployments: scaled up once, over when no pod is left; halted and dead controllers, silent nodes."""

from __future__ import annotations

import threading

import pytest

from bridgehead.drivers.kubernetes import DeploymentRequest, PodRequest
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning, JobSpec
from bridgehead.testing.kube_hooks import SPACE, KubeHooks
from bridgehead.testing.kube_server import Strike
from bridgehead.testing.scheduler_suite import stamp

CHAT = JobName("chat")
SPEC = JobSpec(name=CHAT, command=())


class TestDeployments(KubeHooks):
    def options(self, **changes):
        deployments = {CHAT: DeploymentRequest("chat-server", replicas=3)}
        return super().options(**({"deployments": deployments} | changes))

    @pytest.fixture(autouse=True)
    def _deployment(self, _cluster):
        self.deploy(0)

    def deploy(self, replicas, command="sleeps"):
        pod = {"containers": [{"name": "server", "image": "x", "command": [command]}], "terminationGracePeriodSeconds": 5}
        template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
        document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat-server"}, "spec": spec}
        self.cluster.store.create("Deployment", SPACE, document)
        self.advance(2.0)

    def replicas(self):
        return self.cluster.store.get("Deployment", SPACE, "chat-server")["spec"]["replicas"]

    def scale_by_hand(self, replicas):
        self.cluster.store.patch("Deployment", SPACE, "chat-server", {"spec": {"replicas": replicas}})

    def ended(self, scheduler):
        return self.wait_ended(scheduler, CHAT)

    def test_it_is_scaled_up_ready_and_scaled_down(self, scheduler):
        assert scheduler.observe(CHAT) == JobAbsent(name=CHAT)
        identity = scheduler.start(SPEC, stamp=stamp())
        assert scheduler.observe(CHAT) == JobRunning(identity, "its controller")
        self.advance(0.15)
        assert scheduler.observe(CHAT).waiting_for == "0 of 3 replicas"
        self.advance(2.0)
        assert scheduler.observe(CHAT) == JobRunning(identity)
        assert len(self.cluster.nodes.running(self.cluster.now_s)) == 3
        assert scheduler.start(SPEC, stamp=stamp()) == identity
        scheduler.stop(CHAT, stamp=stamp("stop"))
        scheduler.stop(CHAT, stamp=stamp("stop"))
        assert isinstance(scheduler.observe(CHAT), JobRunning)
        ended = self.ended(scheduler)
        assert (ended.identity, ended.exit_code, self.replicas()) == (identity, None, 0)
        assert self.cluster.nodes.running(self.cluster.now_s) == []
        assert scheduler.start(SPEC, stamp=stamp()) == identity
        self.advance(2.0)
        assert (self.make().observe(CHAT), self.replicas()) == (ended, 0)

    def test_J12_another_key_is_another_execution(self, scheduler):
        first = scheduler.start(SPEC, stamp=stamp("first"))
        self.advance(2.0)
        with pytest.raises(Conflict):
            scheduler.start(SPEC, stamp=stamp("second"))
        scheduler.stop(CHAT, stamp=stamp("stop"))
        self.ended(scheduler)
        second = scheduler.start(SPEC, stamp=stamp("second"))
        assert second != first
        assert self.running(scheduler, CHAT) == second
        assert scheduler.start(SPEC, stamp=stamp("first")) == first
        assert self.running(scheduler, CHAT) == second

    def test_a_repeated_start_scales_nothing_up_that_was_stopped(self, scheduler):
        """Neither while it is ending, nor when the Deployment was made anew since."""
        identity = scheduler.start(SPEC, stamp=stamp())
        self.advance(2.0)
        scheduler.stop(CHAT, stamp=stamp("stop"))
        assert (scheduler.start(SPEC, stamp=stamp()), self.replicas()) == (identity, 0)
        ended = self.ended(scheduler)
        self.cluster.store.delete("Deployment", SPACE, "chat-server", {})
        self.deploy(0)
        assert (scheduler.start(SPEC, stamp=stamp()), self.replicas()) == (identity, 0)
        assert scheduler.observe(CHAT) == ended

    def test_kill_waits_for_no_grace(self, scheduler):
        self.cluster.store.delete("Deployment", SPACE, "chat-server", {})
        self.deploy(0, "ignores-stop")
        scheduler.start(SPEC, stamp=stamp())
        self.advance(2.0)
        scheduler.stop(CHAT, stamp=stamp("stop"))
        self.advance(1.0)
        assert isinstance(scheduler.observe(CHAT), JobRunning)
        scheduler.kill(CHAT, stamp=stamp("kill"))
        self.advance(2.0)
        assert isinstance(scheduler.observe(CHAT), JobEnded)

    def test_an_autoscaler_may_change_the_replicas(self, scheduler):
        identity = scheduler.start(SPEC, stamp=stamp())
        self.advance(2.0)
        self.scale_by_hand(5)
        self.advance(2.0)
        assert scheduler.start(SPEC, stamp=stamp()) == identity
        assert (self.replicas(), scheduler.observe(CHAT)) == (5, JobRunning(identity))

    def test_what_somebody_else_scaled_up_is_seen_stopped_and_not_started_beside(self, scheduler):
        self.scale_by_hand(2)
        self.advance(2.0)
        self.running(scheduler, CHAT)
        with pytest.raises(Conflict, match="replicas already"):
            scheduler.start(SPEC, stamp=stamp())
        scheduler.stop(CHAT, stamp=stamp("stop"))
        ended = self.ended(scheduler)
        self.scale_by_hand(1)
        self.advance(2.0)
        assert self.running(scheduler, CHAT) != ended.identity
        scheduler.kill(CHAT, stamp=stamp("kill"))
        self.ended(scheduler)

    def test_J01_a_silent_node_is_cannot_tell(self, scheduler):
        scheduler.start(SPEC, stamp=stamp())
        self.advance(2.0)
        node = self.pods()[0]["spec"]["nodeName"]
        self.cluster.nodes.silence(node, now_s=self.cluster.now_s)
        scheduler.kill(CHAT, stamp=stamp("kill"))
        self.advance(100.0)
        with pytest.raises(Transient, match=node):
            scheduler.observe(CHAT)
        with pytest.raises(Transient, match=node):
            scheduler.start(SPEC, stamp=stamp("again"))
        self.cluster.nodes.wake(node)
        self.ended(scheduler)

    def test_the_end_waits_for_the_controller(self, scheduler):
        """Before it has heard of anything there are no pods either."""
        self.cluster.deployments.paused = True
        scheduler.start(SPEC, stamp=stamp())
        scheduler.stop(CHAT, stamp=stamp("stop"))
        self.advance(60.0)
        assert isinstance(scheduler.observe(CHAT), JobRunning)
        self.cluster.deployments.paused = False
        self.ended(scheduler)

    @pytest.mark.parametrize(("status", "done"), [(0, True), (0, False), (500, False), (429, False)])
    def test_whatever_answer_is_lost_it_is_scaled_once(self, scheduler, status, done):
        scheduler.start(SPEC, stamp=stamp("count"))
        for number in range(len(self.cluster.requests)):
            scheduler.kill(CHAT, stamp=stamp(f"kill-{number}"))
            self.ended(scheduler)
            before = len(self.cluster.nodes.environments)
            self.cluster.strikes = [Strike(status=status, done=done, spare=number)]
            for _ in range(4):
                try:
                    identity = scheduler.start(SPEC, stamp=stamp(f"try-{number}"))
                    break
                except Transient:
                    self.advance(1.0)
            self.cluster.strikes = []
            self.advance(2.0)
            assert self.running(scheduler, CHAT) == identity
            assert len(self.cluster.nodes.environments) == before + 3

    def test_J13_a_start_that_is_halted_before_it_scales_comes_too_late(self, scheduler):
        """A newer driver asks for the end in between."""
        newer = self.make()
        hook = Strike(method="PATCH", part="/deployments", hook=lambda: newer.stop(CHAT, stamp=stamp("stop", epoch=2)))
        self.cluster.strikes = [hook]
        with pytest.raises(Conflict, match="epoch 1"):
            scheduler.start(SPEC, stamp=stamp())
        self.advance(5.0)
        assert (self.replicas(), self.pods()) == (0, [])

    def test_a_start_that_died_before_it_scaled_stands_in_nobodys_way(self, scheduler):
        self.cluster.strikes = [Strike(method="PATCH", part="/deployments", status=429)]
        with pytest.raises(Transient):
            scheduler.start(SPEC, stamp=stamp("first"))
        assert scheduler.observe(CHAT) == JobAbsent(name=CHAT)
        second = scheduler.start(SPEC, stamp=stamp("second"))
        assert self.running(scheduler, CHAT) == second

    def test_of_several_starts_at_once_one_wins(self):
        outcomes = []

        def start(number):
            try:
                outcomes.append(self.make().start(SPEC, stamp=stamp(f"start-{number}")))
            except (Conflict, Transient) as error:
                outcomes.append(error)

        threads = [threading.Thread(target=start, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({one for one in outcomes if not isinstance(one, Exception)}) >= 1
        self.advance(3.0)
        assert len(self.pods()) == 3

    def test_a_deployment_that_is_not_there(self, scheduler):
        self.cluster.store.delete("Deployment", SPACE, "chat-server", {})
        with pytest.raises(Permanent, match="there is no Deployment chat-server"):
            scheduler.start(SPEC, stamp=stamp())
        with pytest.raises(NotFound):
            scheduler.stop(CHAT, stamp=stamp("stop"))
        assert scheduler.observe(CHAT) == JobAbsent(name=CHAT)

    def test_a_deployment_that_vanishes_is_not_ended_without_record(self, scheduler):
        scheduler.start(SPEC, stamp=stamp())
        self.advance(2.0)
        self.cluster.store.delete("Deployment", SPACE, "chat-server", {})
        self.advance(60.0)
        with pytest.raises(Transient, match="no record tells its end") as caught:
            scheduler.observe(CHAT)
        note = caught.value.remedy.partition(" configmap ")[2].partition("`")[0].partition(" ")[2]
        key, _, uid = note.partition("=")
        self.cluster.store.patch("ConfigMap", SPACE, "bridgehead-site-a", {"metadata": {"annotations": {key: uid}}})
        assert isinstance(scheduler.observe(CHAT), JobEnded)

    def test_other_jobs_are_jobs(self, scheduler):
        driver = self.make(jobs={"*": PodRequest(image="x")})
        driver.start(self.spec(("exits", "0")), stamp=stamp())
        assert self.wait_ended(driver).exit_code == 0
