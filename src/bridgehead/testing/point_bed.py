"""PointBed: two sites in one folder with a real trainer at the first, which writes every step into the databases that it is given.

The trainer commits step N to each database before it counts as done, so a point whose databases end with the model's step is right.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Capture, Database, DatabaseEngine, Deadlines, Hook, Protected, Recovery, SiteJob
from bridgehead.model.recoveryfile import write_recovery
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobEnded, JobSpec
from bridgehead.vault import Vault

A, B = SiteId("site-a"), SiteId("site-b")
WORKLOAD, JOB = WorkloadId("lm"), JobName("lm")
TRAINER = """
import sqlite3, sys, time
import numpy as np
from bridgehead.training import Session

writers = []
for place in sys.argv[1:]:
    if place.startswith("postgresql:"):
        import psycopg
        writers.append(psycopg.connect(place, autocommit=True).execute)
    else:
        writers.append(sqlite3.connect(place, isolation_level=None, timeout=30).execute)
with Session.from_env() as session:
    state = session.restore() or {"w": np.zeros(64)}
    for step in session.steps(1_000_000):
        state["w"] = state["w"] + 1
        for execute in writers:
            execute(f"INSERT INTO steps VALUES ({step})")
        time.sleep(0.01)
        if session.should_checkpoint(step):
            session.save(step, state)
        if session.should_stop():
            break
"""

ESTATE = """\
  {site}:
    connections:
      scheduler: {{driver: process, directory: {folder}/jobs}}
      training: {{driver: files, directory: {folder}/control}}
      vault: {{driver: localfs, directory: {folder}/vault}}
"""

RANKS = """
import os, sys
from multiprocessing import get_context
from pathlib import Path
from bridgehead.training import Session, open_vault
from bridgehead.vault.sharing import Shard, Share

ranks, place = int(sys.argv[1]), sys.argv[2]
me = dict(workload=os.environ["BRIDGEHEAD_WORKLOAD"], site=os.environ["BRIDGEHEAD_SITE"])

def rank(number, orders):
    import psycopg
    db = psycopg.connect(place, autocommit=True)
    vault = open_vault(Path(os.environ["BRIDGEHEAD_VAULT"]))
    while True:
        what, step, epoch = orders.recv()
        if what == "step":
            db.execute("INSERT INTO steps VALUES (%s)", (step * 100 + number,))
            orders.send(step)
        else:
            files = {f"rank-{number}": str(step).encode()}
            part = vault.save_part(files, shard=Shard(number, ranks), step=step, epoch=epoch, share=Share.OWN, close=False, **me)
            orders.send(part.digest)

def everyone(what, step, epoch=0):
    for pipe in pipes:
        pipe.send((what, step, epoch))
    return [pipe.recv() for pipe in pipes]

pipes = []
for number in range(1, ranks + 1):
    mine, theirs = get_context("fork").Pipe()
    get_context("fork").Process(target=rank, args=(number, theirs), daemon=True).start()
    pipes.append(mine)
with Session.from_env() as session:
    vault = open_vault(Path(os.environ["BRIDGEHEAD_VAULT"]))
    def write(epoch):
        digests = dict(enumerate(everyone("save", session.step, epoch), start=1))
        saved = vault.commit_parts(workload=me["workload"], step=session.step, epoch=epoch, shards=ranks, digests=digests)
        return saved.snapshot.id
    for step in session.steps(1_000_000):
        everyone("step", step)
        if session.should_checkpoint(step):
            session.save_by(step, write)
        if session.should_stop():
            break
