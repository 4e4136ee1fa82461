"""Runbooks of points: one moment over a workload's model and its databases, with the application's own hooks around it (R10, R16)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import SiteId, StepId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import HookPoint, Protected, Recovery
from bridgehead.model.runbook import Runbook, Step
from bridgehead.recovery.actions.capturing import CaptureContext, CaptureParams
from bridgehead.recovery.actions.consistency import (
    GoOn,
    GoOnParams,
    HoldDatabases,
    HoldDatabasesParams,
    KeepPoint,
    KeepPointParams,
)
from bridgehead.recovery.actions.hooks import HooksParams, RunHooks
from bridgehead.recovery.actions.training import Hold, HoldParams
from bridgehead.recovery.steps import Maker

BEFORE, CONTEXT, HOLD, PIN, GO_ON, AFTER, KEEP = (StepId(name) for name in ("before", "context", "hold", "pin", "go-on", "after", "keep"))
SLACK_S = 60.0


class PointPlan(msgspec.Struct, frozen=True):
    """A point of which workload, at which site.

    Attributes:
        folder: on the controller's machine: copies until they are in the vault, results of hooks.
    """

    name: str
    recovery: Recovery
    workload: Protected
    site: SiteId
    folder: str

    @property
    def trains(self) -> bool:
        """A trainer is asked for a checkpoint."""
        return self.workload.kind is WorkloadKind.TRAINING

    @property
    def text(self) -> str:
        """What it does to whom."""
        one = self.workload
        parts = []
        if self.trains:
            parts.append(f"the trainer saves, holds, and goes on when the databases are pinned (it has {one.patience_s:g} s)")
        if one.databases:
            parts.append(f"writers of {', '.join(db.id for db in one.databases)} stand still for {one.pause_s:g} s at most")
        hooks = [hook.id for hook in one.hooks if hook.at in (HookPoint.BEFORE_SNAPSHOT, HookPoint.AFTER_SNAPSHOT)]
        if hooks:
            parts.append(f"hooks {', '.join(hooks)} are run")
        return f"A point of {one.id} at {self.site}: {'; '.join(parts)}."


def point_runbook(plan: PointPlan) -> Runbook:
    """Hooks before; the trainer holds; all databases are pinned; the trainer and the application go on; the copies go into the vault."""
    one, maker = plan.workload, Maker(plan.recovery)
    before = tuple(hook for hook in one.hooks if hook.at is HookPoint.BEFORE_SNAPSHOT)
    after = tuple(hook for hook in one.hooks if hook.at is HookPoint.AFTER_SNAPSHOT)
    steps: list[Step] = []
    last: list[StepId] = []
    if before or after:
        limit_s = maker.deadlines.step_s + sum(hook.timeout_s for hook in before)
        params = HooksParams(one.id, plan.site, plan.folder, before, undo=after)
        steps.append(maker.step(BEFORE, RunHooks.name, params, needs=last, title="the application makes ready", deadline_s=limit_s))
        last = [BEFORE]
    if one.capture is not None:
        capture = CaptureParams(one.capture, plan.folder)
        title, limit_s = "code, data and configuration", maker.deadlines.copy_s
        steps.append(maker.step(CONTEXT, CaptureContext.name, capture, needs=last, title=title, deadline_s=limit_s))
        last = [CONTEXT]
    if plan.trains:
        job = one.job(plan.site).name
        hold = HoldParams(one.id, plan.site, job, one.patience_s)
        limit_s = max(maker.deadlines.step_s, one.patience_s + SLACK_S)
        steps.append(maker.step(HOLD, Hold.name, hold, needs=last, title=f"{one.id} saves, and holds", deadline_s=limit_s))
        last = [HOLD]
    if one.databases:
        pin = HoldDatabasesParams(one.databases, plan.folder, one.pause_s)
        steps.append(maker.step(PIN, HoldDatabases.name, pin, needs=last, title="all databases at one moment"))
        last = [PIN]
    keep = KeepPointParams(
        one.id,
        plan.site,
        one.databases,
        hold=HOLD if plan.trains else None,
        pinned=PIN if one.databases else None,
        context=CONTEXT if one.capture is not None else None,
        serves=one.served if one.service is not None else None,
    )
    needs = [step for step in (HOLD, PIN, CONTEXT) if step in {made.id for made in steps}]
    title, copy_s = f"the point in the vault of {plan.site}", maker.deadlines.copy_s
    steps.append(maker.step(KEEP, KeepPoint.name, keep, needs=needs, title=title, deadline_s=copy_s))
    if plan.trains:
        go_on = GoOnParams(plan.site, one.job(plan.site).name, HOLD)
        steps.append(maker.step(GO_ON, GoOn.name, go_on, needs=[HOLD, *last], title=f"{one.id} goes on"))
        last = [GO_ON]
    if after:
        limit_s = maker.deadlines.step_s + 3 * sum(hook.timeout_s for hook in after)
        params = HooksParams(one.id, plan.site, plan.folder, after)
        steps.append(maker.step(AFTER, RunHooks.name, params, needs=last, title="the application goes on", deadline_s=limit_s))
    return Runbook(plan.name, tuple(steps), description=plan.text)
