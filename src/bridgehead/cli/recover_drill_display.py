"""How drills look in a terminal: the outcome of one, the history, and what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bridgehead.app.drills.history import DueLine, History
from bridgehead.app.drills.reports import folder_of, logs_of
from bridgehead.app.drills.result import DrillResult, Measured, seconds_text
from bridgehead.cli.vault_display import clean, clock, print_columns

if TYPE_CHECKING:
    from bridgehead.app.home import Home


def print_result(one: DrillResult, home: Home) -> None:
    """What was measured, beside the objectives, and where the report is."""
    print(f"{one.drill} at {one.site}: {one.verdict.value}{': ' + clean(one.reason) if one.reason else ''}")
    rows = [("workload", "recovered", "RTO", "objective", "RPO", "objective", "restored from")]
    for case in one.cases:
        recovered = case.evidence if case.recovered else "NO"
        rows.append((case.workload, recovered, *_pair(case.rto), *_pair(case.rpo), case.snapshot or "-"))
    print_columns(rows)
    for case in one.cases:
        if case.passed_over:
            print(f"{case.workload}: passed over, since it cannot be restored: {', '.join(case.passed_over)}")
        if case.loss is not None:
            print(f"a loss at that moment: {case.loss.text}")
    for fault in one.faults:
        print(f"fault {fault.name}: {'struck' if fault.hit else 'did NOT strike'}")
    print("nothing was left" if not one.left else f"LEFT: {'; '.join(one.left)}; `bridgehead recover drill --clean{home.option}`")
    if logs_of(home, one.drill).is_dir():
        print(f"what its jobs printed: {logs_of(home, one.drill)}")
    print(f"signed report: {folder_of(home) / one.drill}.html (.json, .json.sig); ledger head {one.ledger_head}")


def print_history(found: History) -> None:
    """A row a drill, newest last, then a line a workload."""
    if not found.drills and not found.problems:
        print("there was no drill yet")
        return
    rows = [("drill", "when", "at", "verdict", "RTO", "RPO", "faults", "")]
    for one in found.drills:
        said = f"NOT RELIABLE: {one.problem}" if one.problem else clean(one.reason)
        faults = ", ".join(one.faults) or "-"
        rows.append((one.drill, clock(one.at_s), one.site, one.verdict.value, _seconds(one.rto_s), _seconds(one.rpo_s), faults, said))
    print_columns(rows)
    for trend in found.trends:
        words = f"{trend.workload}: recovered in {trend.passed} of {trend.drills}"
        for what, slope in (("RTO", trend.rto_slope_s), ("RPO", trend.rpo_slope_s)):
            if slope is not None:
                words += f"; {what} {'+' if slope >= 0 else '-'}{_seconds(abs(slope))} a drill"
        print(words)
    for problem in found.problems:
        print(f"NOT RELIABLE: {problem}")


def print_due(found: Sequence[DueLine], *, now_s: float) -> None:
    """A row a workload."""
    rows = [("workload", "at", "last recovered", "due", "")]
    for one in found:
        last = "never" if one.last_s is None else f"{_seconds(now_s - one.last_s)} ago"
        when = "NOW" if one.overdue or one.due_s is None else f"in {_seconds(one.due_s - now_s)}"
        rows.append((one.workload, one.site, last, when, clean(one.because)))
    print_columns(rows)


def _pair(one: Measured) -> tuple[str, str]:
    return _seconds(
        one.measured_s
    ), "-" if one.objective_s is None else f"{_seconds(one.objective_s)}{' MISSED' if one.met is False else ''}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else seconds_text(value)
