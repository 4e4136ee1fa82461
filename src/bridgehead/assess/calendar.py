"""Calendar: the assessment begins ninety days before the move and has dates of its own (M5.0). Pure.

Each stage has the tasks that it always has, and what the findings still want. How long before the move a stage lies is a plan (I), chosen
so that what takes longest to change (circuits, cooling, lines) comes first. What is late is told with what can be done about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.assess.fleet import counting
from bridgehead.assess.windows import usable
from bridgehead.kernel.moment import format_moment
from bridgehead.model.finding import Finding, FindingStatus
from bridgehead.model.policy import Period

DAY_S: Final = 86_400.0
ASSESSMENT_DAYS: Final = 90


class Task(msgspec.Struct, frozen=True):
    """Something to do.

    Attributes:
        what: in words.
        settles: codes of the findings that wait for it; empty for what is always done.
        where: subjects of these findings, sorted.
    """

    what: str
    settles: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


class Stage(msgspec.Struct, frozen=True):
    """A part of the assessment.

    Attributes:
        begins_days: this many days before the move it begins; ``ends_days`` likewise. Stages may overlap.
        begins_s: the moment, where the date of the move is known; ``ends_s`` likewise.
        late_days: whole days since it should have ended, with things open; None where it is not late.
    """

    name: str
    begins_days: int
    ends_days: int
    tasks: tuple[Task, ...]
    begins_s: float | None = None
    ends_s: float | None = None
    late_days: int | None = None


class Calendar(msgspec.Struct, frozen=True):
    """The schedule of the assessment.

    Attributes:
        stages: in order.
        move_s: when the move may begin: the first window that is not over; None where there is none.
        advice: sentences: how much time is left, and what to do where it does not suffice.
    """

    stages: tuple[Stage, ...]
    move_s: float | None
    advice: tuple[str, ...]


_STAGES: Final[tuple[tuple[str, int, int, tuple[str, ...], tuple[str, ...]], ...]] = (
    ("Inventory", 90, 75, ("EST", "FW", "GEN", "INT", "TOP"), ("discover both sites, and settle conflicts and unknowns (M5.1)",
     "list workloads, services and what they depend on (M5.2)")),
    ("Building", 75, 45, ("PWR", "COOL", "SPACE", "PLACE", "RSV"), ("walk the power paths with an electrician (M5.3, M10.3)",
     "order what has long lead times: circuits, cooling, spares (M10.1)")),
    ("Network", 60, 30, ("FAB", "CAB", "WAN", "STR", "QOS", "MOV"), ("test every line under load, and pull each one (M10.2)",)),
    ("Workloads", 45, 21, ("WL", "STO", "RSV-INTERVAL", "RSV-CUT"), ("measure one save and one restore of each workload (M5.2, M9)",)),
    ("Acceptance", 30, 14, ("ACC",), ("run nccl-tests, iperf3 and storage tests at node, rack and full scale (P5)",)),
    ("Rehearsal", 21, 7, (), ("drill the move and its way back (M10.4)", "fail a line every week (M10.2)")),
    ("Freeze", 7, 0, (), ("assess again with the newest facts, and decide go or no-go", "no changes but those of the move")),
)  # fmt: skip
"""Name, days before the move, beginnings of codes that belong to it (the longest one counts), and what is always done."""
_REST: Final = "Inventory"


def calendar(findings: Iterable[Finding], *, windows: Sequence[Period], blackouts: Sequence[Period] = (), now_s: float) -> Calendar:
    """The schedule.

    Args:
        findings: of an assessment; those that fail or are unknown become tasks.
        windows, blackouts: of the policy.
        now_s: now, seconds since 1970.
    """
    pieces = usable(windows, blackouts)
    move_s = next((begins for begins, ends in pieces if ends > now_s), None)
    open_tasks = _tasks(findings)
    stages = []
    for name, begins, ends, _, always in _STAGES:
        wanted = [task for stage, task in open_tasks if stage == name]
        begins_s, ends_s = (None if move_s is None else move_s - days * DAY_S for days in (begins, ends))
        late = None if ends_s is None or ends_s >= now_s or not wanted else math.floor((now_s - ends_s) / DAY_S)
        stages.append(Stage(name, begins, ends, (*(Task(what) for what in always), *wanted), begins_s, ends_s, late))
    if move_s is None:
        return Calendar(tuple(stages), None, (_no_window(windows, pieces, now_s),))
    return Calendar(tuple(stages), move_s, _advice(stages, move_s, now_s))


def _no_window(windows: Sequence[Period], pieces: Sequence[tuple[float, float]], now_s: float) -> str:
    give = f"give the policy a window from {_day(now_s + ASSESSMENT_DAYS * DAY_S)} on, so that each stage of the assessment has its time"
    if not windows:
        return f"No window of the move is set: {give}."
    if not pieces:
        return f"The blackouts of the policy leave nothing of its windows: {give}."
    return f"The last window of the policy ended on {_day(pieces[-1][1])}: {give}."


def _advice(stages: Sequence[Stage], move_s: float, now_s: float) -> tuple[str, ...]:
    """How much time is left, and what to do where stages are late."""
    left = math.floor((move_s - now_s) / DAY_S)
    begins_s = move_s - ASSESSMENT_DAYS * DAY_S
    if move_s <= now_s:
        said = f"The window of the move is open since {_day(move_s)}"
    elif begins_s > now_s:
        said = f"The move may begin on {_day(move_s)}; its assessment begins {ASSESSMENT_DAYS} days before, on {_day(begins_s)}"
    else:
        said = f"The move may begin on {_day(move_s)}, in {counting(left, 'day')}; its assessment should have begun on {_day(begins_s)}"
    late = [stage for stage in stages if stage.late_days is not None]
    if not late:
        return (f"{said}. No stage is late.",)
    earliest_s = now_s + max(stage.begins_days for stage in late) * DAY_S
    return (
        f"{said}. {', '.join(stage.name for stage in late)} should be over, and things are open there.",
        f"Settle what is open in {late[0].name} first, or move the window: not before {_day(earliest_s)}, if each stage that is late shall "
        "have its full time.",
    )


def _day(moment_s: float) -> str:
    return format_moment(moment_s)[:10]


def _tasks(findings: Iterable[Finding]) -> Sequence[tuple[str, Task]]:
    waiting: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.status is not FindingStatus.PASS:
            what = finding.remedy if finding.status is FindingStatus.FAIL else finding.measurement
            waiting.setdefault((_stage_of(finding.code), what), []).append(finding)
    return [
        (stage, Task(what, tuple(sorted({one.code for one in held})), tuple(sorted({one.subject for one in held}))))
        for (stage, what), held in sorted(waiting.items())
        if what
    ]


def _stage_of(code: str) -> str:
    belongs = [(len(begin), name) for name, _, _, families, _ in _STAGES for begin in families if code.startswith(begin)]
    return max(belongs)[1] if belongs else _REST
