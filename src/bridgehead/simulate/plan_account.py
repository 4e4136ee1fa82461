"""PlanAccount: what one run of a plan cost, whether it broke a reserve, and whose delay reached its end. Pure."""

from __future__ import annotations

import msgspec
import numpy as np

from bridgehead.kernel.ids import StepId
from bridgehead.model.plan import Swing
from bridgehead.simulate.chance import Numbers
from bridgehead.simulate.plan_model import Account, Hazard, PlanModel
from bridgehead.simulate.plan_network import Kind
from bridgehead.simulate.plan_sample import Damaged, Delays, Interrupted

LATE_S = 60.0
"""Less than that is no delay."""


class Times(msgspec.Struct, frozen=True):
    """When each activity began and ended in one run."""

    begins_s: Numbers
    ends_s: Numbers


class Blame(msgspec.Struct, frozen=True):
    """A delay that reached the end: which hazard, at which activity (its place), and how long."""

    hazard: Hazard
    place: int
    lasts_s: float


def delays_of_the_end(model: PlanModel, times: Times, delays: Delays) -> list[Blame]:
    """The delays on the way to the activity that was over last, in order; together they are as long as the end is late.

    Empty when everything has gone over in time. Waiting for a shift or a window counts to the delay that made it necessary, and what a
    plan had in hand is taken off all that came before.
    """
    found: list[Blame] = []
    before_s = 0.0
    for at in _late_chain(model, times):
        late_s = max(0.0, float(times.ends_s[at] - model.activities.ends_s[at]))
        if late_s < before_s:
            found = [Blame(one.hazard, one.place, one.lasts_s * late_s / before_s) for one in found]
        growth_s, own = late_s - before_s, delays.by_hazard[:, at]
        if growth_s > 0 and own.any():
            # Nobody came: how long that held things up is what the other hazards do not explain.
            longer_s = float(own[1:].sum())
            parts = [max(growth_s - longer_s, 0.0) if own[0] else 0.0, *own[1:].tolist()]
            whole_s = sum(parts)
            found += [Blame(hazard, at, growth_s * part / whole_s) for hazard, part in zip(Hazard, parts, strict=True) if part]
        elif growth_s > 0 and found:
            found[-1] = Blame(found[-1].hazard, found[-1].place, found[-1].lasts_s + growth_s)
        before_s = late_s
    return [one for one in found if one.lasts_s > LATE_S]


def _late_chain(model: PlanModel, times: Times) -> list[int]:
    """The activity that was over last, and before it what each waited for, back to one that began as planned. Empty when in time."""
    if not len(model.over):
        return []
    last = int(model.over[np.argmax(times.ends_s[model.over])])
    if times.ends_s[last] <= model.activities.ends_s[model.over].max() + LATE_S:
        return []
    chain = [last]
    while True:
        one = model.network[chain[-1]]
        waited = max((model.place[need] for need in one.needs), key=lambda need: float(times.ends_s[need]), default=None)
        if waited is None or times.ends_s[waited] <= one.begins_s + LATE_S:
            return chain[::-1]
        chain.append(waited)


class Losses(msgspec.Struct, frozen=True):
    """Of each workload: seconds that its swing stopped it, GPU-hours of swing and shrinks, and of interruptions."""

    stopped_s: Numbers
    moved_gpu_hours: Numbers
    interrupted_gpu_hours: Numbers


def losses_of(model: PlanModel, times: Times, delays: Delays, hit: Interrupted) -> Losses:
    """What everything cost. Interruptions would have come without a move, too; they are kept apart."""
    jobs, rates = model.jobs, model.rates
    swings: dict[str, Swing] = {one.id: one for one in model.plan.swings}
    extra_s = np.where(jobs.swing >= 0, delays.lost_s[jobs.swing], 0.0)
    planned = np.array([swings[name].lost_s if name in swings else 0.0 for name in jobs.names])
    planned_hours = np.array([swings[name].lost_gpu_hours if name in swings else 0.0 for name in jobs.names])
    moved = planned_hours + extra_s * jobs.gpus / 3600.0
    place = {name: number for number, name in enumerate(jobs.names)}
    for number, shrink in enumerate(model.plan.shrinks):
        job = place.get(shrink.workload)
        if job is None:
            continue
        from_s = times.begins_s[model.place[StepId(f"{Kind.SHRINK.value}-{shrink.workload}-{number}")]]
        until_s = times.ends_s[model.place[StepId(f"{Kind.GROW.value}-{shrink.workload}-{number}")]]
        moved[job] += (jobs.gpus[job] - shrink.gpus) * (until_s - from_s) / 3600.0
    repeated_s = (hit.repeated + rates.corrupt_checkpoint) * jobs.interval_s
    interrupted = hit.counts * (rates.interruptions.restart_s + jobs.restart_s + repeated_s) * jobs.stopped_gpus / 3600.0
    return Losses(planned + extra_s, moved, interrupted)


def checkpoint_loss(model: PlanModel, hit: Interrupted, *, interval_s: Numbers, runs_s: float) -> float:
    """GPU-hours that saving, repeating and restarting cost with other intervals between checkpoints: C/T, T/2 and R (CK1 to CK4)."""
    jobs, rates = model.jobs, model.rates
    saves = np.divide(jobs.save_s * runs_s, interval_s, out=np.zeros_like(interval_s), where=interval_s > 0)
    again_s = hit.counts * (rates.interruptions.restart_s + jobs.restart_s + (hit.repeated + rates.corrupt_checkpoint) * interval_s)
    return float(((saves + again_s) * jobs.stopped_gpus).sum() / 3600.0)


def reserve_broken_s(model: PlanModel, times: Times, damaged: Damaged, *, over_s: float) -> tuple[float, float]:
    """How long a reserve was broken, at any site and for any model: the longest time on end, and all together."""
    longest_s = total_s = 0.0
    for account in model.accounts:
        for broken_s in _broken(model, account, times, damaged, over_s):
            longest_s, total_s = max(longest_s, broken_s), total_s + broken_s
    return longest_s, total_s


def _broken(model: PlanModel, account: Account, times: Times, damaged: Damaged, over_s: float) -> list[float]:
    when = np.where(account.at_end, times.ends_s[account.who], times.begins_s[account.who])
    change = account.change
    if account.joins_here and len(damaged.rack):
        racks = model.racks
        mine = np.array([model.models[racks.model[rack]] == account.model for rack in damaged.rack])
        joined_s, gpus = times.ends_s[racks.join[damaged.rack]][mine], racks.node_gpus[damaged.rack][mine]
        when = np.concatenate([when, joined_s, joined_s + damaged.missing_s[mine]])
        change = np.concatenate([change, -gpus, gpus])
    if not len(when):
        return []
    # At one moment GPUs are freed before they are taken, but a damaged node never arrived: its loss has no need that could make it wait.
    order = np.lexsort((change < 0, when))
    level = account.free + np.cumsum(change[order])
    low = np.flatnonzero(level < -1e-6)
    moments = np.append(when[order], over_s)
    found: list[float] = []
    before = -2
    for at in low.tolist():
        lasts_s = max(0.0, float(min(moments[at + 1], over_s) - moments[at]))
        if lasts_s <= 0:
            continue
        if at == before + 1 and found:
            found[-1] += lasts_s
        else:
            found.append(lasts_s)
        before = at
    return found
