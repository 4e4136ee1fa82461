"""Node: the NVLinks and rails of one node of each kind, and of every node that differs from its kind."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from markupsafe import Markup

from bridgehead.app.assess_report.marks import Marks, linked
from bridgehead.app.demo.report import svg
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site

_SIZE: Final = (340.0, 320.0)
_NOTES: Final = 190.0
"""What adapters beside no GPU take on the right."""
_CENTRE: Final = (170.0, 154.0)
_RADIUS: Final = 96.0
_MOST: Final = 6

Shape = tuple[object, ...]


def nodes(site: Site, marks: Marks) -> list[tuple[str, Markup]]:
    """Drawings with their captions: what each kind looks like, the rarest last, since that is where the faults are."""
    shapes: dict[Shape, list[Node]] = {}
    for node in site.nodes:
        if node.gpus:
            shapes.setdefault(_shape(node), []).append(node)
    ordered = sorted(shapes.values(), key=lambda held: (-len(held), held[0].id))
    drawn = []
    for held in ordered[:_MOST]:
        first = held[0]
        alike = f" and {len(held) - 1} more like it" if len(held) > 1 else ", the only one like it"
        usual = next(held[0] for held in ordered if held[0].model == first.model)
        drawn.append((f"{first.id}{alike}: {first.gpus} {first.gpu_model}", _drawing(site, first, usual, marks)))
    return drawn


def _shape(node: Node) -> Shape:
    """What makes nodes alike, without names."""
    nics = tuple(sorted((str(nic.gpu), nic.rate_bps, nic.fabric, str(nic.active)) for nic in node.nics))
    return (node.model, node.gpu_model, node.gpus, node.gpu_links, nics)


def _drawing(site: Site, node: Node, like: Node, marks: Marks) -> Markup:
    places = [_around(number, node.gpus, _RADIUS) for number in range(node.gpus)]
    usual = Counter(node.gpu_links).most_common(1)[0][0] if node.gpu_links else 0
    drawn: list[Markup] = []
    for number, place in enumerate(places):
        links = node.gpu_links[number] if number < len(node.gpu_links) else None
        look = "none" if links is None else "pass" if links == usual and links > 0 else "fail"
        drawn.append(svg.line(place, _CENTRE, class_=f"nvlink look-{look}"))
    drawn += [_rail(nic.id, nic.gpu, nic.active, places, note="down" if nic.active is False else "") for nic in node.nics]
    has = {nic.gpu for nic in node.nics}
    drawn += [_rail(nic.id, nic.gpu, False, places, note="missing") for nic in like.nics if nic.gpu is not None and nic.gpu not in has]
    said = f"{usual} NVLinks a GPU" if node.gpu_links else "NVLinks unknown"
    drawn.append(svg.tag("circle", cx=_CENTRE[0], cy=_CENTRE[1], r=30, class_="hub"))
    drawn.append(svg.text((_CENTRE[0], _CENTRE[1] + 4), "NVSwitch" if usual else "?", class_="small", anchor="middle"))
    for number, place in enumerate(places):
        links = node.gpu_links[number] if number < len(node.gpu_links) else None
        drawn.append(svg.tag("circle", cx=place[0], cy=place[1], r=17, class_="gpu"))
        drawn.append(svg.text((place[0], place[1] + 1), str(number), class_="label", anchor="middle"))
        drawn.append(svg.text((place[0], place[1] + 12), "" if links is None else str(links), class_="tiny", anchor="middle"))
    drawn.append(svg.text((0, _SIZE[1] - 6), said, class_="tick"))
    others = [nic for nic in node.nics if nic.gpu is None]
    for number, nic in enumerate(others[:8]):
        drawn.append(
            svg.text(
                (_SIZE[0] + 4, 20 + 16 * number), svg.shortened(f"{nic.id}: no GPU beside it", width_px=190, size_px=11), class_="tick"
            )
        )
    mark = marks.of(f"{site.id}/node:{node.id}")
    width = _SIZE[0] + (_NOTES if others else 0.0)
    return svg.picture(
        f"node-{site.id}-{node.id}", width, _SIZE[1], [linked(mark, *drawn)] if mark.href else drawn, title=f"Node {node.id}",
        description=f"GPUs around the NVLink switch, with active links; adapters beside their GPUs. {mark.words}",
    )  # fmt: skip


def _rail(name: str, gpu: int | None, active: bool | None, places: list[tuple[float, float]], *, note: str = "") -> Markup:
    """An adapter beside its GPU, its name outside; ``note`` below the name says what is wrong."""
    if gpu is None or gpu >= len(places):
        return Markup("")
    end, outer = (_around(gpu, len(places), _RADIUS + beyond) for beyond in (30, 40 if gpu * 2 % len(places) == 0 else 33))
    look = "none" if active is None else "pass" if active else "fail"
    aside = outer[0] - _CENTRE[0]
    anchor = "middle" if abs(aside) < 10 else "start" if aside > 0 else "end"
    lines = [svg.text((outer[0], outer[1] + 4), svg.shortened(name, width_px=60, size_px=10), class_="tiny", anchor=anchor)]
    if note:
        lines.append(svg.text((outer[0], outer[1] + 15), note, class_="tiny wrong", anchor=anchor))
    return svg.group([svg.line(places[gpu], end, class_=f"rail look-{look}"), *lines])


def _around(number: int, count: int, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * number / max(count, 1) - math.pi / 2
    return (_CENTRE[0] + radius * math.cos(angle), _CENTRE[1] + radius * math.sin(angle))
