"""Floor: racks where they stand, coloured by the heat that they give off."""

from __future__ import annotations

from typing import Final

import msgspec
from markupsafe import Markup

from bridgehead.app.assess_report.marks import Marks, linked
from bridgehead.app.demo.report import svg
from bridgehead.assess.loads import load_of
from bridgehead.model.equipment import Rack
from bridgehead.model.estate import Site

_CELL: Final = (62.0, 44.0)
_GAP: Final = (6.0, 34.0)
_LABELS: Final = 64.0
_STEPS: Final = 5
"""Shades of heat."""
_MOST: Final = 14


def floor(site: Site, marks: Marks) -> Markup:
    """The plan; nothing without racks. Racks whose row or column nobody noted stand in a row of their own."""
    if not site.racks:
        return Markup("")
    heat = _heat(site)
    hottest = max((one.watts for one in heat.values()), default=0.0)
    rows: dict[str, list[Rack]] = {}
    for rack in site.racks:
        rows.setdefault(rack.row if rack.column is not None else "", []).append(rack)
    drawn: list[Markup] = []
    lines: list[tuple[str, list[Rack]]] = []
    for row, held in sorted(rows.items()):
        ordered = sorted(held, key=lambda rack: (rack.column or 0, rack.id))
        lines += [(row if at == 0 else "", ordered[at : at + _MOST]) for at in range(0, len(ordered), _MOST)]
    left = _LABELS if any(row for row, _ in lines) else 0.0
    for number, (row, held) in enumerate(lines):
        y = number * (_CELL[1] + _GAP[1]) + 18
        drawn.append(svg.text((0, y + _CELL[1] / 2 + 4), f"row {row}" if row else "", class_="label"))
        for at, rack in enumerate(held):
            drawn.append(_cell(site, rack, heat[rack.id], hottest, marks, (left + at * (_CELL[0] + _GAP[0]), y)))
    width = left + max(len(held) for _, held in lines) * (_CELL[0] + _GAP[0])
    return svg.picture(
        f"floor-{site.id}", max(width, 320), len(lines) * (_CELL[1] + _GAP[1]) + 18, drawn, title=f"Floor of {site.id}",
        description="Racks by row and place; the darker, the more heat.",
    )  # fmt: skip


class _Heat(msgspec.Struct):
    """Known watts of one rack, and whether that is all."""

    watts: float = 0.0
    vague: bool = False

    @property
    def words(self) -> str:
        """For the cell: what nobody knows is never shown as nothing."""
        if not self.watts:
            return "unknown" if self.vague else "empty"
        return f"{'≥ ' if self.vague else ''}{self.watts / 1000:.1f} kW"


def _heat(site: Site) -> dict[str, _Heat]:
    """By rack. A node that stands nobody knows where may stand in any of them."""
    racks = {rack.id for rack in site.racks}
    everywhere = any(node.rack not in racks for node in site.nodes)
    found: dict[str, _Heat] = {rack.id: _Heat(vague=everywhere) for rack in site.racks}
    for node in site.nodes:
        if node.rack in found:
            load = load_of(node)
            found[node.rack].watts += load.known_w
            found[node.rack].vague |= load.high_w is None
    return found


def _cell(site: Site, rack: Rack, heat: _Heat, hottest: float, marks: Marks, place: tuple[float, float]) -> Markup:
    mark = marks.of(f"{site.id}/rack:{rack.id}", families=("COOL", "SPACE"))
    shade = 0 if not heat.watts else min(_STEPS, 1 + int((_STEPS - 1) * heat.watts / hottest + 0.5))
    return linked(
        mark,
        svg.rect(place, *_CELL, class_=f"cell heat-{shade} edge-{mark.look}", radius=3),
        svg.text(
            (place[0] + _CELL[0] / 2, place[1] + 19),
            svg.shortened(rack.id, width_px=_CELL[0] - 4, size_px=11),
            class_="small",
            anchor="middle",
        ),
        svg.text((place[0] + _CELL[0] / 2, place[1] + 34), heat.words, class_="small", anchor="middle"),
    )
