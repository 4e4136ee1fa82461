"""`bridgehead recover point` on a real trainer, real PostgreSQL and SQLite under writers: one moment over all of them (R10, R16)."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.home import Home
from bridgehead.app.recover_point import outcome_of_point
from bridgehead.app.vault_checkout import Standing, check_out
from bridgehead.drivers.postgres_backup.programs import program
from bridgehead.kernel.ids import RunId, SnapshotId
from bridgehead.model.recovery import Capture, Hook, HookPoint
from bridgehead.testing.bank import Bank
from bridgehead.testing.point_bed import PointBed, postgres, sqlite

HELD = "SELECT count(*) FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation = 'steps'::regclass"
pytestmark = pytest.mark.server("pg_ctlcluster")


def restored(server, dump: Path) -> str:
    """A new database with what is in the dump; its name."""
    url = server.new_database()
    done = subprocess.run([program("pg_restore"), "--exit-on-error", f"--dbname={url}", str(dump)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return url.rpartition("/")[2]


def repository(folder: Path) -> Path:
    """One commit, and a change that is not committed."""
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    (folder / "train.py").write_text("print(2)\n")
    return folder


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
    code = repository(tmp_path / "code")
    capture = Capture(str(code), data=str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "corpus.txt").write_text("one corpus")
    with PointBed(tmp_path / "bed", databases=[ledger, registry], capture=capture) as bed:
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
    (code / "train.py").write_text("print(3)\n")
    parts = {
        part.what: part for part in check_out(vault, vault.snapshot(SnapshotId(came["snapshot"])), to=tmp_path / "out", data=None).parts
    }
    assert parts["code"].standing is parts["data"].standing is Standing.RESTORED
    assert (tmp_path / "out" / "code" / "train.py").read_text() == "print(2)\n"


def test_R16_all_ranks_of_a_job_stand_at_one_step(tmp_path: Path, postgres_server, ledger) -> None:
    """Each rank saves its own share and writes to the database itself: nobody is ahead in the point, nobody lacks in the snapshot."""
    with PointBed(tmp_path / "bed", databases=[ledger], ranks=3) as bed:
        came = bed.take()
        step = came["point"]["model_step"]
        bed.until(lambda: bed.step() > step, "the trainer to go on")
        vault = bed.vault()
        model = vault.load(SnapshotId(came["point"]["model"]))
        assert model == {f"rank-{number}": str(step).encode() for number in (1, 2, 3)}
        vault.restore(SnapshotId(came["snapshot"]), to=tmp_path / "restored")
    name = restored(postgres_server, tmp_path / "restored" / "databases" / "ledger.dump")
    assert postgres_server.sql("SELECT max(step), count(*) FROM steps", database=name) == f"{step * 100 + 3}|{step * 3}"


def outcome(bed: PointBed, run: str) -> dict:
    """As ``--json`` shows it."""
    return msgspec.to_builtins(outcome_of_point(Home(bed.home), RunId(run)))


def kept(bed: PointBed, came: dict, to: Path) -> Path:
    """The files of a point."""
    bed.vault().restore(SnapshotId(came["snapshot"]), to=to)
    return to


def of(server, dump: Path) -> tuple[int, int]:
    """Sum of accounts, and of moves, in a copy of a bank's database."""
    name = restored(server, dump)
    query = "SELECT (SELECT sum(amount) FROM accounts), (SELECT coalesce(sum(amount), 0) FROM moves)"
    return tuple(int(text) for text in server.sql(query, database=name).split("|"))


@pytest.mark.parametrize("both_ways", [False, True])
def test_R16_the_sum_over_two_databases_is_right_in_every_point(tmp_path: Path, postgres_server, both_ways) -> None:
    """Also of writers that go through the databases in both orders: there all are held or none."""
    urls = postgres_server.new_database(), postgres_server.new_database()
    bank = Bank(urls, both_ways=both_ways, pause_s=0.02 if both_ways else 0.01)
    databases = [postgres("left", urls[0]), postgres("right", urls[1])]
    with PointBed(tmp_path / "bed", databases=databases, trains=False) as bed, bank:
        came = [bed.take("--name", f"p{number}") for number in range(1 if both_ways else 2)]
        assert bank.transfers > 20
    assert not bank.trouble
    assert bank.longest_s < 5
    for number, one in enumerate(came):
        to = kept(bed, one, tmp_path / f"restored-{number}")
        (left, moved_left), (right, moved_right) = (of(postgres_server, to / "databases" / f"{name}.dump") for name in ("left", "right"))
        assert left + right == bank.total
        assert moved_left + moved_right == 0
        assert moved_right > 0
        assert one["point"]["model"] is None


