"""Abort at any moment, and undo of a finished run (design rule 6; J02)."""

from __future__ import annotations

import pytest

from bridgehead.model import event as ev
from bridgehead.runbook import state as st


def ended(line, run="move"):
    """How the run ended."""
    state = line.until(run, lambda state: isinstance(state.mode, st.Ended))
    return state.mode.verdict


def tag(state) -> str:
    return state.__struct_config__.tag


@pytest.fixture
def old_job(line, steps):
    """A job that runs at the source before anything begins."""
    assert line.start([steps.start_job("old", site="ams")], name="before").end().returncode == 0
    assert tag(line.job("ams", "old")) == "running"


@pytest.mark.usefixtures("old_job")
def test_abort_while_a_driver_waits_puts_everything_back(line, steps) -> None:
    book = [steps.start_job(), steps.stop_job(needs=("start-new",)), steps.approval(needs=("stop-old",))]
    driver = line.start(book)
    line.until_step("move", "agree", st.Asking)
    assert tag(line.job("ams", "old")) == "ended"
    aborted = line.run("run", "abort", "move", "--as", "ann", "--reason", "wrong day")
    assert aborted.returncode == 0
    assert f"asked process {driver.pid} on " in aborted.stderr
    assert "`bridgehead run watch move` follows it" in aborted.stderr
    end = driver.end()
    assert end.returncode == 1
    assert "abort asked by ann: wrong day" in end.stdout
    assert (tag(line.job("ams", "old")), tag(line.job("fra", "new"))) == ("running", "ended")
    assert (steps.starts("old"), steps.starts("new")) == (2, 1)


@pytest.mark.usefixtures("old_job")
def test_abort_when_nobody_drives_drives_the_way_back_itself(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.stop_job(needs=("start-new",)), steps.approval(needs=("stop-old",))])
    line.until_step("move", "agree", st.Asking)
    driver.process.kill()
    driver.end()
    aborted = line.run("run", "abort", "move")
    assert aborted.returncode == 0, aborted.stderr
    assert "move: rolled-back" in aborted.stdout
    assert (tag(line.job("ams", "old")), tag(line.job("fra", "new"))) == ("running", "ended")


def test_abort_of_a_run_that_has_ended_does_nothing(line, steps) -> None:
    assert line.start([steps.hold("10 ms")]).end().returncode == 0
    before = line.events("move")
    aborted = line.run("run", "abort", "move")
    assert aborted.returncode == 0
    assert "move has ended before; nothing was done" in aborted.stderr
    assert line.events("move") == before


def test_abort_while_paused_and_while_holding(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.hold("10 min", needs=("start-new",))])
    line.until_step("move", "soak", st.Holding)
    line.run("run", "pause", "move")
    assert line.run("run", "abort", "move").returncode == 0
    assert driver.end().returncode == 1
    assert tag(line.job("fra", "new")) == "ended"


def test_abort_while_the_way_back_is_under_way_changes_nothing(line, steps) -> None:
    """The undo of the task waits for eve: a second abort is heard and harmless."""
    driver = line.start([steps.task(undo=True), steps.approval(needs=("cable",))])
    line.until_step("move", "cable", st.Assigned)
    line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "a", "--evidence", "b")
    line.until_step("move", "agree", st.Asking)
    line.run("run", "abort", "move")
    line.until("move", lambda state: isinstance(state.mode, st.Backward) and isinstance(state.steps["cable"], st.Assigned))
    assert line.run("run", "abort", "move").returncode == 0
    explained = line.run("run", "explain", "move").stdout
    assert "bridgehead run done move cable --as eve --evidence 'plug it in: ...'" in explained
    assert "run abort" not in explained
    assert line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "plugged").returncode == 0
    assert driver.end().returncode == 1
    assert ended(line) is ev.Verdict.ROLLED_BACK


@pytest.mark.usefixtures("old_job")
def test_J02_undo_of_a_finished_run_is_a_run_of_its_own(line, steps) -> None:
    assert line.start([steps.start_job(), steps.stop_job(needs=("start-new",))]).end().returncode == 0
    undone = line.run("run", "undo", "move")
    assert undone.returncode == 0, undone.stderr
    assert "move-undo: rolled-back (undo of run move)" in undone.stdout
    assert (tag(line.job("ams", "old")), tag(line.job("fra", "new"))) == ("running", "ended")
    assert ended(line) is ev.Verdict.DONE  # written once
    again = line.run("run", "undo", "move")
    assert (again.returncode, "there is a run move-undo already" in again.stderr) == (2, True)
    of_the_undo = line.run("run", "undo", "move-undo")
    assert (of_the_undo.returncode, "only a run that is done can be undone" in of_the_undo.stderr) == (2, True)


def test_undo_of_a_run_under_way_is_refused(line, steps) -> None:
    driver = line.start([steps.approval()])
    line.until_step("move", "agree", st.Asking)
    undone = line.run("run", "undo", "move")
    assert undone.returncode == 2
    assert "`bridgehead run abort move`" in undone.stderr
    driver.process.kill()
