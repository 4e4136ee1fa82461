"""How the cost of a plan looks in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.quantity import format_duration
from bridgehead.model.finding import Origin
from bridgehead.planning.cost import Cost, CostLine
from bridgehead.planning.cost_lines import Group
from bridgehead.planning.cost_words import input_words, money, months

_STYLES = {Origin.MISSING: "bold yellow", Origin.GUESS: "yellow"}
_TITLES = {
    Group.MOVE: "While both sites run",
    Group.OTHERWISE: "What the source would have cost in that time",
    Group.SAVING: "Saved in each year after",
}
_MOST = 10


def print_cost(found: Cost, *, notes: Sequence[str] = (), console: Console | None = None) -> None:
    """Lines by group, totals, payback, what was guessed, and what decides."""
    console = console or Terminal()
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)
    for group in Group:
        _print_group(console, found, _TITLES[group], found.group(group))
    whole = "" if found.complete else "  (of what is known: some lines are unknown)"
    console.print(Text(f"\nTotal        {money(found.total, found.currency)}{whole}", style="bold"))
    console.print(Text(f"Extra        {money(found.extra, found.currency)}  that nobody would have paid who stays", style="bold"))
    saved = "unknown" if found.saved_year is None else money(found.saved_year, found.currency)
    console.print(f"Saved        {saved} a year")
    console.print(f"Payback      {months(found)}")
    if found.lost_cluster_s is not None:
        outage = "" if found.as_outage is None else f"; an unplanned outage of that length costs {money(found.as_outage, found.currency)}"
        console.print(f"Lost compute {format_duration(found.lost_cluster_s, digits=3)} of all GPUs together{outage}")
    if found.guesses:
        console.print(Text(f"Guessed: {', '.join(found.guesses)}", style="yellow"))
    if found.unknown:
        console.print(Text(f"Unknown: {', '.join(found.unknown)}", style="bold yellow"))
    _print_sensitivity(console, found)


def _print_group(console: Console, found: Cost, title: str, lines: Sequence[CostLine]) -> None:
    if not lines:
        return
    console.print(Text(f"\n{title}", style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(no_wrap=True)
    for line in lines:
        amount = Text("unknown" if line.amount is None else money(line.amount, found.currency), style=_STYLES.get(line.origin, ""))
        words = " × ".join(input_words(one) for one in line.inputs)
        note = f"  ({line.note})" if line.note else ""
        table.add_row(
            amount, Text.assemble(line.title, (f"  {words}{note}", "dim")), Text(line.origin.value, _STYLES.get(line.origin, "dim"))
        )
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_sensitivity(console: Console, found: Cost) -> None:
    console.print(Text("\nWhat decides it: each input a fifth less, a fifth more", style="bold"))
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1)
    table.add_row("extra", "", "payback", "", "", style="dim")
    for one in found.sensitivity[:_MOST]:
        paid = ["" if value is None else f"{value:.1f}" for value in (one.payback_less, one.payback_more)]
        table.add_row(
            f"{one.less:+,.0f}", f"{one.more:+,.0f}", *paid, Text.assemble(one.input, (f"  {one.source}, {one.origin.value}", "dim"))
        )
    console.print(Padding(table, (0, 0, 0, 2)))
    if len(found.sensitivity) > _MOST:
        console.print(f"  {len(found.sensitivity) - _MOST} more; --json lists all")
