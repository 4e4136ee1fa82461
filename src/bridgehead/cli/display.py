"""Display: how runs look in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from bridgehead.app.runs import mode_word
from bridgehead.app.views import RunView, clock_time, step_view, view
from bridgehead.kernel.ids import StepId
from bridgehead.ports.journal import DriverIdentity
from bridgehead.runbook.state import RunState

if TYPE_CHECKING:
    from bridgehead.app.dst import Prediction

MARKS = {
    "waiting": ("·", "dim"),
    "checking": ("?", "cyan"),
    "working": ("▶", "cyan"),
    "verifying": ("◎", "cyan"),
    "looking": ("◎", "yellow"),
    "measuring": ("◔", "cyan"),
    "asking": ("✋", "yellow"),
    "assigned": ("✋", "yellow"),
    "assigned (undo)": ("✋", "yellow"),
    "holding": ("⏸", "cyan"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "to-undo": ("↶", "yellow"),
    "undoing": ("↶", "yellow"),
    "undone": ("↶", "dim"),
    "kept": ("✓", "dim"),
    "skipped": ("–", "dim"),
    "stuck": ("!", "bold red"),
}


def driver_text(holder: DriverIdentity | None) -> str:
    """Who drives, "" for nobody."""
    return "" if holder is None else f"process {holder.pid} on {holder.host}"


class Live:
    """A run while it goes on: a table that redraws itself in a terminal, a line for each change elsewhere. Writes to stderr."""

    def __init__(self, state: RunState) -> None:
        self._console = Console(stderr=True)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=False) if self._console.is_terminal else None
        self._words: dict[StepId, str] = {step_id: step_view(state, step_id).state for step_id in state.plan.steps}
        self._mode = mode_word(state)
        self._drawn_s = 0.0

    def __enter__(self) -> Live:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def show(self, state: RunState, *, driver: str) -> None:
        """Show the state; quick enough to be called for every event."""
        if self._live is None:
            self._lines(state)
            return
        ended = mode_word(state) != self._mode
        if ended or time.monotonic() - self._drawn_s > 0.1:
            self._drawn_s, self._mode = time.monotonic(), mode_word(state)
            self._live.update(status_table(view(state, driver=driver)), refresh=True)

    def _lines(self, state: RunState) -> None:
        for step_id in state.plan.steps:
            seen = step_view(state, step_id)
            if seen.state != self._words[step_id]:
                self._words[step_id] = seen.state
                text = f"{time.strftime('%H:%M:%S')}  {step_id}: {seen.state}{'  ' + seen.detail if seen.detail else ''}"
                print(text, file=sys.stderr, flush=True)
        if mode_word(state) != self._mode:
            self._mode = mode_word(state)
            print(f"{time.strftime('%H:%M:%S')}  run {state.run}: {self._mode}", file=sys.stderr, flush=True)


def status_table(seen: RunView) -> Table:
    """All steps with their states."""
    title = f"{seen.run}: {seen.mode}" + (f" ({seen.reason})" if seen.reason else "")
    caption = f"opened {clock_time(seen.opened_s)}, driven by {seen.driver or 'nobody'}"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("step", overflow="fold")
    table.add_column("state")
    table.add_column("what", overflow="fold", ratio=1)
    for step in seen.steps:
        mark, style = MARKS[step.state]
        table.add_row(Text(mark, style=style), step.title, Text(step.state, style=style), Text(step.detail, style="dim"))
    return table


def print_status(seen: RunView) -> None:
    """The table, and what can be done."""
    console = Console()
    console.print(status_table(seen))
    for line in seen.what_you_can_do:
        console.print(f"  {line}", markup=False, highlight=False, style="dim")


def print_runs(found: list[RunView]) -> None:
    """One line a run."""
    console = Console()
    if not found:
        console.print("no runs yet; `bridgehead run start RUNBOOK --estate ESTATE` starts one")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("run", "runbook", "state", "steps", "opened", "driven by"):
        table.add_column(column, overflow="fold")
    for seen in found:
        finished = sum(step.state == "done" for step in seen.steps)
        table.add_row(
            seen.run, seen.runbook, seen.mode, f"{finished}/{len(seen.steps)}", clock_time(seen.opened_s), seen.driver or "nobody"
        )
    console.print(table)


def print_explanation(seen: RunView) -> None:
    """Plain sentences."""
    print(f"{seen.run} is {seen.mode}{': ' + seen.reason if seen.reason else ''}")
    if seen.waits_for:
        print("It waits for:")
        for line in seen.waits_for:
            print(f"  - {line}")
    if seen.what_you_can_do:
        print("You can:")
        for line in seen.what_you_can_do:
            print(f"  {line}")


def print_prediction(runbook: str, foreseen: Prediction) -> None:
    """A dry run."""
    print(f"{runbook}, in a simulated world without faults:")
    for moment in foreseen.moments:
        print(f"  {moment.at_s:9.2f} s  {moment.step or 'run'}: {moment.what}")
    print(f"It would end as: {foreseen.verdict}. Durations are those of the simulated world, not of your sites.")


def print_ledger(entries: list[dict[str, Any]]) -> None:
    """One line an entry."""
    hidden = {"seq", "event", "at_s", "previous", "hash", "signature", "key_id", "runbook", "estate"}
    for entry in entries:
        rest = "  ".join(f"{key}={value}" for key, value in entry.items() if key not in hidden and value not in ("", None, [], {}))
        print(f"{entry['seq']:6d}  {clock_time(entry['at_s'])}  {entry['hash'][:12]}  {entry['event']:16s} {rest}")
