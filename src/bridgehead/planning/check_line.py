"""The line: what all transfers take of it at every moment (PLAN-LINE; M8.4). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bridgehead.kernel.units import Dimension
from bridgehead.model.finding import Finding
from bridgehead.model.plan import Transfer
from bridgehead.planning.check_case import SLACK, TICK_S, Case, amount, counted, when
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground

_SHOWN = 4


def check_line(ground: Ground) -> Iterator[Finding]:
    """``PLAN-LINE``: rates and reservations are at most the line rate, and half of it from the first to the last swing."""
    case = Case("PLAN-LINE", "plan")
    for link in ground.links:
        if link.used_bps is None:
            case.lack(f"nobody knows what production takes of link {link.id}", measurement=f"give links.{link.id}.used")
    course = Course()
    for transfer in ground.plan.transfers:
        for begins, ends, rate in _taken(transfer):
            course.add(rate, begins, ends)
    first, last, line = ground.first_swing_s, ground.last_swing_s, ground.line_bps
    if not ground.links and course.changes:
        case.lack("the estate has no line between both sites", measurement="give links")
        yield case.finding("")
        return
    _at_most(ground, case, course, line, "the line rate for the move", -math.inf, math.inf)
    if first is not None and last is not None:
        _at_most(ground, case, course, line / 2, "half of the line rate, since the rest is for swings", first, last)
    yield case.finding(f"transfers take at most {amount(line, Dimension.RATE)} together, and half of it while swings are on their way")


def _taken(transfer: Transfer) -> list[tuple[float, float, float]]:
    found = [] if transfer.courier else [(transfer.begins_s, transfer.ends_s, transfer.rate_bps)]
    ends = math.inf if transfer.sync_ends_s is None else transfer.sync_ends_s
    return [*found, (transfer.ends_s, ends, transfer.sync_bps)]


def _at_most(ground: Ground, case: Case, course: Course, limit: float, what: str, begins_s: float, ends_s: float) -> None:
    worst, over = (begins_s, 0.0), 0
    for moment, (rate,) in steps(course, begins_s=begins_s, ends_s=ends_s):
        over += rate > limit * (1 + SLACK)
        worst = (moment, rate) if rate > worst[1] else worst
    moment, rate = worst
    now = {
        one.id: sum(taken for begins, ends, taken in _taken(one) if begins <= moment + TICK_S and moment < ends)
        for one in ground.plan.transfers
    }
    names = [f"{name} {amount(taken, Dimension.RATE)}" for name, taken in sorted(now.items(), key=lambda one: (-one[1], one[0])) if taken]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    more = f"; and at {counted(over - 1, 'other moment')}" if over > 1 else ""
    text = f"at {when(moment)} transfers take {amount(rate, Dimension.RATE)} ({shown}), {amount(rate - limit, Dimension.RATE)} more than"
    text += f" {amount(limit, Dimension.RATE)}, {what}{more}"
    case.at_most(rate, limit, text, unit="bit/s", remedy="send one of them later or slower")
