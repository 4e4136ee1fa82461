"""The SQLite journal keeps the port's contract."""

from __future__ import annotations

import resource

import pytest

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.journal_suite import JournalRig, JournalSuite


class Rig(JournalRig):
    def __init__(self, folder):
        self.folder = folder
        self.dead = []
        self.opened = []

    def journal(self):
        keys = KeyFolder(self.folder / "keys")
        self.opened.append(SqliteJournal(self.folder / "journal.db", signer=keys, alive=lambda driver: driver not in self.dead))
        return self.opened[-1]

    def verifier(self):
        return KeyFolder(self.folder / "keys")

    def die(self, driver):
        self.dead.append(driver)

    def fill(self):
        """The kernel refuses to let any file of this process grow; SIGXFSZ is ignored by Python, so that the write fails."""
        largest = max(path.stat().st_size for path in self.folder.glob("journal.db*"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 100_000, resource.RLIM_INFINITY))


class TestSqliteJournal(JournalSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        rig = Rig(tmp_path)
        yield rig
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        for journal in rig.opened:
            journal.close()
