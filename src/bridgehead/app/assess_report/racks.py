"""Racks: elevations with the nodes in their places, and what each rack weighs and holds."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from bridgehead.app.assess_report.marks import Marks, linked
from bridgehead.app.demo.report import svg
from bridgehead.assess.fleet import counting
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Site

_WIDTH: Final = 116.0
_GAP: Final = 14.0
_UNIT: Final = 5.0
_A_ROW: Final = 8
_MOST: Final = 54
_USUAL_UNITS: Final = 42


def racks(site: Site, marks: Marks) -> Markup:
    """All racks, or as many as fit; nothing without racks."""
    if not site.racks:
        return Markup("")
    shown = site.racks[:_MOST]
    inside: dict[str, list[Node]] = {}
    for node in site.nodes:
        if node.rack is not None:
            inside.setdefault(node.rack, []).append(node)
    tallest = max(rack.units or _USUAL_UNITS for rack in shown) * _UNIT
    drawn: list[Markup] = []
    for number, rack in enumerate(shown):
        place = ((number % _A_ROW) * (_WIDTH + _GAP), (number // _A_ROW) * (tallest + 62))
        drawn.append(_rack(site, rack, inside.get(rack.id, []), marks, place, tallest))
    rows = -(-len(shown) // _A_ROW)
    height = rows * (tallest + 62)
    if len(site.racks) > len(shown):
        drawn.append(svg.text((0, height + 8), f"{len(site.racks) - len(shown)} more racks", class_="note"))
        height += 18
    width = min(len(shown), _A_ROW) * (_WIDTH + _GAP) - _GAP
    return svg.picture(
        f"racks-{site.id}", width, height, drawn, title=f"Racks of {site.id}",
        description="Each rack from the front; a node has the colour of its worst finding.",
    )  # fmt: skip


def _rack(site: Site, rack: Rack, nodes: list[Node], marks: Marks, place: tuple[float, float], tallest: float) -> Markup:
    x, top = place
    units = rack.units or _USUAL_UNITS
    floor = top + 20 + tallest
    mark = marks.of(f"{site.id}/rack:{rack.id}")
    frame = svg.rect((x, floor - units * _UNIT), _WIDTH, units * _UNIT, class_=f"rack look-{mark.look}", radius=3)
    drawn = [
        linked(mark, frame, svg.text((x, floor - units * _UNIT - 6), svg.shortened(rack.id, width_px=_WIDTH, size_px=12.5), class_="label"))
    ]
    next_unit = 1 + rack.used_units
    for node in sorted(nodes, key=lambda node: (node.position is None, node.position or 0, node.id)):
        size = node.units or 1
        bottom = node.position or next_unit
        next_unit = max(next_unit, bottom + size)
        drawn.append(_node(site, node, marks, (x, floor - (bottom - 1 + size) * _UNIT), size * _UNIT))
    weights = [node.weight_kg for node in nodes]
    known = None if rack.weight_kg is None or any(weight is None for weight in weights) else rack.weight_kg + sum(filter(None, weights))
    weight = "weight unknown" if known is None else f"{known:,.0f} kg"
    limit = "" if rack.max_weight_kg is None else f" of {rack.max_weight_kg:,.0f}"
    drawn.append(svg.text((x, floor + 15), svg.shortened(f"{weight}{limit}", width_px=_WIDTH + _GAP, size_px=11.5), class_="tick"))
    drawn.append(
        svg.text((x, floor + 29), svg.shortened(rack.position or "position unknown", width_px=_WIDTH + _GAP, size_px=11.5), class_="tick")
    )
    return svg.group(drawn)


def _node(site: Site, node: Node, marks: Marks, place: tuple[float, float], height: float) -> Markup:
    mark = marks.of(f"{site.id}/node:{node.id}")
    drawn = [svg.rect((place[0] + 4, place[1] + 0.5), _WIDTH - 8, height - 1, class_=f"unit look-{mark.look}", radius=2)]
    if height >= 14:
        words = svg.shortened(node.id, width_px=_WIDTH - 60, size_px=10.5)
        drawn.append(svg.text((place[0] + 9, place[1] + height / 2 + 4), words, class_="small"))
        if node.gpus:
            count = counting(node.gpus, "GPU")
            drawn.append(svg.text((place[0] + _WIDTH - 9, place[1] + height / 2 + 4), count, class_="tiny", anchor="end"))
    return linked(mark, *drawn)
