"""Power: the one-line diagram of a site, coloured by margin: utility on the left, circuits and their racks on the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from bridgehead.app.assess_report.marks import Mark, Marks, linked
from bridgehead.app.demo.report import svg
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Site
from bridgehead.model.power import Circuit, PowerSource, SourceId, Wiring

_BOX: Final = (132.0, 40.0)
_COLUMN: Final = 154.0
_ROW: Final = 24.0
_BAR: Final = 256.0
_TAIL: Final = 190.0
_MOST: Final = 72
"""Circuits that are drawn; of more, those with the least margin."""
_KINDS = {"ups": "UPS", "pdu": "PDU", "transfer-switch": "ATS", "generator": "gen"}


def power(site: Site, marks: Marks) -> Markup:
    """The diagram; nothing without circuits."""
    if not site.circuits:
        return Markup("")
    chosen = _chosen(site, marks)
    sources = {source.id: source for source in site.sources}
    depths = {source: _depth(source, sources) for source in sources}
    right = (max(depths.values(), default=-1) + 1) * _COLUMN
    ordered = sorted(chosen, key=lambda circuit: (_way(circuit, sources), circuit.id))
    y_of_circuit: dict[str, float] = {circuit.id: 34 + number * _ROW for number, circuit in enumerate(ordered)}
    height = 60 + len(ordered) * _ROW
    y_of_source = _heights(site, sources, y_of_circuit, height)
    drawn: list[Markup] = [_wires(site, ordered, sources, depths, y_of_circuit, y_of_source, right)]
    drawn += [_source(site, source, marks, (depths[source.id] * _COLUMN, y_of_source[source.id])) for source in site.sources]
    racks: dict[str, list[str]] = {}
    for rack in site.racks:
        for circuit_id in rack.circuits:
            racks.setdefault(circuit_id, []).append(rack.id)
    drawn += [_circuit(site, circuit, marks, (right, y_of_circuit[circuit.id]), racks.get(circuit.id, [])) for circuit in ordered]
    left_out = len(site.circuits) - len(chosen)
    if left_out:
        drawn.append(svg.text((right, height - 6), f"{left_out} more circuits, all with more margin than these", class_="note"))
    return svg.picture(
        f"power-{site.id}", right + _BAR + _TAIL + 10, height, drawn, title=f"Power of {site.id}",
        description="Elements of the power tree from left to right; each circuit with its worst load as a share of what it may carry.",
    )  # fmt: skip


def _chosen(site: Site, marks: Marks) -> list[Circuit]:
    def least(circuit: Circuit) -> tuple[bool, float]:
        margin = marks.of(_subject(site, circuit), families=("PWR",)).margin
        return (margin is None, 0.0 if margin is None else margin)

    return sorted(site.circuits, key=least)[:_MOST]


def _depth(source: SourceId, sources: Mapping[SourceId, PowerSource], seen: frozenset[SourceId] = frozenset()) -> int:
    """Longest way to the top. A ring, which a check reports, ends the way."""
    above = [one for one in sources[source].fed_by if one in sources and one not in seen and one != source]
    return 1 + max((_depth(one, sources, seen | {source}) for one in above), default=-1)


def _way(circuit: Circuit, sources: Mapping[SourceId, PowerSource]) -> tuple[str, ...]:
    """Names from the top down, so that what hangs together lies together."""
    way: list[str] = []
    at = circuit.fed_by
    while at is not None and at in sources and at not in way:
        way.append(at)
        at = next(iter(sources[at].fed_by), None)
    return (*reversed(way), circuit.feed)


def _heights(site: Site, sources: Mapping[SourceId, PowerSource], circuits: Mapping[str, float], height: float) -> dict[SourceId, float]:
    """The middle of what hangs on each; what carries nothing here is put below."""
    carried: dict[SourceId, list[float]] = {source: [] for source in sources}
    for circuit in site.circuits:
        if circuit.id in circuits:
            above, seen = [circuit.fed_by], set()
            while above:
                at = above.pop()
                if at is not None and at in sources and at not in seen:
                    seen.add(at)
                    carried[at].append(circuits[circuit.id])
                    above += list(sources[at].fed_by)
    taken: dict[int, list[float]] = {}
    found: dict[SourceId, float] = {}
    for source in sorted(sources, key=lambda one: (sum(carried[one]) / len(carried[one]) if carried[one] else height, one)):
        ys = carried[source]
        y = sum(ys) / len(ys) if ys else height - _ROW
        column = taken.setdefault(_depth(source, sources), [])
        while any(abs(y - other) < _BOX[1] + 6 for other in column):
            y += _BOX[1] + 6
        column.append(y)
        found[source] = y
    return found


def _wires(
    site: Site, circuits: list[Circuit], sources: Mapping[SourceId, PowerSource], depths: Mapping[SourceId, int],
    y_of_circuit: Mapping[str, float], y_of_source: Mapping[SourceId, float], right: float,
) -> Markup:  # fmt: skip
    lines: list[Markup] = []

    def elbow(begin: tuple[float, float], end: tuple[float, float]) -> None:
        middle = end[0] - 14
        lines.append(svg.polyline([begin, (middle, begin[1]), (middle, end[1]), end], class_="wire"))

    for source in site.sources:
        for above in source.fed_by:
            if above in sources:
                begin = (depths[above] * _COLUMN + _BOX[0], y_of_source[above])
                elbow(begin, (depths[source.id] * _COLUMN, y_of_source[source.id]))
    for circuit in circuits:
        if circuit.fed_by in sources:
            assert circuit.fed_by is not None
            elbow((depths[circuit.fed_by] * _COLUMN + _BOX[0], y_of_source[circuit.fed_by]), (right, y_of_circuit[circuit.id]))
    return svg.group(lines)


def _source(site: Site, source: PowerSource, marks: Marks, place: tuple[float, float]) -> Markup:
    mark = marks.of(f"{site.id}/source:{source.id}", families=("PWR",))
    x, y = place[0], place[1] - _BOX[1] / 2
    limit = source.limit_va
    rating = format_quantity(limit, Dimension.APPARENT_POWER, digits=3) if limit is not None else "rating unknown"
    label = f"{_KINDS.get(source.kind.value, source.kind.value)} {source.id}"
    return linked(
        mark,
        svg.rect((x, y), *_BOX, class_=f"box look-{mark.look}", radius=6),
        svg.text((x + 9, y + 17), svg.shortened(label, width_px=_BOX[0] - 16, size_px=12.5), class_="label"),
        svg.text((x + 9, y + 32), f"{rating}{_margin(mark)}", class_="tick"),
    )


def _circuit(site: Site, circuit: Circuit, marks: Marks, place: tuple[float, float], racks: list[str]) -> Markup:
    mark = marks.of(_subject(site, circuit), families=("PWR-CIRCUIT",))
    x, y = place
    dimension = Dimension.POWER if circuit.wiring is Wiring.DC else Dimension.APPARENT_POWER
    share = 0.0
    if mark.margin is not None:
        share = min(1.3, max(0.0, 1 - mark.margin))
    scale = (_BAR - 120) / 1.3
    begin = x + 120
    label = svg.shortened(circuit.id, width_px=112, size_px=12.5)
    finding = mark.finding
    carries = format_quantity(circuit.rating_va, dimension, digits=3)
    if finding is not None and isinstance(finding.value, float) and isinstance(finding.limit, float):
        value, limit = (format_quantity(one, dimension, digits=3) for one in (finding.value, finding.limit))
        same = value.partition(" ")[2] == limit.partition(" ")[2]
        carries = f"{value.partition(' ')[0] if same else value} of {limit}"
    tail = f"{carries}{_margin(mark)}  {', '.join(racks)}"
    return linked(
        mark,
        svg.text((x + 4, y + 4), label, class_="label"),
        svg.rect((begin, y - 7), scale, 14, class_="track", radius=3),
        svg.rect((begin, y - 7), share * scale, 14, class_=f"bar look-{mark.look}", radius=3),
        svg.line((begin + scale, y - 10), (begin + scale, y + 10), class_="limit"),
        svg.text((begin + 1.3 * scale + 8, y + 4), svg.shortened(tail, width_px=_TAIL, size_px=11.5), class_="tick"),
    )


def _margin(mark: Mark) -> str:
    return "" if mark.margin is None else f", {mark.margin:+.0%}"


def _subject(site: Site, circuit: Circuit) -> str:
    return f"{site.id}/circuit:{circuit.id}"
