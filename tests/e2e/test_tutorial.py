"""What docs/tutorial.md does in two terminals, and that the files it shows are those of examples/."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
FILES = re.compile(r"^<!-- file: (?P<name>\S+) -->\n```yaml\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 60.0


def test_files_shown_are_the_examples() -> None:
    shown = list(FILES.finditer((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")))
    assert len(shown) == 3
    for file in shown:
        assert (ROOT / file["name"]).read_text(encoding="utf-8") == file["body"], file["name"]


class Terminals:
    """A folder with the examples, one process that drives, and short commands beside it."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(ROOT / "examples", folder / "examples")
        self._folder = folder
        outside = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGEHEAD_")}
        self._env = {**outside, "HOME": str(folder), "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
        self.driving: list[subprocess.Popen[str]] = []

    def say(self, words: str, *, code: int = 0) -> str:
        done = subprocess.run([PROGRAM, *words.split()], cwd=self._folder, env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, book: str, name: str) -> subprocess.Popen[str]:
        words = f"run start examples/first/{book} --estate examples/first/estate.yaml --name {name}".split()
        process = subprocess.Popen([PROGRAM, *words], cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True)
        self.driving.append(process)
        return process

    def until(self, seen: Callable[[], bool]) -> None:
        limit_s = time.monotonic() + PATIENCE_S
        while not seen():
            assert time.monotonic() < limit_s
            time.sleep(0.1)

    def asks(self, run: str) -> bool:
        opened = any(line.startswith(f"{run} ") for line in self.say("run list").splitlines())
        return opened and "asking" in self.say(f"run explain {run}")

    def greetings(self, site: str) -> int:
        log = self._folder / "first" / site / "greeter"
        return sum(len(file.read_text().splitlines()) for file in log.glob("*/log"))

    def greets(self, site: str) -> bool:
        before = self.greetings(site)
        time.sleep(2.5)  # the greeter speaks once a second
        return self.greetings(site) > before


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path)
    yield made
    for process in made.driving:
        if process.poll() is None:
            process.kill()
        process.communicate()
    # Whatever still greets is stopped by its site's scheduler, by its identity.
    from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
    from bridgehead.kernel.errors import NotFound
    from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
    from bridgehead.model.stamp import Stamp

    for site in (SiteId("site-a"), SiteId("site-b")):
        scheduler = ProcessScheduler(site, ProcessOptions(directory=str(tmp_path / "first" / site)))
        try:
            scheduler.kill(JobName("greeter"), stamp=Stamp(RunId("teardown"), StepId("kill"), 1, Epoch(1)))
        except NotFound:
            continue


def test_two_terminals(terminals: Terminals) -> None:
    assert terminals.start("prepare.yaml", "prepare-2").wait(PATIENCE_S) == 0

    first = terminals.start("swing.yaml", "try")
    terminals.until(lambda: terminals.asks("try"))
    assert "carol may not decide it" in terminals.say("run approve try go --as carol", code=2)
    terminals.say("run abort try --reason later")
    assert first.wait(PATIENCE_S) == 1
    assert terminals.greets("site-a")
    assert not terminals.greets("site-b")

    second = terminals.start("swing.yaml", "swing")
    terminals.until(lambda: terminals.asks("swing"))
    assert "swing is paused" in terminals.say("run pause swing --reason lunch")
    terminals.say("run approve swing go --as alice")
    assert f"process {second.pid} " in terminals.say("run list")
    second.send_signal(signal.SIGKILL)
    second.wait()
    assert "swing is paused: by " in terminals.say("run explain swing")
    assert "swing: done" in terminals.say("run resume swing")
    assert terminals.greets("site-b")
    assert not terminals.greets("site-a")
    assert "entries hold" in terminals.say("ledger verify swing")

    assert "swing-undo: rolled-back" in terminals.say("run undo swing")
    assert terminals.greets("site-a")
    assert "prepare-2-undo: rolled-back" in terminals.say("run undo prepare-2")
    assert not terminals.greets("site-a")
    assert not terminals.greets("site-b")
