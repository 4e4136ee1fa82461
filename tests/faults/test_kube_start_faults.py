"""What goes wrong while a job is started on Kubernetes: lost answers, dead and halted controllers. Never two executions."""

from __future__ import annotations

import threading

import pytest

from bridgehead.drivers.kubernetes import PodRequest
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient, Unknown
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import JobAbsent, JobRunning
from bridgehead.testing.kube_hooks import SPACE, KubeHooks
from bridgehead.testing.kube_server import Strike
from bridgehead.testing.scheduler_suite import JOB, stamp

REAL = "/jobs?fieldValidation"
"""Of the request that makes a Job; the one before it only asks what the server would make of it."""


class Died(BaseException):
    """The controller, at a planned place."""


class Halted:
    """A start in a thread that is halted at a checkpoint until it is told to go on."""

    def __init__(self, bed, place, *, step="start"):
        self._go_on, self._there = threading.Event(), threading.Event()
        self.outcome = None

        def halt(where):
            if where == place:
                self._there.set()
                assert self._go_on.wait(20)

        def start():
            try:
                self.outcome = bed.make(checkpoint=halt).start(bed.spec(bed.sleeps()), stamp=stamp(step))
            except (Conflict, Transient) as error:
                self.outcome = error

        self._thread = threading.Thread(target=start)
        self._thread.start()
        assert self._there.wait(20)

    def go_on(self):
        self._go_on.set()
        self._thread.join()
        return self.outcome


