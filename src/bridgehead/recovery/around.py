"""Around: the programs that a recovery file puts before and after the recovery of a workload, as steps (R16)."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.kernel.ids import StepId
from bridgehead.model.recovery import Hook, HookPoint
from bridgehead.model.runbook import Step
from bridgehead.recovery.actions.hooks import HooksParams, RunHooks
from bridgehead.recovery.steps import Case, Maker


def before(maker: Maker, case: Case, *, folder: str, needs: Sequence[StepId]) -> list[Step]:
    """The step ``before-<workload>``, which everything that changes the workload has to need; nothing without such hooks.

    Undone, it runs those after: the other half comes, whatever happened.
    """
    hooks = _at(case, HookPoint.BEFORE_RECOVERY)
    if not hooks:
        return []
    params = HooksParams(case.id, case.target, folder, hooks, undo=_at(case, HookPoint.AFTER_RECOVERY))
    title = f"what comes before the recovery of {case.id}"
    return [maker.step(case.step("before"), RunHooks.name, params, needs=needs, title=title, deadline_s=_limit_s(maker, hooks))]


def after(maker: Maker, case: Case, *, folder: str) -> list[Step]:
    """The step ``after-<workload>``, when it works. No milestone waits for it: it works already."""
    hooks = _at(case, HookPoint.AFTER_RECOVERY)
    if not hooks:
        return []
    params = HooksParams(case.id, case.target, folder, hooks)
    title = f"what comes after the recovery of {case.id}"
    return [
        maker.step(case.step("after"), RunHooks.name, params, needs=[case.step("ready")], title=title, deadline_s=_limit_s(maker, hooks))
    ]


def _at(case: Case, at: HookPoint) -> tuple[Hook, ...]:
    return tuple(hook for hook in case.workload.hooks if hook.at is at)


def _limit_s(maker: Maker, hooks: Sequence[Hook]) -> float:
    return maker.deadlines.step_s + 3 * sum(hook.timeout_s for hook in hooks)