def test_a_point_killed_while_it_holds_leaves_nothing_held_and_the_run_goes_on(tmp_path: Path, postgres_server, ledger) -> None:
    """kill -9 of the controller while all stands still: databases are free at once, the resumed run takes the point, hooks come to their
    end."""
    marks, other = tmp_path / "marks", tmp_path / "other.db"
    pre = Hook("freeze", HookPoint.BEFORE_SNAPSHOT, ("sh", "-c", f"echo freeze >> {marks}"))
    post = Hook("thaw", HookPoint.AFTER_SNAPSHOT, ("sh", "-c", f"echo thaw >> {marks}"))
    name = ledger.location.rpartition("/")[2]
    with (
        sqlite3.connect(other, isolation_level=None) as blocker,
        PointBed(tmp_path / "bed", databases=[ledger], others=[sqlite("other", other)], hooks=[pre, post]) as bed,
    ):
        blocker.execute("CREATE TABLE t (id)")
        # A writer of the other database makes the point wait while it holds the first.
        blocker.execute("BEGIN IMMEDIATE")
        process = bed.start("--name", "p")
        try:
            bed.until(lambda: bed.report()["state"] == "holding", "the trainer to hold")
            bed.until(lambda: "pin" in bed.log(), "the databases to be held")
        finally:
            process.kill()
            process.wait()
        killed_s = time.monotonic()
        bed.until(lambda: postgres_server.sql(HELD, database=name) == "0", "the first database to be free", timeout_s=5.0)
        assert time.monotonic() - killed_s < 3
        blocker.execute("ROLLBACK")
        assert marks.read_text().split() == ["freeze"]
        done = subprocess.run(bed.resume("p"), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert marks.read_text().split() == ["freeze", "thaw"]
        came = outcome(bed, "p")
        step = came["point"]["model_step"]
        bed.until(lambda: bed.step() > step, "the trainer to go on")
        to = kept(bed, came, tmp_path / "restored")
    back = restored(postgres_server, to / "databases" / "ledger.dump")
    assert postgres_server.sql("SELECT max(step) FROM steps", database=back) == str(step)


def test_R16_a_hook_that_fails_stops_the_point_and_the_other_half_comes_all_the_same(tmp_path: Path, postgres_server, ledger) -> None:
    marks = tmp_path / "marks"
    pre = Hook("freeze", HookPoint.BEFORE_SNAPSHOT, ("sh", "-c", f"echo freeze >> {marks}; echo cannot >&2; exit 3"))
    post = Hook("thaw", HookPoint.AFTER_SNAPSHOT, ("sh", "-c", f"echo thaw >> {marks}"))
    with PointBed(tmp_path / "bed", databases=[ledger], hooks=[pre, post], trains=False) as bed:
        came = bed.take(code=1)
        assert came["mode"] == "rolled-back"
        assert "hook freeze (before-snapshot): it ended with 3: cannot" in came["reason"]
        assert came["snapshot"] is None
        assert marks.read_text().split() == ["freeze", "thaw"]
        assert not bed.vault().names("lm.point")


def test_a_database_that_cannot_be_held_is_said_before_anything_is_done(tmp_path: Path, postgres_server) -> None:
    gone = postgres("gone", postgres_server.url("no_such_database"))
    with PointBed(tmp_path / "bed", databases=[gone], trains=False) as bed:
        came = bed.take(code=6)
        assert came["error"]["code"] == "port-not-found"
        assert "no_such_database" in came["error"]["happened"]
        assert not (bed.home / "journal.sqlite").exists()
