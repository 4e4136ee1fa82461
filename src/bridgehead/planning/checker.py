"""The checker of plans: every rule of docs/reference/plan-files.md, asked of any plan that can be read (M6, M7.1; design rule 2). Pure.

It shares no code with the planner (tests/arch/test_plan_checker_apart.py), so that a fault of one is not a fault of both. It works on
events: all moments at which something changes are sorted, and every rule is evaluated exactly at each of them. Power is played through
loss by loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bridgehead.model.estate import Estate
from bridgehead.model.finding import Finding
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Policy
from bridgehead.planning.check_capacity import check_bridgehead, check_reserve_source, check_reserve_target
from bridgehead.planning.check_complete import check_complete, check_needs
from bridgehead.planning.check_cooling import check_cooling
from bridgehead.planning.check_data import check_data
from bridgehead.planning.check_frame import check_for, check_phases, check_prepared
from bridgehead.planning.check_freight import check_apart, check_dock, check_vehicle
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_line import check_line
from bridgehead.planning.check_loss import check_loss, check_mode
from bridgehead.planning.check_minimum import check_minimum
from bridgehead.planning.check_places import check_domain, check_place
from bridgehead.planning.check_power import check_power
from bridgehead.planning.check_score import check_score
from bridgehead.planning.check_spares import check_spares
from bridgehead.planning.check_time import check_deadline, check_lanes, check_window
from bridgehead.planning.check_waves import check_crew, check_wave

Rule = Callable[[Ground], Iterator[Finding]]

RULES: dict[str, Rule] = {
    "PLAN-FOR": check_for,
    "PLAN-PHASES": check_phases,
    "PLAN-PREPARED": check_prepared,
    "PLAN-COMPLETE": check_complete,
    "PLAN-MODE": check_mode,
    "PLAN-LOSS": check_loss,
    "PLAN-WINDOW": check_window,
    "PLAN-LANES": check_lanes,
    "PLAN-NEEDS": check_needs,
    "PLAN-DATA": check_data,
    "PLAN-LINE": check_line,
    "PLAN-RESERVE-SOURCE": check_reserve_source,
    "PLAN-RESERVE-TARGET": check_reserve_target,
    "PLAN-MINIMUM": check_minimum,
    "PLAN-BRIDGEHEAD": check_bridgehead,
    "PLAN-WAVE": check_wave,
    "PLAN-CREW": check_crew,
    "PLAN-VEHICLE": check_vehicle,
    "PLAN-DOCK": check_dock,
    "PLAN-APART": check_apart,
    "PLAN-DOMAIN": check_domain,
    "PLAN-PLACE": check_place,
    "PLAN-POWER": check_power,
    "PLAN-COOLING": check_cooling,
    "PLAN-DEADLINE": check_deadline,
    "PLAN-SPARES": check_spares,
    "PLAN-SCORE": check_score,
}
"""Each rule by its code, in the order of the reference."""


def check(plan: Plan, estate: Estate, policy: Policy) -> tuple[Finding, ...]:
    """All findings, rule by rule: one for each subject, which passes, fails, or is unknown. Never raises for a plan that can be read."""
    ground = Ground(plan, estate, policy)
    return tuple(finding for rule in RULES.values() for finding in rule(ground))
