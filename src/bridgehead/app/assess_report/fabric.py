"""Fabric: switches by plane, leaves below spines, with what hangs on each leaf."""

from __future__ import annotations

from collections import Counter
from typing import Final

from markupsafe import Markup

from bridgehead.app.assess_report.marks import Marks, linked
from bridgehead.app.demo.report import svg
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, Switch, SwitchId, SwitchRole

_BOX: Final = (58.0, 34.0)
_STEP: Final = 64.0
_TIER: Final = 110.0
_MOST: Final = 16
"""Switches of one tier and plane that are drawn."""
_TIERS: Final = (SwitchRole.CORE, SwitchRole.SPINE, SwitchRole.LEAF)


def fabrics(site: Site, marks: Marks) -> list[tuple[str, Markup]]:
    """One drawing for each fabric that has switches, or for each of its planes where no cable joins them; with its name."""
    hung = Counter(nic.switch for node in site.nodes for nic in node.nics if nic.switch is not None)
    drawn = []
    for fabric in site.fabrics:
        own = [switch for switch in site.switches if switch.fabric == fabric.id]
        name = f"{fabric.id}: {fabric.kind.value}, for {fabric.purpose.value}"
        planes = sorted({switch.plane for switch in own}, key=lambda plane: -1 if plane is None else plane)
        if _joined(own):
            ordered = sorted(own, key=lambda one: -1 if one.plane is None else one.plane)
            drawn.append((name, _plane(site, fabric, ordered, hung, marks, None)))
            continue
        for plane in planes:
            words = name if plane is None else f"{name}, plane {plane}"
            drawn.append((words, _plane(site, fabric, [one for one in own if one.plane == plane], hung, marks, plane)))
    return drawn


def _joined(switches: list[Switch]) -> bool:
    """Whether cables lead from one plane into another, as where all leaves share the spines."""
    planes = {switch.id: switch.plane for switch in switches}
    return any(uplink.id in planes and planes[uplink.id] != switch.plane for switch in switches for uplink in switch.uplinks)


def _plane(site: Site, fabric: Fabric, switches: list[Switch], hung: Counter[SwitchId], marks: Marks, plane: int | None) -> Markup:
    tiers = [(role, [one for one in switches if one.role is role]) for role in _TIERS]
    tiers = [(role, held) for role, held in tiers if held]
    widest = max(min(len(held), _MOST) for _, held in tiers)
    width = max(widest * _STEP, 360)
    places: dict[SwitchId, tuple[float, float]] = {}
    drawn: list[Markup] = []
    for number, (role, held) in enumerate(tiers):
        shown = held[:_MOST]
        left = (width - len(shown) * _STEP) / 2
        for at, switch in enumerate(shown):
            places[switch.id] = (left + at * _STEP + _STEP / 2, 20 + number * _TIER)
        if len(held) > _MOST:
            drawn.append(svg.text((width, 20 + number * _TIER - 8), f"+{len(held) - _MOST} {role.value}", class_="note", anchor="end"))
    drawn += [_cables(switch, places) for switch in switches if switch.id in places]
    drawn += [_switch(site, switch, places[switch.id], hung[switch.id], marks) for switch in switches if switch.id in places]
    mark = marks.of(f"{site.id}/fabric:{fabric.id}")
    height = 30 + (len(tiers) - 1) * _TIER + _BOX[1]
    title = f"Fabric {fabric.id} of {site.id}"
    name = f"fabric-{site.id}-{fabric.id}-{'all' if plane is None else plane}"
    return svg.picture(name, width, height, [linked(mark, *drawn)] if mark.href else drawn, title=title, description=mark.words)


def _cables(switch: Switch, places: dict[SwitchId, tuple[float, float]]) -> Markup:
    x, y = places[switch.id]
    lines = []
    for uplink in switch.uplinks:
        if uplink.id in places:
            above = places[uplink.id]
            weight = "thick" if uplink.count >= 8 else "middle" if uplink.count >= 5 else "thin"
            lines.append(svg.line((x, y), (above[0], above[1] + _BOX[1]), class_=f"cable {weight}"))
    return svg.group(lines)


def _switch(site: Site, switch: Switch, place: tuple[float, float], adapters: int, marks: Marks) -> Markup:
    x, y = place[0] - _BOX[0] / 2, place[1]
    mark = marks.of(f"{site.id}/switch:{switch.id}")
    up = sum(uplink.count for uplink in switch.uplinks)
    below = (
        f"{adapters}\N{DOWNWARDS ARROW} {up}\N{UPWARDS ARROW}"
        if switch.role is SwitchRole.LEAF
        else (f"{up}\N{UPWARDS ARROW}" if up else "")
    )
    return linked(
        mark,
        svg.rect((x, y), *_BOX, class_=f"box look-{mark.look}", radius=5),
        svg.text((place[0], y + 15), svg.shortened(switch.id, width_px=_BOX[0] - 8, size_px=10.5), class_="small", anchor="middle"),
        svg.text((place[0], y + 29), below, class_="tiny", anchor="middle"),
    )
