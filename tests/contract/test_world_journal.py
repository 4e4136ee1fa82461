"""The journal in memory keeps the port's contract."""

from __future__ import annotations

import pytest

from bridgehead.drivers.world import WorldJournal, WorldSigner
from bridgehead.testing.journal_suite import JournalRig, JournalSuite


class Rig(JournalRig):
    def __init__(self):
        self.dead = []
        self.full = False
        self.kept = WorldJournal(alive=lambda driver: driver not in self.dead, no_space=lambda: self.full)

    def journal(self):
        return self.kept

    def verifier(self):
        return WorldSigner()

    def die(self, driver):
        self.dead.append(driver)

    def fill(self):
        self.full = True


class TestWorldJournal(JournalSuite):
    @pytest.fixture
    def rig(self):
        return Rig()
