"""Floors: which wave each rack leaves with, and which wave each place of the target is filled by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.model.equipment import Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.planning.course import Course

SHADES: Final = 10
_CELL: Final = (48.0, 34.0)
_SMALL: Final = (30.0, 22.0)
_GAP: Final = 4.0
_LABELS: Final = 60.0
_WIDTH: Final = 1070.0
_MANY: Final = 150


class _Spot(msgspec.Struct, frozen=True):
    """What is drawn for one rack position."""

    look: str
    words: str
    title: str


def floors(course: Course) -> list[tuple[str, Markup]]:
    """The source and the target, with the words above each; only with racks."""
    order: dict[str, int] = {wave.id: number for number, wave in enumerate(course.plan.waves)}
    leaves = {rack: wave.id for rack, wave in course.wave_of.items()}
    arrives = {one.place: (one.id, leaves.get(one.id)) for one in course.plan.placements}
    places = {one.id: one.place for one in course.plan.placements}
    taken = {node.rack for node in course.source.nodes}
    stand = {node.rack for node in course.target.nodes}
    source: dict[RackId, _Spot] = {}
    for rack in course.source.racks:
        wave = leaves.get(rack.id)
        look = f"wave-{_shade(order[wave], len(order))}" if wave is not None else "stays" if rack.id in taken else "empty"
        title = f"{rack.id}: {f'{wave}, to {places.get(rack.id)}' if wave else 'stays' if rack.id in taken else 'empty'}"
        source[rack.id] = _Spot(look, _number(wave, order), title)
    target: dict[RackId, _Spot] = {}
    for rack in course.target.racks:
        came, wave = arrives.get(rack.id, (None, None))
        look = f"wave-{_shade(order[wave], len(order))}" if wave is not None else "stays" if rack.id in stand else "empty"
        title = f"{rack.id}: {f'{came} by {wave}' if came else 'its own' if rack.id in stand else 'stays empty'}"
        target[rack.id] = _Spot(look, _number(wave, order), title)
    found = []
    for site, spots, words in (
        (course.source, source, "by the wave that carries a rack away"),
        (course.target, target, "by the wave that fills a place"),
    ):
        if site.racks:
            found.append((f"{site.name or site.id}, {words}", _floor(site, spots)))
    return found


def _shade(number: int, count: int) -> int:
    """The first wave is the lightest, the last the darkest."""
    return 0 if count <= 1 else round(number * (SHADES - 1) / (count - 1))


def _number(wave: str | None, order: Mapping[str, int]) -> str:
    return "" if wave is None else str(order[wave] + 1)


def _floor(site: Site, spots: Mapping[RackId, _Spot]) -> Markup:
    many = len(site.racks) > _MANY
    cell = _SMALL if many else _CELL
    in_line = int((_WIDTH - _LABELS) // (cell[0] + _GAP))
    drawn: list[Markup] = []
    y = 4.0
    for name, racks in _lines(site.racks, in_line):
        if name:
            drawn.append(svg.text((0, y + cell[1] / 2 + 4), svg.shortened(name, width_px=_LABELS - 6, size_px=11.5), class_="tick"))
        for at, rack in enumerate(racks):
            spot, x = spots[rack.id], _LABELS + at * (cell[0] + _GAP)
            drawn.append(svg.rect((x, y), *cell, class_=f"spot spot-{spot.look}", radius=3, title=spot.title))
            late = spot.look.startswith("wave-") and int(spot.look[5:]) >= SHADES // 2
            ink = "spot-ink-late" if late else "spot-ink"
            middle = x + cell[0] / 2
            if many:
                drawn.append(svg.text((middle, y + cell[1] / 2 + 4), spot.words, class_=f"small {ink}", anchor="middle"))
            else:
                name_ = svg.shortened(rack.id, width_px=cell[0] - 4, size_px=9.5)
                drawn.append(svg.text((middle, y + 14), name_, class_=f"tiny {ink}", anchor="middle"))
                drawn.append(svg.text((middle, y + 28), spot.words, class_=f"small {ink}", anchor="middle"))
        y += cell[1] + _GAP + 2
    return svg.picture(
        f"floor-{site.id}",
        _WIDTH,
        y,
        drawn,
        title=f"Floor of {site.id}",
        description="Racks by row and place, with the number of their wave.",
    )


def _lines(racks: Sequence[Rack], in_line: int) -> list[tuple[str, list[Rack]]]:
    """By row and place; a row that is longer than the page goes on in the next line."""
    rows: dict[str, list[Rack]] = {}
    for rack in racks:
        rows.setdefault(rack.row if rack.column is not None else "", []).append(rack)
    found = []
    for row, held in sorted(rows.items()):
        ordered = sorted(held, key=lambda rack: (rack.column or 0, rack.id))
        found += [(f"row {row}" if row and not at else "", ordered[at : at + in_line]) for at in range(0, len(ordered), in_line)]
    return found
