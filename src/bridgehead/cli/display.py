"""Display: how runs look in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from bridgehead.app.views import RunView, StepView, clock_time, view
from bridgehead.cli.live_lines import HERE, LEAVES, LiveLines
from bridgehead.cli.terminal import PIPE_COLUMNS
from bridgehead.runbook.state import Ended, RunState

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
AT_REST = frozenset({"waiting", "done", "undone", "kept", "skipped"})


class Live:
    """A run while it goes on: a table that redraws itself in a terminal, a line for each change elsewhere. Writes to stderr.

    A terminal that goes away does not disturb the run.
    """

    def __init__(self, state: RunState) -> None:
        self._console = _console(stderr=True)
        self._shown = (state, "")
        self._whole = False
        self._lines = LiveLines(state)
        redraws = self._console.is_terminal and not self._console.is_dumb_terminal
        # Redrawn by the clock and not by events: the last event before a long wait must not stay undrawn.
        self._live = RichLive(console=self._console, get_renderable=self._picture, refresh_per_second=4) if redraws else None

    def __enter__(self) -> Live:
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._whole = True
            with contextlib.suppress(OSError):
                self._live.__exit__(kind, error, trace)

    def show(self, state: RunState, *, driver: str) -> None:
        """Show the state; quick enough to be called for every event."""
        self._shown = (state, driver)
        if self._live is None:
            with contextlib.suppress(OSError):
                for line in self._lines.of(state, driver=driver):
                    self._line(line)

    def say(self, text: str) -> None:
        """A word between, above the table where there is one."""
        with contextlib.suppress(OSError):
            if self._live is None:
                self._line(text)
            else:
                self._console.print(text, soft_wrap=True)

    def _picture(self) -> Group:
        state, driver = self._shown
        table = status_table(view(state, driver=driver), rows=None if self._whole else self._console.height)
        stoppable = driver == HERE and not self._whole and not isinstance(state.mode, Ended)
        return Group(table, Text(LEAVES, style="dim")) if stoppable else table

    def _line(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def status_table(seen: RunView, *, rows: int | None = None) -> Group:
    """All steps with their states; with ``rows``, as many around the busy ones as fit into that height."""
    before, shown, after = (0, seen.steps, 0) if rows is None else _window(seen.steps, max(3, rows - 9))
    title = Text(f"{seen.run}: {seen.mode}" + (f" ({seen.reason})" if seen.reason else ""))
    caption = Text(f"opened {clock_time(seen.opened_s)}, driven by {seen.driver or 'nobody'}")
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("step", overflow="fold")
    table.add_column("state", overflow="fold")
    table.add_column("what", overflow="fold", ratio=1)
    if before:
        table.add_row("", f"({before} before)", "", "")
    for step in shown:
        mark, style = MARKS[step.state]
        what = Text(step.title if step.title != step.id else "")
        if step.detail:
            what.append((": " if what else "") + step.detail, style="dim")
        table.add_row(Text(mark, style=style), Text(step.id), Text(step.state, style=style), what)
    if after:
        table.add_row("", f"({after} after)", "", "")
    return Group(title, table, caption)


def _window(steps: tuple[StepView, ...], size: int) -> tuple[int, tuple[StepView, ...], int]:
    """How many steps are left out before, those that are shown, and how many are left out after."""
    if len(steps) <= size:
        return 0, steps, 0
    busy = [number for number, step in enumerate(steps) if step.state not in AT_REST]
    ahead = next((number for number, step in enumerate(steps) if step.state != "done"), 0)
    first = min(max(0, (busy[0] if busy else ahead) - 1), len(steps) - size)
    return first, steps[first : first + size], len(steps) - first - size


def print_status(seen: RunView) -> None:
    """The table, and what can be done."""
    _out(status_table(seen), *(Text(f"  {line}", style="dim") for line in seen.what_you_can_do))


def print_runs(found: list[RunView], *, home: str) -> None:
    """One line a run."""
    if not found:
        print(f"no runs yet in {home}; `bridgehead run start RUNBOOK --estate ESTATE` starts one")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("run", "runbook", "state", "steps", "opened", "driven by"):
        table.add_column(column, overflow="fold")
    for seen in found:
        if not seen.steps:
            table.add_row(Text(seen.run), "", Text(seen.mode, style="bold red"), "", "", Text(seen.what_you_can_do[0]))
            continue
        finished = sum(step.state == "done" for step in seen.steps)
        steps = f"{finished}/{len(seen.steps)}"
        table.add_row(Text(seen.run), Text(seen.runbook), seen.mode, steps, clock_time(seen.opened_s), seen.driver or "nobody")
    _out(table)


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
        said = {key: value for key, value in entry.items() if key not in hidden and value not in ("", None, [], {})}
        rest = "  ".join(f"{key}={_plain(value)}" for key, value in said.items())
        print(f"{entry['seq']:6d}  {clock_time(entry['at_s'])}  {entry['hash'][:12]}  {entry['event']:16s} {rest}".rstrip())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _console(*, stderr: bool = False) -> Console:
    """Texts come from files and other programs: they are shown as they are, never read as markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS
    return Console(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


def _out(*renderables: RenderableType) -> None:
    """Print on stdout. Not by the console itself, which ends the process in its own way when the reader has left."""
    console = _console()
    with console.capture() as captured:
        for one in renderables:
            console.print(one, soft_wrap=isinstance(one, Text))  # commands are copied: no line break inside
    sys.stdout.write("".join(line.rstrip(" ") + "\n" for line in captured.get().splitlines()))
