"""Page: a demo's story as one HTML page that asks for nothing: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report import latency, loss, lost_compute, splits, timeline, traffic, words
from bridgehead.app.demo.report.excerpt import excerpt
from bridgehead.app.demo.report.frame import WIDTHS_PX, Trace, frame, trace
from bridgehead.app.demo.report.svg import clean, tag
from bridgehead.app.demo.report.tiles import tiles
from bridgehead.app.demo.summary import Story

_HALF_WIDTHS_PX = (510, 700, 360)
"""Drawings that share their row with a table or another drawing, where there is room for both."""
_SIZE_NAMES = ("wide", "medium", "narrow")


def render(story: Story) -> str:
    """The page: self-contained, well-formed as XML too, readable on a phone, in the dark and on paper."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: clean(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    clock = frame(story)
    page = environment.get_template("page.html").render(
        story=story,
        summary=story.summary,
        words=words,
        source=tag("span", SOURCE, class_="nowrap"),
        target=tag("span", TARGET, class_="nowrap"),
        tiles=tiles(story.summary),
        promises=sorted(story.summary.promises.items(), key=lambda item: item[1]),
        spans=sorted(story.spans, key=lambda span: (span.begin_s, span.end_s)),
        since=clock.since,
        ledger=excerpt(story.ledger),
        split_outcome=splits.outcome,
        step_word=timeline.state_word,
        step_duration=timeline.duration,
        traffic_totals=traffic.totals(story),
        step_looks={timeline.state_class(span) for span in story.spans},
        gate_verdicts={traffic.gate_verdict(span) for span in story.spans if span.kind == "gate"},
        compared=lost_compute.compared(story.summary),
        measured_ways=lost_compute.measured(story.summary),
        **_drawings(story, trace(story.losses), trace(story.losses_plain)),
    )
    return page


def _drawings(story: Story, moved: Trace, plain: Trace) -> dict[str, Any]:
    return {
        "traffic_svg": sized(lambda width: traffic.draw(story, width)),
        "timeline_svg": sized(lambda width: timeline.draw(story, width)),
        "latency_svg": sized(lambda width: latency.draw(story.summary.latencies, width), widths=_HALF_WIDTHS_PX),
        "loss_svg": sized(lambda width: loss.draw(moved, width), widths=WIDTHS_PX if moved.cut_over is None else (660, 700, 360)),
        "zoom_svg": sized(lambda width: loss.zoom(moved, width), widths=(380, 700, 360)),
        "lost_svg": sized(lambda width: lost_compute.draw(story.summary, moved, plain, width)),
        "split_svgs": [splits.draw(split, number) for number, split in enumerate(story.summary.splits)],
        "loss_words": loss.describe(moved),
        "has_cut_over": moved.cut_over is not None,
        "has_uncounted": bool(moved.uncounted),
    }


def sized(draw: Callable[[int], Markup], *, widths: tuple[int, ...] = WIDTHS_PX) -> Markup:
    """One drawing for each size of screen; the style sheet shows the one that fits. Empty when nothing is drawn."""
    pictures = [(name, draw(width)) for name, width in zip(_SIZE_NAMES, widths, strict=True)]
    return Markup("").join(tag("div", picture, class_=f"sized {name}") for name, picture in pictures if picture)
