"""Conformance suite of the scheduler port (P3; J01, J02, J12, J13). A driver inherits the class and fills in the hooks.

Usable under real and under virtual time: the suite never sleeps by itself, it calls :meth:`SchedulerSuite.advance`.
Call ``pytest.register_assert_rewrite("bridgehead.testing.scheduler_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobIdentity, JobRunning, JobSpec, Scheduler

JOB = JobName("train")


class Family(NamedTuple):
    """A job with a child.

    Attributes:
        command: starts a child that runs for minutes; see the two methods of the suite for what the leader does then.
        living: how many processes of it are alive, leader and child, seen past the scheduler.
    """

    command: tuple[str, ...]
    living: Callable[[], int]


def stamp(step: str = "start", *, run: str = "run-1", attempt: int = 1, epoch: int = 1) -> Stamp:
    """A stamp whose key is ``run/step``."""
    return Stamp(run=RunId(run), step=StepId(step), attempt=attempt, epoch=Epoch(epoch))


class SchedulerHooks:
    """What a driver fills in, and how the suite lets time pass; also of use for further tests of the driver's own.

    ``None`` from an optional hook skips its tests, with the reason.
    """

    site = SiteId("site-a")

    @pytest.fixture
    def scheduler(self) -> Scheduler:
        """A scheduler of ``self.site`` that has never started a job; its teardown ends what the test started."""
        raise NotImplementedError

    def sleeps(self) -> tuple[str, ...]:
        """A command that runs for minutes and exits with code 0 soon after it is asked to stop."""
        raise NotImplementedError

    def ignores_stop(self) -> tuple[str, ...]:
        """A command that runs for minutes, whoever asks it to stop."""
        raise NotImplementedError

    def exits(self, code: int) -> tuple[str, ...]:
        """A command that exits with ``code`` at once."""
        raise NotImplementedError

    def cannot_execute(self) -> tuple[str, ...]:
        """A command that the site cannot execute."""
        raise NotImplementedError

    def waits_for_child(self) -> Family | None:
        """A family whose leader runs as long as its child. Optional."""
        return None

    def leaves_child(self) -> Family | None:
        """A family whose leader exits with code 0 once the child runs. Optional."""
        return None

    def listens(self, scheduler: Scheduler, name: JobName) -> bool:
        """Whether the job has come so far that it handles a request to stop as its command promises."""
        return True

    def reopened(self, scheduler: Scheduler) -> Scheduler:
        """Another controller's view of the same site, as after a crash of the first one; it shares no memory with ``scheduler``."""
        raise NotImplementedError

    def blinded(self, scheduler: Scheduler) -> AbstractContextManager[None]:
        """Inside of it the site cannot be seen: partition, unreadable state."""
        raise NotImplementedError

    def advance(self, seconds_s: float) -> None:
        """Let time pass."""
        time.sleep(seconds_s)

    def eventually(self, predicate: Callable[[], bool], *, within_s: float = 20.0, step_s: float = 0.02) -> None:
        """Let time pass until ``predicate`` holds; an assertion fails when it does not within ``within_s``."""
        passed_s = 0.0
        while not predicate():
            assert passed_s < within_s, f"did not happen within {within_s} s"
            self.advance(step_s)
            passed_s += step_s

    def spec(self, command: tuple[str, ...], name: JobName = JOB) -> JobSpec:
        """A job with this command; override when the site needs more."""
        return JobSpec(name=name, command=command)

    def wait_ended(self, scheduler: Scheduler, name: JobName = JOB) -> JobEnded:
        """Let time pass until the job has ended. "Cannot tell just now" is no answer, and is asked again."""
        ended: list[JobEnded] = []

        def has_ended() -> bool:
            try:
                state = scheduler.observe(name)
            except Transient:
                return False
            ended.extend([state] if isinstance(state, JobEnded) else [])
            return bool(ended)

        self.eventually(has_ended)
        return ended[0]

    def running(self, scheduler: Scheduler, name: JobName = JOB) -> JobIdentity:
        """Assert that the job runs, and say which execution."""
        state = scheduler.observe(name)
        assert isinstance(state, JobRunning), f"not running: {state}"
        return state.identity


