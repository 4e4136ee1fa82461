"""How an assessment looks in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bridgehead.app.assess import Assessment, Place, input_line, margin_words, quantity
from bridgehead.assess.fleet import counting, few
from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.moment import format_moment
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict

_STYLES = {FindingStatus.FAIL: "bold red", FindingStatus.UNKNOWN: "yellow", FindingStatus.PASS: "green"}
_VERDICTS = {Verdict.GO: "bold green", Verdict.NO_GO: "bold red", Verdict.CANNOT_TELL: "bold yellow"}
_WORDS = {Verdict.GO: "GO", Verdict.NO_GO: "NO-GO", Verdict.CANNOT_TELL: "CANNOT TELL"}
_MOST_MEASUREMENTS = 12


def print_assessment(
    found: Assessment, *, before: Assessment | None, all_of_them: bool, places: Mapping[str, Place], console: Console | None = None
) -> None:
    """The verdict with its binding constraint, then what fails, what is not known, what to measure; with ``before`` only what changed."""
    console = console or Terminal()
    ends = f"{found.source} to {found.target}" if found.source else found.target
    console.print(Text.assemble((_WORDS[found.verdict], _VERDICTS[found.verdict]), f"  {ends}"))
    if before is not None:
        _print_change(console, before, found)
        return
    if found.binding is not None:
        _print_binding(console, found.binding, places)
    for status, severity, title in (
        (FindingStatus.FAIL, Severity.BLOCKING, "What fails"),
        (FindingStatus.FAIL, Severity.WARNING, "Warnings"),
        (FindingStatus.UNKNOWN, Severity.BLOCKING, "Not known"),
        (FindingStatus.UNKNOWN, Severity.WARNING, "Not known, and not decisive"),
        (FindingStatus.PASS, None, "What passes"),
    ):
        chosen = [one for one in found.findings if one.status is status and severity in (None, one.severity)]
        if chosen and (status is not FindingStatus.PASS or all_of_them):
            _print_group(console, title, chosen)
    _print_needed(console, found)
    counts = Counter(one.status for one in found.findings)
    console.print(f"{len(found.findings)} findings: {counts[FindingStatus.FAIL]} fail, {counts[FindingStatus.UNKNOWN]} unknown, "
                  f"{counts[FindingStatus.PASS]} pass{'' if all_of_them else ' (--all lists them)'}")  # fmt: skip


def print_risks(found: Assessment, *, console: Console | None = None) -> None:
    """The register: what decides first."""
    console = console or Terminal()
    for risk in found.risks:
        estimate = [f"owner {risk.owner or 'none yet'}"]
        estimate.append("probability not estimated" if risk.probability is None else f"probability {risk.probability:.0%}")
        estimate.append("cost not estimated" if risk.cost is None else f"cost {risk.cost:,.0f} {found.currency}")
        if risk.exposure is not None:
            estimate.append(f"exposure {risk.exposure:,.0f} {found.currency}")
        console.print(Text.assemble((risk.id, "bold red" if risk.decides else "bold"), f"  {risk.what}"))
        for line in (risk.because, f"-> {risk.mitigation}", "; ".join(estimate)):
            console.print(Padding(Text(line, style="" if line.startswith("->") else "dim"), (0, 0, 0, 4)))
    console.print(f"{len(found.risks)} risks; estimates and owners stand under 'risks' in the policy")


def print_calendar(found: Assessment, *, console: Console | None = None) -> None:
    """The stages with their tasks, dated where a window is set."""
    console = console or Terminal()
    for sentence in found.calendar.advice:
        console.print(Text(sentence))
    for stage in found.calendar.stages:
        dates = f"{stage.begins_days} to {stage.ends_days} days before the move"
        if stage.begins_s is not None and stage.ends_s is not None:
            dates = f"{format_moment(stage.begins_s)[:10]} to {format_moment(stage.ends_s)[:10]} ({dates})"
        late = "" if stage.late_days is None else f"  LATE by {counting(stage.late_days, 'day')}: settle these first, or move the window"
        console.print(Text.assemble((stage.name, "bold"), f"  {dates}", (late, "bold red")))
        for task in stage.tasks:
            at = f"  [{', '.join(task.settles)}: {few(task.where)}]" if task.settles else ""
            console.print(Padding(Text(f"- {task.what}{at}"), (0, 0, 0, 2)))


def _print_binding(console: Console, first: Finding, places: Mapping[str, Place]) -> None:
    console.print(Text.assemble("\nBinding: ", (f"{first.code} {first.subject}", _STYLES[first.status])))
    table = Table.grid(padding=(0, 2))
    table.add_row("", Text(first.text))
    if first.state:
        table.add_row("state", Text(first.state))
    if first.formula:
        table.add_row("formula", Text(first.formula))
    for one in first.inputs:
        table.add_row(Text(one.name), Text(input_line(one, places)))
    if first.remedy:
        table.add_row("do", Text(first.remedy, style="bold"))
    if first.measurement:
        table.add_row("measure", Text(first.measurement, style="bold"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_group(console: Console, title: str, chosen: Sequence[Finding]) -> None:
    """By code: the worst one in words, the others by name."""
    console.print(Text(f"\n{title}", style="bold"))
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for one in chosen:
        by_code[one.code].append(one)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1)
    for code, held in by_code.items():
        first = held[0]
        others = sorted({one.subject for one in held} - {first.subject})
        passes = f" (and {len(others)} more)" if others and first.status is FindingStatus.PASS else ""
        words = Text(f"{first.subject}: {first.text}{passes}")
        table.add_row(Text(code, style=_STYLES[first.status]), margin_words(first.margin), words)
        if others and not passes:
            table.add_row("", "", Text(f"also {few(others)}", style="dim"))
        if first.remedy:
            table.add_row("", "", Text(f"-> {first.remedy}", style="dim"))
    console.print(Padding(table, (0, 0, 0, 2)))


def _print_needed(console: Console, found: Assessment) -> None:
    if not found.needed:
        return
    console.print(Text("\nWhat would settle it", style="bold"))
    for number, one in enumerate(found.needed[:_MOST_MEASUREMENTS], start=1):
        console.print(Text(f"  {number:>2}. {one.what}  [{len(one.settles)} finding{'' if len(one.settles) == 1 else 's'}]"
                           f"{'' if one.blocking else ', not decisive'}"))  # fmt: skip
    if len(found.needed) > _MOST_MEASUREMENTS:
        console.print(f"      {len(found.needed) - _MOST_MEASUREMENTS} more; --json lists all")
    console.print()


def _print_change(console: Console, before: Assessment, after: Assessment) -> None:
    console.print(f"before: {_WORDS[before.verdict]}")
    old = {(one.code, one.subject, one.state): one for one in before.findings}
    new = {(one.code, one.subject, one.state): one for one in after.findings}
    lines = []
    for key in sorted({*old, *new}):
        was, now = old.get(key), new.get(key)
        if (was and (was.status, was.value, was.limit)) != (now and (now.status, now.value, now.limit)):
            shown = " ".join(filter(None, (key[0], key[1], f"({key[2]})" if key[2] else "")))
            lines.append(Text.assemble(f"  {shown}: ", _state(was), " -> ", _state(now)))
    for line in lines:
        console.print(line)
    console.print("1 finding changes" if len(lines) == 1 else f"{len(lines)} findings change")


def _state(one: Finding | None) -> tuple[str, str]:
    if one is None:
        return ("not there", "dim")
    number = f" {quantity(one.value, one.unit)} of {quantity(one.limit, one.unit)}" if one.limit is not None else ""
    return (f"{one.status.value}{number}", _STYLES[one.status])
