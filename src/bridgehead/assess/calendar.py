"""Calendar: the assessment begins ninety days before the move and has dates of its own (M5.0). Pure.

Each stage has the tasks that it always has, and what the findings still want. How long before the move a stage lies is a plan (I), chosen
so that what takes longest to change (circuits, cooling, lines) comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.model.finding import Finding, FindingStatus

DAY_S: Final = 86_400.0
ASSESSMENT_DAYS: Final = 90


class Task(msgspec.Struct, frozen=True):
    """Something to do. ``settles``: codes of the findings that wait for it; empty for what is always done."""

    what: str
    settles: tuple[str, ...] = ()


class Stage(msgspec.Struct, frozen=True):
    """A part of the assessment.

    Attributes:
        begins_days: this many days before the move it begins; ``ends_days`` likewise.
        begins_s: the moment, where the date of the move is known; ``ends_s`` likewise.
        late: it should have ended already, and things are open.
    """

    name: str
    begins_days: int
    ends_days: int
    tasks: tuple[Task, ...]
    begins_s: float | None = None
    ends_s: float | None = None
    late: bool = False


_STAGES: Final[tuple[tuple[str, int, int, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("Inventory", 90, 76, ("EST", "FW", "GEN", "INT", "TOP"), ("discover both sites, and settle conflicts and unknowns (M5.1)",
     "list workloads, services and what they depend on (M5.2)")),
    ("Building", 75, 46, ("PWR", "COOL", "SPACE", "PLACE", "RSV"), ("walk the power paths with an electrician (M5.3, M10.3)",
     "order what has long lead times: circuits, cooling, spares (M10.1)")),
    ("Network", 60, 31, ("FAB", "CAB", "WAN", "STR", "QOS", "MOV"), ("test every line under load, and pull each one (M10.2)",)),
    ("Workloads", 45, 22, ("WL", "STO"), ("measure one save and one restore of each workload (M5.2, M9)",)),
    ("Acceptance", 30, 15, ("ACC",), ("run nccl-tests, iperf3 and storage tests at node, rack and full scale (P5)",)),
    ("Rehearsal", 21, 8, (), ("drill the move and its way back (M10.4)", "fail a line every week (M10.2)")),
    ("Freeze", 7, 0, (), ("assess again with the newest facts, and decide go or no-go", "no changes but those of the move")),
)  # fmt: skip
"""Name, days before the move, beginnings of codes that belong to it, and what is always done."""
_REST: Final = "Inventory"


def calendar(findings: Iterable[Finding], *, move_s: float | None, now_s: float) -> tuple[Stage, ...]:
    """All stages, in order.

    Args:
        findings: of an assessment; those that fail or are unknown become tasks.
        move_s: when the move begins, seconds since 1970; None where no window is set.
        now_s: now.
    """
    open_tasks = _tasks(findings)
    stages = []
    for name, begins, ends, _, always in _STAGES:
        wanted = [task for stage, task in open_tasks if stage == name]
        ends_s = None if move_s is None else move_s - ends * DAY_S
        stages.append(
            Stage(
                name,
                begins,
                ends,
                (*(Task(what) for what in always), *wanted),
                begins_s=None if move_s is None else move_s - begins * DAY_S,
                ends_s=ends_s,
                late=bool(wanted) and ends_s is not None and ends_s < now_s,
            )
        )
    return tuple(stages)


def _tasks(findings: Iterable[Finding]) -> Sequence[tuple[str, Task]]:
    waiting: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.status is not FindingStatus.PASS:
            what = finding.remedy if finding.status is FindingStatus.FAIL else finding.measurement
            waiting.setdefault((_stage_of(finding.code), what), []).append(finding.code)
    return [(stage, Task(what, tuple(sorted(set(codes))))) for (stage, what), codes in sorted(waiting.items()) if what]


def _stage_of(code: str) -> str:
    family = code.partition("-")[0]
    return next((name for name, _, _, families, _ in _STAGES if family in families), _REST)