"""


class PointBed:
    """A context manager: the trainer has ended after it.

    Args:
        databases: each has a table ``steps (step)``, which the trainer fills.
        others: databases of the point that the trainer does not know.
        ranks: processes of the trainer; with more than one, each writes step * 100 + rank, and its own share of the snapshot.
    """

    def __init__(
        self,
        folder: Path,
        *,
        databases: Sequence[Database],
        others: Sequence[Database] = (),
        hooks: Sequence[Hook] = (),
        pause_s: float = 5.0,
        capture: Capture | None = None,
        trains: bool = True,
        ranks: int = 1,
    ) -> None:
        self.folder = folder
        self.recovery, self.estate, self.home = folder / "recovery.yaml", folder / "estate.yaml", folder / "home"
        self.databases, self._trains, self._ranks = tuple(databases), trains, ranks
        for site in (A, B):
            Vault.init(_store(self.place(site)))
        self.estate.write_text("estate: points\nsites:\n" + "".join(ESTATE.format(site=site, folder=folder / site) for site in (A, B)))
        kind = WorkloadKind.TRAINING if trains else WorkloadKind.SERVICE
        jobs = tuple(SiteJob(site, ("trainer",)) for site in (A, B))
        more: dict[str, Any] = {"pause_s": pause_s, "patience_s": 20.0, "capture": capture}
        one = Protected(WORKLOAD, kind, A, B, jobs, hooks=tuple(hooks), databases=(*databases, *others), **more)
        deadlines = Deadlines(step_s=20.0)
        self.recovery.write_text(write_recovery(Recovery("points", (A, B), (one,), deadlines=deadlines)))

    def __enter__(self) -> PointBed:
        self._scheduler = ProcessScheduler(A, ProcessOptions(directory=str(self.folder / A / "jobs")))
        if self._trains:
            script = self.folder / "trainer.py"
            script.write_text(TRAINER if self._ranks == 1 else RANKS)
            env = {
                "BRIDGEHEAD_VAULT": str(self.place(A)),
                "BRIDGEHEAD_WORKLOAD": WORKLOAD,
                "BRIDGEHEAD_SITE": A,
                "BRIDGEHEAD_CONTROL": str(self.folder / A / "control" / JOB),
                "OPENBLAS_NUM_THREADS": "1",
            }
            words = () if self._ranks == 1 else (str(self._ranks),)
            command = (sys.executable, str(script), *words, *(one.location for one in self.databases))
            self._scheduler.start(JobSpec(name=JOB, command=command, env=env), stamp=_stamp("start"))
            self.until(lambda: self.step() >= 3, "the trainer to compute")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._trains:
            with contextlib.suppress(PortError):
                self._scheduler.kill(JOB, stamp=_stamp("end"))
            self.until(lambda: isinstance(self._scheduler.observe(JOB), JobEnded), "the trainer to end")

    def place(self, site: SiteId) -> Path:
        """The vault of a site."""
        return self.folder / site / "vault"

    def vault(self) -> Vault:
        """The vault of the first site."""
        return Vault.open(_store(self.place(A)))

    def report(self) -> dict[str, Any]:
        """What the trainer says; empty before it says anything."""
        try:
            found: dict[str, Any] = json.loads((self.folder / A / "control" / JOB / "progress.json").read_bytes())
        except FileNotFoundError:
            return {}
        return found

    def step(self) -> int:
        """The last one that the trainer has reported."""
        return int(self.report().get("step", 0))

    def command(self, *words: str) -> list[str]:
        """``recover point`` with this bed's files."""
        program = [sys.executable, "-m", "bridgehead.cli.main", "recover", "point", str(self.recovery)]
        return [*program, "--workload", WORKLOAD, "--estate", str(self.estate), "--home", str(self.home), "--json", *words]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin to take a point; what it says is in ``log``."""
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(self.command(*words), stdout=log, stderr=log)

    def log(self) -> str:
        """What the command that was started last has said."""
        return (self.folder / "log").read_text()

    def resume(self, run: str) -> list[str]:
        """``run resume``."""
        return [sys.executable, "-m", "bridgehead.cli.main", "run", "resume", run, "--home", str(self.home)]

    def take(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Take a point; what the command printed."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != code:
            raise AssertionError(f"it ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr[-3000:]}")
        found: dict[str, Any] = msgspec.json.decode(done.stdout) if done.stdout else {}
        return found

    def until(self, holds: Callable[[], bool], what: str, *, timeout_s: float = 20.0) -> None:
        """Wait for it. Raises AssertionError."""
        end_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > end_s:
                raise AssertionError(f"waited {timeout_s} s for {what}")
            time.sleep(0.01)


def postgres(name: str, url: str) -> Database:
    """A database of PostgreSQL."""
    return Database(name, DatabaseEngine.POSTGRES, url)


def sqlite(name: str, path: Path) -> Database:
    """A database of SQLite."""
    return Database(name, DatabaseEngine.SQLITE, str(path))


def _store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(directory=str(folder)))


def _stamp(step: str) -> Stamp:
    return Stamp(RunId("bed"), StepId(step), 1, Epoch(1))
