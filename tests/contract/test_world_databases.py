"""Simulated databases and hooks keep their ports' contracts, in virtual time."""

from __future__ import annotations

import contextlib

import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.databases import WorldHooks, WorldQuiesce
from bridgehead.model.recovery import Database, DatabaseEngine
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.databases import Application
from bridgehead.simulate.world import World
from bridgehead.testing.hooks_suite import SITE, HooksRig, HooksSuite, hook
from bridgehead.testing.quiesce_suite import QuiesceRig, QuiesceSuite


class Rig(QuiesceRig):
    def __init__(self):
        self.world = World(Blueprint(sites=(SITE,)))
        self.application = Application(("db",), rate_per_s=0.0)
        self.world.databases.applications.append(self.application)
        self.database = Database("ledger", DatabaseEngine.POSTGRES, "db")
        self.missing = Database("none", DatabaseEngine.POSTGRES, "none")
        self.calls = Calls(self.world)

    def driver(self):
        return WorldQuiesce(self.calls)

    def write(self):
        """The application has time for one transaction."""
        before = self.world.databases.written(self.application, self.world.now_s)
        self.application.rate_per_s = 100.0
        self.advance(0.0105)
        after = self.world.databases.written(self.application, self.world.now_s)
        self.application.rate_per_s, self.application.written = 0.0, float(after)
        assert after - before in (0, 1)
        return after > before

    @contextlib.contextmanager
    def writing(self):
        self.application.busy_until_s = self.world.now_s + 100.0
        yield
        self.application.busy_until_s = 0.0
        self.application.written += 1

    def rows(self, copied):
        return self.world.databases.pinned[copied.file]

    def advance(self, seconds_s):
        self.world.timeline.run_until(self.world.now_s + seconds_s)


class TestWorldQuiesce(QuiesceSuite):
    @pytest.fixture
    def rig(self):
        return Rig()


class HookRig(HooksRig):
    def __init__(self):
        self.world = World(Blueprint(sites=(SITE,)))
        self.hooks = WorldHooks(Calls(self.world), failing={"thaw": "it ended with 1"})

    def driver(self):
        return self.hooks

    def well(self, name):
        return hook(name, "x")

    failing = well

    def slow(self, name):
        return hook(name, "x", timeout_s=0.3)

    def begun(self, name):
        return self.hooks.begun.count(name)

    def advance(self, seconds_s):
        self.world.timeline.run_until(self.world.now_s + seconds_s)


class TestWorldHooks(HooksSuite):
    @pytest.fixture
    def rig(self):
        return HookRig()
