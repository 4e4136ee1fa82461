"""Calendar: when something that is late may begin: shifts of crews, windows and blackouts of the policy. Pure.

What is on time begins as planned: whether a plan keeps its windows is for its checker to say.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

import msgspec

from bridgehead.model.logistics import DAY_S, Crew
from bridgehead.model.policy import Period, Policy


class Shift(msgspec.Struct, frozen=True):
    """Hours of a crew, from midnight UTC."""

    begins_s: float
    lasts_s: float

    def next(self, moment_s: float, lasts_s: float) -> float:
        """From when on the work fits into one shift; work that is longer than one begins with a shift."""
        opens_s = math.floor(moment_s / DAY_S) * DAY_S + self.begins_s
        if moment_s < opens_s - DAY_S + self.lasts_s:
            opens_s -= DAY_S  # a shift that goes over midnight
        if moment_s <= opens_s:
            return opens_s
        return moment_s if moment_s + lasts_s <= opens_s + self.lasts_s else opens_s + DAY_S

    def after(self, moment_s: float) -> float:
        """The beginning of the next shift."""
        opens_s = math.floor(moment_s / DAY_S) * DAY_S + self.begins_s
        return opens_s if opens_s > moment_s else opens_s + DAY_S


class Calendar:
    """Of one policy."""

    def __init__(self, policy: Policy) -> None:
        crews: Sequence[Crew] = policy.logistics.crews if policy.logistics is not None else ()
        self.shifts = {crew.id: Shift(crew.begins_s, crew.shift_s) for crew in crews}
        self._blackouts = sorted((one.begins_s, one.ends_s) for one in policy.blackouts)
        self._windows = _without(policy.windows, self._blackouts) if policy.windows else None
        self._ends = [ends_s for _, ends_s in self._windows] if self._windows is not None else []

    def window(self, moment_s: float, lasts_s: float) -> float:
        """From when on a swing fits into one window; at once behind the last window, which nobody planned for."""
        if self._windows is None:
            return self.clear(moment_s, lasts_s)
        for begins_s, ends_s in self._windows[bisect.bisect_right(self._ends, moment_s) :]:
            start_s = max(moment_s, begins_s)
            if start_s + lasts_s <= ends_s:
                return start_s
        return moment_s

    def clear(self, moment_s: float, lasts_s: float) -> float:
        """From when on it touches no blackout."""
        for begins_s, ends_s in self._blackouts:
            if moment_s < ends_s and moment_s + lasts_s > begins_s:
                moment_s = ends_s
        return moment_s


def _without(windows: Sequence[Period], blackouts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found = sorted((one.begins_s, one.ends_s) for one in windows)
    for black_begins_s, black_ends_s in blackouts:
        left: list[tuple[float, float]] = []
        for begins_s, ends_s in found:
            if ends_s <= black_begins_s or begins_s >= black_ends_s:
                left.append((begins_s, ends_s))
                continue
            left += [(begins_s, black_begins_s)] if begins_s < black_begins_s else []
            left += [(black_ends_s, ends_s)] if ends_s > black_ends_s else []
        found = left
    return found
