"""PlanOutcome: what many runs of a plan say: dates, losses, reserves and cost as distributions, and what breaks first (M1, M10.1, M11)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from bridgehead.app.plan_set import PlanSet
from bridgehead.app.plan_simulation import Row, Rows, trace_of
from bridgehead.kernel.ids import StepId
from bridgehead.kernel.moment import format_moment
from bridgehead.model.hazards import Rates
from bridgehead.model.logistics import DAY_S
from bridgehead.simulate.plan_account import LATE_S
from bridgehead.simulate.plan_model import PlanModel
from bridgehead.simulate.plan_network import Activity, Kind

SHOWN = 10


class Spread(msgspec.Struct, frozen=True):
    """A distribution: quantiles by nearest rank, and the mean."""

    p50: float
    p90: float
    mean: float
    least: float
    most: float


class When(msgspec.Struct, frozen=True):
    """When everything has gone over: as planned, and in half and in nine tenths of the runs."""

    planned: str
    p50: str
    p90: str


class Lost(msgspec.Struct, frozen=True):
    """Compute.

    Attributes:
        planned_gpu_hours: of the plan's swings and shrinks.
        moved_gpu_hours: of swings and shrinks, as they came.
        interrupted_gpu_hours: of interruptions meanwhile, which would have come without a move, too.
        total_gpu_hours: of both.
        stopped_s: seconds that workloads stood still for their swings, all added up.
        stopped_each_s: the same of each workload in each run.
        cluster_s: moved GPU-hours as seconds of the whole source.
    """

    planned_gpu_hours: float
    moved_gpu_hours: Spread
    interrupted_gpu_hours: Spread
    total_gpu_hours: Spread
    stopped_s: Spread
    stopped_each_s: Spread
    cluster_s: Spread


class WorkloadLost(msgspec.Struct, frozen=True):
    """Compute of one workload."""

    id: str
    stopped_s: Spread
    moved_gpu_hours: Spread
    interrupted_gpu_hours: Spread


class Reserve(msgspec.Struct, frozen=True):
    """Runs in which what ran, with its reserve, was more than what stood there, because racks came damaged."""

    broken_share: float
    longest_s: float
    hours: Spread


class Cost(msgspec.Struct, frozen=True):
    """What delays and losses cost beyond the plan; ``unpriced`` names prices that nobody gave, whose part is missing."""

    currency: str
    extra: Spread
    unpriced: tuple[str, ...]


class Cause(msgspec.Struct, frozen=True):
    """A hazard at one kind of step.

    Attributes:
        owner: whose delay it is.
        share: of all runs.
        mean_delay_s: in the runs in which it happened.
        worst: the activity that it struck most often.
    """

    hazard: str
    step: str
    owner: str
    share: float
    mean_delay_s: float
    worst: str


class Outcome(msgspec.Struct, frozen=True):
    """All of it. ``breaks_first``: the first delay that reached the end, the most frequent first; ``delays``: every delay that did,
    the one that costs most days over all runs first."""

    plan: str
    digest: str
    runs: int
    seed: int
    over: When
    late_days: Spread
    in_time_share: float
    past_deadline_share: float | None
    lost: Lost
    workloads: tuple[WorkloadLost, ...]
    reserve: Reserve
    cost: Cost
    breaks_first: tuple[Cause, ...]
    delays: tuple[Cause, ...]
    checkpoints: dict[str, Spread]
    guesses: tuple[str, ...]
    trace: str


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    ordered = sorted(values)
    ranks = [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9)]
    return Spread(ranks[0], ranks[1], math.fsum(ordered) / len(ordered), ordered[0], ordered[-1])


def outcome(planned: PlanSet, model: PlanModel, rows: Rows, rates: Rates) -> Outcome:
    """Sum rows up."""
    found, plan = rows.rows, planned.plan
    planned_s = float(model.activities.ends_s[model.over].max()) if len(model.over) else plan.ends_s
    over = spread([row.over_s for row in found])
    deadline_s = planned.policy.ends_s
    return Outcome(
        plan=plan.name,
        digest=rows.plan,
        runs=len(found),
        seed=rows.seed,
        over=When(format_moment(planned_s), format_moment(round(over.p50)), format_moment(round(over.p90))),
        late_days=spread([(row.over_s - planned_s) / DAY_S for row in found]),
        in_time_share=_share(found, lambda row: row.over_s <= planned_s + LATE_S),
        past_deadline_share=None if deadline_s is None else _share(found, lambda row: row.over_s > deadline_s),
        lost=_lost(planned, found),
        workloads=tuple(_workload(name, number, found) for number, name in enumerate(model.jobs.names)),
        reserve=Reserve(
            _share(found, lambda row: row.reserve_longest_s > 0),
            max(row.reserve_longest_s for row in found),
            spread([row.reserve_total_s / 3600.0 for row in found]),
        ),
        cost=_cost(planned, found, planned_s),
        breaks_first=_causes(model, [row.blames[:1] for row in found])[:SHOWN],
        delays=tuple(sorted(_causes(model, [row.blames for row in found]), key=lambda one: -one.share * one.mean_delay_s)[:SHOWN]),
        checkpoints={name: spread([row.checkpoints[name] for row in found]) for name in found[0].checkpoints},
        guesses=rates.guesses,
        trace=trace_of(rows),
    )


def _share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> float:
    return sum(holds(row) for row in rows) / len(rows)


def _lost(planned: PlanSet, rows: Sequence[Row]) -> Lost:
    moved = [math.fsum(row.moved_gpu_hours) for row in rows]
    interrupted = [math.fsum(row.interrupted_gpu_hours) for row in rows]
    gpus = sum(site.gpus for site in planned.estate.sites if site.id == planned.plan.source) or 1
    return Lost(
        planned_gpu_hours=planned.plan.score.lost_gpu_hours,
        moved_gpu_hours=spread(moved),
        interrupted_gpu_hours=spread(interrupted),
        total_gpu_hours=spread([one + other for one, other in zip(moved, interrupted, strict=True)]),
        stopped_s=spread([math.fsum(row.stopped_s) for row in rows]),
        stopped_each_s=spread([value for row in rows for value in row.stopped_s] or [0.0]),
        cluster_s=spread([3600.0 * hours / gpus for hours in moved]),
    )


def _workload(name: str, number: int, rows: Sequence[Row]) -> WorkloadLost:
    return WorkloadLost(
        name,
        spread([row.stopped_s[number] for row in rows]),
        spread([row.moved_gpu_hours[number] for row in rows]),
        spread([row.interrupted_gpu_hours[number] for row in rows]),
    )


def _cost(planned: PlanSet, rows: Sequence[Row], planned_s: float) -> Cost:
    prices = planned.policy.prices
    days = {"target_site_day": prices.target_site_day, "source_site_day": prices.source_site_day, "link_day": prices.link_day}
    unpriced = [name for name, price in {**days, "gpu_hour": prices.gpu_hour}.items() if price is None]
    day = sum(price for price in days.values() if price is not None)
    extra = [
        (row.over_s - planned_s) / DAY_S * day
        + (math.fsum(row.moved_gpu_hours) + math.fsum(row.interrupted_gpu_hours) - planned.plan.score.lost_gpu_hours)
        * (prices.gpu_hour or 0.0)
        for row in rows
    ]
    return Cost(planned.policy.currency, spread(extra), tuple(unpriced))


def _causes(model: PlanModel, blames: Sequence[Sequence[tuple[str, str, float]]]) -> tuple[Cause, ...]:
    """Ranked by the share of runs; a hazard at several steps of one kind counts once in a run, with its time added up."""
    lasts: dict[tuple[str, str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    struck: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for run, found in enumerate(blames):
        for hazard, step, lasts_s in found:
            one = model.network[model.place[StepId(step)]]
            key = (hazard, step_of(one), one.owner or "nobody")
            lasts[key][run] += lasts_s
            struck[key][step] += 1
    causes = [
        Cause(
            *key,
            share=len(runs) / len(blames),
            mean_delay_s=math.fsum(runs.values()) / len(runs),
            worst=min(struck[key], key=lambda step: (-struck[key][step], step)),
        )
        for key, runs in lasts.items()
    ]
    return tuple(sorted(causes, key=lambda one: (-one.share, -one.mean_delay_s, one.hazard, one.step, one.owner)))


def step_of(one: Activity) -> str:
    """What kind of step it is, in the words of plans."""
    return one.task.value if one.kind is Kind.HANDLING and one.task is not None else one.kind.value


class Difference(msgspec.Struct, frozen=True):
    """The other plan less this one, run by run on the same luck; below 0 the other is better."""

    late_days: Spread
    over_days: Spread
    moved_gpu_hours: Spread
    total_gpu_hours: Spread
    other_is_earlier_share: float
    other_loses_less_share: float


def difference(rows: Rows, other: Rows, *, late_s: float, other_late_s: float) -> Difference:
    """Compare two plans. ``late_s``, ``other_late_s``: when each would have been over in time."""
    pairs = list(zip(rows.rows, other.rows, strict=True))
    moved = [math.fsum(b.moved_gpu_hours) - math.fsum(a.moved_gpu_hours) for a, b in pairs]
    total = [
        change + math.fsum(b.interrupted_gpu_hours) - math.fsum(a.interrupted_gpu_hours)
        for change, (a, b) in zip(moved, pairs, strict=True)
    ]
    over = [(b.over_s - a.over_s) / DAY_S for a, b in pairs]
    return Difference(
        late_days=spread([((b.over_s - other_late_s) - (a.over_s - late_s)) / DAY_S for a, b in pairs]),
        over_days=spread(over),
        moved_gpu_hours=spread(moved),
        total_gpu_hours=spread(total),
        other_is_earlier_share=sum(value < 0 for value in over) / len(over),
        other_loses_less_share=sum(value < 0 for value in total) / len(total),
    )
