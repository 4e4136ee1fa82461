"""Lost compute: how long training stood still, pre-copied and by stop, copy and start, to one scale. Each tick is a training step."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import axes, svg, words
from bridgehead.app.demo.report.frame import Trace
from bridgehead.app.demo.summary import LossPoint, Summary

_BAND_PX = 38.0


class _Way(msgspec.Struct, frozen=True):
    """One way to move training."""

    name: str
    lost_s: float | None
    training: Trace
    look: str


def draw(summary: Summary, moved: Trace, plain: Trace, width: int) -> Markup:
    """The drawing, ``width`` pixels wide."""
    ways = [
        _Way("Pre-copied by Bridgehead", summary.lost_compute_s_precopy, moved, "precopy"),
        _Way("Plain: stop, copy, start", summary.lost_compute_s_stop_copy_start, plain, "plain"),
    ]
    longest = max([way.lost_s for way in ways if way.lost_s is not None], default=1.0) or 1.0
    x = axes.Scale(-0.12 * longest, 1.12 * longest, 0.0, float(width))
    drawn = []
    top = 0.0
    for way in ways:
        drawn.append(svg.text((0, top + 16), way.name, class_="panel"))
        drawn += _band(way, x, top + 26)
        top += 26 + _BAND_PX + 22
    bottom = top - 8
    ticks = [tick for tick in axes.time_ticks(0, x.high, count=8 if width > 600 else 4) if x(tick) < width - 20]
    drawn.insert(0, axes.below(x, ticks, top=26, bottom=bottom, label=axes.moment))
    return svg.picture(
        f"lost-{width}", width, bottom + 24, drawn, title="Lost compute of the two ways to move training", description=describe(summary)
    )


def describe(summary: Summary) -> str:
    """The comparison in words."""
    precopy, plain = summary.lost_compute_s_precopy, summary.lost_compute_s_stop_copy_start
    first = f"Pre-copied: {words.NOT_MEASURED if precopy is None else words.seconds(precopy)}."
    second = f"Stop, copy, start: {words.NOT_MEASURED if plain is None else words.seconds(plain)}."
    return f"{first} {second} {compared(summary)}".strip()


def measured(summary: Summary) -> int:
    """How many of the two ways were measured."""
    return sum(value is not None for value in (summary.lost_compute_s_precopy, summary.lost_compute_s_stop_copy_start))


def compared(summary: Summary) -> str:
    """'10.2 times less', where both ways were measured."""
    precopy, plain = summary.lost_compute_s_precopy, summary.lost_compute_s_stop_copy_start
    if precopy is None or plain is None or precopy <= 0 or plain <= 0:
        return ""
    return f"{words.times(plain, precopy)} less" if precopy <= plain else f"{words.times(precopy, plain)} more"


def _band(way: _Way, x: axes.Scale, top: float) -> list[Markup]:
    if way.lost_s is None:
        return [svg.text((x(0) + 8, top + 24), words.NOT_MEASURED[0].upper() + words.NOT_MEASURED[1:], class_="note")]
    begin, end = x(0), x(way.lost_s)
    label = f"{words.seconds(way.lost_s)} without a step"
    drawn = [
        svg.rect((x.low_px, top), x.high_px, _BAND_PX, class_="band", radius=4),
        *_steps(way.training, x, top),
        svg.rect((begin, top), max(2.0, end - begin), _BAND_PX, class_=f"lost-{way.look}", radius=3),
    ]
    if end - begin > svg.text_width(label, size_px=14) + 16:
        drawn.append(svg.text(((begin + end) / 2, top + 24), label, class_="lost-inside", anchor="middle"))
    else:
        drawn.append(_beside(label, end, top))
    return drawn


def _beside(label: str, end: float, top: float) -> Markup:
    """The number to the right of a bar too short to hold it, on a plate, for the ticks of steps lie behind."""
    wide = svg.text_width(label, size_px=14) + 14
    plate = svg.rect((end + 8, top + 7), wide, 24, class_="plate", radius=4)
    return svg.group([plate, svg.text((end + 8 + wide / 2, top + 24), label, class_="lost-beside", anchor="middle")])


def _steps(training: Trace, x: axes.Scale, top: float) -> list[Markup]:
    """Ticks of the steps that counted; at least two pixels apart."""
    if not training.source:
        return []
    zero_s = training.source[-1].at_s
    return [
        svg.tag("path", d=_ticks(points, zero_s, x, top), class_=f"stroke-{name} beat")
        for points, name in ((training.source, "source"), (training.target, "target"))
    ]


def _ticks(points: Sequence[LossPoint], zero_s: float, x: axes.Scale, top: float) -> str:
    path, last = [], float("-inf")
    for at in sorted(x(point.at_s - zero_s) for point in points if x.holds(point.at_s - zero_s)):
        if at - last >= 2.5:
            path.append(f"M{at:.1f} {top + 8:.1f}v{_BAND_PX - 16:.1f}")
            last = at
    return "".join(path)