class TestStartFaults(KubeHooks):
    def started(self, **how):
        """Repeat a start until it is answered, as the engine does."""
        for _ in range(6):
            try:
                return self.make().start(self.spec(self.sleeps()), stamp=stamp(**how))
            except (Transient, Unknown):
                self.advance(1.0)
        raise AssertionError("it was not started in six tries")

    def only_one_ran(self):
        """Over all time one pod was made, and it runs."""
        self.advance(5.0)
        assert len(self.pods()) == 1
        assert len(self.cluster.nodes.environments) == 1

    @pytest.mark.parametrize("place", ["intended", "created", "claimed", "released"])
    def test_J15_a_controller_that_dies_in_a_start_leaves_one_job(self, scheduler, place):
        with pytest.raises(Died):
            self.make(checkpoint=lambda where: self.die_at(where, place)).start(self.spec(self.sleeps()), stamp=stamp())
        self.advance(5.0)
        identity = self.started(epoch=2)
        self.only_one_ran()
        assert self.running(scheduler) == identity
        assert len(self.jobs()) == 1

    @pytest.mark.parametrize(("status", "done"), [(0, True), (0, False), (500, True)])
    def test_whatever_answer_is_lost_one_job_runs(self, scheduler, status, done):
        """Each request of a start is hit once: its answer is lost, before or after the server did it."""
        scheduler.start(self.spec(self.sleeps()), stamp=stamp("count"))
        requests = len(self.cluster.requests)
        assert requests > 5
        scheduler.kill(JOB, stamp=stamp("kill"))
        self.wait_ended(scheduler)
        for number in range(requests):
            before = len(self.cluster.nodes.environments)
            self.cluster.strikes = [Strike(status=status, done=done, spare=number)]
            identity = self.started(step=f"try-{number}")
            self.cluster.strikes = []
            self.advance(1.0)
            assert self.running(scheduler) == identity, number
            assert len(self.cluster.nodes.environments) == before + 1, number
            scheduler.kill(JOB, stamp=stamp(f"kill-{number}"))
            self.wait_ended(scheduler)

    def test_a_lost_answer_to_create_is_looked_up_by_the_token(self, scheduler):
        self.cluster.strikes = [Strike(method="POST", part=REAL, done=True)]
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert [f"{SPACE}/{job['metadata']['uid']}" for job in self.jobs()] == [identity.native_id]
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp()) == identity
        self.only_one_ran()

    def test_a_create_that_was_not_done_is_unknown_and_repeated(self, scheduler):
        self.cluster.strikes = [Strike(method="POST", part=REAL, status=500)]
        with pytest.raises(Unknown, match="500"):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        self.only_one_ran()

    @pytest.mark.parametrize("place", ["intended", "created"])
    def test_what_nobody_claimed_was_never_started(self, scheduler, place):
        with pytest.raises(Died):
            self.make(checkpoint=lambda where: self.die_at(where, place)).start(self.spec(self.sleeps()), stamp=stamp())
        self.advance(30.0)
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        assert self.pods() == []

    @pytest.mark.parametrize("lost", [False, True])
    def test_what_was_claimed_is_released_by_whoever_looks(self, scheduler, lost):
        """A driver that takes over looks first, and would otherwise wait for ever for what nobody released."""
        with pytest.raises(Died):
            self.make(checkpoint=lambda where: self.die_at(where, "claimed")).start(self.spec(self.sleeps()), stamp=stamp())
        self.advance(30.0)
        assert self.pods() == []
        self.cluster.strikes = [Strike(method="PATCH", part="/jobs", done=True)] if lost else []
        identity = self.running(scheduler)
        self.advance(2.0)
        self.only_one_ran()
        assert self.running(scheduler) == identity
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp(epoch=2)) == identity
        self.only_one_ran()

    @staticmethod
    def die_at(where, place):
        if where == place:
            raise Died

    def test_429_is_not_done_and_says_when_to_come_again(self, scheduler):
        self.cluster.strikes = [Strike(method="POST", part="/jobs", status=429, retry_after_s=7)]
        with pytest.raises(Transient) as caught:
            scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert caught.value.retry_after_s == 7.0

    @pytest.mark.parametrize("place", ["intended", "created", "claimed"])
    def test_J13_a_halted_start_under_an_older_epoch_runs_nothing(self, scheduler, place):
        """Epoch 2 stops the job while epoch 1 is halted in the middle of its start."""
        halted = Halted(self, place)
        if place == "claimed":
            scheduler.stop(JOB, stamp=stamp("stop", epoch=2))
        else:
            with pytest.raises(NotFound):
                scheduler.stop(JOB, stamp=stamp("stop", epoch=2))
        outcome = halted.go_on()
        # Claimed and stopped before it was released: it is an execution, which has ended without beginning.
        assert isinstance(outcome, Conflict) or place == "claimed"
        self.advance(30.0)
        assert self.pods() == []
        assert not isinstance(scheduler.observe(JOB), JobRunning)

    @pytest.mark.parametrize("place", ["intended", "created", "claimed"])
    def test_J13_a_halted_start_is_refused_once_a_newer_epoch_was_seen_anywhere(self, scheduler, place):
        """The newer driver has not touched this job, only another one."""
        halted = Halted(self, place)
        other = JobName("other")
        identity = scheduler.start(self.spec(self.sleeps(), other), stamp=stamp("other", epoch=2))
        assert isinstance(halted.go_on(), Conflict)
        self.only_one_ran()
        assert self.running(scheduler, other) == identity

    def test_a_job_that_was_stopped_before_it_was_released_is_not_released(self, scheduler):
        halted = Halted(self, "claimed")
        scheduler.stop(JOB, stamp=stamp("stop"))
        identity = halted.go_on()
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp()) == identity
        self.advance(30.0)
        assert self.pods() == []
        assert scheduler.observe(JOB).identity == identity

    def test_a_job_that_somebody_suspended_is_not_released_by_a_repeated_start(self, scheduler):
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        self.advance(2.0)
        [job] = self.jobs()
        self.cluster.store.patch("Job", SPACE, job["metadata"]["name"], {"spec": {"suspend": True}})
        self.advance(2.0)
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp()) == identity
        self.advance(2.0)
        assert self.cluster.nodes.running(self.cluster.now_s) == []

    @pytest.mark.parametrize("place", ["intended", "created", "claimed"])
    def test_J13_a_halted_start_is_finished_by_the_next_driver_once(self, scheduler, place):
        halted = Halted(self, place)
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp(epoch=2))
        assert halted.go_on() == identity or isinstance(halted.outcome, Conflict)
        self.only_one_ran()
        assert self.running(scheduler) == identity

    @pytest.mark.parametrize("place", ["intended", "created"])
    def test_a_halted_start_under_another_key_loses_to_the_one_that_is_claimed(self, scheduler, place):
        halted = Halted(self, place, step="first")
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp("second"))
        assert isinstance(halted.go_on(), Conflict)
        self.only_one_ran()
        assert self.running(scheduler) == identity
        self.eventually(lambda: len(self.jobs()) == 1)

    def test_of_several_starts_at_once_one_wins(self):
        outcomes = []

        def start(number):
            try:
                outcomes.append(self.make().start(self.spec(self.sleeps()), stamp=stamp(f"start-{number}")))
            except (Conflict, Transient) as error:
                outcomes.append(error)

        threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([one for one in outcomes if not isinstance(one, Exception)]) == 1, outcomes
        self.only_one_ran()

    def test_what_the_server_refuses_leaves_nothing_behind(self, scheduler):
        scheduler.start(self.spec(self.exits(0)), stamp=stamp("before"))
        ended = self.wait_ended(scheduler)
        template = self.tmp / "template.yaml"
        template.write_text("spec: {containers: [{name: job, image: x, comand: [oops]}]}")
        wrong = self.make(jobs={"*": PodRequest(template=str(template))})
        with pytest.raises(Permanent, match="unknown field"):
            wrong.start(self.spec(self.sleeps()), stamp=stamp())
        assert scheduler.observe(JOB) == ended
        assert self.running(scheduler) if scheduler.start(self.spec(self.sleeps()), stamp=stamp()) else None

    @pytest.mark.parametrize("dropped", [("suspend",), ("podReplacementPolicy",), ("completionMode", "suspend", "podReplacementPolicy")])
    def test_a_server_that_drops_a_rule_of_a_job_runs_nothing(self, scheduler, dropped):
        """As one before 1.21 drops ``suspend`` without a word: the Job would run before its claim."""
        self.cluster.store.dropped = dropped
        with pytest.raises(Permanent, match=rf"does not keep .*spec\.{dropped[-1]}") as caught:
            scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert "1.29" in caught.value.remedy
        self.advance(30.0)
        assert self.jobs() == []
        assert self.pods() == []
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        self.cluster.store.dropped = ()
        scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        self.only_one_ran()

    @pytest.mark.parametrize("done", [False, True])
    def test_a_question_whose_answer_is_lost_has_made_nothing(self, scheduler, done):
        self.cluster.strikes = [Strike(method="POST", part="dryRun", done=done)]
        with pytest.raises(Transient):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert self.jobs() == []
        scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        self.only_one_ran()

    def test_names_that_kubernetes_does_not_know_are_names_here(self, scheduler):
        names = [JobName(name) for name in ("Train@1.5_a+b", "Train@1.5_a-b", "x" * 150)]
        identities = [scheduler.start(self.spec(self.sleeps(), name), stamp=stamp(f"start-{name}")) for name in names]
        self.advance(2.0)
        assert [self.running(scheduler, name) for name in names] == identities
        assert len({identity.native_id for identity in identities}) == 3

    def test_no_pattern_is_no_job(self, scheduler):
        with pytest.raises(Permanent, match="no pattern"):
            self.make(jobs={"other-*": PodRequest(image="x")}).start(self.spec(self.sleeps()), stamp=stamp())
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
