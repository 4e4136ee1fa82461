"""Gantt: phases, services, data, waves and swings of a plan over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.app.plan_report.timescale import LABELS, WIDTH, TimeScale
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.quantity import format_bytes, format_duration
from bridgehead.model.plan import PhaseId, Plan, TaskKind
from bridgehead.planning.course import Course

_ROW: Final = 22.0
_FLAT_ROW: Final = 14.0
_DENSE: Final = 40
"""From so many rows of one kind on, they are drawn flat."""
_PARTS: Final = {
    TaskKind.DRAIN: "out", TaskKind.PACK: "out", TaskKind.DRAIN_COOLANT: "out", TaskKind.LOAD: "out", TaskKind.TRANSIT: "road",
    TaskKind.UNLOAD: "dock", TaskKind.ACCLIMATISE: "dock", TaskKind.INSPECT: "dock", TaskKind.INSTALL: "in", TaskKind.LEAK_TEST: "in",
    TaskKind.BURN_IN: "burn", TaskKind.JOIN: "burn",
}  # fmt: skip


class Bar(msgspec.Struct, frozen=True):
    """One bar of a row."""

    begins_s: float
    ends_s: float
    look: str
    title: str


class Row(msgspec.Struct, frozen=True):
    """One line of the drawing."""

    name: str
    bars: tuple[Bar, ...]
    words: str = ""


def gantt(course: Course, scale: TimeScale) -> list[tuple[str, Markup]]:
    """One drawing for each kind of thing that the plan has, with its title."""
    plan = course.plan
    groups: list[tuple[str, list[Row]]] = [
        ("Phases", list(_phases(plan))),
        ("Critical services", list(_services(plan))),
        ("Data", list(_transfers(plan))),
        ("Hardware waves", list(_waves(plan))),
        ("Workloads", list(_swings(course))),
    ]
    return [(title, _drawing(title, rows, scale)) for title, rows in groups if rows]


def _drawing(title: str, rows: list[Row], scale: TimeScale) -> Markup:
    flat = len(rows) > _DENSE
    height, size = (_FLAT_ROW, 10.0) if flat else (_ROW, 12.5)
    top = 20.0
    bottom = top + len(rows) * height + 4
    drawn = [scale.axis(4, bottom)]
    for number, row in enumerate(rows):
        y = top + number * height
        label = svg.shortened(row.name, width_px=LABELS - 12, size_px=size)
        drawn.append(svg.text((0, y + height / 2 + size / 3), label, class_="small" if flat else "label"))
        ends = LABELS
        for bar in row.bars:
            x, width = scale.x(bar.begins_s), max(3.0, scale.x(bar.ends_s) - scale.x(bar.begins_s))
            thin = height * (0.3 if bar.look == "sync" else 0.64)
            drawn.append(svg.rect((x, y + (height - thin) / 2), width, thin, class_=f"gantt gantt-{bar.look}", radius=2, title=bar.title))
            ends = max(ends, x + width)
        room = WIDTH - ends - 8
        if row.words and not flat:
            words_px = svg.text_width(row.words, size_px=11.5)
            first = scale.x(min(bar.begins_s for bar in row.bars))
            if words_px <= room:
                drawn.append(svg.text((ends + 6, y + height / 2 + 4), row.words, class_="note"))
            elif words_px <= first - LABELS - 10:
                drawn.append(svg.text((first - 6, y + height / 2 + 4), row.words, class_="note", anchor="end"))
    name = "gantt-" + title.lower().replace(" ", "-")
    return svg.picture(name, WIDTH, bottom + 2, drawn, title=title, description=f"{title} of the plan over time, one line each.")


def _phases(plan: Plan) -> Iterator[Row]:
    for phase in plan.phases:
        if phase.ends_s > phase.begins_s and phase.id != PhaseId.PREPARE:
            lasts = format_duration(phase.ends_s - phase.begins_s, digits=2)
            title = f"{phase.id.value}: {_span(phase.begins_s, phase.ends_s)}"
            yield Row(phase.id.value, (Bar(phase.begins_s, phase.ends_s, f"phase-{phase.id.value}", title),), lasts)


def _services(plan: Plan) -> Iterator[Row]:
    for one in plan.services:
        yield Row(one.id, (Bar(one.begins_s, one.ends_s, "service", f"{one.id}: {_span(one.begins_s, one.ends_s)}"),), one.mode.value)


def _transfers(plan: Plan) -> Iterator[Row]:
    for one in sorted(plan.transfers, key=lambda one: (one.begins_s, one.id)):
        size = format_bytes(one.size_bytes, digits=3)
        way = f"courier {one.courier}" if one.courier else f"{one.rate_bps / 1e9:.3g} Gb/s"
        look = "courier" if one.courier else "copy"
        bars = [Bar(one.begins_s, one.ends_s, look, f"{one.id}: {size} by {way}, {_span(one.begins_s, one.ends_s)}")]
        if one.sync_bps and one.sync_ends_s is not None:
            bars.append(Bar(one.ends_s, one.sync_ends_s, "sync", f"{one.id}: changes are followed at {one.sync_bps / 1e9:.3g} Gb/s"))
        yield Row(one.id, tuple(bars), f"{size}, {way}")


def _waves(plan: Plan) -> Iterator[Row]:
    for wave in plan.waves:
        bars = [
            Bar(task.begins_s, task.ends_s, _PARTS[task.id], f"{wave.id} {task.id.value}: {_span(task.begins_s, task.ends_s)}"
                + (f", {task.teams} teams of {task.crew}" if task.crew else ""))
            for task in wave.tasks if task.ends_s > task.begins_s
        ]  # fmt: skip
        whole = Bar(wave.out_s, wave.joins_s, "whole", f"{wave.id}: {_span(wave.out_s, wave.joins_s)}")
        words = f"{len(wave.racks)} racks" + (", bridgehead" if wave.bridgehead else "")
        yield Row(wave.id, (whole, *bars), words)


def _swings(course: Course) -> Iterator[Row]:
    plan = course.plan
    for one in sorted(plan.swings, key=lambda one: (one.begins_s, one.id)):
        title = f"{one.id}: {one.mode.value}, {_span(one.begins_s, one.ends_s)}, stands still for {format_duration(one.lost_s, digits=3)}"
        shrunk = [
            Bar(less.begins_s, less.ends_s, "shrunk", f"{one.id}: on {less.gpus} GPUs at {less.site}, {_span(less.begins_s, less.ends_s)}")
            for less in plan.shrinks
            if less.workload == one.id
        ]
        workload = course.workloads.get(one.id)
        gpus = f"{workload.gpus} GPUs, " if workload is not None and workload.gpus else ""
        yield Row(one.id, (*shrunk, Bar(one.begins_s, one.ends_s, f"swing-{one.mode.value}", title)), f"{gpus}{one.mode.value}")


def _span(begins_s: float, ends_s: float) -> str:
    begins, ends = (format_moment(float(round(moment)))[:16] for moment in (begins_s, ends_s))
    return f"{begins} to {ends} UTC"
