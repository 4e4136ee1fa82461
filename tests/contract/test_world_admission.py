"""The doors of simulated sites keep the admission port's contract, in virtual time."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.admission import WorldAdmission
from bridgehead.drivers.world.sites import WorldScheduler
from bridgehead.kernel.ids import SiteId
from bridgehead.ports.scheduler import JobEnded, JobRunning, JobSpec
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.world import World
from bridgehead.testing.admission_suite import JOB, AdmissionRig, AdmissionSuite
from bridgehead.testing.scheduler_suite import stamp

SITE = SiteId("site-a")


class WorldRig(AdmissionRig):
    def __init__(self):
        self.world = World(Blueprint(sites=(SITE,)))
        self.scheduler = WorldScheduler(SITE, Calls(self.world))

    def driver(self):
        return WorldAdmission(SITE, Calls(self.world))

    def submit(self, name):
        self.scheduler.start(JobSpec(name, ("sleeps",)), stamp=stamp(f"start-{name}"))

    def begun(self, name):
        job = self.world.newest(SITE, name)
        return job is not None and job.running and not job.waiting

    def end(self, name):
        self.world.stop(SITE, name)

    def close_by_hand(self, node, reason):
        self.world.doors_of(SITE).drain((node,), reason, here=False)

    @contextmanager
    def blinded(self):
        self.world.network.cut_off(SITE)
        yield
        self.world.network.join(SITE)

    def advance(self, seconds_s):
        self.world.timeline.run_until(self.world.now_s + seconds_s)


class TestWorldAdmission(AdmissionSuite):
    @pytest.fixture
    def rig(self):
        return WorldRig()

    def test_a_job_that_waits_is_seen_so_and_can_be_cancelled(self, rig):
        driver = rig.driver()
        driver.drain(rig.both, reason="move", stamp=stamp("drain"))
        rig.submit(JOB)
        state = rig.scheduler.observe(JOB)
        assert isinstance(state, JobRunning)
        assert state.waiting_for
        rig.scheduler.stop(JOB, stamp=stamp("stop"))
        ended = rig.scheduler.observe(JOB)
        assert isinstance(ended, JobEnded)
        assert (ended.exit_code, driver.queue(JOB)) == (None, ())
        driver.resume(rig.both, stamp=stamp("resume"))
        assert not rig.begun(JOB)
