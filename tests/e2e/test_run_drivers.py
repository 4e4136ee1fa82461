"""Who drives: kill -9 and adoption, signals, two drivers, a name twice (J02, J12, J13, J15, G11)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bridgehead.model import event as ev
from bridgehead.runbook import state as st

DYING_ENGINE = str(Path(__file__).with_name("dying_engine.py"))


def test_J02_kill_9_and_resume_adopts_the_job(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",))])
    line.until_step("move", "agree", st.Asking)
    before = line.job("fra", "new")
    driver.send(signal.SIGKILL)
    driver.end()
    assert "nobody does now" in line.run("run", "explain", "move").stdout
    resumed = line.drive("run", "resume", "move")
    line.until("move", lambda state: state.epoch == 2)
    assert line.job("fra", "new") == before
    assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    assert resumed.end().returncode == 0
    assert line.job("fra", "new") == before
    assert steps.starts("new") == 1


@pytest.mark.parametrize("appends", [2, 4, 5, 6])  # after each intent and outcome around the start of the job
def test_J12_a_driver_that_dies_while_it_starts_a_job_starts_it_once(line, steps, appends) -> None:
    dead = line.start([steps.start_job()], program=(DYING_ENGINE, str(appends))).end()
    assert dead.returncode == -signal.SIGKILL
    resumed = line.run("run", "resume", "move")
    assert resumed.returncode == 0, resumed.stderr
    assert steps.starts("new") == 1
    assert line.run("ledger", "verify", "move").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_the_run_where_it_is(line, steps, number) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",))])
    line.until_step("move", "agree", st.Asking)
    driver.send(number)
    ended = driver.end()
    assert ended.returncode == 7
    assert "move: going forward" in ended.stdout
    assert "the run waits where it is: `bridgehead run resume move` goes on" in ended.stderr
    assert line.job("fra", "new").__struct_config__.tag == "running"
    assert not any(isinstance(event, ev.RollbackBegan) for event in line.events("move"))


def test_J15_a_second_driver_is_refused_and_told_who_drives(line, steps) -> None:
    driver = line.start([steps.approval()])
    line.until_step("move", "agree", st.Asking)
    second = line.run("run", "resume", "move")
    assert (second.returncode, second.stdout) == (4, "")
    assert f"process {driver.pid} on {os.uname().nodename}" in second.stderr
    assert "`bridgehead run watch move`" in second.stderr
    driver.process.kill()


def test_J15_two_that_resume_at_once_never_both_drive(line, steps) -> None:
    driver = line.start([steps.approval(), steps.start_job(needs=("agree",))])
    line.until_step("move", "agree", st.Asking)
    driver.process.kill()
    driver.end()
    line.run("run", "approve", "move", "agree", "--as", "ann")
    both = [line.drive("run", "resume", "move") for _ in range(2)]
    ends = [one.end() for one in both]
    # One drives to the end. The other came too early (4), or when all was done (0); both is fine, two drivers are not.
    assert sorted(end.returncode for end in ends) in ([0, 0], [0, 4]), [end.stderr for end in ends]
    assert steps.starts("new") == 1
    assert line.run("ledger", "verify", "move").returncode == 0


def test_the_same_name_twice_is_refused(line, steps) -> None:
    assert line.start([steps.hold("10 ms")]).end().returncode == 0
    again = line.start([steps.hold("10 ms")]).end()
    assert again.returncode == 2
    assert "a run of that name exists" in again.stderr
    assert "--name" in again.stderr


def test_a_run_without_a_name_gets_one_from_its_runbook(line, steps) -> None:
    book = line.write("b.yaml", {"runbook": "Move llm (two sites)", "steps": [steps.hold("10 ms")]})
    started = line.run("run", "start", book, "--estate", line.estate)
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("Move-llm-two-sites-2")
    refused = line.run("run", "start", book, "--estate", line.estate, "--name", "no spaces please")
    assert (refused.returncode, "cannot be the name of a run" in refused.stderr) == (2, True)


def test_a_driver_whose_listener_leaves_goes_on(line, steps) -> None:
    """``run start ... 2>&1 | head -1``: the picture is lost, the run is not."""
    book = line.write("b.yaml", {"runbook": "b", "steps": [steps.approval(), steps.start_job(needs=("agree",))]})
    command = line.command("run", "start", book, "--estate", line.estate, "--name", "move")
    with subprocess.Popen(command, env=line.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver:
        try:
            driver.stdout.readline()
            driver.stdout.close()
            line.until_step("move", "agree", st.Asking)
            assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
            line.until("move", lambda state: isinstance(state.mode, st.Ended))
            assert driver.wait(timeout=60) == 141
        finally:
            driver.kill()
    assert steps.starts("new") == 1


def test_watch_follows_to_the_end_and_ends_with_the_code_of_the_run(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",))])
    line.until_step("move", "agree", st.Asking)
    watcher = line.drive("run", "watch", "move", "--json")
    line.run("run", "reject", "move", "agree", "--as", "ann")
    assert driver.end().returncode == 1
    watched = watcher.end()
    assert watched.returncode == 1
    assert "run move: rolled-back" in watched.stderr
