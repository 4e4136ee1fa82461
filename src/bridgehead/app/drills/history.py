"""History: all drills of a home, how RPO and RTO went from one to the next, and which workloads are due again (R13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.app.drills.reports import Read, read_all
from bridgehead.app.drills.result import CaseResult, DrillResult, DrillVerdict
from bridgehead.kernel.ids import RunId, SiteId, WorkloadId
from bridgehead.model.recovery import Recovery

if TYPE_CHECKING:
    from bridgehead.app.home import Home

SILENT: Final = frozenset({DrillVerdict.STOPPED, DrillVerdict.NOT_APPROVED})
"""Drills that say nothing of the recovery."""


class HistoryLine(msgspec.Struct, frozen=True):
    """One drill. ``problem``: why its report cannot be relied on; it counts for nothing then."""

    drill: str
    run: RunId
    site: SiteId
    at_s: float
    verdict: DrillVerdict
    reason: str
    workloads: tuple[WorkloadId, ...]
    rto_s: float | None
    rpo_s: float | None
    rpo_steps: int | None
    faults: tuple[str, ...]
    report: str
    problem: str = ""


class Trend(msgspec.Struct, frozen=True):
    """How the drills of one workload went, oldest first. Slopes are those of the straight line through what was measured (least squares),
    in seconds for each further drill; None for fewer than three."""

    workload: WorkloadId
    drills: int
    passed: int
    rto_s: tuple[float | None, ...]
    rpo_s: tuple[float | None, ...]
    rto_slope_s: float | None
    rpo_slope_s: float | None


class History(msgspec.Struct, frozen=True):
    """Oldest first. ``problems``: what is wrong with the row of reports as a whole."""

    drills: tuple[HistoryLine, ...]
    trends: tuple[Trend, ...]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Every report is as it was signed, and none is missing between two others."""
        return not self.problems and not any(line.problem for line in self.drills)


class DueLine(msgspec.Struct, frozen=True):
    """Whether a workload must be drilled. ``last_s``, ``last_drill``: the last time that its recovery was seen to work."""

    workload: WorkloadId
    site: SiteId
    last_drill: str
    last_s: float | None
    due_s: float | None
    overdue: bool
    because: str


def history(home: Home) -> History:
    """Read all reports."""
    found = list(read_all(home))
    lines = tuple(_line(one) for one in found if one.result is not None)
    good = [one.result for one in found if one.result is not None and not one.problem]
    problems = [f"{one.file}: {one.problem}" for one in found if one.result is None]
    return History(lines, trends(good), (*problems, *_gaps(found)))


def trends(results: Sequence[DrillResult]) -> tuple[Trend, ...]:
    """Of each workload that was drilled; drills that were stopped, or that nobody approved, say nothing."""
    by_workload: dict[WorkloadId, list[CaseResult]] = {}
    for result in results:
        if result.verdict not in SILENT:
            for case in result.cases:
                by_workload.setdefault(case.workload, []).append(case)
    return tuple(_trend(workload, cases) for workload, cases in by_workload.items())


def due(home: Home, recovery: Recovery, *, now_s: float) -> tuple[DueLine, ...]:
    """Every protected workload, in the order of the file: by the recovery file's ``drills: every``."""
    last: dict[tuple[WorkloadId, SiteId], DrillResult] = {}
    tried: dict[tuple[WorkloadId, SiteId], DrillResult] = {}
    for one in read_all(home):
        if one.result is None or one.problem:
            continue
        for case in one.result.cases if one.result.verdict not in SILENT else ():
            key = (case.workload, one.result.site)
            tried[key] = one.result
            if case.recovered and one.result.verdict in (DrillVerdict.PASSED, DrillVerdict.MISSED):
                last[key] = one.result
    found = []
    for workload in recovery.workloads:
        key = (workload.id, workload.refuge)
        result, newest = last.get(key), tried.get(key)
        if result is None:
            because = "its recovery was never drilled" if newest is None else f"no drill has recovered it; the last one: {newest.reason}"
            found.append(DueLine(workload.id, workload.refuge, "", None, None, overdue=True, because=because))
            continue
        due_s = result.began_s + recovery.drills.every_s
        because = "" if newest is result or newest is None else f"a later drill did not recover it: {newest.reason}"
        overdue = now_s > due_s or bool(because and newest is not None and newest.verdict is DrillVerdict.FAILED)
        found.append(DueLine(workload.id, workload.refuge, result.drill, result.began_s, due_s, overdue=overdue, because=because))
    return tuple(found)


def _line(one: Read) -> HistoryLine:
    result = one.result
    assert result is not None
    return HistoryLine(
        drill=result.drill,
        run=result.run,
        site=result.site,
        at_s=result.began_s,
        verdict=result.verdict,
        reason=result.reason,
        workloads=tuple(case.workload for case in result.cases),
        rto_s=result.rto_s,
        rpo_s=result.rpo_s,
        rpo_steps=result.rpo_steps,
        faults=tuple(fault.name for fault in result.faults),
        report=str(one.file.with_suffix(".html")),
        problem=one.problem,
    )


def _gaps(found: Sequence[Read]) -> list[str]:
    """Reports that others name as the one before, and that are not there."""
    known = {one.sha256 for one in found} | {""}
    return [
        f"the report before that of {one.result.drill} is missing, or was changed"
        for one in found
        if one.result is not None and not one.problem and one.result.previous not in known
    ]


def _trend(workload: WorkloadId, cases: Sequence[CaseResult]) -> Trend:
    rto, rpo = tuple(case.rto.measured_s for case in cases), tuple(case.rpo.measured_s for case in cases)
    recovered = sum(case.recovered for case in cases)
    return Trend(workload, len(cases), recovered, rto, rpo, _slope(rto), _slope(rpo))


def _slope(values: Sequence[float | None]) -> float | None:
    points = [(float(number), value) for number, value in enumerate(values) if value is not None]
    if len(points) < 3:
        return None
    mean_x, mean_y = (sum(part) / len(points) for part in zip(*points, strict=True))
    return float(sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points))
