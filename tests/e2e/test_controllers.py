"""Controllers that stand by for each other, as processes on one PostgreSQL journal (G11, J02, J13, J15)."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from bridgehead.drivers.postgres import PostgresJournal
from bridgehead.drivers.postgres.journal import LEASE_S
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.runbook import state as st
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.command_line import CommandLine

pytestmark = pytest.mark.server("pg_ctlcluster")
JOBS = 12


class SharedJournal(CommandLine):
    """Its commands, and controllers with homes of their own, share one journal."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url
        self.env["BRIDGEHEAD_JOURNAL"] = url
        self.errors: dict[str, Path] = {}

    def controller(self, name: str):
        number = len(self._driving)
        started = self.drive("controller", "run", "--home", self.folder / name)
        self.errors[name] = self.folder / f"{number}.err"
        self.wait(lambda: "stands by" in self.said(name), "it stands by")
        return started

    def said(self, name: str) -> str:
        return self.errors[name].read_text() if self.errors[name].exists() else ""

    def wait(self, seen, what: str, limit_s: float = 30.0) -> None:
        end_s = time.monotonic() + limit_s
        while not seen():
            assert time.monotonic() < end_s, f"not in time: {what}; {[self.said(name) for name in self.errors]}"
            time.sleep(0.02)

    def events(self, run: str) -> list[ev.Event]:
        journal = PostgresJournal(self.url, signer=KeyFolder(self.home / "keys"))
        try:
            return [entry.event for entry in journal.read(RunId(run))]
        finally:
            journal.close()

    def trust_all(self) -> None:
        """Each home learns the others' public keys."""
        for name in self.errors:
            for key in (self.folder / name / "keys").glob("*.pub"):
                shutil.copy(key, self.home / "keys")


@pytest.fixture
def shared(tmp_path, postgres_server):
    with SharedJournal(tmp_path, postgres_server.new_database()) as line:
        yield line


def open_run(shared, steps, *, jobs: int = JOBS) -> None:
    chain = [steps.start_job(f"job-{number}", needs=(f"start-job-{number - 1}",) if number else ()) for number in range(jobs)]
    book = shared.write("move.yaml", {"runbook": "move", "steps": [*chain, steps.approval(needs=(f"start-job-{jobs - 1}",))]})
    opened = shared.run("run", "start", book, "--estate", shared.estate, "--name", "move", "--detach")
    assert opened.returncode == 0, opened.stderr
    assert "move" in opened.stdout


def finish(shared, steps, *, jobs: int = JOBS) -> None:
    shared.until_step("move", "agree", st.Asking)
    assert shared.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    shared.until("move", lambda state: isinstance(state.mode, st.Ended))
    assert {steps.starts(f"job-{number}") for number in range(jobs)} == {1}
    shared.trust_all()
    assert shared.run("ledger", "verify", "move").returncode == 0


def both(shared, steps):
    """Two controllers, and a run in the middle of its work: (who drives it, name of the other one)."""
    running = {name: shared.controller(name) for name in ("first", "second")}
    open_run(shared, steps)
    shared.until("move", lambda state: not isinstance(state.steps["start-job-2"], st.Waiting))
    [took] = [event for event in shared.events("move") if isinstance(event, ev.DriverTook)]
    active = next(name for name, controller in running.items() if took.driver.endswith(f"/{controller.pid}"))
    return active, running[active], "second" if active == "first" else "first"


def test_J02_the_standby_takes_over_from_one_that_was_killed(shared, steps) -> None:
    _, driver, standby = both(shared, steps)
    driver.send(signal.SIGKILL)
    killed_s = time.monotonic()
    shared.until("move", lambda state: state.epoch == 2)
    assert time.monotonic() - killed_s < 5.0
    finish(shared, steps)
    shared.wait(lambda: "move: done" in shared.said(standby), "the standby drove it to its end")


def test_J13_one_that_was_frozen_wakes_up_and_changes_nothing(shared, steps) -> None:
    active, driver, _ = both(shared, steps)
    driver.send(signal.SIGSTOP)
    frozen_s = time.monotonic()
    shared.until("move", lambda state: state.epoch == 2)
    assert 1.0 < time.monotonic() - frozen_s < LEASE_S + 5.0
    driver.send(signal.SIGCONT)
    shared.wait(lambda: "another process took it over; this one has stopped" in shared.said(active), "the first one noticed")
    finish(shared, steps)
    assert [event.epoch for event in shared.events("move") if isinstance(event, ev.DriverTook)] == [1, 2]
    driver.send(signal.SIGTERM)
    assert driver.end().returncode == 0


def test_one_that_is_asked_to_end_hands_over_at_once(shared, steps) -> None:
    first = shared.controller("first")
    open_run(shared, steps, jobs=2)
    shared.until_step("move", "agree", st.Asking)
    shared.controller("second")
    first.send(signal.SIGTERM)
    asked_s = time.monotonic()
    ended = first.end()
    assert ended.returncode == 0
    assert "move: handed over" in ended.stderr
    shared.wait(lambda: "takes move over" in shared.said("second"), "the standby took over")
    assert time.monotonic() - asked_s < 4.0
    finish(shared, steps, jobs=2)


def test_verbs_work_on_a_shared_journal_and_never_show_its_password(shared, steps) -> None:
    shared.env["BRIDGEHEAD_JOURNAL"] = shared.url.replace("bridgehead@", "bridgehead:hunter2@")
    started = shared.start([steps.start_job("one"), steps.approval(needs=("start-one",))])
    shared.until_step("move", "agree", st.Asking)
    for words in (("run", "list"), ("run", "status", "move"), ("run", "explain", "move"), ("run", "pause", "move")):
        done = shared.run(*words)
        assert done.returncode == 0, done.stderr
        assert "hunter2" not in done.stdout + done.stderr
    busy = shared.run("run", "resume", "no-such-run")
    assert busy.returncode == 6
    assert f"in {shared.url.replace('bridgehead@', '')}" in busy.stderr
    assert shared.run("run", "abort", "move").returncode == 0
    assert started.end().returncode == 1
    assert not (shared.home / "journal.db").exists()


def test_a_journal_may_be_named_in_the_home(shared, steps) -> None:
    del shared.env["BRIDGEHEAD_JOURNAL"]
    shared.home.mkdir()
    (shared.home / "home.yaml").write_text(f"journal: {shared.url}\n")
    assert shared.start([steps.hold("10 ms")]).end().returncode == 0
    assert [event for event in shared.events("move") if isinstance(event, ev.RunEnded)]
    (shared.home / "home.yaml").write_text("journel: x\n")
    wrong = shared.run("run", "list")
    assert (wrong.returncode, "journel" in wrong.stderr) == (2, True)
    (shared.home / "home.yaml").write_text("journal: mysql://x\n")
    wrong = shared.run("run", "list")
    assert (wrong.returncode, "does not name a PostgreSQL database" in wrong.stderr) == (2, True)
