"""How findings and figures of objectives look in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bridgehead.app.objectives import Checked
from bridgehead.cli.terminal import Terminal
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict
from bridgehead.recovery.objectives.figures import Figure, Outcome
from bridgehead.recovery.objectives.judge import ObjectiveFinding, Price

_STYLES = {FindingStatus.FAIL: "bold red", FindingStatus.UNKNOWN: "yellow", FindingStatus.PASS: "green"}
_VERDICTS = {
    Verdict.GO: ("HOLDS", "bold green"),
    Verdict.NO_GO: ("DOES NOT HOLD", "bold red"),
    Verdict.CANNOT_TELL: ("CANNOT TELL", "bold yellow"),
}
_OUTCOMES = {Outcome.HOLDS: "green", Outcome.ASSUMES: "yellow", Outcome.WRONG: "bold red", Outcome.OPEN: "dim"}
_MOST = 4


def print_check(found: Checked, *, title: str, all_of_them: bool, console: Console | None = None) -> None:
    """The verdict; what fails, with its price; what is not known; with ``all_of_them`` what passes."""
    console = console or Terminal()
    word, style = _VERDICTS[found.verdict]
    console.print(Text.assemble((word, style), f"  {title}"))
    for status, severity, head in (
        (FindingStatus.FAIL, Severity.BLOCKING, "Conflicts"),
        (FindingStatus.FAIL, Severity.WARNING, "Warnings"),
        (FindingStatus.UNKNOWN, Severity.BLOCKING, "Not known"),
        (FindingStatus.UNKNOWN, Severity.WARNING, "Not known, and not decisive"),
        (FindingStatus.PASS, None, "What holds"),
    ):
        chosen = [one for one in found.findings if one.status is status and severity in (None, one.severity)]
        if chosen and (status is not FindingStatus.PASS or all_of_them):
            _print_group(console, head, chosen, each=status is FindingStatus.FAIL)
    counts = Counter(one.status for one in found.findings)
    shown = ", ".join(f"{counts[status]} {status.value}" for status in FindingStatus)
    console.print(Text(f"\n{shown}", style="dim"))


def _print_group(console: Console, head: str, chosen: Sequence[Finding], *, each: bool) -> None:
    """What fails one by one; the rest by code, the first in words and the others by name."""
    console.print(Text(f"\n{head}", style="bold"))
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for one in chosen:
        by_code[one.code].append(one)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for code, held in by_code.items():
        shown = held if each else held[:1]
        for number, one in enumerate(shown):
            table.add_row(Text(code if number == 0 else "", style=_STYLES[one.status]), _sentence(one))
            for line in _after(one):
                table.add_row("", line)
        others = list(dict.fromkeys(_name(one) for one in held[len(shown) :]))
        if others:
            rest = f" and {len(others) - _MOST} more" if len(others) > _MOST else ""
            table.add_row("", Text(f"also {', '.join(others[:_MOST])}{rest}", style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _name(one: Finding) -> str:
    return f"{one.subject} ({one.state})" if one.state else one.subject


def _sentence(one: Finding) -> Text:
    return Text.assemble((_name(one), "bold"), f": {one.text}")


def _after(one: Finding) -> Iterable[Text]:
    if one.remedy:
        yield Text(f"-> {one.remedy}", style="dim")
    if one.measurement:
        yield Text(f"-> {one.measurement}", style="dim")
    if isinstance(one, ObjectiveFinding) and one.price is not None:
        yield Text(f"   price: {price_words(one.price)}", style="yellow" if one.price.guess else "")


def price_words(price: Price) -> str:
    """Money and what it buys; a guess is said to be one."""
    if price.month is None:
        return price.what
    guess = " (guess)" if price.guess else ""
    more = " more" if price.more else ""
    return f"{price.month:,.0f} {price.currency} a month{more}{guess}: {price.what}"


def print_figures(worked: Iterable[Figure], *, console: Console | None = None) -> None:
    """The printed figures, with what comes out when they are worked out."""
    console = console or Terminal()
    table = Table(box=None, pad_edge=False)
    for column in ("", "printed", "worked out"):
        table.add_column(column, overflow="fold", ratio=1 if column else None)
    table.add_column("", no_wrap=True)
    for one in worked:
        table.add_row(
            Text(one.requirement, style="dim"), Text(one.claim), Text(one.text), Text(one.outcome.value, style=_OUTCOMES[one.outcome])
        )
    console.print(table)
