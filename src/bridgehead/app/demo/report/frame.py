"""Frame: what the drawings share, read out of a story: the time axis, the sites in order, and the cut-over of training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from bridgehead.app.demo.places import SITES, SOURCE, TARGET
from bridgehead.app.demo.report import words
from bridgehead.app.demo.report.axes import Scale
from bridgehead.app.demo.summary import LossPoint, Story
from bridgehead.kernel.ids import SiteId

T = TypeVar("T")

WIDTHS_PX = (1080, 700, 360)
"""Each drawing is made for a desk, a tablet (and paper) and a phone, so that its letters are readable on all of them."""


GUTTER_PX = 280.0
"""On a wide screen traffic and runbook have a column for words to the left of their common time axis."""


class WeightChange(msgspec.Struct, frozen=True):
    """From ``at_s`` on, ``percent`` of new sessions were asked to go to the target."""

    at_s: float
    percent: int


class Frame(msgspec.Struct, frozen=True):
    """The time axis of traffic and runbook. All times of a page are seconds since ``zero_s``, the beginning of the demo."""

    zero_s: float
    begin_s: float
    end_s: float
    changes: tuple[WeightChange, ...]

    def scale(self, low_px: float, high_px: float) -> Scale:
        """The axis between two pixels."""
        return Scale(self.begin_s, self.end_s, low_px, high_px)

    def since(self, at_s: float) -> float:
        """Seconds since the beginning."""
        return at_s - self.zero_s


class Trace(msgspec.Struct, frozen=True):
    """One training, read from its steps.

    Attributes:
        source: steps that count, done at the source.
        target: steps done at the target.
        uncounted: steps done at the source that the target did again, or that came after the fence: they never count.
    """

    source: tuple[LossPoint, ...]
    target: tuple[LossPoint, ...]
    uncounted: tuple[LossPoint, ...]

    @property
    def counted(self) -> tuple[LossPoint, ...]:
        """The steps of the state that counts, in order."""
        return self.source + self.target

    @property
    def cut_over(self) -> LossPoint | None:
        """The target's first step; None when training never went over."""
        return self.target[0] if self.target else None

    @property
    def gap_s(self) -> float | None:
        """From the end of the last step that counts at the source to the end of the first new one at the target."""
        return self.target[0].at_s - self.source[-1].at_s if self.source and self.target else None


def frame(story: Story) -> Frame:
    """The time axis that holds all traffic and all steps of the runbook; at least one second long."""
    begins = [span.begin_s for span in story.spans] + [second.at_s for second in story.traffic]
    ends = [span.end_s for span in story.spans] + [second.at_s + 1 for second in story.traffic]
    zero_s = story.began_s
    begin_s, end_s = min([zero_s, *begins]), max([zero_s + 1, *ends])
    seconds = sorted(story.traffic, key=lambda second: second.at_s)
    changes = tuple(
        WeightChange(after.at_s - zero_s, after.asked_percent)
        for before, after in itertools.pairwise(seconds)
        if before.asked_percent != after.asked_percent
    )
    return Frame(zero_s, begin_s - zero_s, end_s - zero_s, changes)


def trace(losses: Sequence[LossPoint]) -> Trace:
    """Tell the steps that count from those that do not."""
    target = tuple(sorted((point for point in losses if point.site != SOURCE), key=lambda point: point.step))
    source = tuple(sorted((point for point in losses if point.site == SOURCE), key=lambda point: point.step))
    if not target:
        return Trace(source, (), ())
    first = target[0].step
    return Trace(tuple(p for p in source if p.step < first), target, tuple(p for p in source if p.step >= first))


def sites(story: Story) -> tuple[SiteId, ...]:
    """The sites that traffic reached, the target first: it is drawn at the bottom, where the asked share can be read off it."""
    others = {site for second in story.traffic for site in second.by_site} - set(SITES)
    return (TARGET, SOURCE, *sorted(others))


def site_class(site: SiteId) -> str:
    """The class that gives a site its colour."""
    return {SOURCE: "source", TARGET: "target"}.get(site, "other")


def thinned(points: Sequence[tuple[float, float]], *, limit: int) -> list[tuple[float, float]]:
    """About ``limit`` of the points, which lie in order of x: of each stretch its lowest and its highest, so that no peak is lost."""
    if len(points) <= limit:
        return list(points)
    length = math.ceil(2 * len(points) / limit)
    kept: list[tuple[float, float]] = [points[0]]
    for begin in range(0, len(points), length):
        stretch = points[begin : begin + length]
        kept.extend(sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}))
    return [*kept, points[-1]]


def merged(items: Sequence[T], *, room_px: float, least_px: float) -> list[list[T]]:
    """Neighbouring items together, so that each group gets at least ``least_px`` of ``room_px``."""
    length = max(1, math.ceil(len(items) * least_px / max(room_px, 1.0)))
    return [list(items[begin : begin + length]) for begin in range(0, len(items), length)]


def standstill(moved: Trace, clock: Frame) -> tuple[float, float, str] | None:
    """When training stood still for the cut-over, and how long, in words; None when it never went over."""
    gap_s = moved.gap_s
    if gap_s is None or gap_s < 0:
        return None
    return clock.since(moved.source[-1].at_s), clock.since(moved.target[0].at_s), words.seconds(gap_s)
