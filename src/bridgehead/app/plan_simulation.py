"""PlanSimulation: many runs of a plan under hazards, on several processes or machines; the same seed gives the same rows everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from bridgehead.app.plan_rehearsal import Played, Rehearsal
from bridgehead.app.plan_set import PlanSet
from bridgehead.assess.checkpoint_math import daly_s, saxena_s, young_s
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.hazards import Hazards, Rates, rates_of
from bridgehead.model.plan import digest_of
from bridgehead.simulate.chance import Numbers
from bridgehead.simulate.plan_model import PlanModel

CHUNK = 10
"""Runs that a worker takes at a time."""
ALONE = 40
"""So few runs are done before other processes have started."""
TOO_DEAR = 0.1
"""A save that takes more than this part of the time between interruptions: there the formulas fail (rules section 7)."""


class Row(msgspec.Struct, frozen=True):
    """One run. Workloads are in the order of the plan's jobs; ``blames`` are (hazard, activity, seconds), in order."""

    run: int
    over_s: float
    ends_s: float
    stopped_s: list[float]
    moved_gpu_hours: list[float]
    interrupted_gpu_hours: list[float]
    blames: list[tuple[str, str, float]]
    reserve_longest_s: float
    reserve_total_s: float
    checkpoints: dict[str, float]
    trace: str


class Rows(msgspec.Struct, frozen=True):
    """What a shard leaves for others to merge. ``runs`` is how many all shards have together."""

    plan: str
    hazards: str
    seed: int
    runs: int
    rows: list[Row]


def model_of(planned: PlanSet, hazards: Hazards) -> PlanModel:
    """The model of a plan under hazards; the source's own record of interruptions counts before the prior."""
    return PlanModel(planned.plan, estate=planned.estate, policy=planned.policy, rates=rates_for(planned, hazards))


def rates_for(planned: PlanSet, hazards: Hazards) -> Rates:
    """The hazards with a value for everything."""
    own = next((site.gpu_hours_per_interruption for site in planned.estate.sites if site.id == planned.plan.source), None)
    return rates_of(hazards, site_gpu_hours=own)


def intervals_of(model: PlanModel) -> dict[str, Numbers]:
    """Intervals between checkpoints by policy: as given, and as Young, Daly and Saxena would choose them (CK1 to CK4).

    A workload without checkpoints, or whose save takes too much of the time between interruptions, keeps its own.
    """
    jobs, hours = model.jobs, model.rates.interruptions.gpu_hours or 0.0
    found: dict[str, Numbers] = {"given": jobs.interval_s}
    for name in ("young", "daly", "saxena"):
        chosen = jobs.interval_s.copy()
        for number, (gpus, save, given) in enumerate(zip(jobs.gpus, jobs.save_s, jobs.interval_s, strict=True)):
            between_s = hours / gpus * 3600.0
            if not given or not save or not 0 < save <= TOO_DEAR * between_s < float("inf"):
                continue
            restart_s = float(jobs.restart_s[number]) + model.rates.interruptions.restart_s
            match name:
                case "young":
                    chosen[number] = young_s(save, between_s=between_s)
                case "daly":
                    chosen[number] = daly_s(save, between_s=between_s)
                case _:
                    chosen[number] = saxena_s(save, between_s=between_s, restart_s=restart_s)
        found[name] = chosen
    return found


def simulate(
    planned: PlanSet,
    hazards: Hazards,
    *,
    runs: int,
    seed: int,
    shard: tuple[int, int] = (1, 1),
    jobs: int = 2,
    watch: Callable[[int], None] = lambda done: None,
) -> Rows:
    """Play every run of a shard (I of N takes each N-th). ``watch`` is told how many are done."""
    mine = range(shard[0] - 1, runs, shard[1])
    rows: list[Row] = []
    for row in _rows(planned, hazards, mine, seed, jobs):
        rows.append(row)
        watch(len(rows))
    rows.sort(key=lambda row: row.run)
    return Rows(digest_of(planned.plan), hazards_digest(hazards), seed, runs, rows)


def _rows(planned: PlanSet, hazards: Hazards, mine: Sequence[int], seed: int, jobs: int) -> Iterator[Row]:
    if jobs <= 1 or len(mine) <= ALONE:
        _prepare(planned, hazards, seed)
        yield from map(_play, mine)
        return
    import multiprocessing

    # Fresh interpreters: a fork would copy whatever threads and locks the caller has.
    pool = multiprocessing.get_context("spawn").Pool(jobs, initializer=_prepare, initargs=(planned, hazards, seed))
    with pool:
        yield from pool.imap_unordered(_play, mine, chunksize=CHUNK)


class _Worker:
    """What a worker process keeps between its runs."""

    rehearsal: Rehearsal
    seed: int


def _prepare(planned: PlanSet, hazards: Hazards, seed: int) -> None:
    model = model_of(planned, hazards)
    _Worker.rehearsal, _Worker.seed = Rehearsal(model, intervals_s=intervals_of(model)), seed


def _play(run: int) -> Row:
    played = _Worker.rehearsal.play(run, seed=_Worker.seed)
    return row_of(_Worker.rehearsal.model, played)


def row_of(model: PlanModel, played: Played) -> Row:
    """A run as plain values."""
    return Row(
        run=played.run,
        over_s=played.over_s,
        ends_s=played.ends_s,
        stopped_s=played.losses.stopped_s.tolist(),
        moved_gpu_hours=played.losses.moved_gpu_hours.tolist(),
        interrupted_gpu_hours=played.losses.interrupted_gpu_hours.tolist(),
        blames=[(blame.hazard.value, model.network[blame.place].id, blame.lasts_s) for blame in played.blames],
        reserve_longest_s=played.reserve_longest_s,
        reserve_total_s=played.reserve_total_s,
        checkpoints=played.checkpoints,
        trace=played.trace,
    )


def merged(shards: Sequence[Rows]) -> Rows:
    """All shards together, the same as one run over all. Raises BAD_INPUT when they are not of one simulation, or not whole."""
    first = shards[0]
    rows = sorted((row for shard in shards for row in shard.rows), key=lambda row: row.run)
    same = all((one.plan, one.hazards, one.seed, one.runs) == (first.plan, first.hazards, first.seed, first.runs) for one in shards)
    if same and [row.run for row in rows] == list(range(first.runs)):
        return msgspec.structs.replace(first, rows=rows)
    happened = "they are of different plans, hazards, seeds or numbers of runs"
    if same:
        happened = f"together they do not hold each of {first.runs} runs exactly once ({len(rows)} found)"
    raise BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="merge shards of a simulation",
        subject=f"{len(shards)} files",
        happened=happened,
        remedy="Give every shard I/N of one simulation, each once.",
    )


def hazards_digest(hazards: Hazards) -> str:
    """Names hazards, so that shards of different ones are not mixed."""
    return hashlib.sha256(msgspec.json.encode(hazards)).hexdigest()


def trace_of(rows: Rows) -> str:
    """One hash over all runs."""
    digest = hashlib.sha256()
    for row in rows.rows:
        digest.update(f"{row.run} {row.trace}\n".encode())
    return digest.hexdigest()
