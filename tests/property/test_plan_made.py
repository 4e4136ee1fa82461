"""Whatever the planner makes of a random estate, the checker accepts; and what is damaged in it is found and named (M6, M7).

``BRIDGEHEAD_PLAN_ESTATES=200`` asks for more of them; bench/plan_checker.py does both in numbers, on larger ones.
"""

from __future__ import annotations

import os
import time
from random import Random

import pytest

from bridgehead.app.example_estate import example
from bridgehead.model.finding import FindingStatus
from bridgehead.planning.checker import check
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.planner import make
from bridgehead.testing.plan_damage import damage_somehow

ESTATES = int(os.environ.get("BRIDGEHEAD_PLAN_ESTATES", "20"))
DAMAGES = 10


@pytest.mark.parametrize("seed", range(ESTATES))
def test_plans_of_random_estates_are_accepted_and_their_damages_found(seed: int) -> None:
    chance = Random(f"made/{seed}")
    given = example(chance.randint(150, 400), seed=seed, hardware=seed % 2 == 0, used=chance.uniform(0.4, 0.7))
    plan = make(given.estate, given.policy, seed=seed, time_limit_s=6.0, now_s=time.monotonic, progress=lambda _: None)
    if isinstance(plan, NoPlan):
        assert given.policy.hardware, "with nodes at the target there is always room"
        return  # too little time: then nothing is handed out
    odd = [
        f"{one.code} {one.subject}: {one.text}" for one in check(plan, given.estate, given.policy) if one.status is not FindingStatus.PASS
    ]
    assert odd == []
    for _ in range(DAMAGES):
        spoiled = damage_somehow(plan, given.estate, given.policy, chance=chance)
        failing = [one for one in check(spoiled.plan, given.estate, given.policy) if one.status is FindingStatus.FAIL]
        for code in spoiled.codes:
            texts = [f"{one.subject} {one.text}" for one in failing if one.code == code]
            assert any(name in text for text in texts for name in spoiled.names), (spoiled.kind, code, spoiled.names, texts)
