"""Runs that wait for people: approvals, tasks, holds, pauses (R14, M10.4, G11)."""

from __future__ import annotations

import time

from bridgehead.model import event as ev
from bridgehead.runbook import state as st


def test_a_run_with_every_kind_of_waiting_is_done(line, steps) -> None:
    book = [
        steps.start_job(),
        steps.approval(needs=("start-new",), quorum=2),
        steps.task(needs=("agree",)),
        steps.hold(needs=("cable",)),
    ]
    driver = line.start(book)
    line.until_step("move", "agree", st.Asking)

    stranger = line.run("run", "approve", "move", "agree", "--as", "zoe")
    assert stranger.returncode == 2
    assert "zoe may not decide it" in stranger.stderr
    assert "ann, bob" in stranger.stderr

    assert line.run("run", "approve", "move", "agree", "--as", "ann", "--comment", "looks right").returncode == 0
    twice = line.run("run", "approve", "move", "agree", "--as", "ann")
    assert (twice.returncode, "2 different people" in twice.stderr) == (2, True)
    assert line.run("run", "approve", "move", "agree", "--as", "bob").returncode == 0
    line.until_step("move", "cable", st.Assigned)

    late = line.run("run", "reject", "move", "agree", "--as", "bob")
    assert (late.returncode, "does not wait" in late.stderr) == (2, True)
    none = line.run("run", "done", "move", "cable", "--as", "eve")
    assert none.returncode == 2
    assert "2 items, 0 given" in none.stderr
    assert "unplug it; label it" in none.stderr
    some = line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "photo 1", "--evidence", " ")
    assert (some.returncode, "2 items, 1 given" in some.stderr) == (2, True)
    other = line.run("run", "done", "move", "cable", "--as", "ann", "--evidence", "photo 1", "--evidence", "photo 2")
    assert (other.returncode, "belongs to eve" in other.stderr) == (2, True)
    assert line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "photo 1", "--evidence", "photo 2").returncode == 0

    assert driver.end().returncode == 0
    approvals = [(event.by, event.comment) for event in line.events("move") if isinstance(event, ev.Approved)]
    assert approvals == [("ann", "looks right"), ("bob", "")]
    assert steps.starts("new") == 1


def test_a_rejection_rolls_back(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",))])
    line.until_step("move", "agree", st.Asking)
    assert line.run("run", "reject", "move", "agree", "--as", "bob").returncode == 0
    ended = driver.end()
    assert ended.returncode == 1
    assert "move: rolled-back (step agree failed: rejected by bob)" in ended.stdout
    assert line.job("fra", "new").__struct_config__.tag == "ended"


def test_an_approval_that_nobody_gave_in_time_rolls_back(line, steps) -> None:
    ended = line.start([steps.start_job(), steps.approval(needs=("start-new",), deadline="300 ms")]).end()
    assert ended.returncode == 1
    assert "deadline of 0.3 s passed with 0 of 1 approvals" in ended.stdout


def test_an_approval_is_not_accepted_after_its_time_even_when_nobody_drives(line, steps) -> None:
    driver = line.start([steps.start_job(), steps.approval(needs=("start-new",), deadline="1500 ms")])
    asking = line.until_step("move", "agree", st.Asking).steps["agree"]
    driver.process.kill()
    driver.end()
    time.sleep(max(0.0, asking.started_s + 1.6 - time.time()))
    late = line.run("run", "approve", "move", "agree", "--as", "ann")
    assert (late.returncode, "the time for approving is over" in late.stderr) == (2, True)
    assert line.run("run", "resume", "move").returncode == 1


def test_a_word_that_nobody_acts_on_says_so(line, steps) -> None:
    driver = line.start([steps.approval()])
    line.until_step("move", "agree", st.Asking)
    driver.process.kill()
    driver.end()
    said = line.run("run", "approve", "move", "agree", "--as", "ann")
    assert said.returncode == 0
    assert "nobody drives move now, so nothing happens before `bridgehead run resume move`" in said.stderr
    assert line.run("run", "resume", "move").returncode == 0


def test_a_pause_lets_nothing_new_begin(line, steps) -> None:
    driver = line.start([steps.approval(), steps.start_job(needs=("agree",))])
    line.until_step("move", "agree", st.Asking)
    assert line.run("run", "pause", "move", "--as", "ann", "--reason", "lunch").returncode == 0
    assert line.run("run", "approve", "move", "agree", "--as", "ann").returncode == 0
    explained = line.run("run", "explain", "move").stdout
    assert "move is paused: by ann: lunch" in explained
    again = line.run("run", "pause", "move")
    assert (again.returncode, "it is paused" in again.stderr) == (2, True)
    assert steps.starts("new") == 0

    resumed = line.run("run", "resume", "move")
    assert resumed.returncode == 0
    assert f"move goes on; process {driver.pid} on " in resumed.stderr
    assert driver.end().returncode == 0
    assert steps.starts("new") == 1


def test_a_pause_holds_also_when_its_driver_is_gone(line, steps) -> None:
    driver = line.start([steps.hold("1 s"), steps.start_job(needs=("soak",))])
    line.until_step("move", "soak", st.Holding)
    line.run("run", "pause", "move")
    driver.process.kill()
    driver.end()
    time.sleep(1.1)
    resumed = line.run("run", "resume", "move")  # ends the pause and drives
    assert resumed.returncode == 0
    assert "move: done" in resumed.stdout


def test_wrong_names_are_told_what_there_is(line, steps) -> None:
    driver = line.start([steps.approval(), steps.hold(needs=("agree",))])
    line.until_step("move", "agree", st.Asking)
    unknown = line.run("run", "approve", "move", "agre", "--as", "ann")
    assert (unknown.returncode, "Its steps: agree, soak." in unknown.stderr) == (2, True)
    no_task = line.run("run", "done", "move", "agree", "--as", "ann", "--evidence", "x")
    assert (no_task.returncode, "it is not a task" in no_task.stderr) == (2, True)
    for words in (["status", "mov"], ["approve", "mov", "agree"], ["abort", "mov"], ["watch", "mov"], ["undo", "mov"], ["resume", "mov"]):
        nowhere = line.run("run", *words)
        assert (nowhere.returncode, nowhere.stdout) == (6, ""), words
        assert f"no run of that name in {line.home}" in nowhere.stderr
    driver.process.kill()
