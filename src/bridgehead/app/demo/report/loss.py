"""Loss: what the trained model learned, over steps, and over time around the cut-over."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from markupsafe import Markup

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report import axes, svg, words
from bridgehead.app.demo.report.frame import Trace, thinned
from bridgehead.app.demo.summary import LossPoint

_MOST_POINTS = 1500
_SMOOTH_FROM = 150
"""From this many steps on, a running mean is drawn over the single steps."""


def draw(training: Trace, width: int) -> Markup:
    """Loss over steps, ``width`` pixels wide."""
    height = 320.0 if width > 600 else 240.0
    left, right, top, bottom = 44.0, width - 12.0, 40.0, height - 42
    finite = [point for point in training.counted + training.uncounted if math.isfinite(point.loss)]
    low, high = _bounds([point.loss for point in finite])
    ticks = axes.round_ticks(low, high, count=5)
    y = axes.Scale(ticks[0], ticks[-1], bottom, top)
    steps = [point.step for point in finite] or [0, 1]
    x = axes.Scale(min(steps), max(steps), left, right)
    marks = [tick for tick in axes.round_ticks(x.low, x.high, count=8 if width > 600 else 4) if x.holds(tick) and tick == int(tick)]
    drawn = [
        svg.text((left, 14), "Loss, nats per token", class_="panel"),
        axes.left(y, ticks, begin=left, end=right, label=lambda v: f"{v:.4g}"),
        axes.below(x, marks, top=top, bottom=bottom, label=lambda v: f"{v:,.0f}"),
        svg.text((right, height - 6), "training step", class_="note", anchor="end"),
        *_curves(training, x, y, most=min(_MOST_POINTS, 2 * width)),
    ]
    if not finite:
        drawn.append(svg.text((left + 12, top + 24), "No training step was recorded.", class_="label"))
    if training.cut_over is not None:
        drawn.append(_cut(x(training.cut_over.step), f"cut-over at step {words.count(training.cut_over.step)}", left, right, top, bottom))
    return svg.picture(f"loss-{width}", width, height, drawn, title="Loss over training steps", description=describe(training))


def zoom(training: Trace, width: int) -> Markup:
    """Loss over time around the cut-over; empty when training never went over."""
    gap_s = training.gap_s
    if gap_s is None or gap_s < 0:
        return Markup("")
    height = 320.0 if width > 370 else 240.0
    left, right, top, bottom = 44.0, width - 12.0, 40.0, height - 42
    zero_s = training.source[-1].at_s
    margin_s = max(0.3, gap_s * 0.7)
    x = axes.Scale(-margin_s, gap_s + margin_s, left, right)
    near = {
        site: [p for p in points if x.holds(p.at_s - zero_s) and math.isfinite(p.loss)]
        for site, points in (("source", training.source), ("target", training.target), ("uncounted", training.uncounted))
    }
    low, high = _bounds([point.loss for points in near.values() for point in points])
    ticks = axes.round_ticks(low, high, count=5)
    y = axes.Scale(ticks[0], ticks[-1], bottom, top)
    drawn = [
        svg.text((left, 14), "Loss over time, around the cut-over", class_="panel"),
        svg.rect((x(0), top), x(gap_s) - x(0), bottom - top, class_="still"),
        axes.left(y, ticks, begin=left, end=right, label=lambda v: f"{v:.4g}"),
        axes.below(x, axes.time_ticks(x.low, x.high, count=6), top=top, bottom=bottom, label=axes.moment),
        svg.text((right, height - 6), f"after the last step at {SOURCE}", class_="note", anchor="end"),
    ]
    for site, points in near.items():
        places = thinned([(x(p.at_s - zero_s), y(p.loss)) for p in points], limit=240)
        if site != "uncounted":
            drawn.append(svg.polyline(places, class_=f"thin stroke-{site}"))
        drawn += [svg.tag("circle", cx=px, cy=py, r=2.6, class_=f"dot-{site}") for px, py in places]
    label = words.seconds(gap_s)
    drawn.append(svg.text((x(gap_s / 2), (top + bottom) / 2), label, class_="still-number", anchor="middle"))
    drawn.append(svg.text((x(gap_s / 2), (top + bottom) / 2 + 16), "without a step", class_="still-label", anchor="middle"))
    description = f"No training step ended for {label}, from the last one that counts at {SOURCE} to the first one at {TARGET}."
    return svg.picture(f"zoom-{width}", width, height, drawn, title="Loss over time around the cut-over", description=description)


def describe(training: Trace) -> str:
    """What the curve shows, in words."""
    counted = [point for point in training.counted if math.isfinite(point.loss)]
    if not counted:
        return "No training step was recorded in this run."
    tail, head = counted[-20:], counted[:20]
    fell = f"Loss went from {_mean_loss(head):.2f} (mean of the first {len(head)} steps) to {_mean_loss(tail):.2f} (last {len(tail)})."
    if training.cut_over is None:
        return f"{fell} Training never left {counted[0].site}."
    before, after = training.source[-20:], training.target[:20]
    around = f" Around the cut-over: {_mean_loss(before):.2f} before, {_mean_loss(after):.2f} after." if before else ""
    extra = f" {words.plural(len(training.uncounted), 'step')} of {SOURCE} do not count." if training.uncounted else ""
    return f"{fell}{around}{extra}"


def _curves(training: Trace, x: axes.Scale, y: axes.Scale, *, most: int) -> list[Markup]:
    """Each step faintly and their running mean strongly; few steps as they are. Colour follows the site."""
    smooth = len(training.counted) >= _SMOOTH_FROM
    means = _running_means(training.counted)
    drawn, strong = [], []
    begin = 0
    for points, name in ((training.source, "source"), (training.target, "target")):
        places = [(x(p.step), y(p.loss)) for p in points if math.isfinite(p.loss)]
        drawn.append(svg.polyline(thinned(places, limit=most), class_=f"stroke-{name} {'faint' if smooth else 'strong'}"))
        own = [(x(p.step), y(m)) for p, m in zip(points, means[begin : begin + len(points)], strict=True) if math.isfinite(m)]
        if smooth:
            strong.append(svg.polyline(own[:: max(1, len(own) // 200)] + own[-1:], class_=f"stroke-{name} strong"))
        begin += len(points)
    lost = [(x(p.step), y(p.loss)) for p in training.uncounted if math.isfinite(p.loss)]
    return [*drawn, svg.polyline(thinned(lost, limit=most), class_="stroke-uncounted"), *strong]


def _running_means(points: Sequence[LossPoint]) -> list[float]:
    """The mean loss of the steps around each step; it runs through the cut-over, for the training is one."""
    reach = max(2, len(points) // 120)
    sums = list(itertools.accumulate((point.loss for point in points), initial=0.0))
    means = []
    for number in range(len(points)):
        low, high = max(0, number - reach), min(len(points), number + reach + 1)
        means.append((sums[high] - sums[low]) / (high - low))
    return means


def _cut(at: float, label: str, left: float, right: float, top: float, bottom: float) -> Markup:
    half = svg.text_width(label, size_px=12) / 2
    centre = min(max(at, left + half), right - half)
    return svg.group(
        [svg.line((at, top), (at, bottom), class_="cut"), svg.text((centre, top - 6), label, class_="cut-label", anchor="middle")]
    )


def _bounds(losses: Sequence[float]) -> tuple[float, float]:
    return (min(losses), max(losses)) if losses else (0.0, 1.0)


def _mean_loss(points: Sequence[LossPoint]) -> float:
    return sum(point.loss for point in points) / len(points)
