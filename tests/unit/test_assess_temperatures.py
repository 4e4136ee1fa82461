"""Temperatures and differences of temperatures: one is read on a thermometer, the other is a step in kelvin (rules section 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.app.assess import assess, quantity
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.located import BadFile
from bridgehead.kernel.quantity import parse
from bridgehead.kernel.units import Dimension
from bridgehead.model.estatefile import read_estate
from bridgehead.model.finding import Finding, Input
from bridgehead.model.policy import read_policy

WHOLE = Path(__file__).parents[1] / "fixtures" / "assess"


def findings() -> tuple[Finding, ...]:
    policy = read_policy((WHOLE / "policy.yaml").read_text(encoding="utf-8"), file="policy.yaml")
    text = (WHOLE / "whole.yaml").read_text(encoding="utf-8")
    estate = read_estate(text, file="estate.yaml", objectives={one.id for one in policy.objectives})
    return assess(estate, policy=policy).findings


def finding(code: str, subject: str) -> Finding:
    return next(one for one in findings() if (one.code, one.subject) == (code, subject))


def given(one: Finding, name: str) -> Input:
    return next(item for item in one.inputs if item.name == name)


def test_a_rise_is_shown_as_a_difference() -> None:
    rise = given(finding("COOL-FLOW", "b/loop:wet"), "ΔT")
    assert rise.unit == "K"
    assert quantity(rise.value, rise.unit) == "10 K"


def test_a_temperature_is_shown_as_on_a_thermometer() -> None:
    dew = finding("COOL-DEW", "b/loop:wet")
    supply = given(dew, "supply")
    assert (supply.value, supply.unit, dew.unit) == (dew.value, "°C", "°C")
    assert quantity(dew.value, dew.unit).endswith(" °C")
    assert isinstance(dew.value, float)
    assert 0 < dew.value < 60


@pytest.mark.parametrize(
    ("text", "instead"),
    [("10 °C", "10 K"), ("18 °F", "10 K"), ("12 degC", "12 K"), ("-261.15 °C", "a temperature difference with its unit, such as '10 K'")],
)
def test_a_difference_in_degrees_is_refused_and_told_in_kelvin(text: str, instead: str) -> None:
    with pytest.raises(BridgeheadError, match="a difference is written in kelvin") as caught:
        parse(text, Dimension.TEMPERATURE_DIFFERENCE)
    assert caught.value.remedy in (f"Write '{instead}'.", f"Write {instead}.")


def test_a_rise_in_degrees_never_makes_an_airflow_pass() -> None:
    """Read as 283.15 K it would need a twenty-eighth of the air."""
    text = "estate: t\nsites:\n  a:\n    loops:\n      air: {kind: air, flow: 100 L/s, rise: 10 °C}\n"
    with pytest.raises(BadFile, match=r"estate.yaml:5:\d+: sites.a.loops.air.rise: .*kelvin"):
        read_estate(text, file="estate.yaml")


def test_the_air_can_be_computed_again_from_the_inputs_that_are_shown() -> None:
    one = finding("COOL-FLOW", "b/loop:air")
    heat_w, rise_k, ratio = (given(one, name).value for name in ("heat", "ΔT", "pressure ratio"))
    cfm = 3.412 * float(heat_w or 0) / (1.085 * float(rise_k or 0) * 1.8) / float(ratio or 0)
    assert one.value == pytest.approx(cfm * 0.3048**3 / 60, rel=1e-3)


def test_the_best_interval_can_be_computed_again_from_the_inputs_that_are_shown() -> None:
    one = next(one for one in findings() if one.code == "RSV-INTERVAL" and one.value is not None)
    every_s, save_s, hours, gpus = (
        float(given(one, name).value or 0) for name in ("interval", "save", "GPU-hours per interruption", "GPUs")
    )
    assert one.value == pytest.approx(save_s / every_s + every_s / (2 * hours * 3600 / gpus), rel=1e-6)
