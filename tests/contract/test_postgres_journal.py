"""The PostgreSQL journal keeps the port's contract, on a real server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from bridgehead.drivers.postgres import PostgresJournal
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.journal_suite import JournalRig, JournalSuite

pytestmark = pytest.mark.server("pg_ctlcluster")


class Rig(JournalRig):
    def __init__(self, server, folder):
        self.server = server
        self.folder = folder
        self.url = server.new_database()
        self.database = self.url.rpartition("/")[2]
        self.opened = []
        self.small = None

    def journal(self):
        self.opened.append(PostgresJournal(self.url, signer=KeyFolder(self.folder / "keys")))
        return self.opened[-1]

    def verifier(self):
        return KeyFolder(self.folder / "keys")

    def die(self, driver):
        """As if the server had not heard of it for longer than any lease."""
        self.server.sql(f"UPDATE bridgehead.leases SET seen = '-infinity' WHERE pid = {driver.pid}", database=self.database)

    def on_a_small_disk(self):
        """The tables of this database lie on a file system of their own; False where nobody may make one."""
        if os.geteuid() != 0:
            return False
        self.small = Path(tempfile.mkdtemp(prefix="bridgehead-small-"))
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(self.small)], capture_output=True, check=False)
        if done.returncode:
            self.small.rmdir()
            self.small = None
            return False
        place = self.small / "tables"
        place.mkdir()
        shutil.chown(place, "nobody", "nogroup")
        self.server.sql(f"CREATE TABLESPACE {self.database} LOCATION '{place}'")
        self.server.sql(f"ALTER DATABASE {self.database} SET default_tablespace = {self.database}")
        return True

    def fill(self):
        with contextlib.suppress(OSError), open(self.small / "filler", "wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass

    def close(self):
        for journal in self.opened:
            journal.close()
        self.server.sql(f"DROP DATABASE {self.database} WITH (FORCE)")
        if self.small is not None:
            self.server.sql(f"DROP TABLESPACE {self.database}")
            subprocess.run(["umount", str(self.small)], check=True)
            self.small.rmdir()


class TestPostgresJournal(JournalSuite):
    @pytest.fixture
    def rig(self, postgres_server, tmp_path, request):
        rig = Rig(postgres_server, tmp_path)
        try:
            if request.node.name == "test_no_space_is_permanent_and_nothing_was_written" and not rig.on_a_small_disk():
                pytest.skip("nobody here may mount a small disk")
            yield rig
        finally:
            rig.close()
