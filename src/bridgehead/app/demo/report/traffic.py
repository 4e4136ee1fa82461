"""Traffic: requests per second by site, and below it the share at the target against what was asked, with the verdicts of the gates."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.places import TARGET
from bridgehead.app.demo.report import axes, svg, words
from bridgehead.app.demo.report.frame import GUTTER_PX, Frame, frame, merged, site_class, sites
from bridgehead.app.demo.summary import StepSpan, Story, TrafficSecond
from bridgehead.kernel.ids import SiteId


class _Bar(msgspec.Struct, frozen=True):
    """Traffic of one second or, where there is no room for each, the mean of a few."""

    begin_s: float
    end_s: float
    rates: dict[SiteId, float]
    bad: int
    asked_percent: int

    @property
    def rate(self) -> float:
        return sum(self.rates.values())

    @property
    def seen_percent(self) -> float | None:
        return 100 * self.rates.get(TARGET, 0.0) / self.rate if self.rate else None


class _Plot(msgspec.Struct, frozen=True):
    """Where things are, in pixels."""

    left: float
    right: float
    top: float
    middle: float
    share_top: float
    bottom: float
    height: float


def draw(story: Story, width: int) -> Markup:
    """The drawing, ``width`` pixels wide."""
    clock = frame(story)
    plot = _plot(width)
    x = clock.scale(plot.left, plot.right)
    bars = _bars(story, clock, plot.right - plot.left)
    order = sites(story)
    highest = max((bar.rate for bar in bars), default=0.0)
    ticks = axes.round_ticks(0, highest or 1, count=4)
    rate = axes.Scale(0, ticks[-1], plot.middle, plot.top)
    share = axes.Scale(0, 100, plot.bottom, plot.share_top)
    times = axes.time_ticks(clock.begin_s, clock.end_s, count=12 if width > 600 else 6)
    return svg.picture(
        f"traffic-{width}",
        width,
        plot.height,
        [
            *(_beside(story, plot) if width > 900 else _above(plot)),
            axes.left(rate, ticks, begin=plot.left, end=plot.right, label=lambda v: f"{v:,.6g}"),
            *_stacks(bars, order, x, rate),
            svg.line((plot.left, plot.middle), (plot.right, plot.middle), class_="axis"),
            axes.below(x, times, top=plot.share_top, bottom=plot.bottom, label=axes.moment),
            axes.left(share, [0, 50, 100], begin=plot.left, end=plot.right, label=lambda v: f"{v:.0f} %"),
            *_shares(bars, x, share),
            *_changes(clock, bars, x, share, plot),
            *_gates(story.spans, clock, x, plot),
        ],
        title="Traffic by site, second by second",
        description=_description(story, highest),
    )


def totals(story: Story) -> list[tuple[SiteId, str, int]]:
    """Each site, in the order of the pile, with its colour class and the requests that ended there: the legend."""
    order = reversed(sites(story))
    return [(site, site_class(site), sum(second.by_site.get(site, 0) for second in story.traffic)) for site in order]


def _plot(width: int) -> _Plot:
    gutter, right = (GUTTER_PX, 24) if width > 900 else (52, 14)
    rate_height, share_height = (210, 104) if width > 600 else (150, 84)
    middle = 26.0 + rate_height
    share_top = middle + 66
    bottom = share_top + share_height
    return _Plot(gutter, width - right, 26, middle, share_top, bottom, bottom + 24)


def _above(plot: _Plot) -> list[Markup]:
    """What the panels show, above each; the page has the colours in a legend then."""
    return [
        svg.text((plot.left, 14), "Requests per second", class_="panel"),
        svg.text((plot.left, plot.share_top - 32), f"Share of requests at {TARGET}", class_="panel"),
    ]


def _beside(story: Story, plot: _Plot) -> list[Markup]:
    """What the panels show, with the meaning of colours and signs, in the column to the left."""
    drawn = [svg.text((0, plot.top + 6), "Requests per second", class_="panel")]
    y = plot.top + 34
    for site, colour, total in totals(story):
        drawn.append(svg.rect((0, y - 11), 13, 13, class_=f"fill-{colour}", radius=3))
        name = svg.shortened(site, width_px=110, size_px=13)
        drawn.append(svg.text((22, y), f"{name}: {words.plural(total, 'request')}", class_="label"))
        y += 24
    bad = sum(second.bad for second in story.traffic)
    drawn.append(svg.tag("path", d=f"M6.5 {y + 1:.1f}l-6 -11h12z", class_="fill-bad"))
    drawn.append(svg.text((22, y), f"{words.count(bad)} bad", class_="label"))
    y = plot.share_top
    drawn.append(svg.text((0, y + 6), f"Share of requests at {TARGET}", class_="panel"))
    drawn.append(svg.line((0, y + 30), (14, y + 30), class_="asked"))
    drawn.append(svg.text((22, y + 34), "asked, of new sessions", class_="label"))
    drawn.append(svg.rect((0, y + 47), 13, 13, class_="fill-target", radius=3))
    drawn.append(svg.text((22, y + 58), "seen, of all requests", class_="label"))
    drawn.append(svg.mark((6.5, y + 78), good=True, radius=6.5, title="passed"))
    drawn.append(svg.text((22, y + 82), "gate passed", class_="label"))
    drawn.append(svg.mark((116.5, y + 78), good=False, radius=6.5, title="did not pass"))
    drawn.append(svg.text((132, y + 82), "did not pass", class_="label"))
    return drawn


def _bars(story: Story, clock: Frame, room_px: float) -> list[_Bar]:
    bars = []
    order = sites(story)
    for group in merged(sorted(story.traffic, key=lambda second: second.at_s), room_px=room_px, least_px=2.0):
        bars.append(
            _Bar(
                begin_s=clock.since(group[0].at_s),
                end_s=clock.since(group[-1].at_s) + 1,
                rates={site: _mean(group, site) for site in order},
                bad=sum(second.bad for second in group),
                asked_percent=group[-1].asked_percent,
            )
        )
    return bars


def _mean(group: Sequence[TrafficSecond], site: SiteId) -> float:
    return sum(second.by_site.get(site, 0) for second in group) / len(group)


def _stacks(bars: Sequence[_Bar], order: Sequence[SiteId], x: axes.Scale, rate: axes.Scale) -> list[Markup]:
    drawn = []
    for bar in bars:
        left, width = x(bar.begin_s), x(bar.end_s) - x(bar.begin_s)
        gap = 1.0 if width > 3 else 0.0
        below, pieces = 0.0, []
        for site in order:
            if bar.rates[site] > 0:
                top, base = rate(below + bar.rates[site]), rate(below)
                pieces.append(svg.rect((left, top), width - gap, base - top, class_=f"fill-{site_class(site)}"))
                below += bar.rates[site]
        if bar.bad:
            centre, top = left + (width - gap) / 2, rate(below)
            pieces.append(svg.tag("path", d=f"M{centre:.1f} {top - 3:.1f}l-5 -9h10z", class_="fill-bad"))
        drawn.append(svg.tag("g", svg.tag("title", _bar_title(bar, order)), *pieces))
    return drawn


def _bar_title(bar: _Bar, order: Sequence[SiteId]) -> str:
    each = ", ".join(f"{bar.rates[site]:,.3g}/s at {site}" for site in order)
    seen = "" if bar.seen_percent is None else f", seen {words.percent(bar.seen_percent)}"
    return f"{axes.moment(bar.begin_s)}: {each}; asked {words.percent(bar.asked_percent)}{seen}; {bar.bad} bad"


def _shares(bars: Sequence[_Bar], x: axes.Scale, share: axes.Scale) -> list[Markup]:
    drawn = []
    for bar in bars:
        seen = bar.seen_percent
        if seen is not None:
            left, width = x(bar.begin_s), x(bar.end_s) - x(bar.begin_s)
            top = share(seen)
            drawn.append(svg.rect((left, top), width - (1.0 if width > 3 else 0.0), share(0) - top, class_="fill-target"))
    asked: list[svg.Point] = []
    for bar in bars:
        asked += [(x(bar.begin_s), share(bar.asked_percent)), (x(bar.end_s), share(bar.asked_percent))]
    drawn.append(svg.polyline(asked, class_="asked-halo"))
    drawn.append(svg.polyline(asked, class_="asked"))
    return drawn


def _changes(clock: Frame, bars: Sequence[_Bar], x: axes.Scale, share: axes.Scale, plot: _Plot) -> list[Markup]:
    """Each change of the weight: a line through both panels, and the percentage beside the line of what is asked."""
    drawn = []
    taken = 0.0
    for change in clock.changes:
        at = x(change.at_s)
        drawn.append(svg.line((at, plot.top), (at, plot.middle), class_="change"))
        label = words.percent(change.percent)
        wide = svg.text_width(label, size_px=12)
        if at + 4 >= taken and at + 4 + wide <= plot.right + 10:
            lift = share(change.percent) - 6 if change.percent < 75 else share(change.percent) + 16
            drawn.append(svg.text((at + 4, lift), label, class_="asked-label"))
            taken = at + 8 + wide
    return drawn


def _gates(spans: Sequence[StepSpan], clock: Frame, x: axes.Scale, plot: _Plot) -> list[Markup]:
    """Verdict marks above the share panel, at the moment of each verdict; a second row where they would touch."""
    radius = 7.0
    last = [-100.0, -100.0]
    drawn = []
    for span in sorted((span for span in spans if span.kind == "gate"), key=lambda span: span.end_s):
        at = x(clock.since(span.end_s))
        row = 0 if at - last[0] > 2 * radius + 1 else 1
        last[row] = at
        y = plot.share_top - 13 - row * (2 * radius + 1)
        drawn.append(svg.line((at, y + radius), (at, plot.bottom), class_="change"))
        drawn.append(svg.mark((at, y), good=gate_verdict(span), radius=radius, title=f"{span.title or span.step}: {gate_word(span)}"))
    return drawn


def gate_verdict(span: StepSpan) -> bool | None:
    """A gate that passed, that was breached, or neither (yet). A gate that passed and was rolled back later did pass."""
    return {"done": True, "undone": True, "kept": True, "failed": False}.get(span.state)


def gate_word(span: StepSpan) -> str:
    """The verdict of a gate in one word."""
    verdict = gate_verdict(span)
    return span.state if verdict is None else "passed" if verdict else "did not pass"


def _description(story: Story, highest: float) -> str:
    if not story.traffic:
        return "No traffic was recorded in this run."
    each = ", ".join(f"{words.count(total)} requests at {site}" for site, _, total in totals(story))
    bad = sum(second.bad for second in story.traffic)
    peaks = f"at most {highest:,.0f} requests a second"
    changes = ", ".join(words.percent(change.percent) + f" from {axes.moment(round(change.at_s, 1))}" for change in frame(story).changes)
    asked = f" Asked share of {TARGET}: {changes}." if changes else ""
    return f"Stacked bars: {each}; {peaks}; {words.count(bad)} bad.{asked} The numbers for each weight are in the table of splits."
