"""Axes: scales, round ticks and the lines that a drawing stands on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
from markupsafe import Markup

from bridgehead.app.demo.report import svg

_TIME_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 86_400)


class Scale(msgspec.Struct, frozen=True):
    """Values from ``low`` to ``high`` onto pixels from ``low_px`` to ``high_px``. Equal bounds put everything at ``low_px``."""

    low: float
    high: float
    low_px: float
    high_px: float

    def __call__(self, value: float) -> float:
        """The pixel of ``value``."""
        if self.high == self.low:
            return self.low_px
        return self.low_px + (value - self.low) / (self.high - self.low) * (self.high_px - self.low_px)

    def holds(self, value: float) -> bool:
        """``value`` lies between the bounds."""
        return self.low <= value <= self.high


def round_ticks(low: float, high: float, *, count: int) -> list[float]:
    """About ``count`` values at multiples of 1, 2 or 5 times a power of ten, from at most ``low`` to at least ``high``."""
    span = high - low
    if span < 1e-300:  # nothing to tell apart, and its logarithm may not exist
        span = abs(high) if abs(high) > 1e-300 else 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next((factor * power for factor in (1, 2, 5) if factor * power * count >= span * 0.999), 10 * power)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def time_ticks(low_s: float, high_s: float, *, count: int) -> list[float]:
    """At most about ``count`` moments between the bounds, at steps that people count in (5 s, 15 s, 1 min, ...)."""
    step = next(
        (step for step in _TIME_STEPS_S if (high_s - low_s) / step <= count), 86_400.0 * math.ceil((high_s - low_s) / 86_400 / count)
    )
    return [number * step for number in range(math.ceil(low_s / step - 1e-9), math.floor(high_s / step + 1e-9) + 1)]


def moment(at_s: float) -> str:
    """A tick of a time axis: '45 s', '2:30 min'."""
    if abs(at_s) < 120 or at_s < 0:
        return f"{at_s:.6g} s".replace("-", "\N{MINUS SIGN}")
    minutes, seconds = divmod(round(at_s), 60)
    return f"{minutes}:{seconds:02d} min"


def below(scale: Scale, ticks: Sequence[float], *, top: float, bottom: float, label: Callable[[float], str]) -> Markup:
    """A horizontal axis at ``bottom``, with faint lines up to ``top``."""
    drawn = []
    for tick in ticks:
        x = scale(tick)
        drawn.append(svg.line((x, top), (x, bottom), class_="grid"))
        drawn.append(svg.text((x, bottom + 16), label(tick), class_="tick", anchor="middle"))
    drawn.append(svg.line((scale.low_px, bottom), (scale.high_px, bottom), class_="axis"))
    return svg.group(drawn)


def left(scale: Scale, ticks: Sequence[float], *, begin: float, end: float, label: Callable[[float], str]) -> Markup:
    """A vertical axis whose labels end just left of ``begin``, with faint lines to ``end``."""
    drawn = []
    for tick in ticks:
        y = scale(tick)
        drawn.append(svg.line((begin, y), (end, y), class_="grid"))
        drawn.append(svg.text((begin - 8, y + 4), label(tick), class_="tick", anchor="end"))
    return svg.group(drawn)
