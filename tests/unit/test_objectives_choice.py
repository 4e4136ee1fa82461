"""The cheapest set: against every set there is, and where sharing decides (R3, R11)."""

from __future__ import annotations

import itertools

import pytest

from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import read_estate
from bridgehead.model.objectivefile import Continuity, read_objectives
from bridgehead.model.recovery import Pattern
from bridgehead.recovery.objectives.choice import Chosen, bought_for
from bridgehead.recovery.objectives.option import CLOUD, Option
from bridgehead.recovery.objectives.pricing import Market, price
from bridgehead.recovery.objectives.thing import Thing, things_of

ESTATE = """estate: three
sites:
  a: {nodes: {a1: {gpus: 32, gpu_model: H100}}}
  b: {nodes: {b1: {gpus: 16, gpu_model: H100}}}
  c: {nodes: {c1: {gpus: 4, gpu_model: H100}}}
links:
  ab: {between: [a, b], rate: 10 Gbps}
  ac: {between: [a, c], rate: 1 Gbps}
workloads:
  one: {kind: inference, site: a, gpus: 16, gpu_model: H100, checkpoint: 100 GB, restore: 5 min, objective: quick}
  two: {kind: inference, site: b, gpus: 16, gpu_model: H100, checkpoint: 100 GB, restore: 5 min, objective: quick}
  big: {kind: training, site: a, gpus: 16, gpu_model: H100, checkpoint: 2 TB, restore: 30 min, objective: slow}
"""
OBJECTIVES = """continuity: three
objectives:
  quick: {rpo: 5 min, rto: 1 h}
  slow: {rpo: 2 h, rto: 8 h}
prices: {gpu_month: 1000, on_call_gpu_month: 100, cloud_gpu_hour: 3, store_tb_month: 20, link_gbps_month: 200, labour_hour: 100}
assumptions: {detect: 1 min, decide: 5 min, link_step: 1 Gbps}
"""


def given(estate: str = ESTATE, objectives: str = OBJECTIVES) -> tuple[Estate, Continuity]:
    first = read_estate(estate, file="e.yaml")
    return first, read_objectives(objectives, file="o.yaml", estate=first)


def total(chosen: list[tuple[Thing, Option]], market: Market) -> float:
    own = sum(round(100 * sum(line.month for line in option.lines)) for _, option in chosen)
    return round(own / 100 + sum(one.month for one in bought_for(chosen, market.capacity, market.book)), 2)


def every_set(market: Market, things: tuple[Thing, ...]) -> float:
    """The least of all combinations, each priced by the sums that users see."""
    options = market.options(things)
    usable = [
        [(thing, one) for one in options[thing.id] if one.meets(None if thing.rto is None else thing.rto.value_s)] for thing in things
    ]
    return min(total(list(chosen), market) for chosen in itertools.product(*usable))


@pytest.mark.parametrize(
    "change",
    [
        ("", ""), ("rto: 1 h", "rto: 20 min"), ("rto: 8 h", "rto: 75 min"), ("rpo: 2 h", "rpo: 10 min"), ("rpo: 2 h", "rpo: 0 s"),
        ("gpu_month: 1000", "gpu_month: 10"), ("labour_hour: 100", "labour_hour: 0"), ("cloud_gpu_hour: 3", "cloud_gpu_hour: 90"),
    ],
)  # fmt: skip
def test_R3_no_set_is_cheaper(change: tuple[str, str]) -> None:
    estate, continuity = given(objectives=OBJECTIVES.replace(*change) if change[0] else OBJECTIVES)
    market, things = Market(estate, continuity), things_of(estate, continuity)
    found = market.cheapest(things)
    assert found.unmet == ()
    assert found.gap == 0
    assert found.month == pytest.approx(every_set(market, things), abs=0.005)


def only(found: Chosen, what: str, where: str) -> float:
    return next(one.amount for one in found.bought if (one.what, one.where) == (what, where))


