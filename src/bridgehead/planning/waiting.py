"""Waiting: what a workload waits for (needs, data) and when it may go (windows, blackouts), as the contract of plan files says. Pure."""

from __future__ import annotations

import math

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.plan import Transfer
from bridgehead.model.policy import Policy
from bridgehead.planning.course import Course


def needed_by(course: Course, workload: WorkloadId) -> tuple[tuple[str, float], ...]:
    """What it needs and when that is at the target; what is there already, or never comes, is left out."""
    one = course.workloads.get(workload)
    ends: dict[str, float] = {str(copy.id): copy.ends_s for copy in course.plan.services}
    ends |= {str(swing.id): swing.ends_s for swing in course.plan.swings}
    behind: dict[str, str | None] = {service.id: service.workload for service in course.estate.services}
    known: set[str] = {*course.workloads}
    names = [] if one is None else [need if need in known else behind.get(need) for need in one.needs]
    return tuple((str(name), ends[name]) for name in dict.fromkeys(names) if name is not None and name != workload and name in ends)


def data_of(course: Course, workload: WorkloadId) -> tuple[Transfer, ...]:
    """The transfers that have to be complete before it goes over."""
    one = course.workloads.get(workload)
    if one is None:
        return ()
    wanted = {*one.datasets, f"checkpoint.{one.id}", *((f"store.{one.store}",) if one.store else ())}
    return tuple(transfer for transfer in course.plan.transfers if transfer.id in wanted)


def free_period(policy: Policy, at_s: float, lasts_s: float) -> tuple[float, str]:
    """Since when something that begins at ``at_s`` may begin without a break, and why not before; an empty text where nothing limits it."""
    since_s, why = -math.inf, ""
    for window in policy.windows:
        if window.begins_s <= at_s and at_s + lasts_s <= window.ends_s and window.begins_s > since_s:
            since_s, why = window.begins_s, f"the window opens then{f' ({window.reason})' if window.reason else ''}"
    for blackout in policy.blackouts:
        if since_s < blackout.ends_s <= at_s:
            since_s, why = blackout.ends_s, f"the blackout ends then{f' ({blackout.reason})' if blackout.reason else ''}"
    return since_s, why


def last_chance(policy: Policy, at_s: float, lasts_s: float) -> float:
    """When it could have begun in the window before; just before its own where there was none; ``at_s`` where no window limits it."""
    since_s, why = free_period(policy, at_s, lasts_s)
    if not why:
        return at_s
    chances = [
        window.ends_s - lasts_s for window in policy.windows if window.ends_s <= since_s and window.ends_s - window.begins_s >= lasts_s
    ]
    if not policy.windows:
        chances = [min(one.begins_s for one in policy.blackouts if one.ends_s == since_s) - lasts_s]
    return max(chances, default=since_s - 1.0)
