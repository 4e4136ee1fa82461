"""Simulating plans: zero hazards give the plan itself, the same seed the same runs, and a planted weak spot is found (M1, M10.1)."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

from bridgehead.app.example_estate import example, write_example
from bridgehead.app.plan_outcome import difference, outcome, spread
from bridgehead.app.plan_rehearsal import Rehearsal
from bridgehead.app.plan_set import PlanSet
from bridgehead.app.plan_simulation import intervals_of, merged, model_of, rates_for, simulate
from bridgehead.cli.main import call
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.hazards import CALM, PRIOR_GPU_HOURS, Cuts, Hazards, Infant, Interruptions, Setback, Slowdown, rates_of, read_hazards
from bridgehead.model.plan import Shrink, SparePart, SwingMode, TaskKind, write_plan
from bridgehead.simulate.calendar import Calendar, Shift
from bridgehead.simulate.chance import exponential, keys_of, poisson, uniforms
from bridgehead.testing.plain_plan import plain_plan

MADE = example(400, seed=1, used=0.4)
PLAN = plain_plan(MADE.estate, MADE.policy, racks_per_wave=4)
SET = PlanSet(PLAN, MADE.estate, MADE.policy)
DAY_S = 86_400.0


def only(**given):
    return msgspec.structs.replace(CALM, **given)


def play(hazards, *, runs=20, seed=1, planned=SET):
    rows = simulate(planned, hazards, runs=runs, seed=seed, jobs=1)
    return outcome(planned, model_of(planned, hazards), rows, rates_for(planned, hazards))


def test_zero_hazards_give_the_dates_and_losses_of_the_plan_exactly():
    model = model_of(SET, CALM)
    played = Rehearsal(model).play(0, seed=1)
    assert played.ends_s == PLAN.ends_s
    assert played.over_s == max([*(one.ends_s for one in PLAN.swings), *(wave.joins_s for wave in PLAN.waves)])
    lost = dict(zip(model.jobs.names, zip(played.losses.stopped_s, played.losses.moved_gpu_hours, strict=True), strict=True))
    assert lost == {swing.id: (swing.lost_s, swing.lost_gpu_hours) for swing in PLAN.swings}
    assert played.losses.interrupted_gpu_hours.sum() == 0
    assert (played.reserve_longest_s, played.blames) == (0.0, [])


def test_zero_hazards_begin_and_end_every_activity_as_planned():
    model = model_of(SET, CALM)
    times = Rehearsal(model)._times(_delays(model))
    assert times.begins_s.tolist() == [one.begins_s for one in model.network]
    assert times.ends_s.tolist() == [one.ends_s for one in model.network]


def _delays(model):
    from bridgehead.simulate.plan_sample import delays_of

    return delays_of(model, seed=0, run=0)


def test_a_shrink_costs_what_it_lasts():
    one = next(one for one in MADE.estate.workloads if one.kind is WorkloadKind.TRAINING)
    swing = next(swing for swing in PLAN.swings if swing.id == one.id)
    shrink = Shrink(one.id, PLAN.target, one.gpus // 2, swing.begins_s, swing.begins_s + DAY_S)
    planned = PlanSet(msgspec.structs.replace(PLAN, shrinks=(shrink,)), MADE.estate, MADE.policy)
    found = {work.id: work.moved_gpu_hours.p50 for work in play(CALM, planned=planned).workloads}
    assert found[one.id] == pytest.approx(swing.lost_gpu_hours + 24 * (one.gpus - one.gpus // 2))


def test_the_same_seed_is_the_same_on_one_process_and_on_two_and_another_is_not():
    alone = simulate(SET, Hazards(), runs=50, seed=7, jobs=1)
    assert simulate(SET, Hazards(), runs=50, seed=7, jobs=2) == alone
    assert simulate(SET, Hazards(), runs=50, seed=8, jobs=1).rows != alone.rows


def test_shards_merge_to_what_one_run_gives():
    whole = simulate(SET, Hazards(), runs=11, seed=3, jobs=1)
    shards = [simulate(SET, Hazards(), runs=11, seed=3, shard=(number, 3), jobs=1) for number in (3, 1, 2)]
    assert merged(shards) == whole
    for wrong in ([shards[0]], [*shards, shards[0]], [simulate(SET, Hazards(), runs=11, seed=4, jobs=1), shards[0]]):
        with pytest.raises(BridgeheadError) as refused:
            merged(wrong)
        assert refused.value.code is ErrorCode.BAD_INPUT


WEAK_SPOTS = {
    "late-truck": (only(late_truck=Setback(1.0, 5 * DAY_S)), "transit", {"truck"}),
    "no-show": (only(no_show=1.0), "pack", {"old-hands"}),
    "slow-work": (only(slow_work=Setback(1.0, 2 * DAY_S)), "service", {one.id for one in PLAN.services}),
    "failed-gate": (only(failed_gate=Setback(1.0, 60 * DAY_S)), "swing", {one.id for one in PLAN.swings if one.mode is SwingMode.CANARY}),
    "slow-link": (only(slow_link=Slowdown(1.0, 0.001)), "transfer", {"line"}),
    "cut-link": (only(cut_link=Cuts(1.0, 60 * DAY_S)), "transfer", {"line"}),
}


@pytest.mark.parametrize("hazard", WEAK_SPOTS)
def test_what_breaks_first_finds_the_planted_weak_spot(hazard):
    hazards, step, owners = WEAK_SPOTS[hazard]
    found = play(hazards)
    assert found.late_days.p50 > 0
    assert found.breaks_first[0].hazard == hazard
    assert found.breaks_first[0].step == step
    assert found.breaks_first[0].owner in owners
    assert sum(cause.share for cause in found.breaks_first) == pytest.approx(1.0)


def test_delays_add_up_to_how_late_the_end_is():
    rows = simulate(SET, Hazards(), runs=30, seed=2, jobs=1)
    planned_s = max([*(one.ends_s for one in PLAN.swings), *(wave.joins_s for wave in PLAN.waves)])
    late = [row for row in rows.rows if row.over_s > planned_s + 3600.0]
    assert late
    for row in late:
        assert sum(lasts_s for _, _, lasts_s in row.blames) == pytest.approx(row.over_s - planned_s, abs=600.0)


def test_a_corrupt_checkpoint_repeats_an_interval_and_the_swing():
    found = {work.id: work.stopped_s.p50 for work in play(only(corrupt_checkpoint=1.0), runs=2).workloads}
    every = {one.id: one.checkpoint_every_s for one in MADE.estate.workloads}
    for swing in PLAN.swings:
        if swing.mode is SwingMode.PRECOPY:
            assert found[swing.id] == pytest.approx(2 * swing.lost_s + every[swing.id])


def test_damage_breaks_the_reserve_and_spares_mend_it_sooner():
    hazards = only(damage=Setback(1.0, 3600.0), delivery_s=30 * DAY_S)
    tight = example(1000)
    planned = PlanSet(plain_plan(tight.estate, tight.policy, racks_per_wave=4), tight.estate, tight.policy)
    bare = play(hazards, runs=5, planned=planned).reserve
    assert bare.broken_share == 1.0
    models = {node.gpu_model for site in tight.estate.sites for node in site.nodes if node.gpus}
    spares = tuple(SparePart(model, 10_000, "plenty") for model in models)
    kept = play(
        hazards, runs=5, planned=msgspec.structs.replace(planned, plan=msgspec.structs.replace(planned.plan, spares=spares))
    ).reserve
    assert kept.longest_s < bare.longest_s


def test_interruptions_come_at_the_published_rate_and_at_the_sites_own_where_it_has_one():
    interrupted = play(only(interruptions=Interruptions()), runs=60).lost.interrupted_gpu_hours
    assert interrupted.mean > 0
    site = msgspec.structs.replace(MADE.estate.sites[0], gpu_hours_per_interruption=PRIOR_GPU_HOURS / 10)
    estate = msgspec.structs.replace(MADE.estate, sites=(site, *MADE.estate.sites[1:]))
    own = play(only(interruptions=None), runs=60, planned=PlanSet(PLAN, estate, MADE.policy))
    assert own.lost.interrupted_gpu_hours.mean == pytest.approx(10 * interrupted.mean, rel=0.25)
    assert "interruptions" in own.guesses  # only its rate is known, not which nodes are worst nor how soon jobs restart


def test_infant_mortality_is_none_unless_given():
    assert rates_of(Hazards()).infant is None
    seldom = only(interruptions=Interruptions(PRIOR_GPU_HOURS))
    often = msgspec.structs.replace(seldom, infant=Infant(20.0, 14 * DAY_S))
    assert play(often).lost.interrupted_gpu_hours.mean > play(seldom).lost.interrupted_gpu_hours.mean


def test_CK4_intervals_of_young_and_daly():
    training = next(one for one in MADE.estate.workloads if one.kind is WorkloadKind.TRAINING)
    changed = msgspec.structs.replace(training, gpus=1024, save_s=60.0)
    estate = msgspec.structs.replace(MADE.estate, workloads=tuple(changed if one is training else one for one in MADE.estate.workloads))
    model = model_of(PlanSet(PLAN, estate, MADE.policy), Hazards())
    at = model.jobs.names.index(training.id)
    found = {name: values[at] for name, values in intervals_of(model).items()}
    assert found["given"] == training.checkpoint_every_s
    assert found["young"] == pytest.approx(4623.8, abs=0.5)
    assert found["daly"] == pytest.approx(4563.8, abs=0.5)
    assert found["saxena"] > found["young"]


def test_a_better_interval_loses_less():
    found = play(Hazards()).checkpoints
    assert found["young"].mean < found["given"].mean
    assert found["daly"].mean == pytest.approx(found["young"].mean, rel=0.05)


def test_two_plans_are_compared_on_the_same_luck():
    hazards = Hazards()
    small = plain_plan(MADE.estate, MADE.policy, racks_per_wave=2)
    rows, others = (simulate(PlanSet(plan, MADE.estate, MADE.policy), hazards, runs=15, seed=5, jobs=1) for plan in (PLAN, small))
    same = difference(rows, rows, late_s=0.0, other_late_s=0.0)
    assert (same.over_days.least, same.over_days.most, same.other_loses_less_share) == (0.0, 0.0, 0.0)
    between = difference(rows, others, late_s=0.0, other_late_s=0.0)
    planned_days = (max(wave.joins_s for wave in small.waves) - max(wave.joins_s for wave in PLAN.waves)) / DAY_S
    assert planned_days < 0, "small waves are ready to leave earlier here"
    assert between.over_days.p50 < 0
    assert between.other_is_earlier_share > 0.5


def test_what_nobody_gave_is_shown_as_a_guess():
    assert set(rates_of(Hazards()).guesses) >= {"interruptions", "damage", "no_show", "late_truck", "delivery"}
    given = read_hazards("hazards: ours\nno_show: 3 %\nlate_truck: {chance: 10 %, lasts: 4 h}\n", file="h.yaml")
    rates = rates_of(given)
    assert (rates.no_show, rates.late_truck) == (0.03, Setback(0.1, 14_400.0))
    assert not {"no_show", "late_truck"} & set(rates.guesses)


def test_late_work_waits_for_a_shift_a_window_and_the_end_of_a_blackout():
    shift = Shift(7 * 3600.0, 10 * 3600.0)
    assert shift.next(8 * 3600.0, 3600.0) == 8 * 3600.0
    assert shift.next(16.5 * 3600.0, 3600.0) == DAY_S + 7 * 3600.0
    assert shift.next(3 * 3600.0, 3600.0) == 7 * 3600.0
    assert shift.after(7 * 3600.0) == DAY_S + 7 * 3600.0
    calendar, black = Calendar(MADE.policy), MADE.policy.blackouts[0]
    night = MADE.policy.windows[3]
    assert calendar.window(night.begins_s - 3600.0, 600.0) == night.begins_s
    assert calendar.window(night.ends_s - 60.0, 600.0) == MADE.policy.windows[4].begins_s
    assert calendar.clear(black.begins_s - 60.0, 3600.0) == black.ends_s
    assert calendar.window(black.begins_s, 600.0) >= black.ends_s


def test_numbers_belong_to_their_place():
    keys = keys_of([f"name-{number}" for number in range(20_000)])
    found = uniforms(keys, seed=1, run=2, streams=3)
    assert found.mean() == pytest.approx(0.5, abs=0.01)
    assert found.std() == pytest.approx(12**-0.5, abs=0.01)
    assert abs(np.corrcoef(found[0], found[1])[0, 1]) < 0.03
    assert (uniforms(keys[::-1], seed=1, run=2, streams=3)[:, ::-1] == found).all()
    assert exponential(found[0], 5.0).mean() == pytest.approx(5.0, rel=0.05)
    for mean in (0.01, 2.0, 40.0):
        counts = poisson(found[0], np.full(len(keys), mean))
        assert counts.mean() == pytest.approx(mean, rel=0.05, abs=0.005)
        assert counts.var() == pytest.approx(mean, rel=0.06, abs=0.005)
    assert spread([3.0, 1.0, 2.0]).p50 == 2.0


@pytest.fixture
def folder(tmp_path):
    write_example(MADE, tmp_path)
    (tmp_path / "plan.yaml").write_text(write_plan(PLAN))
    (tmp_path / "other.yaml").write_text(write_plan(plain_plan(MADE.estate, MADE.policy, racks_per_wave=2)))
    return tmp_path


def test_the_verb_plays_shards_merges_and_compares(folder, capsys):
    plan = str(folder / "plan.yaml")
    assert call(["simulate", plan, "--runs", "6", "--seed", "2", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert (whole["runs"], len(whole["workloads"])) == (6, len(PLAN.swings))
    files = []
    for shard in ("1/2", "2/2"):
        assert call(["simulate", plan, "--runs", "6", "--seed", "2", "--shard", shard, "--json"]) == 0
        path = folder / f"shard-{shard[0]}.json"
        path.write_text(capsys.readouterr().out)
        files.append(str(path))
    assert call(["simulate", plan, "--merge", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    assert call(["simulate", plan, "--runs", "3", "--compare", str(folder / "other.yaml")]) == 0
    shown = capsys.readouterr().out
    assert "what breaks first" in shown
    assert "on the same luck" in shown


def test_the_verb_says_when_the_last_day_is_missed(folder, capsys):
    policy = msgspec.structs.replace(MADE.policy, ends_s=PLAN.begins_s)
    from bridgehead.model.plan import digest_of
    from bridgehead.model.policy import write_policy

    (folder / "policy.yaml").write_text(write_policy(policy))
    (folder / "plan.yaml").write_text(write_plan(msgspec.structs.replace(PLAN, policy=digest_of(policy))))
    assert call(["simulate", str(folder / "plan.yaml"), "--runs", "2"]) == 1
    assert "past the policy's last day in 100.0 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shard", "3/2"], "this is no shard"),
        (["--runs", "0"], "nothing to play"),
        (["--shard", "1/2", "--compare", "other.yaml"], "merged before"),
    ],
)
def test_wrong_use_is_refused(folder, capsys, arguments, words):
    assert call(["simulate", str(folder / "plan.yaml"), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_every_task_of_a_wave_is_played():
    model = model_of(SET, CALM)
    played = {(one.of, one.task) for one in model.network if one.task is not None}
    assert played == {(wave.id, task.id) for wave in PLAN.waves for task in wave.tasks}
    assert TaskKind.BURN_IN in {task for _, task in played}
