"""Simulating a move of 10,000 GPUs: time for 1,000 runs, and the compute that it loses, beside the 47 s of the reference feat (M1).

Run: ``python bench/simulate.py [--gpus N] [--runs N] [--write]``; ``--write`` puts the tables into docs/benchmarks.md.

The estate is a generated one, the plans are what ``plan make`` makes of it. Budget of the issue: 1,000 runs in 60 s on 2 cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec

from bridgehead.app.example_estate import example
from bridgehead.app.plan_outcome import Outcome, outcome
from bridgehead.app.plan_rehearsal import Rehearsal
from bridgehead.app.plan_set import PlanSet
from bridgehead.app.plan_simulation import model_of, rates_for, simulate
from bridgehead.model.estate import Estate, WorkloadKind
from bridgehead.model.hazards import Hazards
from bridgehead.model.plan import Plan, SwingMode
from bridgehead.model.policy import Policy
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.planner import make
from bridgehead.simulate.plan_resources import lane_bps

sys.path.insert(0, str(Path(__file__).parent))
from table import Table, machine, write_section

REFERENCE_S = 47.0
SEED, JOBS = 1, 2
PLANNING_S = 60.0


def planned(estate: Estate, policy: Policy) -> PlanSet:
    """What the planner makes of it."""
    plan = make(estate, policy, seed=SEED, time_limit_s=PLANNING_S, now_s=time.monotonic, progress=lambda _: None)
    if isinstance(plan, NoPlan):
        raise SystemExit(f"there is no plan: {plan}")
    return PlanSet(plan, estate, policy)


def stopped_first(plan: Plan, estate: Estate, policy: Policy) -> Plan:
    """The same plan, but every training job and batch job with a checkpoint stands still while all of its state is copied."""
    lane = lane_bps(estate, policy)
    workloads = {one.id: one for one in estate.workloads}
    swings = []
    for swing in plan.swings:
        one = workloads[swing.id]
        if swing.mode in (SwingMode.PRECOPY, SwingMode.RESTART):
            lost_s = (one.save_s or 0) + 8 * (one.checkpoint_bytes or 0) / lane + (one.restore_s or 0) + (one.warm_up_s or 300.0)
            ends_s = swing.begins_s + max(swing.ends_s - swing.begins_s, 600.0 + lost_s)
            swing = msgspec.structs.replace(
                swing, mode=SwingMode.RESTART, ends_s=ends_s, lost_s=lost_s, lost_gpu_hours=lost_s * one.gpus / 3600
            )
        swings.append(swing)
    lost = sum(swing.lost_gpu_hours for swing in swings)
    return msgspec.structs.replace(plan, swings=tuple(swings), score=msgspec.structs.replace(plan.score, lost_gpu_hours=lost))


def prepared(estate: Estate, *, save_s: float, restore_s: float) -> Estate:
    """The same estate with quick saves and restores, and batch jobs that pause between two pieces of work instead of being cut."""
    workloads = []
    for one in estate.workloads:
        if one.kind is WorkloadKind.TRAINING:
            one = msgspec.structs.replace(one, save_s=save_s, restore_s=restore_s)
        if one.kind is WorkloadKind.BATCH:
            one = msgspec.structs.replace(one, checkpoint_every_s=2.0)
        workloads.append(one)
    return msgspec.structs.replace(estate, workloads=tuple(workloads))


def play(given: PlanSet, runs: int) -> tuple[Outcome, float]:
    hazards = Hazards()
    began = time.perf_counter()
    rows = simulate(given, hazards, runs=runs, seed=SEED, jobs=JOBS)
    took_s = time.perf_counter() - began
    return outcome(given, model_of(given, hazards), rows, rates_for(given, hazards)), took_s


def speed(given: PlanSet, runs: int) -> Table:
    table = Table("figure", "value", "budget")
    model = model_of(given, Hazards())
    rehearsal = Rehearsal(model)
    began = time.process_time()
    for run in range(20):
        rehearsal.play(run, seed=SEED)
    one_ms = (time.process_time() - began) / 20 * 1000
    _, took_s = play(given, runs)
    plan = given.plan
    table.add(
        f"{runs:,} runs: {len(plan.waves)} waves, {len(plan.swings)} swings, {len(model.network)} activities", f"{took_s:.1f} s", "60 s"
    )
    table.add("one run, one core", f"{one_ms:.1f} ms", "")
    return table


def headline(made: PlanSet, runs: int) -> Table:
    """The move with different preparation, each beside the reference."""
    estate, policy = made.estate, made.policy
    tight = msgspec.structs.replace(policy, precopy=msgspec.structs.replace(policy.precopy, delta_share=0.21, release_s=2.0))
    quick, quicker = prepared(estate, save_s=5.0, restore_s=30.0), prepared(estate, save_s=2.0, restore_s=10.0)

    variants = (
        ("stop, copy everything, start", PlanSet(stopped_first(made.plan, estate, policy), estate, policy)),
        ("pre-copied; saves 5 to 45 s, restores 60 to 300 s, batch jobs cut (the example)", made),
        ("pre-copied; saves 5 s, restores 30 s, a fifth of the state is new, batch jobs pause", planned(quick, tight)),
        ("the same with saves of 2 s and restores of 10 s", planned(quicker, tight)),
    )
    columns = (
        "how it is moved",
        "whole cluster, P50",
        "P90",
        "one job stands still, P50",
        "P90",
        "all jobs added up, P50",
        "GPU-hours, P50",
    )
    table = Table(*columns, "cluster against 47 s")
    for name, given in variants:
        lost = play(given, runs)[0].lost
        each, cluster = lost.stopped_each_s, lost.cluster_s
        table.add(
            name, f"{cluster.p50:,.1f} s", f"{cluster.p90:,.1f} s", f"{each.p50:,.1f} s", f"{each.p90:,.1f} s",
            f"{lost.stopped_s.p50:,.0f} s", f"{lost.moved_gpu_hours.p50:,.0f}", f"{cluster.p50 / REFERENCE_S:.2f} ×",
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    arguments = parser.parse_args()
    example_made = example(arguments.gpus)
    made = planned(example_made.estate, example_made.policy)
    lane = lane_bps(made.estate, made.policy)
    note = (
        f"A generated estate of {arguments.gpus:,} GPUs, 70 % of them used, with declared links ({lane / 1e9:.0f} Gb/s for each swing), "
        "and the plan that `plan make` makes of each; all hazards are guesses. *Whole cluster* is the compute that swings lost, as "
        "seconds of all GPUs of the source; interruptions, which come without a move, too, are not in it. Inference never stands still. "
        "The reference feat moved 10,000 GPUs and lost 47 s in total; how that was counted is not published: as seconds of the whole "
        "cluster pre-copying reaches it once saves and restores are quick and no batch job is cut; as seconds of all jobs added up it "
        "does not."
    )
    text = f"{machine()}\n\n{speed(made, arguments.runs)}\n\n{note}\n\n{headline(made, min(arguments.runs, 300))}"
    print(text)
    if arguments.write:
        write_section("simulation of a plan", "python bench/simulate.py --write", text)


if __name__ == "__main__":
    main()
