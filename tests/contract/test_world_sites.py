"""Simulated schedulers and training controls keep their ports' contracts, in virtual time."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.sites import WorldScheduler, WorldTrainingControl
from bridgehead.kernel.ids import SiteId
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.world import World
from bridgehead.testing.scheduler_suite import SchedulerSuite
from bridgehead.testing.training_suite import TrainingControlSuite

SITE = SiteId("site-a")


class TestWorldScheduler(SchedulerSuite):
    site = SITE

    @pytest.fixture
    def scheduler(self):
        self.world = World(Blueprint(sites=(SITE,)))
        return WorldScheduler(SITE, Calls(self.world))

    def sleeps(self):
        return ("sleeps",)

    def ignores_stop(self):
        return ("ignores-stop",)

    def exits(self, code):
        return ("exits", str(code))

    def cannot_execute(self):
        return ("cannot-execute",)

    def reopened(self, scheduler):
        return WorldScheduler(SITE, Calls(self.world))

    @contextmanager
    def blinded(self, scheduler):
        self.world.network.cut_off(SITE)
        yield
        self.world.network.join(SITE)

    def advance(self, seconds_s):
        self.world.timeline.run_until(self.world.now_s + seconds_s)


class TestWorldTrainingControl(TrainingControlSuite):
    @pytest.fixture
    def control(self):
        self.world = World(Blueprint(sites=(SITE,)))
        self.desk = self.world.desks[SITE]
        return WorldTrainingControl(SITE, Calls(self.world))

    def report(self, control, job, progress):
        self.desk.reports[job] = progress

    def received(self, control, job):
        return self.desk.orders.get(job)

    def tear_report(self, control, job):
        self.desk.reports[job] = None

    def reopened(self, control):
        return WorldTrainingControl(SITE, Calls(self.world))

    @contextmanager
    def blinded(self, control):
        self.world.network.cut_off(SITE)
        yield
        self.world.network.join(SITE)

    def advance(self, seconds_s):
        self.world.timeline.run_until(self.world.now_s + seconds_s)
