"""Real ``bridgehead`` processes in a home of their own, with an estate of embedded sites: for tests of runbooks and of the command line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import yaml

from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive
from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import JobName, RunId, SiteId
from bridgehead.model import event as ev
from bridgehead.ports.scheduler import JobState
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold
from bridgehead.runbook.ledger import KeyFolder

Finished = subprocess.CompletedProcess[str]
MARKER = "BRIDGEHEAD_TEST_MARKER"
PATIENCE_S = 60.0
"""Long enough for a machine that does other things too; nothing waits that long in vain when all is well."""


class Driving:
    """A ``bridgehead`` process that goes on; its output is in files, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> Finished:
        """Wait for its end. Raises TimeoutExpired."""
        code = self.process.wait(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(self.process.args, code, self._out.read_text(), self._err.read_text())


class CommandLine:
    """A folder with a home and an estate whose sites run jobs as processes of this machine. A context manager: all of them are ended.

    Args:
        folder: an empty folder.
        program: what is put in front of the words of a command.
    """

    def __init__(
        self, folder: Path, *, sites: tuple[str, ...] = ("ams", "fra"), program: tuple[str, ...] = ("-m", "bridgehead.cli.main")
    ) -> None:
        self.folder, self.home = folder, folder / "home"
        self._program = program
        self._driving: list[Driving] = []
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGEHEAD_")}
        self.env |= {"BRIDGEHEAD_HOME": str(self.home), MARKER: f"{os.getpid()}-{folder}", "COLUMNS": "110", "NO_COLOR": "1", "TZ": "UTC"}
        self.env |= {"LOGNAME": "ops", "PYTHONUNBUFFERED": "1"}
        connections = {site: {"connections": {"scheduler": {"driver": "process", "directory": str(folder / site)}}} for site in sites}
        self.estate = self.write("estate.yaml", {"estate": "lab", "sites": connections})

    def __enter__(self) -> CommandLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for driving in self._driving:
            if driving.process.poll() is None:
                driving.process.kill()
                driving.process.wait()
        for pid in self._marked():
            os.kill(pid, signal.SIGKILL)

    def write(self, name: str, content: object) -> Path:
        """A YAML file (or, for a text, a file) in the folder."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def run(self, *words: str | Path, env: dict[str, str] | None = None) -> Finished:
        """Carry one command out."""
        return self.carry_out(self.command(*words), env=self.env | (env or {}))

    @staticmethod
    def carry_out(command: list[str], *, env: dict[str, str]) -> Finished:
        """Execute a program to its end. Raises TimeoutExpired."""
        done = subprocess.run(command, env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def drive(self, *words: str | Path, program: tuple[str, ...] | None = None) -> Driving:
        """Begin a command that goes on."""
        number = len(self._driving)
        out, err = self.folder / f"{number}.out", self.folder / f"{number}.err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                self.command(*words, program=program),
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
                # A suite that was started in the background hands on that SIGINT is ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        self._driving.append(Driving(process, out, err))
        return self._driving[-1]

    def start(self, steps: list[dict[str, object]], *, name: str = "move", program: tuple[str, ...] | None = None) -> Driving:
        """Write a runbook of ``steps`` and begin to drive a run of it."""
        book = self.write(f"{name}.yaml", {"runbook": name, "steps": steps})
        return self.drive("run", "start", book, "--estate", self.estate, "--name", name, program=program)

    def until(self, run: str, seen: Callable[[st.RunState], bool]) -> st.RunState:
        """Wait until the run's journal shows something. Raises TimeoutError with the state instead."""
        end_s = time.monotonic() + PATIENCE_S
        state = None
        while time.monotonic() < end_s:
            with contextlib.suppress(NotFound):
                state = fold(self.events(run))
            if state is not None and seen(state):
                return state
            time.sleep(0.05)
        raise TimeoutError(f"{run}: {state}")

    def until_step(self, run: str, step: str, kind: type[st.StepState]) -> st.RunState:
        """Wait until a step is in a state."""
        return self.until(run, lambda state: any(str(name) == step and isinstance(now, kind) for name, now in state.steps.items()))

    def events(self, run: str) -> list[ev.Event]:
        """All events of a run. Raises NotFound."""
        journal = SqliteJournal(self.home / "journal.db", signer=KeyFolder(self.home / "keys"), alive=is_alive)
        try:
            return [entry.event for entry in journal.read(RunId(run))]
        finally:
            journal.close()

    def job(self, site: str, name: str) -> JobState:
        """What is known of a job."""
        options = ProcessOptions(directory=str(self.folder / site))
        return ProcessScheduler(SiteId(site), options).observe(JobName(name))

    def command(self, *words: str | Path, program: tuple[str, ...] | None = None) -> list[str]:
        """What is executed for a command."""
        return [sys.executable, *(program or self._program), *map(str, words)]

    def _marked(self) -> list[int]:
        marker = f"{MARKER}={self.env[MARKER]}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found
