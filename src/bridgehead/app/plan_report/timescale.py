"""TimeScale: moments as places on a drawing, with the days, weeks or months that fit under them. All drawings of a page share one."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import svg

WIDTH: Final = 1070.0
"""Of every drawing over time."""
LABELS: Final = 176.0
"""What names take on the left."""
_RIGHT: Final = 14.0
_DAY_S: Final = 86_400.0


class TimeScale(msgspec.Struct, frozen=True):
    """From the first to the last moment of a page."""

    begins_s: float
    ends_s: float

    def x(self, moment_s: float) -> float:
        """Where a moment is; what lies outside is put on the edge."""
        inside = min(max(moment_s, self.begins_s), self.ends_s)
        return LABELS + (WIDTH - LABELS - _RIGHT) * (inside - self.begins_s) / max(1.0, self.ends_s - self.begins_s)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Moments that get a line, with their words."""
        span_d = (self.ends_s - self.begins_s) / _DAY_S
        moment = datetime.datetime.fromtimestamp(self.begins_s, tz=datetime.UTC).replace(minute=0, second=0, microsecond=0)
        if span_d <= 4:
            step, words, moment = datetime.timedelta(hours=6), "%a %H:%M", moment.replace(hour=moment.hour // 6 * 6)
        elif span_d <= 16:
            step, words, moment = datetime.timedelta(days=1), "%a %d %b", moment.replace(hour=0)
        elif span_d <= 120:
            monday = moment.replace(hour=0) - datetime.timedelta(days=moment.weekday())
            step, words, moment = datetime.timedelta(days=7 if span_d <= 80 else 14), "%d %b", monday
        else:
            yield from self._months(moment.replace(day=1, hour=0))
            return
        while moment.timestamp() <= self.ends_s:
            if moment.timestamp() >= self.begins_s:
                yield moment.timestamp(), moment.strftime(words)
            moment += step

    def _months(self, moment: datetime.datetime) -> Iterator[tuple[float, str]]:
        while moment.timestamp() <= self.ends_s:
            if moment.timestamp() >= self.begins_s:
                yield moment.timestamp(), moment.strftime("%b %Y")
            moment = (moment + datetime.timedelta(days=32)).replace(day=1)

    def axis(self, top: float, bottom: float) -> Markup:
        """Lines from top to bottom, with their words above."""
        drawn = []
        for moment_s, words in self.ticks():
            x = self.x(moment_s)
            drawn.append(svg.line((x, top), (x, bottom), class_="grid"))
            if x < WIDTH - 50:
                drawn.append(svg.text((x + 4, top + 11), words, class_="tick"))
        return svg.group(drawn)
