"""The first screen of the report: what binds, where, what next, by when, who, at what cost (M5.3, M5.4)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.app.assess import assess
from bridgehead.app.assess_report.page import render
from bridgehead.app.assess_report.summary import hurdles, subject_words
from bridgehead.kernel.ids import Person
from bridgehead.model.estatefile import read_estate
from bridgehead.model.policy import RiskEstimate, read_policy

WHOLE = Path(__file__).parents[1] / "fixtures" / "assess"


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("b/node:n1", "node n1 of b"),
        ("b/node:n1/nic:m0", "nic m0 of node n1 of b"),
        ("workload:lm", "workload lm"),
        ("a+b", "a and b"),
        ("b", "b"),
        ("b/gpus:H100", "H100 GPUs of b"),
        ("b/acceptance:full", "acceptance test full of b"),
        ("b/incoming:all", "placing all at b"),
    ],
)
def test_subjects_as_people_say_them(subject: str, words: str) -> None:
    assert subject_words(subject) == words


def test_what_binds_comes_first_with_date_owner_and_cost() -> None:
    text = (WHOLE / "whole.yaml").read_text(encoding="utf-8").replace("b: {<<: *hall}", "b: {<<: *hall, power: 10 kW, spare_gpus: 1}")
    policy = read_policy((WHOLE / "policy.yaml").read_text(encoding="utf-8"), file="policy.yaml")
    policy = msgspec.structs.replace(policy, risks=(RiskEstimate("PWR-SITE", Person("kim"), 0.5, 90_000.0),))
    estate = read_estate(text, file="whole.yaml")
    found = assess(estate, policy=policy, now_s=0.0)
    first, *others = hurdles(found)
    assert first.worst is found.binding
    assert (first.where, first.owner, first.cost, first.due) == ("b", "kim", 90_000.0, "2027-01-20")
    assert (first.decides, first.falls_short) == (True, False)
    assert {one.worst.code: (one.decides, one.falls_short) for one in others} == {"RSV-SPARES": (False, True)}
    page = render(found, estate, places={}, made_s=0.0)
    screen = page[: page.index('id="stops"')]
    for said in (
        "1 check that decides fails",
        "12.4 kW",
        "allowed 8 kW",
        "kim",
        "90,000 EUR",
        "2027-01-20",
        "have the site&#39;s power raised",
    ):
        assert said in screen, said
