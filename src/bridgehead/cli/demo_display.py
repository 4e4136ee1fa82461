"""How the demo looks in a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from bridgehead.app.demo.script import Script
from bridgehead.app.demo.summary import Summary
from bridgehead.app.views import step_view, view
from bridgehead.cli.display import status_table
from bridgehead.kernel.ids import StepId
from bridgehead.runbook.state import RunState


class Progress:
    """What is going on: a table that redraws itself in a terminal, a line for each change elsewhere. Writes to stderr."""

    def __init__(self, script: Script) -> None:
        self._console = Console(stderr=True)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        self._script = script
        self._began_s = time.monotonic()
        self._drawn_s = 0.0
        self._words: dict[StepId, str] = {}
        self._told = ""

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def watch(self, doing: str, state: RunState | None) -> None:
        """See ``play.Watch``."""
        if self._live is None:
            self._lines(doing, state)
        elif doing != self._told or time.monotonic() - self._drawn_s > 0.1:
            self._drawn_s = time.monotonic()
            seconds = time.monotonic() - self._began_s
            head = Text.assemble((f"bridgehead demo ({self._script.kind.value})", "bold"), f"  {seconds:5.1f} s  {doing}")
            body = status_table(view(state, driver="an engine in a process of its own")) if state is not None else Text("")
            self._live.update(Group(head, body), refresh=True)
        self._told = doing

    def _lines(self, doing: str, state: RunState | None) -> None:
        seconds = time.monotonic() - self._began_s
        if doing != self._told:
            print(f"{seconds:6.1f} s  {doing}", file=sys.stderr, flush=True)
        for step_id in state.plan.steps if state is not None else ():
            assert state is not None
            seen = step_view(state, step_id)
            if seen.state != self._words.get(step_id, "waiting"):
                self._words[step_id] = seen.state
                print(f"{seconds:6.1f} s    {step_id}: {seen.state}", file=sys.stderr, flush=True)


def print_summary(summary: Summary) -> None:
    """The result, for people."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _rows(summary):
        table.add_row(name, value)
    console.print()
    console.print(table)
    console.print()
    for name, kept in summary.promises.items():
        mark = Text("✓ ", style="green") if kept else Text("✗ ", style="bold red")
        console.print(mark + Text(name.replace("_", " ")))
    broken = [name for name, kept in summary.promises.items() if not kept]
    console.print()
    if broken:
        console.print(f"{len(broken)} of {len(summary.promises)} promises broken: {', '.join(broken)}", style="bold red")
    else:
        console.print(f"all {len(summary.promises)} promises kept, in {summary.duration_s:.0f} s", style="bold green")
    for note in summary.notes:
        console.print(f"  {note}", style="dim")


def _rows(summary: Summary) -> list[tuple[str, str]]:
    rows = [
        ("requests sent, of them streams", f"{summary.requests_sent:,}, {summary.streams:,}"),
        ("failed, wrong, cut", f"{summary.requests_failed}, {summary.requests_wrong}, {summary.requests_cut}"),
        ("training steps, of them lost", f"{summary.steps:,}, {_number(summary.steps_lost)}"),
        ("weights after the move", (summary.weights_hash_moved or "not compared")[:32]),
        ("weights without a move", (summary.weights_hash_unmoved or "not compared")[:32]),
        ("compute lost, pre-copied", _seconds(summary.lost_compute_s_precopy)),
        ("compute lost, stop-copy-start", _seconds(summary.lost_compute_s_stop_copy_start)),
        ("resume of the engine", _seconds(summary.resume_s)),
        (
            "snapshots moved: raw, stored, on the line",
            f"{summary.raw_bytes / 1e6:,.1f} MB, {summary.stored_bytes / 1e6:,.1f} MB, {summary.wire_bytes / 1e6:,.1f} MB",
        ),
        ("ledger", f"{summary.ledger_entries} entries, head {summary.ledger_head[:16]}"),
    ]
    for split in summary.splits:
        text = f"{split.seen_percent:.1f} % of {split.sessions:,} sessions (± {split.tolerance_percent:.1f})"
        rows.append((f"asked {split.asked_percent} %, seen", text))
    for latency in summary.latencies:
        rows.append((f"latency {latency.period}, p50 p99", f"{latency.p50_s * 1000:.1f} ms, {latency.p99_s * 1000:.1f} ms"))
    return rows


def _number(value: int | None) -> str:
    return "not moved" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f} s"
