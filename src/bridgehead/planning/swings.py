"""Swings and shrinks of a plan, moment by moment, from the slots and days that were chosen (M7.3, M13). Pure."""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.plan import Shrink, Swing
from bridgehead.planning.demand import Demand, Job
from bridgehead.planning.grid import Calendar
from bridgehead.planning.master import Choice


def swings(demand: Demand, choice: Choice, calendar: Calendar, *, shift_s: float) -> tuple[Swing, ...]:
    """Within a slot, inference first, then by priority, each on the lane that is free first (M7.3).

    Args:
        shift_s: from midnight until shrinks begin and end.
    """
    groups: defaultdict[int, list[Job]] = defaultdict(list)
    for job in demand.jobs:
        groups[choice.slots[job.id]].append(job)
    found: list[Swing] = []
    for number, jobs in sorted(groups.items()):
        slot = calendar.slots[number]
        lanes = [math.ceil(slot.begins_s)] * demand.policy.limits.concurrent_moves
        for job in sorted(jobs, key=lambda one: (one.crossing.lost_s > 0, -one.priority, one.id)):
            lane = min(range(len(lanes)), key=lanes.__getitem__)
            begins, ends = lanes[lane], lanes[lane] + math.ceil(job.crossing.length_s)
            assert ends <= slot.ends_s, f"{job.id} does not fit into its slot"
            lanes[lane] = ends
            day = math.floor((begins - calendar.midnight_s - shift_s) / DAY_S)
            gpus = job.gpus - choice.shrunk.get((job.id, day), 0)
            found.append(Swing(job.id, job.crossing.mode, begins, ends, job.crossing.lost_s, job.crossing.lost_s * gpus / HOUR_S))
    return tuple(sorted(found, key=lambda one: (one.begins_s, one.id)))


def shrinks(demand: Demand, choice: Choice, calendar: Calendar, found: tuple[Swing, ...], *, shift_s: float) -> tuple[Shrink, ...]:
    """Days of one size that follow each other are one shrink at each site."""
    jobs, over = {job.id: job for job in demand.jobs}, {swing.id: swing for swing in found}
    pieces: list[Shrink] = []
    for (name, day), less in sorted(choice.shrunk.items()):
        begins = calendar.midnight_s + shift_s + day * DAY_S
        for site, low, high in (
            (demand.source.id, begins, min(begins + DAY_S, over[name].ends_s)),
            (demand.target.id, max(begins, over[name].begins_s), begins + DAY_S),
        ):
            if low < high:
                pieces.append(Shrink(name, site, jobs[name].gpus - less, low, high))
    joined: list[Shrink] = []
    for piece in sorted(pieces, key=lambda one: (one.workload, one.site, one.begins_s)):
        last = joined[-1] if joined else None
        if last is not None and (last.workload, last.site, last.gpus, last.ends_s) == (
            piece.workload,
            piece.site,
            piece.gpus,
            piece.begins_s,
        ):
            joined[-1] = msgspec.structs.replace(last, ends_s=piece.ends_s)
        else:
            joined.append(piece)
    return tuple(joined)
