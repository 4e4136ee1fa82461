"""How prices of objectives look in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.quantity import format_duration
from bridgehead.model.finding import Input, Origin
from bridgehead.recovery.objectives.choice import Bought
from bridgehead.recovery.objectives.option import Option
from bridgehead.recovery.objectives.pricing import PatternPrice, Pricing, Rung, Step

_MOST_NAMES = 4
_BAR = 24


def print_price(found: Pricing, *, title: str, console: Console | None = None) -> None:
    """The cheapest set, what it shares, what decides it; then patterns, times and tightenings beside it; then what was guessed."""
    console = console or Terminal()
    chosen = found.chosen
    proof = "the cheapest there is" if chosen.gap == 0 else f"at most {chosen.gap:.1%} above the cheapest"
    least = "at least " if chosen.gaps else ""
    console.print(Text.assemble((f"{least}{_money(chosen.month)} {found.currency} a month", "bold"), f"  {title}: {proof}"))
    if found.anyway:
        share = f"{chosen.month / found.anyway:.0%} of the {_money(found.anyway)} that the GPUs cost anyway"
        console.print(Text(share, style="dim"))
    if chosen.unmet:
        console.print(Text(f"met by no pattern: {', '.join(chosen.unmet)}; they are in no price", style="bold red"))
    if found.without:
        console.print(Text(f"without objective and class, in no price: {', '.join(found.without)}", style="bold yellow"))
    if found.assumed:
        console.print(Text(f"priced by the default of their kind, which nobody accepted: {', '.join(found.assumed)}", style="yellow"))
    _print_options(console, chosen.options)
    _print_bought(console, chosen.bought)
    if found.binds:
        console.print(Text("\nWhat decides the price", style="bold"))
        for line in found.binds:
            console.print(Padding(Text(f"- {line}"), (0, 0, 0, 2)))
    _print_patterns(console, found.patterns)
    _print_rungs(console, "All with one RPO", found.rpo, chosen.month)
    _print_rungs(console, "All with one RTO", found.rto, chosen.month)
    _print_steps(console, found.steps, found.currency)
    _print_weak(console, found, chosen.gaps)


def _print_options(console: Console, options: Sequence[Option]) -> None:
    if not options:
        return
    console.print(Text("\nHow each is kept ready", style="bold"))
    table = _table("", "pattern", "at", "RPO", "RTO", "its own cost")
    for one in options:
        own = sum(line.month for line in one.lines)
        lines = ", ".join(f"{line.what} {_money(line.month)}" for line in one.lines)
        rto = "not known" if one.rto_s is None else _time(one.rto_s)
        rpo = f"{_time(one.rpo_s)}{' (sync)' if one.sync else ''}"
        at = str(one.site).strip("()")
        table.add_row(Text(one.thing), Text(one.pattern.value), Text(at), rpo, rto, Text(f"{_money(own)}  ({lines})"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_bought(console: Console, bought: Sequence[Bought]) -> None:
    if not bought:
        return
    console.print(Text("\nWhat they share", style="bold"))
    table = _table("", "where", "needed", "there anyway", "bought", "a month")
    for one in bought:
        need, free, amount = (_amount(one.what, number) for number in (one.need, one.free, one.amount))
        if one.what == "pattern":
            need, free, amount = "", "", f"{one.amount:g} h"
        table.add_row(one.what, Text(one.where), need, free, amount, _money(one.month))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_patterns(console: Console, patterns: Sequence[PatternPrice]) -> None:
    console.print(Text("\nWith one pattern wherever it can be used", style="bold"))
    table = _table("", "a month", "of the GPUs' cost", "too slow for", "not for")
    for one in patterns:
        share = "" if one.share is None else f"+{one.share:.0%}"
        late = Text(_names(one.late) or "-", style="red" if one.late else "dim")
        table.add_row(one.pattern.value, _money(one.month), share, late, Text(_names(one.others) or "-", style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_rungs(console: Console, title: str, rungs: Sequence[Rung], month: float) -> None:
    most = max([rung.month for rung in rungs if rung.month is not None] + [month, 1.0])
    console.print(Text(f"\n{title}", style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    for rung in rungs:
        if rung.month is None:
            table.add_row(_time(rung.value_s), "-", Text(f"cannot be met: {_names(rung.unmet)}", style="red"))
        else:
            table.add_row(_time(rung.value_s), _money(rung.month), Text("█" * max(1, round(_BAR * rung.month / most)), style="cyan"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_steps(console: Console, steps: Sequence[Step], currency: str) -> None:
    if not steps:
        return
    console.print(Text("\nOne objective a rung tighter or looser", style="bold"))
    table = _table("", "", "from", "to", f"{currency} a month")
    for one in steps:
        more = "cannot be met" if one.more is None else f"{one.more:+,.0f}" if one.more else "0"
        style = "red" if one.more is None or one.more > 0 else "green" if one.more < 0 else "dim"
        table.add_row(Text(one.objective), one.which.upper(), _time(one.from_s), _time(one.to_s), Text(more, style=style))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_weak(console: Console, found: Pricing, gaps: Sequence[str]) -> None:
    if gaps:
        console.print(Text(f"\nNot known, and in no price: {', '.join(gaps)}", style="bold yellow"))
    guesses = [one for one in found.inputs if one.origin is Origin.GUESS]
    if guesses:
        console.print(Text("\nGuessed, since the objectives file does not say", style="bold yellow"))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right")
        table.add_column(ratio=1)
        for one in guesses:
            if not one.name.startswith("patterns."):
                table.add_row(Text(one.name, style="yellow"), _input(one), Text(one.source, style="dim"))
        for name, terms in _terms(guesses).items():
            table.add_row(Text(name, style="yellow"), "", Text(terms, style="dim"))
        console.print(Padding(table, (0, 0, 0, 2)))


def _terms(guesses: Sequence[Input]) -> dict[str, str]:
    """By pattern: its guessed terms in one line."""
    found: dict[str, list[str]] = {}
    for one in guesses:
        if one.name.startswith("patterns."):
            pattern, _, term = one.name.rpartition(".")
            found.setdefault(pattern, []).append(f"{term.replace('_', ' ')} {_input(one)}")
    return {pattern: ", ".join(terms) for pattern, terms in found.items()}


def _input(one: Input) -> str:
    value = one.value
    assert isinstance(value, int | float)
    if one.unit == "s":
        return _time(value)
    if one.unit == "bit/s":
        return f"{value / 1e9:g} Gbps"
    return f"{value:g} {one.unit}".strip()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _amount(what: str, number: float) -> str:
    return f"{number / 1e9:,.3g} Gbps" if what == "line" else f"{number:,.0f}"


def _money(month: float) -> str:
    return f"{month:,.0f}"


def _time(value_s: float) -> str:
    return format_duration(value_s, digits=3)


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest
