"""Charts: capacity of both sites by GPU model with the reserve, and use of the line, over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from markupsafe import Markup

from bridgehead.app.demo.report import svg
from bridgehead.app.plan_report.timescale import LABELS, WIDTH, TimeScale
from bridgehead.kernel.quantity import format_rate
from bridgehead.planning.course import Course
from bridgehead.planning.steps import Steps

_HEIGHT: Final = 120.0
_TOP: Final = 22.0


def capacities(course: Course, scale: TimeScale) -> list[tuple[str, Markup]]:
    """For each GPU model the source above the target: what stands, what runs, and what runs with its reserve."""
    return [(model or "GPUs", _capacity(course, model, scale)) for model in course.models]


def _capacity(course: Course, model: str, scale: TimeScale) -> Markup:
    pairs = [(site, course.standing[site.id, model], course.running[site.id, model]) for site in (course.source, course.target)]
    kept = 1 + course.policy.reserve
    begins_s, ends_s = scale.begins_s, scale.ends_s
    most = max([1.0, *(max(stand.highest(begins_s, ends_s), kept * run.highest(begins_s, ends_s)) for _, stand, run in pairs)])
    drawn: list[Markup] = []
    for number, (site, stand, run) in enumerate(pairs):
        floor = _TOP + (number + 1) * (_HEIGHT + 26) - 26
        end = "source" if number == 0 else "target"
        drawn += [scale.axis(floor - _HEIGHT - 16, floor), _scale(most, floor, lambda value: f"{value:,.0f}")]
        drawn.append(svg.text((0, floor - _HEIGHT + 12), svg.shortened(site.name or site.id, width_px=120, size_px=13), class_="panel"))
        drawn.append(svg.text((0, floor - _HEIGHT + 28), end, class_="tick"))
        drawn.append(_area(_points(run, scale, most, floor), floor, f"area-{end}"))
        drawn.append(svg.polyline(_points(run, scale, most, floor, factor=kept), class_="reserve"))
        drawn.append(svg.polyline(_points(stand, scale, most, floor), class_=f"stands stands-{end}"))
        drawn.append(svg.line((LABELS, floor), (WIDTH - 14, floor), class_="axis"))
    height = _TOP + 2 * (_HEIGHT + 26) - 18
    name = "".join(sign if sign.isalnum() else "-" for sign in model) or "gpus"
    words = f"{model} that stand at each site over time, those that workloads use, and those with their reserve."
    return svg.picture(f"capacity-{name}", WIDTH, height, drawn, title=f"Capacity: {model}", description=words)


def line_use(course: Course, scale: TimeScale) -> Markup:
    """Copies and reserved changes against what the move may take; nothing without a line."""
    rate_bps = course.line_rate_bps
    by_line = [one for one in course.plan.transfers if not one.courier]
    if not rate_bps or not by_line:
        return Markup("")
    sync = [(one.ends_s, one.sync_bps) for one in by_line if one.sync_ends_s is not None]
    sync += [(one.sync_ends_s, -one.sync_bps) for one in by_line if one.sync_ends_s is not None]
    most = max(rate_bps, course.line_use.highest(scale.begins_s, scale.ends_s)) * 1.02
    floor = _TOP + _HEIGHT
    drawn = [scale.axis(4, floor), _scale(most, floor, lambda value: format_rate(value, digits=2))]
    drawn.append(_area(_points(course.line_use, scale, most, floor), floor, "area-copy"))
    drawn.append(_area(_points(Steps(0.0, sync), scale, most, floor), floor, "area-sync"))
    swings = course.plan.swings
    first, last = (min(one.begins_s for one in swings), max(one.ends_s for one in swings)) if swings else (scale.ends_s, scale.ends_s)
    limit = Steps(rate_bps, [(first, -rate_bps / 2), (last, rate_bps / 2)])
    drawn.append(svg.polyline(_points(limit, scale, most, floor), class_="reserve"))
    drawn.append(svg.line((LABELS, floor), (WIDTH - 14, floor), class_="axis"))
    words = "What copies take of the line, what is reserved for changes, and what the move may take; half of it while swings go on."
    return svg.picture("line-use", WIDTH, floor + 6, drawn, title="Use of the line", description=words)


def _points(steps: Steps, scale: TimeScale, most: float, floor: float, *, factor: float = 1.0) -> list[svg.Point]:
    def y(value: float) -> float:
        return floor - _HEIGHT * min(1.0, factor * value / most)

    points = [(scale.x(scale.begins_s), y(steps.at(scale.begins_s)))]
    for moment_s in steps.moments_s:
        if scale.begins_s < moment_s <= scale.ends_s:
            points += [(scale.x(moment_s), points[-1][1]), (scale.x(moment_s), y(steps.at(moment_s)))]
    return [*points, (scale.x(scale.ends_s), points[-1][1])]


def _area(points: Iterable[svg.Point], floor: float, look: str) -> Markup:
    held = list(points)
    corners = [(held[0][0], floor), *held, (held[-1][0], floor)]
    return svg.tag("polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), class_=look)


def _scale(most: float, floor: float, words: Callable[[float], str]) -> Markup:
    step = _round_step(most / 3)
    values = [step * number for number in range(1, int(most / step) + 1)]
    drawn = []
    for value in values:
        y = floor - _HEIGHT * value / most
        drawn.append(svg.line((LABELS, y), (WIDTH - 14, y), class_="grid"))
        drawn.append(svg.text((LABELS - 8, y + 4), words(value), class_="tick", anchor="end"))
    return svg.group(drawn)


def _round_step(value: float) -> float:
    """The nearest 1, 2 or 5 times a power of ten that is not larger."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return max(one * power for one in (1, 2, 5) if one * power <= value)
