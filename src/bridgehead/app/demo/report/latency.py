"""Latency: before, during and after the move, as small bars to one scale."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from bridgehead.app.demo.report import axes, svg, words
from bridgehead.app.demo.summary import Latency


def draw(latencies: Sequence[Latency], width: int) -> Markup:
    """A bar for each period: up to the median, the 95th and the 99th percentile."""
    left, right, row_px, top = 66.0, width - 12.0, 46.0, 8.0
    bottom = top + max(1, len(latencies)) * row_px
    longest = max((latency.p99_s for latency in latencies), default=0.0) or 0.001
    ticks = axes.round_ticks(0, longest * 1000, count=5 if width > 500 else 3)
    x = axes.Scale(0, ticks[-1], left, right - 8)
    drawn = [axes.below(x, ticks, top=top, bottom=bottom, label=lambda v: f"{v:,.6g} ms")]
    for number, latency in enumerate(latencies):
        y = top + number * row_px + 8
        bars = [(latency.p99_s, "p99", 7.0, 16.0), (latency.p95_s, "p95", 4.0, 22.0), (latency.p50_s, "p50", 0.0, 30.0)]
        drawn.append(svg.text((left - 10, y + 20), latency.period, class_="label", anchor="end"))
        for value, name, inset, height in bars:
            title = f"{latency.period}, {name}: {words.milliseconds(value)}"
            drawn.append(svg.rect((left, y + inset), x(value * 1000) - left, height, class_=f"{name}", radius=2, title=title))
    if not latencies:
        drawn.append(svg.text((left + 8, top + 26), "No latency was measured.", class_="label"))
    description = "; ".join(
        f"{one.period}: median {words.milliseconds(one.p50_s)}, 95 % {words.milliseconds(one.p95_s)}, 99 % {words.milliseconds(one.p99_s)}"
        for one in latencies
    )
    return svg.picture(
        f"latency-{width}",
        width,
        bottom + 24,
        drawn,
        title="Latency of plain requests before, during and after the move",
        description=description or "No latency was measured in this run.",
    )
