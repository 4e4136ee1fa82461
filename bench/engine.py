"""The runbook engine: durable steps per second, resume time against journal length, start-up time of the command line.

Run: ``python bench/engine.py [--write]``; ``--write`` puts the table into docs/benchmarks.md.

Budgets of the issue: ``run status`` 0.3 s, ``--help`` 0.5 s. Steps are durable: each has three intents and three outcomes, every
append is a transaction with WAL and synchronous FULL, and every entry is signed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import SystemClock, is_alive, this_driver
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Runbook
from bridgehead.ports.metrics import Reading
from bridgehead.runbook.action import Call, Done, Outcome
from bridgehead.runbook.apply import fold
from bridgehead.runbook.decide import decide
from bridgehead.runbook.engine import Engine, open_run
from bridgehead.runbook.ledger import KeyFolder

sys.path.insert(0, str(Path(__file__).parent))
from table import Table, machine, write_section


class NoParams(msgspec.Struct):
    pass


class Nothing:
    """An action that does nothing: what is measured is the engine."""

    name = "nothing"
    params_type = NoParams
    undoable = True

    def precheck(self, params: NoParams, call: Call) -> Outcome:
        return Done()

    apply = verify = undo = precheck


class NoMetrics:
    def read(self, service: str, site: str) -> Reading:
        return Reading({}, 0.0)


def open_journal(home: Path) -> SqliteJournal:
    return SqliteJournal(home / "journal.db", signer=KeyFolder(home / "keys"), alive=is_alive)


def chain(steps: int, width: int) -> Runbook:
    """``width`` chains side by side, ``steps`` steps in all."""
    return Runbook(
        "bench",
        tuple(ActionStep(StepId(f"s{i}"), "nothing", {}, 3600.0, (StepId(f"s{i - width}"),) if i >= width else ()) for i in range(steps)),
    )


def durable_steps(home: Path, run: str, *, steps: int, width: int) -> float:
    journal = open_journal(home)
    open_run(journal, RunId(run), chain(steps, width), estate={}, by="bench", at_s=time.time())
    engine = Engine(journal, actions={"nothing": Nothing()}, metrics=NoMetrics(), clock=SystemClock(), driver=this_driver())
    began = time.perf_counter()
    engine.drive(RunId(run))
    return steps / (time.perf_counter() - began)


def resume_time(home: Path, run: str, *, entries: int) -> tuple[float, int]:
    """A run with a journal of about ``entries`` entries, most of them readings of a long watch; time to the first decision."""
    journal = open_journal(home)
    first = ev.RunOpened(time.time(), RunId(run), chain(max(1, min(200, entries // 7)), 1), "", {}, "bench", "0")
    journal.create(RunId(run), first)
    engine = Engine(journal, actions={"nothing": Nothing()}, metrics=NoMetrics(), clock=SystemClock(), driver=this_driver())
    engine.drive(RunId(run))
    seq = journal.head_seq(RunId(run))
    while seq < entries:
        batch = [ev.PhaseProgress(time.time(), StepId("s0"), ev.Phase.APPLY, {"left_bytes": 1})] * min(1000, entries - seq)
        seq = journal.append(RunId(run), batch, after_seq=seq, holder=None)[-1].seq
    samples = []
    for _ in range(5):
        began = time.perf_counter()
        fresh = open_journal(home)
        state = fold(entry.event for entry in fresh.read(RunId(run)))
        decide(state, {}, time.time())
        samples.append(time.perf_counter() - began)
        fresh.close()
    return statistics.median(samples), seq


def start_up(*arguments: str, home: Path) -> float:
    """Median wall time of the installed command, cold interpreter, warm disk."""
    command = [str(Path(sys.executable).with_name("bridgehead")), *arguments]
    samples = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "BRIDGEHEAD_HOME": str(home)})
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    table = Table("figure", "value", "budget")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for width in (1, 8, 64):
            rate = statistics.median(durable_steps(home, f"steps-{width}-{i}", steps=1000, width=width) for i in range(3))
            table.add(f"durable steps per second, {width} side by side", f"{rate:,.0f}", "")
        for entries in (10, 1_000, 100_000):
            seconds, seq = resume_time(home, f"resume-{entries}", entries=entries)
            table.add(f"resume: open, read and fold {seq:,} journal entries, first decision", f"{seconds * 1000:,.1f} ms", "< 1 s")
        table.add("`bridgehead run status` (1,000 steps)", f"{start_up('run', 'status', 'steps-1-0', home=home):.3f} s", "0.3 s")
        table.add("`bridgehead run status` (21 steps)", f"{start_up('run', 'status', 'resume-10', home=home):.3f} s", "0.3 s")
        table.add("`bridgehead --help`", f"{start_up('--help', home=home):.3f} s", "0.5 s")
    text = f"{machine()}\n\n{table}"
    print(text)
    if arguments.write:
        write_section("engine", "python bench/engine.py --write", text)


if __name__ == "__main__":
    main()
