"""How a site preflight looks in a terminal. Rich is imported here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from bridgehead.assess.verdict import binding_first
from bridgehead.cli.terminal import Terminal
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict

_WORDS: Final = {
    Verdict.GO: ("READY", "bold green"),
    Verdict.NO_GO: ("NOT READY", "bold red"),
    Verdict.CANNOT_TELL: ("CANNOT TELL", "bold yellow"),
}
_MARKS: Final = {
    FindingStatus.FAIL: ("missing", "bold red"),
    FindingStatus.UNKNOWN: ("not known", "yellow"),
    FindingStatus.PASS: ("there", "green"),
}


def print_findings(findings: Sequence[Finding], verdict: Verdict, *, all_of_them: bool) -> None:
    """The verdict, what is missing with its remedy, what is not known with what would settle it."""
    console = Terminal()
    console.print(Text(*_WORDS[verdict]))
    for one in binding_first(findings):
        if one.status is FindingStatus.PASS and not all_of_them:
            continue
        mild = "  (does not decide)" if one.severity is Severity.WARNING and one.status is not FindingStatus.PASS else ""
        console.print(Text.assemble(_MARKS[one.status], f"  {one.subject}: {one.text}{mild}"))
        note = "; ".join(filter(None, (one.state, one.remedy or one.measurement)))
        if one.status is not FindingStatus.PASS and note:
            console.print(Text(f"    {note}", style="dim"))
    counts = Counter(one.status for one in findings)
    console.print(
        f"{len(findings)} looked at: {counts[FindingStatus.PASS]} there, {counts[FindingStatus.FAIL]} missing, "
        f"{counts[FindingStatus.UNKNOWN]} not known{'' if all_of_them else ' (--all lists what is there)'}"
    )
