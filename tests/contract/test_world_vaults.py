"""Simulated vaults keep the port's contract, in virtual time."""

from __future__ import annotations

import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.vaults import WorldVaults
from bridgehead.kernel.ids import Epoch
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.vault import HeldSnapshot, snapshot_id
from bridgehead.simulate.world import World
from bridgehead.testing.vaults_suite import VaultsSuite


class TestWorldVaults(VaultsSuite):
    @pytest.fixture
    def vaults(self):
        self.world = World(Blueprint(sites=(self.source, self.target)))
        return WorldVaults(Calls(self.world))

    def write(self, vaults, site, *, step, epoch):
        identity = snapshot_id(self.workload, step, Epoch(epoch))
        held = HeldSnapshot(identity, self.workload, step, Epoch(epoch), site, self.world.now_s, 40_000_000, whole=True)
        self.world.vaults[site].put(held)
        return identity

    def pass_time(self, vaults, seconds):
        self.world.timeline.run_until(self.world.now_s + seconds)

    def damage(self, vaults, snapshot, site):
        self.world.vaults[site].held[snapshot].whole = False
        return True
