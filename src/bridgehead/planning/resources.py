"""Resources: crews, docks and vehicles over time, and how full everything is at one moment (M7.4, M10.1). Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.model.logistics import CrewId
from bridgehead.model.plan import TaskKind, WaveId
from bridgehead.planning.course import Course
from bridgehead.planning.steps import Steps


class Load(msgspec.Struct, frozen=True):
    """How full one thing is.

    Attributes:
        code: the rule that limits it.
        share: of the limit; 1 for full.
    """

    code: str
    what: str
    used: float
    limit: float
    unit: str

    @property
    def share(self) -> float:
        """Used by limit; more than full where there is none."""
        return self.used / self.limit if self.limit else float(self.used > 0)


def teams_busy(course: Course, crew: CrewId, *, without: WaveId | None = None) -> Steps:
    """Teams of a crew that work, without those on one wave."""
    tasks = [task for wave in course.plan.waves if wave.id != without for task in wave.tasks if task.crew == crew]
    return Steps(0.0, [pair for task in tasks for pair in ((task.begins_s, task.teams), (task.ends_s, -task.teams))])


def racks_at_dock(course: Course, *, without: WaveId | None = None) -> Steps:
    """Racks between the end of transit and the end of install, without one wave."""
    changes = []
    for wave in course.plan.waves:
        ends = {task.id: task.ends_s for task in wave.tasks}
        if wave.id != without and TaskKind.TRANSIT in ends and TaskKind.INSTALL in ends:
            count = float(len(wave.racks))
            changes += [(ends[TaskKind.TRANSIT], count), (ends[TaskKind.INSTALL], -count)]
    return Steps(0.0, changes)


def vehicles_away(course: Course, *, without: WaveId | None = None) -> Steps:
    """Vehicles that have left and are not yet back: twice their transit time."""
    logistics = course.policy.logistics
    changes = []
    for wave in course.plan.waves:
        for vehicle in wave.vehicles if wave.id != without else ():
            transit_s = logistics.fleet.transit_s if logistics is not None else vehicle.arrives_s - vehicle.leaves_s
            changes += [(vehicle.leaves_s, 1.0), (vehicle.leaves_s + 2 * transit_s, -1.0)]
    return Steps(0.0, changes)


def loads_before(course: Course, moment_s: float) -> tuple[Load, ...]:
    """How full everything is just before a moment, the fullest first."""
    return tuple(sorted(_loads(course, moment_s), key=lambda load: (-load.share, load.code, load.what)))


def _loads(course: Course, moment_s: float) -> Iterator[Load]:
    policy = course.policy
    for site, code in ((course.source, "PLAN-RESERVE-SOURCE"), (course.target, "PLAN-RESERVE-TARGET")):
        for model in course.models:
            run, stand = (held[site.id, model].before(moment_s) for held in (course.running, course.standing))
            if stand or run:
                yield Load(code, f"{model} at {site.id}, reserve included", (1 + policy.reserve) * run, stand, "GPUs")
    yield Load("PLAN-LANES", "swings at once", course.swings_at_once.before(moment_s), policy.limits.concurrent_moves, "swings")
    if course.line_rate_bps:
        yield Load("PLAN-LINE", "the line", course.line_use.before(moment_s), course.line_rate_bps, "bit/s")
    logistics = policy.logistics
    if logistics is None:
        return
    for crew in logistics.crews:
        yield Load("PLAN-CREW", f"teams of {crew.id}", teams_busy(course, crew.id).before(moment_s), crew.teams, "teams")
    yield Load(
        "PLAN-VEHICLE", f"vehicles of {logistics.fleet.id}", vehicles_away(course).before(moment_s), logistics.fleet.vehicles, "vehicles"
    )
    if logistics.dock_places is not None:
        yield Load("PLAN-DOCK", "racks at the dock", racks_at_dock(course).before(moment_s), logistics.dock_places, "racks")
