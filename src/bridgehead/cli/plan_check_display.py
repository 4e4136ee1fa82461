"""How the verdict on a plan looks in a terminal. Rich is imported here, and this module only when something is shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bridgehead.app.plan_check import PlanVerdict
from bridgehead.cli.terminal import Terminal
from bridgehead.kernel.errors import ExitCode
from bridgehead.model.finding import Finding, FindingStatus

_MOST = 5
"""Findings of one rule; ``--all`` shows the others."""
_STYLES = {FindingStatus.FAIL: "bold red", FindingStatus.UNKNOWN: "yellow", FindingStatus.PASS: "green"}
_WORDS = {ExitCode.DONE: ("KEPT", "bold green"), ExitCode.NEGATIVE: ("BROKEN", "bold red")}


def print_verdict(found: PlanVerdict, *, all_of_them: bool, console: Console | None = None) -> None:
    """What is broken, then what is not known, then how much passes."""
    console = console or Terminal()
    word, style = _WORDS.get(found.exit_code, ("CANNOT TELL", "bold yellow"))
    console.print(Text.assemble((word, style), f"  {found.plan}"))
    for title, findings in (("Broken", found.broken), ("Not known", found.unknown)):
        _print_group(console, title, findings, all_of_them=all_of_them)
    if all_of_them:
        _print_group(console, "Kept", found.passed, all_of_them=True)
    counts = f"{len(found.broken)} broken, {len(found.unknown)} unknown, {len(found.passed)} pass"
    console.print(counts + ("" if all_of_them else " (--all lists them)"))


def _print_group(console: Console, title: str, findings: Sequence[Finding], *, all_of_them: bool) -> None:
    if not findings:
        return
    console.print(Text(f"\n{title}", style="bold"))
    for code, group in groupby(findings, key=lambda one: one.code):
        listed = list(group)
        shown = listed if all_of_them else listed[:_MOST]
        for one in shown:
            console.print(Text.assemble((code, _STYLES[one.status]), f"  {one.subject}"))
            console.print(Padding(Text(one.text), (0, 0, 0, 4), expand=False))
            todo = one.remedy or one.measurement
            if todo:
                console.print(Padding(Text(f"-> {todo}", style="dim"), (0, 0, 0, 4), expand=False))
        if len(shown) < len(listed):
            console.print(Text(f"{code}  and {len(listed) - len(shown)} more", style="dim"))
    console.print()
