"""When things may happen: windows and blackouts, lanes, the deadline (PLAN-WINDOW, PLAN-LANES, PLAN-DEADLINE; M7.3). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.model.finding import Finding
from bridgehead.model.plan import TaskKind
from bridgehead.planning.check_case import TICK_S, Case, counted, lasting, listed, when
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground, task_of


def check_window(ground: Ground) -> Iterator[Finding]:
    """``PLAN-WINDOW``: swings lie in one window; neither they nor what is on the road touches a blackout."""
    for swing in ground.plan.swings:
        case = Case("PLAN-WINDOW", f"workload:{swing.id}")
        _in_window(ground, case, f"swing of {swing.id}", swing.begins_s, swing.ends_s)
        _no_blackout(ground, case, f"swing of {swing.id}", swing.begins_s, swing.ends_s)
        yield case.finding(f"swing of {swing.id}, {when(swing.begins_s)} to {when(swing.ends_s)}, lies in a window and in no blackout")
    for wave in ground.plan.waves:
        case = Case("PLAN-WINDOW", f"wave:{wave.id}")
        unload = task_of(wave, TaskKind.UNLOAD)
        _no_blackout(ground, case, f"the way of {wave.id}", wave.out_s, wave.joins_s if unload is None else unload.ends_s)
        yield case.finding(f"{wave.id} is on its way in no blackout")


def _in_window(ground: Ground, case: Case, what: str, begins_s: float, ends_s: float) -> None:
    windows = ground.policy.windows
    if not windows or any(one.begins_s - TICK_S <= begins_s and ends_s <= one.ends_s + TICK_S for one in windows):
        return
    remedy = "move it into one window, or give the policy a window for it"
    around = [one for one in windows if one.begins_s - TICK_S <= begins_s < one.ends_s]
    if around:
        window = max(around, key=lambda one: one.ends_s)
        over = ends_s - window.ends_s
        text = f"{what} ends {when(ends_s)}, {lasting(over)} after its window ({when(window.begins_s)} to {when(window.ends_s)}) closes"
        case.fault(text, value=over, limit=0.0, unit="s", remedy=remedy)
        return
    coming = min((one for one in windows if one.begins_s > begins_s), key=lambda one: one.begins_s, default=None)
    where = "after the last window" if coming is None else f"outside every window; the next one opens {when(coming.begins_s)}"
    case.fault(f"{what} begins {when(begins_s)}, {where}", remedy=remedy)


def _no_blackout(ground: Ground, case: Case, what: str, begins_s: float, ends_s: float) -> None:
    for black in ground.policy.blackouts:
        if begins_s < black.ends_s - TICK_S and black.begins_s + TICK_S < max(ends_s, begins_s + 2 * TICK_S):
            reason = f" ({black.reason})" if black.reason else ""
            inside = max(0.0, min(ends_s, black.ends_s) - max(begins_s, black.begins_s))
            text = f"{what}, {when(begins_s)} to {when(ends_s)}, is for {lasting(inside)} in the blackout"
            text += f" {when(black.begins_s)} to {when(black.ends_s)}{reason}"
            case.fault(text, value=inside, limit=0.0, unit="s", remedy=f"move it to before or after {when(black.ends_s)}")


def check_lanes(ground: Ground) -> Iterator[Finding]:
    """``PLAN-LANES``: at most so many swings at a time."""
    case = Case("PLAN-LANES", "plan")
    limit = ground.policy.limits.concurrent_moves
    course = Course()
    for swing in ground.plan.swings:
        course.add(1, swing.begins_s, swing.ends_s)
    worst, over, most = None, 0, 0.0
    for moment, (count,) in steps(course):
        most = max(most, count)
        if count > limit:
            over += 1
            if worst is None or count > worst[1]:
                worst = (moment, count)
    if worst is not None:
        moment, count = worst
        names = listed(one.id for one in ground.plan.swings if one.begins_s - TICK_S <= moment < one.ends_s - TICK_S / 2)
        more = f", and at {counted(over - 1, 'other moment')}" if over > 1 else ""
        text = f"at {when(moment)} {counted(int(count), 'swing')} are on their way ({names}), {limit} may{more}"
        case.fault(text, value=count, limit=limit, remedy="move one of them to a later time")
    yield case.finding(f"never more than {counted(int(most), 'swing')} at a time, {limit} may be")


def check_deadline(ground: Ground) -> Iterator[Finding]:
    """``PLAN-DEADLINE``: everything has gone over by ``policy.ends``."""
    case = Case("PLAN-DEADLINE", "plan")
    ends, over = ground.policy.ends_s, ground.over_s
    if ends is None or over is None:
        yield case.finding("the policy sets no last day" if ends is None else "nothing goes over")
        return
    late = [(one.ends_s, f"the swing of {one.id}") for one in ground.plan.swings]
    late += [(one.joins_s, f"{one.id}") for one in ground.plan.waves]
    moment, name = max(late)
    count = sum(end > ends + TICK_S for end, _ in late)
    if moment > ends + TICK_S:
        text = f"{name} is over only {when(moment)}, {lasting(moment - ends)} after the policy's last day {when(ends)}"
        text += f"; {count} swings or waves in all come too late" if count > 1 else ""
        case.fault(text, value=moment - ends, limit=0.0, unit="s", remedy="move earlier, or move 'ends' of the policy")
    yield case.finding(f"everything has gone over {when(moment)}, by {when(ends)}")
