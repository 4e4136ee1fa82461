"""Hazards of plans: the same place gives the same luck, and more of a hazard never makes a run earlier or cheaper."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.app.example_estate import example
from bridgehead.app.plan_rehearsal import Rehearsal
from bridgehead.app.plan_set import PlanSet
from bridgehead.app.plan_simulation import model_of
from bridgehead.model.hazards import CALM, Interruptions, Setback, Slowdown
from bridgehead.testing.plain_plan import plain_plan

MADE = example(400, used=0.4)
SET = PlanSet(plain_plan(MADE.estate, MADE.policy, racks_per_wave=4), MADE.estate, MADE.policy)
CHANCES = st.floats(0.0, 1.0)
MAKERS = {
    "no_show": lambda chance: chance,
    "slow_work": lambda chance: Setback(chance, 7200.0),
    "late_truck": lambda chance: Setback(chance, 36_000.0),
    "failed_gate": lambda chance: Setback(chance, 36_000.0),
    "corrupt_checkpoint": lambda chance: chance,
    "slow_link": lambda chance: Slowdown(chance, 0.3),
    "interruptions": lambda chance: Interruptions(1e5 - 9.9e4 * chance),
}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(MAKERS)), CHANCES, CHANCES, st.integers(0, 10**9), st.integers(0, 100))
def test_more_of_a_hazard_never_helps(name, one, other, seed, run):
    lower, higher = (
        Rehearsal(model_of(SET, msgspec.structs.replace(CALM, **{name: MAKERS[name](chance)}))).play(run, seed=seed)
        for chance in sorted((one, other))
    )
    assert higher.over_s >= lower.over_s
    assert higher.ends_s >= lower.ends_s
    assert (higher.losses.stopped_s >= lower.losses.stopped_s).all()
    assert (higher.losses.moved_gpu_hours >= lower.losses.moved_gpu_hours - 1e-9).all()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**12), st.integers(0, 10**6))
def test_the_same_seed_and_run_leave_the_same_trace(seed, run):
    hazards = msgspec.structs.replace(CALM, no_show=0.2, slow_work=Setback(0.5, 7200.0))
    assert Rehearsal(model_of(SET, hazards)).play(run, seed=seed).trace == Rehearsal(model_of(SET, hazards)).play(run, seed=seed).trace
