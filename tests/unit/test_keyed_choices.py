"""Ids that are one word of a choice (phases of a plan, steps of a wave): read as that choice, wrong words refused (M7.1, M7.4)."""

from __future__ import annotations

import pytest

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import BadFile
from bridgehead.model.plan import PhaseId, Plan, PlannedPhase, Score, read_plan, write_plan

PLAN = Plan(
    name="move",
    source=SiteId("a"),
    target=SiteId("b"),
    estate="e",
    policy="p",
    begins_s=0.0,
    ends_s=10.0,
    score=Score((), 0.0, 0.0),
    phases=(PlannedPhase(PhaseId.LINK_KEPT, 0.0, 10.0),),
)


def test_plan_with_phases_reads_back_as_it_was() -> None:
    again = read_plan(write_plan(PLAN), file="plan.yaml")
    assert again == PLAN
    assert again.phases[0].id is PhaseId.LINK_KEPT


def test_unknown_phase_is_refused_by_name() -> None:
    with pytest.raises(BadFile) as refused:
        read_plan(write_plan(PLAN).replace("link-kept", "link-keept"), file="plan.yaml")
    assert "link-kept" in refused.value.faults[0].expected
