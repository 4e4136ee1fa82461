"""Task sheets: for each crew what it does when, with checklists to tick off, in Markdown (M6, M7.4, M12)."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from bridgehead.app.plan_checklists import transfer_checklist, wave_checklist
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.quantity import format_duration
from bridgehead.model.plan import Task, TaskKind, Wave
from bridgehead.planning.course import Course

WITHOUT_CREW: Final = "operators-and-drivers"
"""The sheet of steps that no crew of the policy does: draining, driving, joining."""
COURIERS: Final = "couriers"
_WAITING: Final = (TaskKind.ACCLIMATISE, TaskKind.BURN_IN)
_PREPARE: Final = {
    TaskKind.PACK: ("crates or transport brackets for every rack", "shock, tilt and humidity sensors, charged and numbered",
                    "labels for every cable and rack"),
    TaskKind.DRAIN_COOLANT: ("containers for the coolant, caps for every port", "the maker's procedure read and signed"),
    TaskKind.LOAD: ("a lift that carries the heaviest rack", "seals, straps, the way to the ramp measured"),
    TaskKind.UNLOAD: ("the dock is free and at room temperature", "a lift that carries the heaviest rack"),
    TaskKind.INSPECT: ("a bench for tests, spare cards and cables", "photographs of the packing at hand"),
    TaskKind.INSTALL: ("places measured, both feeds tested, cables laid and labelled", "loops ready, gates of commissioning signed"),
    TaskKind.LEAK_TEST: ("coolant of the maker's specification", "a pressure gauge with a valid calibration"),
}  # fmt: skip


def task_sheets(course: Course) -> dict[str, str]:
    """The text of each sheet by the name of its file without ending."""
    held: defaultdict[str, list[tuple[Wave, Task]]] = defaultdict(list)
    for wave in course.plan.waves:
        for task in wave.tasks:
            if task.id not in _WAITING:
                held[f"crew-{task.crew}" if task.crew else WITHOUT_CREW].append((wave, task))
    sheets = {name: _sheet(course, name, tasks) for name, tasks in sorted(held.items())}
    by_road = sorted((one for one in course.plan.transfers if one.courier), key=lambda one: (one.begins_s, one.id))
    if by_road:
        lines = _head(course, "Couriers")
        for one in by_road:
            checklist = transfer_checklist(one, course.plan)
            lines += [f"## {_at(one.begins_s)}: {checklist.title}", "", f"Verified at the target by {_at(one.ends_s)}.", ""]
            lines += [*(f"- [ ] {item}" for item in checklist.items), ""]
        sheets[COURIERS] = "\n".join(lines)
    return sheets


def _head(course: Course, title: str) -> list[str]:
    plan = course.plan
    begins = f"Plan {plan.name}, generation {plan.generation}: {plan.source} to {plan.target}. All times are UTC."
    return [f"# {title}", "", begins, ""]


def _sheet(course: Course, name: str, tasks: list[tuple[Wave, Task]]) -> str:
    ordered = sorted(tasks, key=lambda one: (one[1].begins_s, one[0].id))
    lines = _head(course, "Operators and drivers" if name == WITHOUT_CREW else f"Crew {name.removeprefix('crew-')}")
    lines += ["| begins | ends | wave | task | teams | preparation from |", "|---|---|---|---|---|---|"]
    for wave, task in ordered:
        prepared = "" if task.prepared_from_s is None else _at(task.prepared_from_s)
        lines.append(f"| {_at(task.begins_s)} | {_at(task.ends_s)} | {wave.id} | {task.id.value} | {task.teams or ''} | {prepared} |")
    liquid = {rack: any(node.liquid_share for node in nodes) for rack, nodes in course.nodes_of.items()}
    for wave, task in ordered:
        checklist = wave_checklist(wave, task, course.plan, liquid=liquid, policy=course.policy)
        lasts = format_duration(task.ends_s - task.begins_s, digits=3)
        lines += ["", f"## {_at(task.begins_s)}: {checklist.title}", "", f"Until {_at(task.ends_s)} ({lasts})" + _teams(task) + "."]
        if task.prepared_from_s is not None and task.id in _PREPARE:
            spent = format_duration(max(0.0, task.begins_s - task.prepared_from_s), digits=3)
            lines += ["", f"Preparation, from {_at(task.prepared_from_s)} ({spent} before):", ""]
            lines += [f"- [ ] {item}" for item in _PREPARE[task.id]]
        lines += ["", "To do and to sign:", "", *(f"- [ ] {item}" for item in checklist.items)]
        if checklist.undo:
            lines += ["", "If the order is to go back:", "", *(f"- [ ] {item}" for item in checklist.undo)]
        lines += ["", "Signed (name, time): ________________________"]
    return "\n".join(lines) + "\n"


def _teams(task: Task) -> str:
    return f", {task.teams} team{'' if task.teams == 1 else 's'}" if task.teams else ""


def _at(moment_s: float) -> str:
    return format_moment(float(round(moment_s)))[:16]
