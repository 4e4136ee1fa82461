"""Forecast: when will an objective be missed, said before it is (R1, R6, R8)?

What is lost when a site is lost is the work since the newest snapshot of which the other site has a proved copy. That grows with the
clock until the next copy comes in: the next snapshot is due one interval after the last, and its copy one delay after that. Both are taken
from what was measured: the 90th percentile of the last intervals and delays, so that a forecast errs on the early side.

    lost work now        = now - created(copied)                  0 when the job computes nothing that the copy lacks
    the objective breaks = created(copied) + RPO
    the next copy comes  = max(now, created(newest) + delay)      when the newest is not copied yet
                           max(now, created(newest) + interval) + delay      when it is
    at the worst         = interval + delay                       just before each copy comes in
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import msgspec

QUANTILE: Final = 0.9
_LEAST: Final = 3


class Cycle(msgspec.Struct, frozen=True):
    """How the workload saves and copies, as measured. None: too few were seen to say.

    Attributes:
        interval_s: from one snapshot to the next.
        delay_s: from a snapshot's creation to its proved copy.
        drift: change of the delay for each second that passes; positive when copying cannot keep up.
    """

    interval_s: float | None
    delay_s: float | None
    drift: float | None = None


class Forecast(msgspec.Struct, frozen=True):
    """What is to be expected. Times are seconds since 1970-01-01 UTC.

    Attributes:
        breaks_s: when the objective is missed if no copy comes in.
        next_copy_s: when the next one is due; None: not known.
        late_s: by how much the next copy will miss the objective; negative: the room that is left. None: not known.
        worst_s: lost work at the worst moment of a cycle that goes as the last ones did.
        drifts_over_s: when the worst moment of a cycle will be beyond the objective if the delay goes on growing; None: it does not.
    """

    breaks_s: float
    next_copy_s: float | None
    late_s: float | None
    worst_s: float | None
    drifts_over_s: float | None = None


def quantile(values: Sequence[float], share: float = QUANTILE) -> float | None:
    """The smallest value that ``share`` of them do not exceed; None when there is none."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def cycle_of(created_s: Sequence[float], delays: Sequence[tuple[float, float]]) -> Cycle:
    """What was measured.

    Args:
        created_s: when the last snapshots were created, in any order.
        delays: of the last copies, (created, delay).
    """
    times = sorted(set(created_s))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    known = sorted((created, max(0.0, delay)) for created, delay in delays)
    return Cycle(quantile(gaps), quantile([delay for _, delay in known]), _slope(known))


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Of the least-squares line; None with fewer than three points, or when they scatter more than they rise."""
    if len(points) < _LEAST or points[0][0] == points[-1][0]:
        return None
    middle = sum(x for x, _ in points) / len(points)
    level = sum(y for _, y in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - level) for x, y in points) / spread
    rest = sum((y - level - slope * (x - middle)) ** 2 for x, y in points)
    total = sum((y - level) ** 2 for _, y in points)
    return slope if total > 0 and rest <= total / 2 else 0.0


def forecast(*, copied_s: float, newest_s: float, rpo_s: float, cycle: Cycle, now_s: float) -> Forecast:
    """For a workload that goes on working.

    Args:
        copied_s: creation of the newest snapshot that is proved at the other site.
        newest_s: creation of the newest snapshot at its own site.
    """
    breaks_s = copied_s + rpo_s
    worst_s = None if cycle.interval_s is None or cycle.delay_s is None else cycle.interval_s + cycle.delay_s
    due_s = newest_s if newest_s > copied_s else None if cycle.interval_s is None else max(now_s, newest_s + cycle.interval_s)
    arrives_s = None if due_s is None or cycle.delay_s is None else max(now_s, due_s + cycle.delay_s)
    return Forecast(
        breaks_s=breaks_s,
        next_copy_s=arrives_s,
        late_s=None if arrives_s is None else arrives_s - breaks_s,
        worst_s=worst_s,
        drifts_over_s=_drift(worst_s, cycle, rpo_s=rpo_s, now_s=now_s),
    )


def _drift(worst_s: float | None, cycle: Cycle, *, rpo_s: float, now_s: float) -> float | None:
    if worst_s is None or cycle.drift is None or cycle.drift <= 0 or worst_s >= rpo_s:
        return None
    return now_s + (rpo_s - worst_s) / cycle.drift


def burn_rate(used: Sequence[tuple[float, float]], *, window_s: float, now_s: float) -> float | None:
    """How quickly the RPO was used up over the last ``window_s``: seconds of lost work gained for each second that passed.

    1 is a workload of which nothing is copied; a steady cycle is about 0. None with less than half the window on record.

    Args:
        used: (when, lost work in seconds), in order of time.
    """
    inside = [(at, lost) for at, lost in used if at >= now_s - window_s]
    if len(inside) < 2 or inside[-1][0] - inside[0][0] < window_s / 2:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])