def test_R11_standby_of_two_sites_is_shared_at_a_third() -> None:
    text = OBJECTIVES.replace("rto: 1 h", "rto: 45 min") + "patterns: {cross-cloud: {provision: 5 h}, cloud-burst: {provision: 5 h}}\n"
    text = text.replace("gpu_month: 1000, on_call_gpu_month: 100", "gpu_month: 10, on_call_gpu_month: 1000")
    estate, continuity = given(
        ESTATE.replace("  big:", "  # big:").replace("b1: {gpus: 16", "b1: {gpus: 16"), text.replace("  slow", "  # slow")
    )
    market, things = Market(estate, continuity), things_of(estate, continuity)
    at_c = [(thing, next(one for one in market.options([thing])[thing.id] if one.site == "c" and one.pattern is Pattern.ACTIVE_PASSIVE))
            for thing in things]  # fmt: skip
    bought = bought_for(at_c, market.capacity, market.book)
    running, called = (next(one for one in bought if one.what == what) for what in ("standby GPUs", "GPUs on call"))
    assert running.need == 4, "20 % of 16 for whichever site is lost, not twice that"
    assert called.need == 16
    assert (running.free, called.free) == (4, 4)
    assert called.amount == 12


def test_R3_a_line_is_bought_once_for_all() -> None:
    estate, continuity = given(objectives=OBJECTIVES.replace("rpo: 2 h", "rpo: 15 min"))
    found = Market(estate, continuity).cheapest(things_of(estate, continuity))
    big = next(one for one in found.options if one.thing == "big")
    line = next(one for one in found.bought if one.what == "line" and "big" in one.users)
    # 2 TB · 0.7 in half of 15 min
    assert big.rate_bps == pytest.approx(8 * 2e12 * 0.7 / 450)
    assert line.need == pytest.approx(big.rate_bps, abs=1e6)
    assert line.amount >= line.need - line.free


def test_M9_2_a_workload_recovers_where_its_data_is() -> None:
    estate, continuity = given(
        ESTATE.replace("objective: slow}", "objective: slow, datasets: [corpus]}")
        + "datasets: {corpus: {site: a, size: 500 TB, change: 1 Mbps}}\n",
    )
    found = Market(estate, continuity).cheapest(things_of(estate, continuity))
    places = {(one.thing, one.site) for one in found.options}
    big = next(site for thing, site in places if thing == "big")
    assert ("corpus", big) in places


def test_P21_data_that_may_not_be_in_a_cloud_is_not() -> None:
    text = OBJECTIVES.replace("quick: {rpo: 5 min, rto: 1 h}", "quick: {rpo: 5 min, rto: 8 h, data_class: secret}")
    free, tied = given(objectives=text + "classes: {secret: {rpo: 1 h}}\n"), given(objectives=text + "classes: {secret: {cloud: false}}\n")
    places = [
        {one.site for one in Market(*pair).cheapest(things_of(*pair)).options if one.thing in ("one", "two")} for pair in (free, tied)
    ]
    assert CLOUD in places[0]
    assert CLOUD not in places[1]


def test_what_cannot_be_met_is_named_and_in_no_price() -> None:
    estate, continuity = given(objectives=OBJECTIVES.replace("rto: 8 h", "rto: 1 min"))
    found = price(estate, continuity)
    assert found.chosen.unmet == ("big",)
    assert {one.thing for one in found.chosen.options} == {"one", "two"}


def test_unknown_restore_time_meets_no_objective() -> None:
    estate, continuity = given(ESTATE.replace("checkpoint: 100 GB, restore: 5 min, objective: quick}\n  two", "objective: quick}\n  two"))
    found = price(estate, continuity)
    one = next(option for option in found.chosen.options if option.thing == "one")
    assert one.pattern is Pattern.ACTIVE_ACTIVE
    assert "one: size of its state" in found.chosen.gaps
    assert any("only a pattern without restore is sure for one" in line for line in found.binds)


def test_a_training_job_never_runs_twice() -> None:
    estate, continuity = given()
    market = Market(estate, continuity)
    patterns = {one.pattern for one in market.options(things_of(estate, continuity))["big"]}
    assert patterns == set(Pattern) - {Pattern.ACTIVE_ACTIVE}
    assert next(one for one in price(estate, continuity).patterns if one.pattern is Pattern.ACTIVE_ACTIVE).others == ("big",)


def test_guesses_are_told_apart_from_what_was_given() -> None:
    found = price(*given())
    guessed = {one.name for one in found.guesses}
    assert {name for name in guessed if name.startswith("prices.")} == {"prices.egress_gb"}
    assert "assumptions.events_a_year" in guessed
    assert "prices.labour_hour" in {one.name for one in price(*given(objectives=OBJECTIVES.replace(", labour_hour: 100", ""))).guesses}
