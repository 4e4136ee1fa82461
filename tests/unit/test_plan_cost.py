"""Money: vectors CO1 to CO5 of the rules, both worked cases of M11, what is guessed, what is unknown, what decides (M11, P22)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.plan_files import Planned, load_planned
from bridgehead.cli.main import call
from bridgehead.model.finding import Origin
from bridgehead.model.logistics import Prices
from bridgehead.model.policy import Policy, RiskEstimate
from bridgehead.planning.cost import Cost, cost_of
from bridgehead.planning.cost_lines import Group
from bridgehead.planning.cost_math import downtime_h, energy_cost, outage_cost, payback_months, through_losses

CASES = Path(__file__).parents[2] / "examples" / "business-case"


def case(name: str) -> Planned:
    folder = CASES / name
    return load_planned(folder / "plan.yaml", folder / "estate.yaml", folder / "policy.yaml")


@pytest.fixture(scope="module")
def v100() -> Planned:
    return case("six-weeks")


@pytest.fixture(scope="module")
def a100() -> Planned:
    return case("holiday-weekend")


def counted(given: Planned, **prices: float | None) -> Cost:
    policy = (
        msgspec.structs.replace(given.policy, prices=msgspec.structs.replace(given.policy.prices, **prices)) if prices else given.policy
    )
    return cost_of(given.plan, given.estate, policy)


def amounts(found: Cost) -> dict[str, float | None]:
    return {line.id: line.amount for line in found.lines}


def test_CO1_energy() -> None:
    assert energy_cost(1000 * 8760, pue=1.3, per_kwh=0.12) == pytest.approx(1_366_560)


def test_CO2_losses_in_series() -> None:
    assert through_losses(100, 0.05, 0.015) == pytest.approx(106.87, rel=1e-3)


def test_CO3_payback() -> None:
    assert payback_months(2.8e6, saved_year=4e6) == pytest.approx(8.4)
    assert payback_months(2.8e6, saved_year=0) is None
    assert payback_months(-1, saved_year=0) == 0


def test_CO4_outage() -> None:
    assert outage_cost(47, per_hour=5.6e6) == pytest.approx(73_111, rel=1e-3)


def test_CO5_availability() -> None:
    assert downtime_h(0.9995) == pytest.approx(4.38)


def test_M11_two_thousand_v100_in_six_weeks(v100: Planned) -> None:
    assert sum(node.gpus for site in v100.estate.sites for node in site.nodes) == 2000
    found = counted(v100)
    days = next(one for line in found.lines for one in line.inputs if one.name == "days both sites run")
    assert days.value == pytest.approx(42)
    assert found.complete
    assert found.extra == pytest.approx(2.8e6, rel=1e-3)
    assert found.saved_year == pytest.approx(4e6, rel=1e-3)
    assert found.payback_months == pytest.approx(8.4, rel=1e-3)


def test_M11_eight_hundred_a100_over_a_holiday_weekend(a100: Planned) -> None:
    assert sum(node.gpus for site in a100.estate.sites for node in site.nodes) == 800
    (drives,) = [one for one in a100.plan.transfers if one.courier]
    assert drives.size_bytes == 50e12
    assert drives.ends_s - drives.begins_s == pytest.approx(57.7 * 3600, rel=1e-3)  # MV7
    window = a100.policy.windows[0]
    done_s = max(swing.ends_s for swing in a100.plan.swings)
    assert window.ends_s - done_s == 12 * 3600
    assert amounts(counted(a100))["courier"] == 3800


def test_every_line_is_the_product_of_its_inputs(v100: Planned, a100: Planned) -> None:
    for given in (v100, a100):
        for line in counted(given).lines:
            values = [one.value for one in line.inputs]
            if line.amount is not None:
                assert abs(line.amount) == pytest.approx(math.prod(float(str(value)) for value in values))
            assert all(one.source or one.unit.startswith(("d", "h")) for one in line.inputs)


def test_totals_are_sums_of_their_lines(v100: Planned) -> None:
    found = counted(v100)
    sums = {group: sum(line.amount or 0 for line in found.group(group)) for group in Group}
    assert found.total == pytest.approx(sums[Group.MOVE])
    assert found.extra == pytest.approx(sums[Group.MOVE] - sums[Group.OTHERWISE])
    assert found.saved_year == pytest.approx(sums[Group.SAVING])


def test_what_nobody_gave_is_a_guess_or_unknown_and_never_nothing(v100: Planned) -> None:
    policy = msgspec.structs.replace(v100.policy, prices=Prices(), risks=(RiskEstimate(id="fire", cost=10.0),))
    found = cost_of(v100.plan, v100.estate, policy)
    by_id = {line.id: line for line in found.lines}
    assert by_id["site-target"].amount is None
    assert by_id["site-target"].origin is Origin.MISSING
    assert by_id["risk-fire"].amount is None
    assert by_id["lost"].origin is Origin.GUESS
    assert by_id["lost"].amount == pytest.approx(2 * v100.plan.score.lost_gpu_hours)
    assert not found.complete
    assert found.payback_months is None
    assert "policy.prices.gpu_hour" in found.guesses
    assert {"policy.prices.target_site_day", "policy.prices.saved_year", "policy.risks.fire.probability"} <= set(found.unknown)


def test_price_in_another_currency_is_unknown_and_not_added(v100: Planned) -> None:
    policy = msgspec.structs.replace(v100.policy, currency="EUR")
    found = cost_of(v100.plan, v100.estate, policy)
    assert amounts(found)["energy-source"] is None
    assert "sites.old-hall.energy_price, which is in USD" in found.unknown


def test_insurance_counts_once(v100: Planned) -> None:
    assert "insurance" not in amounts(counted(v100))  # trips are priced with the insurance of their load
    assert amounts(counted(v100, insurance_share=0.01))["insurance"] == pytest.approx(0.01 * 2000 * 9000)


def test_gpus_of_shrunk_workloads_are_lost_and_not_idle_too(a100: Planned) -> None:
    wave = a100.plan.waves[0]
    away_h = (wave.joins_s - wave.out_s) / 3600
    idle = next(one for line in counted(a100).lines for one in line.inputs if one.name == "GPU-hours in transit")
    assert idle.value == pytest.approx((800 - 680) * away_h)


def test_sensitivity_ranks_by_effect(v100: Planned) -> None:
    found = counted(v100)
    spans = [abs((one.payback_more or 0) - (one.payback_less or 0)) for one in found.sensitivity]
    assert spans == sorted(spans, reverse=True)
    site = next(one for one in found.sensitivity if one.input == "a day of the target")
    assert site.more == pytest.approx(0.2 * (amounts(found)["site-target"] or 0))
    more = counted(v100, target_site_day=1.2 * (v100.policy.prices.target_site_day or 0))
    assert more.payback_months == pytest.approx(site.payback_more)


def test_dearer_price_never_makes_it_cheaper(v100: Planned) -> None:
    before = counted(v100)
    for field in ("gpu_hour", "target_site_day", "link_day", "planning_hour"):
        assert counted(v100, **{field: 1e4 + (getattr(v100.policy.prices, field) or 0)}).extra > before.extra


def test_order_of_estate_and_policy_changes_nothing(v100: Planned) -> None:
    estate = msgspec.structs.replace(
        v100.estate,
        sites=tuple(msgspec.structs.replace(site, nodes=site.nodes[::-1], racks=site.racks[::-1]) for site in v100.estate.sites[::-1]),
        workloads=v100.estate.workloads[::-1],
        links=v100.estate.links[::-1],
    )
    policy: Policy = msgspec.structs.replace(v100.policy, risks=v100.policy.risks[::-1])
    other = cost_of(v100.plan, estate, policy)
    found = counted(v100)
    assert {one: value and round(value, 4) for one, value in amounts(other).items()} == {
        one: value and round(value, 4) for one, value in amounts(found).items()
    }
    assert other.extra == pytest.approx(found.extra)


def words(name: str) -> list[str]:
    folder = CASES / name
    return ["cost", str(folder / "plan.yaml"), "--estate", str(folder / "estate.yaml"), "--policy", str(folder / "policy.yaml")]


def test_verb_prints_lines_totals_and_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(words("holiday-weekend")) == 0
    out = capsys.readouterr().out
    assert "unknown  Risk: courier-lost" in out
    assert "Unknown: policy.risks.courier-lost.cost" in out
    assert call(words("six-weeks")) == 0
    out = capsys.readouterr().out
    assert "2,800,000 USD" in out
    assert "8.4 months" in out


def test_verb_takes_the_files_beside_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("plan", "estate", "policy"):
        (tmp_path / f"{name}.yaml").write_text((CASES / "six-weeks" / f"{name}.yaml").read_text())
    assert call(["cost", str(tmp_path / "plan.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    (tmp_path / "policy.yaml").unlink()
    assert call(["cost", str(tmp_path / "plan.yaml")]) == 2
    assert "Name the policy with --policy" in capsys.readouterr().err


def test_verb_json_has_inputs_with_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*words("six-weeks"), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["currency"] == "USD"
    assert data["notes"] == []
    lost = next(line for line in data["lines"] if line["id"] == "lost")
    assert lost["formula"] == "GPU-hours lost × a GPU-hour"
    assert [one["origin"] for one in lost["inputs"]] == ["derived", "declared"]


def test_files_that_are_not_the_plans_own_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text((CASES / "six-weeks" / "policy.yaml").read_text().replace("gpu_hour: 1.2", "gpu_hour: 2"))
    assert call([*words("six-weeks")[:-1], str(policy)]) == 0
    assert "policy.yaml is not the policy that the plan was made for" in capsys.readouterr().out