class SchedulerSuite(SchedulerHooks):
    """What every scheduler must do: inherit from it and override the fixture and the hooks."""

    # start and observe

    def test_a_job_that_was_never_started_is_absent(self, scheduler: Scheduler) -> None:
        """Positive evidence, not an error."""
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)

    def test_J12_a_started_job_runs_under_the_identity_that_start_returned(self, scheduler: Scheduler) -> None:
        """The identity names site and job."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert (identity.site, identity.name) == (self.site, JOB)
        assert self.running(scheduler) == identity

    def test_repeating_a_start_changes_nothing(self, scheduler: Scheduler) -> None:
        """Same key: the same execution, also for a later attempt and a newer driver."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp()) == identity
        assert scheduler.start(self.spec(self.sleeps()), stamp=stamp(attempt=2, epoch=2)) == identity
        assert self.running(scheduler) == identity

    def test_a_live_job_refuses_another_key(self, scheduler: Scheduler) -> None:
        """Never two jobs of one name."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp("first"))
        with pytest.raises(Conflict):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp("second"))
        assert self.running(scheduler) == identity

    def test_repeating_the_start_of_an_ended_job_does_not_run_it_again(self, scheduler: Scheduler) -> None:
        """The answer to the first start may have been lost."""
        identity = scheduler.start(self.spec(self.exits(0)), stamp=stamp())
        ended = self.wait_ended(scheduler)
        assert scheduler.start(self.spec(self.exits(0)), stamp=stamp()) == identity
        assert scheduler.observe(JOB) == ended

    def test_J12_another_key_starts_an_ended_job_again_as_another_execution(self, scheduler: Scheduler) -> None:
        """And the first key still names the first execution."""
        first = scheduler.start(self.spec(self.exits(0)), stamp=stamp("first"))
        self.wait_ended(scheduler)
        self.advance(0.02)
        second = scheduler.start(self.spec(self.sleeps()), stamp=stamp("second"))
        assert second != first
        assert self.running(scheduler) == second
        assert scheduler.start(self.spec(self.exits(0)), stamp=stamp("first")) == first
        assert self.running(scheduler) == second

    def test_jobs_of_different_names_live_side_by_side(self, scheduler: Scheduler) -> None:
        """One run may start several."""
        names = [JobName("a"), JobName("b")]
        identities = [scheduler.start(self.spec(self.sleeps(), name), stamp=stamp(f"start-{name}")) for name in names]
        assert [self.running(scheduler, name) for name in names] == identities
        scheduler.kill(names[0], stamp=stamp("kill"))
        self.wait_ended(scheduler, names[0])
        assert self.running(scheduler, names[1]) == identities[1]

    @pytest.mark.parametrize("code", [0, 3])
    def test_the_exit_code_is_collected(self, scheduler: Scheduler, code: int) -> None:
        """Together with the identity."""
        identity = scheduler.start(self.spec(self.exits(code)), stamp=stamp())
        ended = self.wait_ended(scheduler)
        assert (ended.identity, ended.exit_code) == (identity, code)
        assert ended.ended_s is not None
        assert ended.ended_s >= identity.submitted_s

    def test_J02_the_end_is_told_the_same_for_ever(self, scheduler: Scheduler) -> None:
        """A terminal state is never overwritten, whoever asks."""
        scheduler.start(self.spec(self.exits(3)), stamp=stamp())
        ended = self.wait_ended(scheduler)
        self.advance(0.1)
        assert scheduler.observe(JOB) == ended
        assert self.reopened(scheduler).observe(JOB) == ended

    def test_a_command_that_cannot_be_executed_is_refused(self, scheduler: Scheduler) -> None:
        """For good, and nothing was started: the same key may start the right command."""
        with pytest.raises(Permanent):
            scheduler.start(self.spec(self.cannot_execute()), stamp=stamp())
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        assert self.running(scheduler) == identity

    # stop and kill

    def test_a_stopped_job_ends_gracefully(self, scheduler: Scheduler) -> None:
        """It was asked, and could finish its work."""
        scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        self.eventually(lambda: self.listens(scheduler, JOB))
        scheduler.stop(JOB, stamp=stamp("stop"))
        assert self.wait_ended(scheduler).exit_code == 0

    def test_a_job_that_ignores_the_request_is_killed(self, scheduler: Scheduler) -> None:
        """Stop only asks, and may be repeated; kill ends."""
        identity = scheduler.start(self.spec(self.ignores_stop()), stamp=stamp())
        self.eventually(lambda: self.listens(scheduler, JOB))
        scheduler.stop(JOB, stamp=stamp("stop"))
        scheduler.stop(JOB, stamp=stamp("stop"))
        self.advance(0.3)
        assert self.running(scheduler) == identity
        scheduler.kill(JOB, stamp=stamp("kill"))
        assert self.wait_ended(scheduler).exit_code != 0

    def test_kill_takes_the_children_too(self, scheduler: Scheduler) -> None:
        """Nothing of the job may go on writing."""
        family = self.waits_for_child()
        if family is None:
            pytest.skip("this driver's suite offers no job with children")
        scheduler.start(self.spec(family.command), stamp=stamp())
        self.eventually(lambda: family.living() == 2)
        scheduler.kill(JOB, stamp=stamp("kill"))
        self.eventually(lambda: family.living() == 0)
        self.wait_ended(scheduler)

    def test_a_job_whose_child_outlives_it_has_not_ended(self, scheduler: Scheduler) -> None:
        """And kill finds the child."""
        family = self.leaves_child()
        if family is None:
            pytest.skip("this driver's suite offers no job that leaves a child behind")
        identity = scheduler.start(self.spec(family.command), stamp=stamp())
        self.eventually(lambda: family.living() == 1)
        self.advance(0.3)
        assert self.running(scheduler) == identity
        scheduler.kill(JOB, stamp=stamp("kill"))
        self.eventually(lambda: family.living() == 0)
        assert self.wait_ended(scheduler).exit_code == 0

    def test_ending_an_ended_job_has_no_effect(self, scheduler: Scheduler) -> None:
        """Neither by stop nor by kill."""
        scheduler.start(self.spec(self.exits(3)), stamp=stamp())
        ended = self.wait_ended(scheduler)
        scheduler.stop(JOB, stamp=stamp("stop"))
        scheduler.kill(JOB, stamp=stamp("kill"))
        assert scheduler.observe(JOB) == ended

    def test_ending_an_absent_job_is_an_error(self, scheduler: Scheduler) -> None:
        """A name that nobody knows is most likely wrong."""
        with pytest.raises(NotFound):
            scheduler.stop(JOB, stamp=stamp("stop"))
        with pytest.raises(NotFound):
            scheduler.kill(JOB, stamp=stamp("kill"))
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)

    # epochs, crashes, blindness

    def test_J13_an_older_epoch_is_refused(self, scheduler: Scheduler) -> None:
        """A driver that was replaced starts and ends nothing."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp(epoch=5))
        with pytest.raises(Conflict):
            scheduler.start(self.spec(self.sleeps(), JobName("other")), stamp=stamp("other", epoch=4))
        with pytest.raises(Conflict):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp(epoch=4))
        with pytest.raises(Conflict):
            scheduler.stop(JOB, stamp=stamp("stop", epoch=4))
        with pytest.raises(Conflict):
            scheduler.kill(JOB, stamp=stamp("kill", epoch=4))
        self.advance(0.1)
        assert scheduler.observe(JobName("other")) == JobAbsent(name=JobName("other"))
        assert self.running(scheduler) == identity

    def test_J13_epochs_of_different_runs_do_not_compare(self, scheduler: Scheduler) -> None:
        """They count per run."""
        scheduler.start(self.spec(self.sleeps()), stamp=stamp(run="run-1", epoch=5))
        other = JobName("other")
        assert scheduler.start(self.spec(self.sleeps(), other), stamp=stamp(run="run-2", epoch=1)) == self.running(scheduler, other)

    def test_J02_another_controller_adopts_the_job(self, scheduler: Scheduler) -> None:
        """It sees the same execution, repeats the start without effect, knows the newest epoch, and can end the job."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp(epoch=2))
        second = self.reopened(scheduler)
        assert self.running(second) == identity
        assert second.start(self.spec(self.sleeps()), stamp=stamp(epoch=2)) == identity
        with pytest.raises(Conflict):
            second.stop(JOB, stamp=stamp("stop", epoch=1))
        self.eventually(lambda: self.listens(second, JOB))
        second.stop(JOB, stamp=stamp("stop", epoch=3))
        assert self.wait_ended(second).exit_code == 0
        with pytest.raises(Conflict):
            scheduler.start(self.spec(self.sleeps()), stamp=stamp("again", epoch=2))

    def test_J01_a_site_that_cannot_be_seen_is_not_an_absent_job(self, scheduler: Scheduler) -> None:
        """And the job is the same when the site is seen again."""
        identity = scheduler.start(self.spec(self.sleeps()), stamp=stamp())
        with self.blinded(scheduler):
            for name in (JOB, JobName("never-started")):
                with pytest.raises(Transient):
                    scheduler.observe(name)
        assert self.running(scheduler) == identity
