"""Steps: numbers that change at moments and hold in between, such as GPUs that stand at a site. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise


class Steps:
    """A number over time: ``base`` until the first moment, then what the changes add up to. A change counts from its moment on.

    Args:
        base: before all changes.
        changes: moments (seconds since 1970) and what is added then; in any order.
    """

    def __init__(self, base: float, changes: Iterable[tuple[float, float]] = ()) -> None:
        together: dict[float, float] = {}
        for moment_s, change in changes:
            together[moment_s] = together.get(moment_s, 0.0) + change
        self.moments_s = sorted(moment_s for moment_s, change in together.items() if change)
        self._values = list(accumulate((together[moment_s] for moment_s in self.moments_s), initial=base))

    def at(self, moment_s: float) -> float:
        """The value from that moment on."""
        return self._values[bisect_right(self.moments_s, moment_s)]

    def before(self, moment_s: float) -> float:
        """The value just before that moment."""
        return self._values[bisect_left(self.moments_s, moment_s)]

    def over(self, begins_s: float, ends_s: float) -> float:
        """The value times the seconds, added up over a period."""
        inside = [moment_s for moment_s in self.moments_s if begins_s < moment_s < ends_s]
        edges = [begins_s, *inside, ends_s]
        return sum(self.at(one) * (other - one) for one, other in pairwise(edges) if other > one)

    def highest(self, begins_s: float, ends_s: float) -> float:
        """The largest value within a period."""
        return max(self.at(moment_s) for moment_s in (begins_s, *self.moments_s) if begins_s <= moment_s < max(ends_s, begins_s + 1))


def allowed_from(moments_s: Iterable[float], allows: Callable[[float], bool], *, until_s: float, since_s: float) -> float:
    """The earliest moment from which on, up to ``until_s``, something is allowed without a break.

    Args:
        moments_s: when what decides may change.
        allows: whether it is allowed from a moment up to the next of them.
        until_s: looked at backwards from here; what is at that moment itself does not count.
        since_s: not looked at before.
    """
    edges = sorted({since_s, *(moment_s for moment_s in moments_s if since_s < moment_s < until_s)}, reverse=True)
    from_s = until_s
    for edge in edges:
        if edge >= until_s:
            continue
        if not allows(edge):
            return from_s
        from_s = edge
    return from_s
