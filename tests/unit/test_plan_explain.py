"""Why: the moment from which each rule allows something, what binds, modes with their loss, places, the chain to the end (M7.3, M7.4)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.example_estate import example
from bridgehead.app.plan_files import load_planned
from bridgehead.cli.main import call
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.model.estate import Workload
from bridgehead.model.plan import Swing, SwingMode, Transfer, Wave
from bridgehead.model.policy import Limits, Period
from bridgehead.planning.course import Course
from bridgehead.planning.explain import explain
from bridgehead.planning.explain_limits import Limit, swing_limits, transfer_limits, wave_limits
from bridgehead.planning.explain_modes import ways_of
from bridgehead.planning.explain_places import fits_of
from bridgehead.planning.resources import loads_before
from bridgehead.planning.steps import Steps, allowed_from
from bridgehead.testing.plain_plan import plain_plan

CASE = Path(__file__).parents[2] / "examples" / "business-case" / "six-weeks"
FILES = [str(CASE / name) for name in ("plan.yaml", "estate.yaml", "policy.yaml")]
HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture(scope="module")
def course() -> Course:
    given = load_planned(CASE / "plan.yaml", CASE / "estate.yaml", CASE / "policy.yaml")
    return Course(given.plan, given.estate, given.policy)


@pytest.fixture(scope="module")
def generated() -> Course:
    made = example(1000, seed=1)
    return Course(plain_plan(made.estate, made.policy), made.estate, made.policy)


def swing(course: Course, name: str) -> Swing:
    return next(one for one in course.plan.swings if one.id == name)


def wave(course: Course, name: str) -> Wave:
    return next(one for one in course.plan.waves if one.id == name)


def workload(course: Course, name: str) -> Workload:
    return next(one for one in course.estate.workloads if one.id == name)


def by_code(limits: tuple[Limit, ...]) -> dict[str, Limit]:
    return {one.code: one for one in reversed(limits)}


def with_policy(course: Course, **changes: object) -> Course:
    return Course(course.plan, course.estate, msgspec.structs.replace(course.policy, **changes))


def with_swing(course: Course, name: str, **changes: float) -> Course:
    swings = tuple(msgspec.structs.replace(one, **changes) if one.id == name else one for one in course.plan.swings)
    return Course(msgspec.structs.replace(course.plan, swings=swings), course.estate, course.policy)


def test_steps_count_from_their_moment_on() -> None:
    steps = Steps(1.0, [(10, 2.0), (20, -3.0), (10, 1.0)])
    assert [steps.at(moment) for moment in (9, 10, 19.9, 20)] == [1, 4, 4, 1]
    assert steps.before(10) == 1
    assert steps.over(0, 30) == 10 + 40 + 10
    assert steps.highest(0, 10) == 1
    assert steps.highest(0, 11) == 4


def test_allowed_from_stops_at_the_last_break() -> None:
    steps = Steps(0.0, [(10, 1.0), (20, -1.0), (30, 1.0)])
    assert allowed_from(steps.moments_s, lambda moment: steps.at(moment) == 0, until_s=25, since_s=0) == 20
    assert allowed_from(steps.moments_s, lambda moment: steps.at(moment) == 0, until_s=9, since_s=0) == 0
    assert allowed_from(steps.moments_s, lambda moment: steps.at(moment) == 0, until_s=15, since_s=0) == 15


def test_swing_waits_for_the_wave_that_brings_its_gpus(course: Course) -> None:
    limit = by_code(swing_limits(course, swing(course, "train-4")))["PLAN-RESERVE-TARGET"]
    joined = wave(course, "wave-3")
    assert limit.allows_s == joined.joins_s
    assert limit.who == "wave-3"
    assert not limit.binds  # the plan waits for the night
    # Before: 600 stand there, 520 run; 1.1 * (520 + 120) = 704.
    assert "104 were missing for 120" in limit.text


def test_swing_at_that_moment_is_bound_by_it(course: Course) -> None:
    joined_s = wave(course, "wave-3").joins_s
    moved = with_swing(course, "train-4", begins_s=joined_s)
    found = explain(moved, "train-4")
    assert found.limits[0].binds
    assert found.first == "104 more V100 there earlier, or a smaller reserve (PLAN-RESERVE-TARGET)"


def test_smaller_reserve_would_allow_it_earlier(course: Course) -> None:
    fewer = with_policy(course, reserve=0.0)
    one = swing(course, "train-8")
    assert (
        by_code(swing_limits(fewer, one))["PLAN-RESERVE-TARGET"].allows_s
        <= by_code(swing_limits(course, one))["PLAN-RESERVE-TARGET"].allows_s
    )


def test_swing_waits_for_its_needs_and_its_data(course: Course) -> None:
    found = swing_limits(course, swing(course, "train-1"))
    needs = by_code(found)["PLAN-NEEDS"]
    assert (needs.who, needs.allows_s) == ("identity", course.plan.services[1].ends_s)
    data = {one.who: one.allows_s for one in found if one.code == "PLAN-DATA"}
    assert set(data) == {"corpus", "store.nvme", "checkpoint.train-1"}
    assert all(data[one.id] == one.ends_s for one in course.plan.transfers if one.id in data)


def test_one_lane_makes_swings_wait_for_each_other(course: Course) -> None:
    single = with_policy(course, limits=Limits(concurrent_moves=1))
    first = swing(course, "chat-1")
    later = with_swing(single, "chat-2", begins_s=first.ends_s, ends_s=first.ends_s + 2400)
    for other in ("chat-3", "chat-4"):
        later = with_swing(later, other, begins_s=first.ends_s + 9 * HOUR_S, ends_s=first.ends_s + 10 * HOUR_S)
    limit = by_code(swing_limits(later, swing(later, "chat-2")))["PLAN-LANES"]
    assert limit.binds
    assert limit.allows_s == first.ends_s
    assert limit.who == "chat-1"


def test_window_binds_with_what_made_it_miss_the_one_before(course: Course) -> None:
    one = swing(course, "train-4")
    joined_s = wave(course, "wave-3").joins_s
    nights = tuple(Period(one.begins_s + day * DAY_S, one.begins_s + day * DAY_S + 8 * HOUR_S, "night") for day in (-2, -1, 0))
    late = explain(with_policy(course, windows=nights), "train-4")
    assert {limit.code for limit in late.limits if limit.binds} == {"PLAN-WINDOW"}  # the night before would have done: the wave had joined
    assert nights[1].begins_s > joined_s > nights[0].ends_s
    missed = explain(with_policy(course, windows=(nights[0], nights[2])), "train-4")
    assert {limit.code for limit in missed.limits if limit.binds} >= {"PLAN-WINDOW", "PLAN-RESERVE-TARGET"}
    assert "PLAN-RESERVE-TARGET" in missed.first


def test_wave_waits_for_the_swing_that_frees_its_racks(course: Course) -> None:
    found = explain(course, "wave-6")
    limit = found.limits[0]
    assert (limit.code, limit.who, limit.binds) == ("PLAN-RESERVE-SOURCE", "sweeps", True)
    assert limit.allows_s == swing(course, "sweeps").ends_s
    assert "220 V100 free earlier" in found.first


def test_racks_kept_apart_wait_for_each_other(course: Course) -> None:
    racks = tuple(msgspec.structs.replace(rack, apart_from=("r01",)) if rack.id == "r16" else rack for rack in course.source.racks)
    source = msgspec.structs.replace(course.source, racks=racks)
    estate = msgspec.structs.replace(course.estate, sites=(source, course.target))
    limit = by_code(wave_limits(Course(course.plan, estate, course.policy), wave(course, "wave-3")))["PLAN-APART"]
    assert limit.who == "wave-1"


def test_transfer_waits_for_the_line(course: Course) -> None:
    corpus = next(one for one in course.plan.transfers if one.id == "corpus")
    limit = by_code(transfer_limits(course, corpus))["PLAN-LINE"]
    assert limit.binds
    assert limit.who == "store.nvme"


def test_modes_and_losses_are_those_of_the_contract(course: Course) -> None:
    ways = {way.mode: way for way in ways_of(course, workload(course, "train-4"))}
    lane_bps = 12e9 / 2 / 4
    delta_s = 8 * 0.25 * 180e9 / lane_bps
    assert ways[SwingMode.PRECOPY].lost_s == pytest.approx(60 + delta_s + 0.25 * 240 + 5)
    assert ways[SwingMode.RESTART].lost_s == pytest.approx(60 + delta_s + 240 + 180)
    assert ways[SwingMode.PRECOPY].lost_gpu_hours == pytest.approx((60 + delta_s + 60 + 5) * 120 / 3600)
    assert not ways[SwingMode.CANARY].fits
    assert {way.mode for way in ways_of(course, workload(course, "chat-1")) if way.fits} == {SwingMode.CANARY}
    (requeue,) = [way for way in ways_of(course, workload(course, "sweeps")) if way.fits]
    assert (requeue.mode, requeue.lost_s) == (SwingMode.REQUEUE, 900)


def test_training_without_an_interval_cannot_be_copied_while_it_runs(course: Course) -> None:
    one = msgspec.structs.replace(workload(course, "train-4"), checkpoint_every_s=None)
    ways = {way.mode: way for way in ways_of(course, one)}
    assert not ways[SwingMode.PRECOPY].fits
    assert "checkpoint_every is not given" in ways[SwingMode.PRECOPY].because
    fast = msgspec.structs.replace(one, checkpoint_every_s=1.0)
    assert "not below half a lane" in next(way for way in ways_of(course, fast) if way.mode is SwingMode.PRECOPY).because


def test_worse_mode_than_needed_is_said(course: Course) -> None:
    worse = with_swing(course, "train-4", lost_s=720.0)
    swings = tuple(msgspec.structs.replace(one, mode=SwingMode.RESTART) if one.id == "train-4" else one for one in worse.plan.swings)
    found = explain(Course(msgspec.structs.replace(worse.plan, swings=swings), course.estate, course.policy), "train-4")
    assert "pre-copy would lose less: 6 min 5 s" in found.facts


def test_rack_says_wave_vehicle_place_and_other_places(course: Course) -> None:
    found = explain(course, "r17")
    words = "\n".join(found.facts)
    assert "carried in wave-3 by truck-1" in words
    assert "it holds 40 V100" in words
    assert "it comes to p17 (row B, 7)" in words
    assert "50 of 50 places take it" in words


def test_place_that_is_too_weak_or_too_low_does_not_take_it(course: Course) -> None:
    places = {place.id: place for place in course.target.racks}
    weak = msgspec.structs.replace(places["p01"], max_weight_kg=400.0)
    low = msgspec.structs.replace(places["p02"], units=10)
    bare = msgspec.structs.replace(places["p03"], circuits=places["p03"].circuits[:1])
    target = msgspec.structs.replace(course.target, racks=(weak, low, bare))
    other = Course(course.plan, msgspec.structs.replace(course.estate, sites=(course.source, target)), course.policy)
    fits = {one.place: one.lacks for one in fits_of(other, course.source.racks[0])}
    assert fits == {"p01": ("weight",), "p02": ("height",), "p03": ("circuits",)}


def test_plan_as_a_whole_is_a_chain_back_to_the_first_day(course: Course) -> None:
    found = explain(course)
    assert "wave-6" in found.chain[0]
    assert "sweeps" in found.chain[1]
    assert "dns" in found.chain[-1]
    assert "PLAN-PHASES" in found.chain[-1]


def test_what_is_full_just_before_is_named(course: Course) -> None:
    loads = {load.what: load for load in loads_before(course, swing(course, "sweeps").begins_s)}
    source = loads["V100 at old-hall, reserve included"]
    assert (source.used, source.limit) == (pytest.approx(220.0), 240)
    shares = [load.share for load in loads_before(course, course.plan.swings[0].begins_s)]
    assert shares == sorted(shares, reverse=True)


def test_unknown_thing_names_the_nearest(course: Course) -> None:
    with pytest.raises(BridgeheadError, match="train-4") as refused:
        explain(course, "trian-4")
    assert refused.value.exit_code == 2


def test_everything_in_a_generated_plan_can_be_explained(generated: Course) -> None:
    plan = generated.plan
    for held in (plan.swings, plan.waves, plan.services, plan.transfers):
        for one in held:
            found = explain(generated, one.id)
            assert found.first
            assert all(limit.allows_s <= found.begins_s + 1 for limit in found.limits)
    for rack in generated.wave_of:
        assert explain(generated, rack).facts


def test_target_reserve_is_what_counting_hour_by_hour_gives(generated: Course) -> None:
    kept, site = 1 + generated.policy.reserve, generated.target.id
    for one in generated.plan.swings[::5]:
        job = generated.workloads[one.id]
        if not job.gpus:
            continue
        model = generated.model_of(job)
        run, stand = generated.running_without(one.id)[site, model], generated.standing[site, model]
        limit = by_code(swing_limits(generated, one))["PLAN-RESERVE-TARGET"]
        hours = [generated.plan.begins_s + hour * HOUR_S for hour in range(int((one.begins_s - generated.plan.begins_s) / HOUR_S))]
        fits = {moment: kept * (run.at(moment) + job.gpus) <= stand.at(moment) for moment in hours}
        assert all(fits[moment] for moment in hours if moment >= limit.allows_s)
        before = [moment for moment in hours if moment < limit.allows_s - HOUR_S]
        assert not before or not fits[before[-1]] or limit.allows_s - before[-1] > 2 * HOUR_S


def test_order_of_the_estate_changes_nothing(course: Course) -> None:
    sites = tuple(msgspec.structs.replace(site, nodes=site.nodes[::-1], racks=site.racks[::-1]) for site in course.estate.sites[::-1])
    estate = msgspec.structs.replace(course.estate, sites=sites, workloads=course.estate.workloads[::-1])
    other = Course(course.plan, estate, course.policy)
    for what in ("", "train-4", "wave-6", "r17", "corpus", "identity"):
        assert explain(other, what) == explain(course, what)


def test_verb_explains_in_words_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["plan", "explain", *FILES, "train-4"]) == 0
    out = capsys.readouterr().out
    assert "First to change: " in out
    assert "pre-copy: 6 min 5 s, 12.17 GPU-hours" in out
    assert call(["plan", "explain", *FILES, "wave-6", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "wave"
    assert data["limits"][0]["code"] == "PLAN-RESERVE-SOURCE"
    assert call(["plan", "explain", *FILES, "nothing"]) == 2


def test_courier_waits_for_nothing(course: Course) -> None:
    by_road = Transfer("records", 10, course.plan.begins_s, course.plan.begins_s + 10, "drives")
    assert [limit.code for limit in transfer_limits(course, by_road)] == ["PLAN-PHASES"]
