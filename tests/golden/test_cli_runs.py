"""What the verbs of runs print, word for word: commands in, text out. Times, processes, hashes and folders are redacted.

``BRIDGEHEAD_WRITE_GOLDEN=1`` writes the expected texts anew. Read each as somebody who is called at three in the morning: what happened,
where, and what is to be done next?
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.runbook import state as st
from bridgehead.testing.command_line import CommandLine, Finished

EXPECTED = Path(__file__).parent / "cli"
START = {
    "id": "start-new",
    "title": "start the job at fra",
    "action": "job.start",
    "with": {"site": "fra", "job": {"name": "new", "command": ["sleep", "1000"], "grace": "5 s"}},
    "deadline": "60 s",
}
AGREE = {
    "id": "agree",
    "title": "agree to the cut-over",
    "approval": {"approvers": ["ann", "bob"], "text": "Is the new one good?"},
    "deadline": "4 h",
    "needs": ["start-new"],
}
CABLE = {
    "id": "cable",
    "task": {"owner": "eve", "checklist": ["unplug it", "label it"], "undo_checklist": ["plug it in"]},
    "deadline": "1 h",
    "needs": ["start-new"],
}
STOP = {
    "id": "stop-old",
    "action": "job.stop",
    "with": {"site": "ams", "job": "old", "restart": {"name": "old", "command": ["/missing/program"]}, "grace": "5 s"},
    "deadline": "60 s",
    "retry": {"attempts": 2, "backoff": "20 ms"},
    "needs": ["agree"],
}
LAST = {
    "id": "last",
    "approval": {"approvers": ["ann"]},
    "deadline": "1 h",
    "needs": ["stop-old"],
}


@pytest.fixture
def line(tmp_path: Path) -> Iterator[CommandLine]:
    with CommandLine(tmp_path) as line:
        line.env["COLUMNS"] = "200"
        yield line


def redacted(text: str, folder: Path) -> str:
    """Without what differs from one time to the next."""
    text = (
        text.replace(f"{Path(__file__).resolve().parents[2]}/docs", "docs")
        .replace(str(folder), "FOLDER")
        .replace(os.uname().nodename, "HOST")
    )
    for pattern, word in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "DATE TIME"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"process \d+ on", "process PID on"),
        (r"HOST/\d+", "HOST/PID"),
        (r"\b\d+@\d+\b", "PID@TICKS"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
        (r"DATE TIME  [0-9a-f]{12}\b", "DATE TIME  HASH"),
        (r"\bversion=\S+", "version=VERSION"),
        (r"bridgehead \d[\w.]*", "bridgehead VERSION"),
    ):
        text = re.sub(pattern, word, text)
    return text


def told(line: CommandLine, *words: str) -> str:
    """A command with all that came of it."""
    return printed(line, line.run(*words), words)


def printed(line: CommandLine, done: Finished, words: tuple[str, ...]) -> str:
    errors = "".join(f"! {text}\n" for text in done.stderr.splitlines())
    code = f"[exit code {done.returncode}]\n" if done.returncode else ""
    return redacted(f"$ bridgehead {shlex.join(words)}\n{done.stdout}{errors}{code}\n", line.folder)


def compare(name: str, text: str) -> None:
    expected = EXPECTED / f"{name}.txt"
    if os.environ.get("BRIDGEHEAD_WRITE_GOLDEN") == "1":
        EXPECTED.mkdir(exist_ok=True)
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


READING = (("run", "status", "move"), ("run", "explain", "move"), ("run", "list"))


def test_a_run_that_waits_for_people(line) -> None:
    driver = line.start([START, AGREE, CABLE])
    line.until("move", lambda state: {type(step) for step in state.steps.values()} == {st.Finished, st.Asking, st.Assigned})
    told_now = [told(line, *words) for words in READING]
    driver.process.kill()
    driver.end()
    told_now += [told(line, *words) for words in READING]
    told_now.append(told(line, "run", "pause", "move", "--as", "ann", "--reason", "power work at fra"))
    # The moment at which a pause expires is a moment as any other.
    told_now += [told(line, *words) for words in READING]
    compare("waiting", "".join(told_now))


def test_a_run_that_is_done(line) -> None:
    driver = line.start([START, AGREE])
    line.until_step("move", "agree", st.Asking)
    approved = told(line, "run", "approve", "move", "agree", "--as", "ann", "--comment", "looks right")
    end = driver.end()
    text = approved + printed(line, end, ("run", "start", "move.yaml", "--estate", "estate.yaml", "--name", "move"))
    text += "".join(told(line, *words) for words in READING)
    text += told(line, "ledger", "show", "move") + told(line, "ledger", "verify", "move")
    head = re.search(r"ledger head (\S+)", end.stdout)[1]
    text += told(line, "ledger", "verify", "move", "--head", head) + told(line, "ledger", "verify", "move", "--head", "0" * 64)
    text += told(line, "run", "abort", "move") + told(line, "run", "undo", "move") + told(line, "run", "undo", "move")
    compare("done", text)


def test_a_run_that_is_rolled_back_and_one_that_is_stuck(line) -> None:
    old = {**START, "id": "start-old", "with": {"site": "ams", "job": {"name": "old", "command": ["sleep", "1000"]}}}
    assert line.start([old], name="before").end().returncode == 0
    driver = line.start([START, AGREE, STOP, LAST])
    line.until_step("move", "agree", st.Asking)
    line.run("run", "approve", "move", "agree", "--as", "ann")
    line.until_step("move", "last", st.Asking)
    line.run("run", "reject", "move", "last", "--as", "ann", "--comment", "loss went up")
    text = printed(line, driver.end(), ("run", "start", "move.yaml", "--estate", "estate.yaml", "--name", "move"))
    text += "".join(told(line, *words) for words in READING)
    text += told(line, "run", "watch", "move")
    text += told(line, "run", "abort", "move", "--as", "ann", "--reason", "old was started by hand")
    text += told(line, "run", "explain", "move")
    compare("stuck", text)


def test_a_run_that_is_rolled_back(line) -> None:
    driver = line.start([START, {**CABLE, "deadline": "1 h"}, {**AGREE, "needs": ["cable"]}])
    line.until_step("move", "cable", st.Assigned)
    line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "photo 1", "--evidence", "photo 2")
    line.until_step("move", "agree", st.Asking)
    text = told(line, "run", "reject", "move", "agree", "--as", "bob", "--comment", "too early")
    line.until("move", lambda state: isinstance(state.mode, st.Backward) and isinstance(state.steps["cable"], st.Assigned))
    text += "".join(told(line, *words) for words in READING)
    line.run("run", "done", "move", "cable", "--as", "eve", "--evidence", "plugged in")
    text += printed(line, driver.end(), ("run", "start", "move.yaml", "--estate", "estate.yaml", "--name", "move"))
    text += "".join(told(line, *words) for words in READING)
    compare("rolled-back", text)


def test_errors(line) -> None:
    driver = line.start([START, AGREE, {**CABLE, "needs": ["agree"]}])
    line.until_step("move", "agree", st.Asking)
    wrong = [
        *(["run"], ["run", "nonsense"], ["run", "status"], ["run", "status", "mvoe"], ["run", "start", "move.yaml"]),
        *(["run", "approve", "move", "agree"], ["run", "approve", "move", "agre"], ["run", "done", "move", "cable"]),
        *(["run", "undo", "move"], ["run", "resume", "move"], ["ledger", "verify", "move", "--keys", "FOLDER"]),
        *(["run", "start", str(line.folder / "missing.yaml"), "--estate", str(line.estate)],),
        *(["run", "start", str(line.folder / "move.yaml"), "--estate", str(line.estate), "--name", "move"],),
        *(["run", "start", str(line.folder / "move.yaml"), "--estate", str(line.folder / "move.yaml")],),
        *(["run", "start", str(line.folder / "bad.yaml"), "--estate", str(line.estate)],),
        *(["run", "list", "--home", str(line.estate)], ["run", "status", "move", "--home", str(line.folder / "elsewhere")]),
    ]
    line.write("bad.yaml", {"runbook": "bad", "steps": [{**AGREE, "approval": {"approvers": ["ann"], "quorum": 2}}]})
    text = "".join(told(line, *words) for words in wrong)
    driver.process.kill()
    driver.end()
    text += told(line, "run", "approve", "move", "agree", "--as", "bob")
    compare("errors", text)
