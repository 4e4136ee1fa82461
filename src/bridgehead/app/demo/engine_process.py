"""EngineProcess: the engine runs in a process of its own, started by the same command line that a user types; so it can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bridgehead.app.demo.places import Places
from bridgehead.app.home import Home
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold

RUN = RunId("move")


class EngineProcess:
    """One run and the process that drives it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._process: subprocess.Popen[bytes] | None = None
        self._spawned_s = 0.0
        self.resumes_s: list[float] = []
        """For each resume after a kill: from the start of the process until its take-over is seen in the journal."""
        self._journal = Home(places.home).journal()

    def start(self) -> None:
        """``bridgehead run start``."""
        self._spawn("start", str(self._places.runbook), "--estate", str(self._places.estate), "--name", RUN)

    def resume(self) -> None:
        """``bridgehead run resume``; measures how long it takes until the run is driven again, as seen from here."""
        before = self._journal.head_seq(RUN)
        self._spawn("resume", RUN)
        while self.alive:
            taken = [entry.event for entry in self._journal.read(RUN, after_seq=before) if isinstance(entry.event, ev.DriverTook)]
            if taken:  # the event's own time lies before it was on stable storage, and would flatter
                self.resumes_s.append(time.time() - self._spawned_s)
                return
            time.sleep(0.005)

    def kill(self) -> None:
        """kill -9, as when its machine loses power."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """On the way out: nothing of the demo goes on."""
        if self._process is not None and self.alive:
            self.kill()

    @property
    def alive(self) -> bool:
        """The process has not ended."""
        return self._process is not None and self._process.poll() is None

    def state(self) -> st.RunState | None:
        """The run as its journal tells it; None before it is opened."""
        if RUN not in self._journal.runs():
            return None
        return fold(entry.event for entry in self._journal.read(RUN))

    def _spawn(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bridgehead.cli.main", "run", *arguments, "--home", str(self._places.home)]
        with (self._places.log / "engine.log").open("ab") as log:
            self._spawned_s = time.time()
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ))
