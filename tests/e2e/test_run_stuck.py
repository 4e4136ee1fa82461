"""When it cannot go on: an undo that fails, a disk that is full (design rule 4; J02)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bridgehead.model import event as ev
from bridgehead.runbook import state as st
from bridgehead.testing.command_line import CommandLine


def tag(state) -> str:
    return state.__struct_config__.tag


@pytest.fixture
def stuck(line, steps, tmp_path):
    """A run whose undo names a program that does not exist."""
    assert line.start([steps.start_job("old", site="ams")], name="before").end().returncode == 0
    program = tmp_path / "missing-program"
    book = [steps.start_job(), steps.stop_job(needs=("start-new",), program=str(program)), steps.approval(needs=("stop-old",))]
    driver = line.start(book)
    line.until_step("move", "agree", st.Asking)
    line.run("run", "reject", "move", "agree", "--as", "ann")
    end = driver.end()
    assert end.returncode == 5
    assert "missing-program' cannot be executed" in end.stderr
    assert "`bridgehead run explain move` says what a person must do" in end.stderr
    return program


def test_a_stuck_run_says_what_a_person_must_do_and_goes_on_after_that(line, stuck) -> None:
    explained = line.run("run", "explain", "move")
    assert explained.returncode == 0
    assert "a person, at step 'stop-old': Restore by hand" in explained.stdout
    assert "after that, to be undone: start-new" in explained.stdout
    assert "bridgehead run resume move  #" in explained.stdout
    assert line.run("run", "watch", "move").returncode == 5
    assert line.run("run", "resume", "move").returncode == 5  # the cause is still there
    assert tag(line.job("fra", "new")) == "running"

    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o755)
    resumed = line.run("run", "resume", "move")
    assert resumed.returncode == 1, resumed.stderr  # rolled back, at last
    assert "move: rolled-back" in resumed.stdout
    assert (tag(line.job("ams", "old")), tag(line.job("fra", "new"))) == ("running", "ended")


@pytest.mark.usefixtures("stuck")
def test_abort_of_a_stuck_run_ends_it_where_it_is(line) -> None:
    aborted = line.run("run", "abort", "move", "--as", "ann", "--reason", "done by hand")
    assert aborted.returncode == 0
    assert "move: abandoned (taken over by ann: done by hand)" in aborted.stdout
    assert tag(line.job("fra", "new")) == "running"  # nothing more was touched
    assert isinstance(line.events("move")[-1], ev.RunEnded)
    assert line.run("run", "watch", "move").returncode == 1


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], check=False).returncode == 0
    if not mounted:
        pytest.skip("NOT TESTED: a journal on a full disk (mounting a small file system needs root)")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Leave no space at all."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            while True:
                try:
                    if file.write(b"x" * size) < size:
                        break
                except OSError:
                    break
    return filler


def test_a_full_disk_is_told_and_after_freeing_the_run_goes_on(tmp_path, small_disk, steps) -> None:
    with CommandLine(tmp_path) as line:
        line.env["BRIDGEHEAD_HOME"] = str(small_disk / "home")
        line.home = small_disk / "home"
        driver = line.start([steps.start_job(), steps.hold("1 s", needs=("start-new",)), steps.approval(needs=("soak",))])
        line.until_step("move", "soak", st.Holding)
        filler = fill(small_disk)
        end = driver.end()
        assert end.returncode == 7
        assert "no space" in end.stderr
        assert "Traceback" not in end.stderr
        assert "Free disk space there, then `bridgehead run resume move` goes on" in end.stderr
        fill(small_disk)  # what the end of the driver left free
        for words in (["status", "move"], ["list"], ["pause", "move"]):
            looked = line.run("run", *words)
            # With the write-ahead log left in place there may be room inside it.
            assert looked.returncode == 0 or (looked.returncode, "no space" in looked.stderr) == (7, True), looked.stderr
            assert "Traceback" not in looked.stderr

        filler.unlink()
        resumed = line.drive("run", "resume", "move")
        line.until_step("move", "agree", st.Asking)
        assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
        assert resumed.end().returncode == 0
        assert steps.starts("new") == 1
        assert line.run("ledger", "verify", "move").returncode == 0


def test_a_home_on_a_full_disk_begins_nothing(tmp_path, small_disk, steps) -> None:
    filler = fill(small_disk)
    with CommandLine(tmp_path) as line:
        line.env["BRIDGEHEAD_HOME"] = str(small_disk / "home")
        end = line.start([steps.start_job()]).end()
        assert end.returncode == 7, end.stderr
        assert "Traceback" not in end.stderr
        assert steps.starts("new") == 0
        filler.unlink()
        line.home = small_disk / "home"
        assert line.start([steps.start_job()]).end().returncode == 0
        assert steps.starts("new") == 1
