"""Course: sums that change at moments, evaluated at each of them exactly (never by days). Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

Amount = float


class Course:
    """What is there over time: every amount counts from its ``begins_s`` up to, and without, its ``ends_s``."""

    def __init__(self) -> None:
        self._changes: defaultdict[float, float] = defaultdict(float)

    def add(self, value: Amount, begins_s: float = -math.inf, ends_s: float = math.inf) -> None:
        """Put an amount in; one that ends before it begins is never there."""
        begins, ends = round(begins_s, 3), round(ends_s, 3)
        if value and ends > begins:
            self._changes[begins] += value
            self._changes[ends] -= value

    @property
    def changes(self) -> dict[float, float]:
        """By moment."""
        return self._changes


def steps(*courses: Course, begins_s: float = -math.inf, ends_s: float = math.inf) -> Iterator[tuple[float, tuple[float, ...]]]:
    """Each moment at which one of the courses changes with what all of them are from then on; first ``begins_s`` itself."""
    begins, ends = round(begins_s, 3), round(ends_s, 3)
    moments = sorted({moment for course in courses for moment in course.changes})
    values = [0.0] * len(courses)
    at = 0
    while at < len(moments) and moments[at] <= begins:
        _apply(values, courses, moments[at])
        at += 1
    if begins < ends:
        yield begins, tuple(values)
    for moment in moments[at:]:
        if moment >= ends:
            return
        _apply(values, courses, moment)
        yield moment, tuple(values)


def _apply(values: list[float], courses: tuple[Course, ...], moment: float) -> None:
    for index, course in enumerate(courses):
        values[index] += course.changes.get(moment, 0.0)
