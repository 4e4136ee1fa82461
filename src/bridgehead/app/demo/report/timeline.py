"""Timeline: when each step of the runbook ran, on the time axis of the traffic."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from bridgehead.app.demo.report import axes, svg, words
from bridgehead.app.demo.report.frame import GUTTER_PX, Frame, frame, standstill, trace
from bridgehead.app.demo.report.traffic import gate_verdict, gate_word
from bridgehead.app.demo.summary import StepSpan, Story

_BAR_PX = 12.0
_FONT_PX = 12.5


def draw(story: Story, width: int) -> Markup:
    """The drawing, ``width`` pixels wide: titles in a column of their own, or above their bars where there is no room for one."""
    clock = frame(story)
    columns = width > 900
    left, right = (GUTTER_PX, width - 24.0) if columns else (52.0, width - 14.0)
    row_px = 23.0 if columns else 33.0
    top = 40.0
    spans = sorted(story.spans, key=lambda span: (span.begin_s, span.end_s))
    bottom = top + max(1, len(spans)) * row_px + 6
    x = clock.scale(left, right)
    times = axes.time_ticks(clock.begin_s, clock.end_s, count=12 if width > 600 else 6)
    drawn = [axes.below(x, times, top=top, bottom=bottom, label=axes.moment), *_changes(clock, x, top, bottom)]
    drawn += _standstill(story, clock, x, top, bottom)
    if not spans:
        drawn.append(svg.text((left + 8, top + 20), "No step of a runbook was recorded.", class_="label"))
    for number, span in enumerate(spans):
        drawn.append(_row(span, clock, x, y=top + 4 + number * row_px, columns=columns, width=width))
    return svg.picture(
        f"timeline-{width}",
        width,
        bottom + 24,
        drawn,
        title="Steps of the runbook over time",
        description=_description(spans, clock),
    )


def state_class(span: StepSpan) -> str:
    """The class that gives a step its look; told apart by pattern too."""
    if span.state in ("failed", "stuck"):
        return "bad"
    if span.state in ("undone", "undoing", "assigned (undo)"):
        return "undone"
    if span.state in ("done", "kept"):
        return "gate" if span.kind == "gate" else "step"
    return "open"


def state_word(span: StepSpan) -> str:
    """What became of a step."""
    return gate_word(span) if span.kind == "gate" and span.state in ("done", "failed") else span.state


def duration(span: StepSpan) -> str:
    """How long a step took."""
    return words.brief(max(0.0, span.end_s - span.begin_s))


def _row(span: StepSpan, clock: Frame, x: axes.Scale, *, y: float, columns: bool, width: int) -> Markup:
    name = span.title or span.step
    begin, end = x(clock.since(span.begin_s)), x(clock.since(max(span.begin_s, span.end_s)))
    bar_y = y + 3 if columns else y + 17
    begin = min(begin, x.high_px - 3)
    drawn = [svg.tag("title", f"{name}: {state_word(span)}, {duration(span)}, from {axes.moment(round(clock.since(span.begin_s), 1))}")]
    if columns:
        shown = svg.shortened(name, width_px=x.low_px - 16, size_px=_FONT_PX * 0.92)
        drawn.append(svg.text((0, y + 13), shown, class_="label"))
    else:
        shown = svg.shortened(name, width_px=width - 8, size_px=_FONT_PX)
        wide = svg.text_width(shown, size_px=_FONT_PX)
        drawn.append(svg.text((max(0.0, min(begin, width - wide - 2)), y + 12), shown, class_="label"))
    drawn.append(svg.rect((begin, bar_y), max(3.0, end - begin), _BAR_PX, class_=f"bar-{state_class(span)}", radius=3))
    drawn.append(_after(span, begin, max(begin + 3, end), bar_y, x, width))
    return svg.group(drawn)


def _after(span: StepSpan, begin: float, end: float, bar_y: float, x: axes.Scale, width: int) -> Markup:
    """The verdict mark and the duration, to the right of the bar, or to its left near the edge."""
    label = duration(span)
    if state_class(span) in ("bad", "undone", "open") and span.kind != "gate":
        label = f"{state_word(span)}, {label}"
    marked = span.kind == "gate" or state_class(span) == "bad"
    room = (18.0 if marked else 4.0) + svg.text_width(label, size_px=11.5)
    good = gate_verdict(span) if span.kind == "gate" else False
    middle = bar_y + _BAR_PX / 2
    if end + room <= width or begin - room < x.low_px:
        sign, place, anchor = end + 10, end + (20 if marked else 6), "start"
    else:
        sign, place, anchor = begin - 10, begin - (20 if marked else 6), "end"
    drawn = [svg.text((place, middle + 4), label, class_="note", anchor=anchor)]
    if marked:
        drawn.append(svg.mark((sign, middle), good=good, radius=6.5, title=state_word(span)))
    return svg.group(drawn)


def _changes(clock: Frame, x: axes.Scale, top: float, bottom: float) -> list[Markup]:
    drawn = []
    taken = 0.0
    for change in clock.changes:
        at, label = x(change.at_s), words.percent(change.percent)
        drawn.append(svg.line((at, top), (at, bottom), class_="change"))
        half = svg.text_width(label, size_px=11.5) / 2
        if at - half >= taken:
            drawn.append(svg.text((at, top - 6), label, class_="note", anchor="middle"))
            taken = at + half + 6
    return drawn


def _standstill(story: Story, clock: Frame, x: axes.Scale, top: float, bottom: float) -> list[Markup]:
    """The band in which training stood still."""
    still = standstill(trace(story.losses), clock)
    if still is None or not (x.holds(still[0]) and x.holds(still[1])):
        return []
    begin, end = x(still[0]), x(still[1])
    label = f"training stands still, {still[2]}"
    half = svg.text_width(label, size_px=11.5) / 2
    centre = min(max((begin + end) / 2, half), x.high_px + 10 - half)
    return [
        svg.rect((begin, top - 18), max(2.0, end - begin), bottom - top + 18, class_="still"),
        svg.text((centre, top - 23), label, class_="still-label", anchor="middle"),
    ]


def _description(spans: Sequence[StepSpan], clock: Frame) -> str:
    if not spans:
        return "No step of a runbook was recorded in this run."
    return (
        f"{words.plural(len(spans), 'step')} between {axes.moment(round(clock.begin_s, 1))} and {axes.moment(round(clock.end_s, 1))}. "
        + ("The same steps with their times are in the table below the drawing.")
    )
