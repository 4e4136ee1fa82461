"""PlanSample: what goes wrong in one run of a plan: delays of activities, losses of workloads, damaged nodes (rules section 7). Pure."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from bridgehead.simulate.chance import Numbers, exponential, poisson, uniforms
from bridgehead.simulate.plan_model import NODE_GPUS, Hazard, PlanModel

STREAMS = 13


class Delays(msgspec.Struct, frozen=True):
    """Of each activity.

    Attributes:
        by_hazard: seconds longer, one row for each ``Hazard``; the row of no-shows is 1 where nobody came.
        extra_s: their sum, without no-shows, which move the beginning.
        lost_s: how much longer the workload stands still.
    """

    by_hazard: Numbers
    extra_s: Numbers
    lost_s: Numbers


class Interrupted(msgspec.Struct, frozen=True):
    """Of each workload: how often it was interrupted, and the mean share of an interval that had to be repeated."""

    counts: Numbers
    repeated: Numbers


class Damaged(msgspec.Struct, frozen=True):
    """Racks of which a node was damaged, in the order of their joins, and how long it is missing."""

    rack: npt.NDArray[np.int64]
    missing_s: Numbers


def delays_of(model: PlanModel, *, seed: int, run: int) -> Delays:
    """Draw the delays of one run."""
    a, rates = model.activities, model.rates
    u = uniforms(a.keys, seed=seed, run=run, streams=STREAMS)
    lasts_s = a.ends_s - a.begins_s
    found = np.zeros((len(Hazard), len(a.keys)))
    found[0] = (u[0] < rates.no_show) & (a.crewed > 0)
    found[1] = np.where((u[1] < rates.slow_work.chance) & (a.people > 0), exponential(u[2], rates.slow_work.lasts_s), 0.0)
    found[2] = np.where(u[3] < _any(rates.late_truck.chance, a.trips), exponential(u[4], rates.late_truck.lasts_s), 0.0)
    longer = 1 / rates.slow_link.rate_share - 1
    slow = u[5] < rates.slow_link.chance
    found[3] = np.where(slow, (a.by_line * lasts_s + a.copy_s) * longer, 0.0)
    exposed_s = a.by_line * lasts_s + np.where(a.restores > 0, lasts_s, 0.0)
    cut = u[6] < -np.expm1(-exposed_s / rates.cut_link.every_s)
    found[4] = np.where(cut, exponential(u[7], rates.cut_link.lasts_s), 0.0)
    found[5] = np.where(u[8] < _any(rates.failed_gate.chance, a.gates), exponential(u[9], rates.failed_gate.lasts_s), 0.0)
    corrupt = u[10] < rates.corrupt_checkpoint * a.restores
    found[6] = np.where(corrupt, a.lost_s, 0.0)
    again_s = rates.interruptions.restart_s + a.restart_s
    found[7] = np.where(u[11] < -np.expm1(-a.interrupted_per_s * lasts_s), again_s, 0.0)
    while_stopped = (a.lost_s > 0) & (u[12] * lasts_s < a.lost_s)
    lost_s = np.where(slow, a.stopped_copy_s * longer, 0.0) + np.where(while_stopped, found[4], 0.0)
    lost_s += np.where(corrupt, a.lost_s + a.interval_s, 0.0)
    return Delays(found, found[1:].sum(axis=0), lost_s)


def interruptions_of(model: PlanModel, *, seed: int, run: int, begins_s: float, over_s: float, swung_s: Numbers) -> Interrupted:
    """Draw the interruptions of all workloads between the first day and the moment when everything has gone over.

    The rates of nodes differ: a workload that runs on more of the worst nodes is interrupted more often. After transport they are higher
    for a while, where that is given: counted from when a workload has gone over.
    """
    jobs, rates = model.jobs, model.rates
    kind, infant = rates.interruptions, rates.infant
    u = uniforms(jobs.keys, seed=seed, run=run, streams=3)
    nodes = np.maximum(1.0, jobs.gpus / NODE_GPUS)
    worst = np.minimum(nodes, poisson(u[0], nodes * kind.worst_nodes))
    often, seldom = kind.worst_share / kind.worst_nodes, (1 - kind.worst_share) / (1 - kind.worst_nodes)
    factor = (worst * often + (nodes - worst) * seldom) / nodes
    hours = np.full(len(jobs.keys), (over_s - begins_s) / 3600.0)
    if infant is not None:
        there_s = np.where(jobs.swing >= 0, np.clip(over_s - swung_s, 0.0, infant.lasts_s), 0.0)
        hours = hours + (infant.times - 1) * there_s / 3600.0
    counts = poisson(u[1], jobs.gpus * hours * factor / (kind.gpu_hours or np.inf))
    repeated = np.clip(0.5 + (u[2] - 0.5) / np.sqrt(np.maximum(1.0, counts)), 0.0, 1.0)
    return Interrupted(counts, repeated)


def damage_of(model: PlanModel, *, seed: int, run: int) -> Damaged:
    """Draw which racks bring a damaged node; spares of the plan are used in the order of the joins, and then a delivery is waited for."""
    racks, rates = model.racks, model.rates
    u = uniforms(racks.keys, seed=seed, run=run, streams=2)
    struck = np.flatnonzero(u[0] < rates.damage.chance)
    spares = {part.model: float(part.count) for part in model.plan.spares}
    left = np.array([spares.get(name, 0.0) for name in model.models])
    missing: list[float] = []
    repair_s = exponential(u[1], rates.damage.lasts_s)
    for rack in struck:
        kind = racks.model[rack]
        left[kind] -= racks.node_gpus[rack]
        missing.append(float(repair_s[rack]) if left[kind] >= 0 else rates.delivery_s)
    return Damaged(struck, np.array(missing, dtype=np.float64))


def _any(chance: float, times: Numbers) -> Numbers:
    """Chance that it happens at least once in so many times."""
    return 1 - (1 - chance) ** times
