"""Limits: which steps stand back because as many of their kind as may be are under way (R14). Pure; part of ``decide``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bridgehead.kernel.ids import StepId
from bridgehead.model.runbook import ActionStep
from bridgehead.runbook import state as st

if TYPE_CHECKING:
    from bridgehead.runbook.decide import Flight


def standing_back(state: st.RunState, order: Iterable[StepId], flights: Mapping[StepId, Flight], now_s: float) -> frozenset[StepId]:
    """Steps that may not call anything now.

    A step that is at work has its place: its call is out, or will be polled, or its next phase begins. One that waits for its next try
    has none until that is due; what is left then goes to those first, and to those that could begin last, each in the given order.

    Args:
        order: the steps to be looked at, as the runbook has them.
    """
    free = dict(state.plan.runbook.limits)
    if not free:
        return frozenset()
    between: list[tuple[str, StepId]] = []
    again: list[tuple[str, StepId]] = []
    fresh: list[tuple[str, StepId]] = []
    for step_id in order:
        plan_step = state.plan.steps[step_id]
        if not isinstance(plan_step, ActionStep) or plan_step.limit not in free:
            continue
        match state.steps[step_id]:
            case st.Working() if step_id in flights:
                free[plan_step.limit] -= 1
            case st.Working(retry_at_s=0.0):
                between.append((plan_step.limit, step_id))
            case st.Working(retry_at_s=retry_at_s) if now_s >= retry_at_s:
                again.append((plan_step.limit, step_id))
            case st.Waiting():
                fresh.append((plan_step.limit, step_id))
            case _:
                pass
    back: set[StepId] = set()
    for limit, step_id in (*between, *again, *fresh):
        if free[limit] > 0:
            free[limit] -= 1
        else:
            back.add(step_id)
    return frozenset(back)
