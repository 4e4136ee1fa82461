"""SQLite is held and copied as the quiesce port wants it, in both kinds of journal (R16)."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time

import pytest

from bridgehead.drivers.sqlite_backup import SqliteQuiesce
from bridgehead.kernel.errors import Permanent
from bridgehead.model.recovery import Database, DatabaseEngine
from bridgehead.testing.quiesce_suite import KEY, QuiesceRig, QuiesceSuite


class Rig(QuiesceRig):
    def __init__(self, folder, mode):
        self.path = folder / "odd name?#%41.db"
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
            db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
            db.commit()
        self.database = Database("registry", DatabaseEngine.SQLITE, str(self.path))
        self.missing = Database("none", DatabaseEngine.SQLITE, str(folder / "none.db"))

    def driver(self):
        return SqliteQuiesce()

    def made(self):
        return f"""
from bridgehead.drivers.sqlite_backup import SqliteQuiesce
from bridgehead.model.recovery import Database, DatabaseEngine
driver, database = SqliteQuiesce(), Database("registry", DatabaseEngine.SQLITE, {str(self.path)!r})
"""

    def write(self):
        with contextlib.closing(sqlite3.connect(self.path, timeout=0.05)) as db:
            try:
                with db:
                    db.execute("INSERT INTO rows DEFAULT VALUES")
            except sqlite3.OperationalError:
                return False
        return True

    @contextlib.contextmanager
    def writing(self):
        with contextlib.closing(sqlite3.connect(self.path)) as db, db:
            db.execute("INSERT INTO rows DEFAULT VALUES")
            yield

    def rows(self, copied):
        with contextlib.closing(sqlite3.connect(copied.file)) as db:
            return db.execute("SELECT count(*) FROM rows").fetchone()[0]


class TestSqliteQuiesce(QuiesceSuite):
    @pytest.fixture(params=["WAL", "DELETE"])
    def rig(self, tmp_path, request):
        return Rig(tmp_path, request.param)

    def test_a_child_that_is_killed_ends_the_hold(self, rig, folder) -> None:
        driver = rig.driver()
        self.held(rig, driver, folder)
        (child,) = driver._holds.values()
        os.kill(child._process.pid, signal.SIGKILL)
        end_s = time.monotonic() + 5
        while not rig.write():
            assert time.monotonic() < end_s
        assert not driver.release(rig.database, key=KEY).intact

    def test_what_is_no_database_is_refused(self, rig, folder) -> None:
        rig.path.write_bytes(b"no database" * 1000)
        with pytest.raises(Permanent):
            rig.driver().check(rig.database)
        with pytest.raises(Permanent):
            rig.driver().hold(rig.database, key=KEY, folder=folder, wait_s=0.2, lasts_s=5.0)
