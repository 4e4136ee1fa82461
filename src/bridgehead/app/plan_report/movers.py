"""Movers: one row for each rack that is carried, as CSV (RFC 4180, UTF-8): from where, to where, when, how heavy, worth how much (M7.4)."""

from __future__ import annotations

import csv
import io
from typing import Final

from bridgehead.kernel.moment import format_moment
from bridgehead.model.plan import TaskKind
from bridgehead.planning.course import Course

COLUMNS: Final = (
    "wave", "vehicle", "rack", "from_position", "from_row", "from_column", "to_place", "to_position", "to_row", "to_column",
    "weight_kg", "gpus", "value", "currency", "liquid", "apart_from", "out", "leaves", "arrives", "unloaded", "installed", "joins",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def movers_csv(course: Course) -> str:
    """The table, by wave, vehicle and rack. What is not known is an empty field."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    racks = {rack.id: rack for rack in course.source.racks}
    places = {rack.id: rack for rack in course.target.racks}
    placed = {one.id: one.place for one in course.plan.placements}
    logistics = course.policy.logistics
    values = {} if logistics is None else logistics.gpu_values
    for wave in course.plan.waves:
        ends = {task.id: task.ends_s for task in wave.tasks}
        for vehicle in wave.vehicles:
            for name in vehicle.racks:
                rack, place = racks.get(name), places.get(placed.get(name, name)) if name in placed else None
                gpus = course.gpus_of(name)
                nodes = course.nodes_of.get(name, [])
                worth = None if any(model not in values for model in gpus) else sum(values[model] * count for model, count in gpus.items())
                row = (
                    wave.id, vehicle.id, name,
                    rack and rack.position, rack and rack.row, rack and rack.column,
                    placed.get(name), place and place.position, place and place.row, place and place.column,
                    _weight(rack.weight_kg if rack else None, [node.weight_kg for node in nodes]),
                    " + ".join(f"{count} {model}" for model, count in sorted(gpus.items())),
                    worth if worth is None else f"{worth:.2f}", course.policy.currency,
                    "yes" if any(node.liquid_share for node in nodes) else "no",
                    " ".join(rack.apart_from) if rack else "",
                    *(_moment(one) for one in (wave.out_s, vehicle.leaves_s, vehicle.arrives_s, ends.get(TaskKind.UNLOAD),
                                               ends.get(TaskKind.INSTALL), wave.joins_s)),
                )  # fmt: skip
                writer.writerow([_safe(cell) for cell in row])
    return stream.getvalue()


def _weight(empty_kg: float | None, nodes_kg: list[float | None]) -> str | None:
    known = [one for one in (empty_kg, *nodes_kg) if one is not None]
    return f"{sum(known):.1f}" if len(known) == 1 + len(nodes_kg) else None


def _moment(moment_s: float | None) -> str | None:
    return None if moment_s is None else format_moment(float(round(moment_s)))


def _safe(cell: object) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    words = "" if cell is None else str(cell)
    return f"'{words}" if words.startswith(_FORMULA) else words
