"""`bridgehead recover point` on a real trainer, real PostgreSQL and SQLite under writers: one moment over all of them (R10, R16)."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest

from bridgehead.drivers.postgres_backup.programs import program
from bridgehead.kernel.ids import SnapshotId
from bridgehead.testing.point_bed import PointBed, postgres, sqlite

pytestmark = pytest.mark.server("pg_ctlcluster")


def restored(server, dump: Path) -> str:
    """A new database with what is in the dump; its name."""
    url = server.new_database()
    done = subprocess.run([program("pg_restore"), "--exit-on-error", f"--dbname={url}", str(dump)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return url.rpartition("/")[2]


@pytest.fixture
def ledger(postgres_server):
    url = postgres_server.new_database()
    postgres_server.sql("CREATE TABLE steps (step bigint PRIMARY KEY)", database=url.rpartition("/")[2])
    return postgres("ledger", url)


@pytest.fixture
def registry(tmp_path: Path):
    with sqlite3.connect(tmp_path / "registry.db") as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY)")
    return sqlite("registry", tmp_path / "registry.db")


def test_R16_model_and_databases_are_of_one_step_and_come_back(tmp_path: Path, postgres_server, ledger, registry) -> None:
    with PointBed(tmp_path / "bed", databases=[ledger, registry]) as bed:
        came = bed.take()
        assert came["mode"] == "done"
        step = came["point"]["model_step"]
        bed.until(lambda: bed.step() > step, "the trainer to go on")
        assert came["pause_s"] < 2
        vault = bed.vault()
        to = tmp_path / "restored"
        vault.restore(SnapshotId(came["snapshot"]), to=to)
        assert vault.find(SnapshotId(came["point"]["model"])).step == step
    name = restored(postgres_server, to / "databases" / "ledger.dump")
    assert postgres_server.sql("SELECT max(step), count(*) FROM steps", database=name) == f"{step}|{step}"
    with sqlite3.connect(to / "databases" / "registry.sqlite") as db:
        assert db.execute("SELECT max(step), count(*) FROM steps").fetchone() == (step, step)
    assert not [path for path in (tmp_path / "bed" / "home" / "points").rglob("*") if path.is_file()]
