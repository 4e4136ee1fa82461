"""Prices of random estates: tightening never makes cheaper, a further option never dearer, and the order of things changes nothing (R3)."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Dataset, DatasetId, Estate, Link, LinkId, ObjectiveId, Site, Workload, WorkloadKind
from bridgehead.model.objective import Objective
from bridgehead.model.objectivefile import Continuity
from bridgehead.model.tariff import Tariff
from bridgehead.recovery.objectives.choice import cheapest
from bridgehead.recovery.objectives.pricing import Market
from bridgehead.recovery.objectives.thing import things_of

SITES = tuple(SiteId(name) for name in "abc")
TIMES = (60.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Estate, Continuity]:
    count = draw(st.integers(1, 4))
    workloads = []
    for number in range(count):
        gpus = draw(st.sampled_from([0, 2, 8]))
        workloads.append(
            Workload(
                WorkloadId(f"w{number}"),
                draw(st.sampled_from([WorkloadKind.TRAINING, WorkloadKind.INFERENCE, WorkloadKind.SERVICE])),
                draw(st.sampled_from(SITES)),
                gpus=gpus,
                gpu_model="H100",
                checkpoint_bytes=draw(st.sampled_from([None, 10**11, 10**13])),
                restore_s=draw(st.sampled_from([None, 60.0, 3600.0])),
                objective=ObjectiveId(f"o{draw(st.integers(0, 1))}"),
                pausable=draw(st.booleans()),
                needs=(f"w{number - 1}",) if number and draw(st.booleans()) else (),
                datasets=(DatasetId("d"),) if draw(st.booleans()) else (),
            )
        )
    sites = tuple(Site(name, nodes=(Node(f"{name}1", gpus=draw(st.sampled_from([0, 8, 32])), gpu_model="H100"),)) for name in SITES)
    links = (Link(LinkId("ab"), (SITES[0], SITES[1]), 10e9), Link(LinkId("bc"), (SITES[1], SITES[2]), 1e9))
    data = Dataset(DatasetId("d"), draw(st.sampled_from(SITES)), 10**14, change_bps=draw(st.sampled_from([None, 0.0, 1e9])))
    objectives = tuple(
        Objective(ObjectiveId(f"o{number}"), draw(st.sampled_from((0.0, *TIMES))), draw(st.sampled_from(TIMES))) for number in range(2)
    )
    prices = Tariff(gpu_month=draw(st.sampled_from([10.0, 1500.0])), link_gbps_month=draw(st.sampled_from([1.0, 225.0])))
    estate = Estate("random", sites, links, datasets=(data,), workloads=tuple(workloads))
    return estate, Continuity("random", objectives, prices=prices)


@_quick
@given(cases(), st.integers(0, 1), st.sampled_from(["rpo_s", "rto_s"]), st.data())
def test_R3_tightening_never_lowers_the_price(case: tuple[Estate, Continuity], which: int, field: str, data: st.DataObject) -> None:
    estate, continuity = case
    objective = continuity.objectives[which]
    before = getattr(objective, field)
    times = [time for time in (0.0, *TIMES) if time < before and (field == "rpo_s" or time > 0)]
    if not times:
        return
    tight = msgspec.structs.replace(objective, **{field: data.draw(st.sampled_from(times))})
    other = msgspec.structs.replace(continuity, objectives=tuple(tight if one is objective else one for one in continuity.objectives))
    market = Market(estate, continuity)
    loose, hard = market.cheapest(things_of(estate, continuity)), market.cheapest(things_of(estate, other))
    assert set(loose.unmet) <= set(hard.unmet)
    if not hard.unmet:
        assert hard.month >= loose.month - 0.005


@_quick
@given(cases(), st.data())
def test_R3_a_further_option_never_raises_the_price(case: tuple[Estate, Continuity], data: st.DataObject) -> None:
    estate, continuity = case
    market = Market(estate, continuity)
    things = things_of(estate, continuity)
    options = market.options(things)
    fewer = {name: [one for one in held if data.draw(st.booleans())] for name, held in options.items()}
    few = cheapest(things, fewer, market.capacity, market.book)
    many = cheapest(things, options, market.capacity, market.book)
    assert set(many.unmet) <= set(few.unmet)
    if not few.unmet:
        assert many.month <= few.month + 0.005


@_quick
@given(cases(), st.randoms(use_true_random=False))
def test_R3_the_order_changes_nothing(case: tuple[Estate, Continuity], random: object) -> None:
    estate, continuity = case

    def mixed(items: tuple[object, ...]) -> tuple[object, ...]:
        shuffled = list(items)
        random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's own
        return tuple(shuffled)

    parts = {name: mixed(getattr(estate, name)) for name in ("sites", "links", "workloads", "datasets")}
    other = msgspec.structs.replace(estate, **parts)
    again = msgspec.structs.replace(continuity, objectives=mixed(continuity.objectives))
    first = Market(estate, continuity).cheapest(things_of(estate, continuity))
    assert Market(other, again).cheapest(things_of(other, again)) == first


@_quick
@given(cases())
def test_R3_the_bound_holds_and_the_sum_is_that_of_its_parts(case: tuple[Estate, Continuity]) -> None:
    estate, continuity = case
    found = Market(estate, continuity).cheapest(things_of(estate, continuity))
    parts = sum(round(100 * sum(line.month for line in one.lines)) for one in found.options) + sum(
        round(100 * one.month) for one in found.bought
    )
    assert abs(found.month - parts / 100) < 0.02
    assert found.bound <= found.month
