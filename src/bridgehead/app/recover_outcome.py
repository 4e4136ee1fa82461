"""Outcome: what a recovery has reached and lost, as its journal tells it. Pure; the contract of ``recover ... --json``."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.app.runs import mode_word
from bridgehead.kernel.ids import RunId, StepId, WorkloadId
from bridgehead.model.runbook import ActionStep
from bridgehead.recovery.actions.losing import MeasureLoss
from bridgehead.recovery.actions.milestones import Milestone, ReachMilestone
from bridgehead.recovery.actions.promotion import PromoteStandby
from bridgehead.recovery.actions.replication import Precopy, Replicate
from bridgehead.recovery.actions.takeover import TakeOver
from bridgehead.recovery.actions.training import ReleaseTarget
from bridgehead.recovery.loss import Loss, Losses, untold
from bridgehead.runbook import state as st

HOUR_S = 3600.0


class Reached(msgspec.Struct, frozen=True):
    """A milestone: when, and how long after the clock of the RTO began."""

    at_s: float
    after_s: float


class RecoveryOutcome(msgspec.Struct, frozen=True):
    """What came of it so far; None: not reached, or not known.

    Attributes:
        mode: of the run.
        rto_s: from the loss of the site (a move: from its beginning) to *serving*.
        rpo_s, rpo_steps, rpo_gpu_hours: what was lost of all workloads that compute; ``rpo_exact``: whether that is the whole truth.
        measured_steps: what the returned site says was lost, by workload; None: it left no word.
        lost_compute_s: of moves, the longest time that a training stood still.
        moved_bytes: what replication of this run sent.
    """

    run: RunId
    mode: str
    reason: str
    milestones: dict[str, Reached | None]
    rto_s: float | None
    rpo_s: float | None
    rpo_steps: int | None
    rpo_gpu_hours: float | None
    rpo_exact: bool
    losses: tuple[Loss, ...]
    measured_steps: dict[WorkloadId, int | None]
    lost_compute_s: float | None
    moved_bytes: int
    ledger_head: str


def outcome_of(state: st.RunState, *, head: str, stated: Losses | None = None) -> RecoveryOutcome:
    """Read it out of the run.

    Args:
        head: hash of its newest entry.
        stated: what was said before; it holds until the run itself knows better. Without it what is not measured yet is unknown.
    """
    done = _done(state)
    released = done.get(ReleaseTarget.name, {})
    known = _losses(state, done, stated)
    milestones = {milestone.value: _reached(done, milestone, state) for milestone in Milestone}
    serving = milestones[Milestone.SERVING.value]
    stood = [evidence.get("lost_compute_s") for evidence in released.values()]
    return RecoveryOutcome(
        run=state.run,
        mode=mode_word(state),
        reason=_reason(state),
        milestones=milestones,
        rto_s=None if serving is None else serving.after_s,
        rpo_s=known.seconds,
        rpo_steps=known.steps,
        rpo_gpu_hours=known.gpu_hours,
        rpo_exact=known.exact,
        losses=known.each,
        measured_steps={WorkloadId(_subject(state, step)): one["lost_steps"] for step, one in done.get(MeasureLoss.name, {}).items()},
        lost_compute_s=max((one for one in stood if one is not None), default=None),
        moved_bytes=sum(one.get("sent_bytes", 0) for name in (Precopy.name, Replicate.name) for one in done.get(name, {}).values()),
        ledger_head=head,
    )


def _losses(state: st.RunState, done: dict[str, dict[StepId, dict[str, Any]]], stated: Losses | None) -> Losses:
    """Of every workload that goes over to another writer: measured, else as stated, else unknown: never nothing for want of a word."""
    taken = [
        WorkloadId(str(step.params["workload"]))
        for step in state.plan.runbook.steps
        if isinstance(step, ActionStep) and step.action == TakeOver.name
    ]
    measured = [msgspec.convert(evidence["loss"], Loss) for evidence in done.get(PromoteStandby.name, {}).values()]
    measured += [_moved(WorkloadId(_subject(state, step)), evidence) for step, evidence in done.get(ReleaseTarget.name, {}).items()]
    best = {one.workload: one for one in (*(stated.each if stated else ()), *measured)}
    for step, evidence in done.get(MeasureLoss.name, {}).items():
        workload = WorkloadId(_subject(state, step))
        if workload in best and evidence.get("lost_steps") is not None:
            best[workload] = _really(best[workload], evidence)
    return Losses(tuple(best.get(one) or untold(one) for one in taken))


def _really(stated: Loss, evidence: dict[str, Any]) -> Loss:
    """What the site said when it had returned counts more than what could be said before."""
    return msgspec.structs.replace(
        stated,
        last_step=evidence["last_step"],
        steps=evidence["lost_steps"],
        seconds=evidence.get("lost_compute_s"),
        exact=bool(evidence["final"]) and evidence.get("lost_compute_s") is not None,
    )


def _moved(workload: WorkloadId, evidence: dict[str, Any]) -> Loss:
    """Of a training that was held: nothing, unless steps were found to be missing."""
    steps, none_lost = evidence.get("lost_steps"), evidence.get("lost_steps") == 0
    snapshot, step = evidence.get("snapshot"), evidence["resumed_step"] - 1
    return Loss(workload, snapshot, step, None, steps, 0.0 if none_lost else None, 0, exact=none_lost)


def is_serving(state: st.RunState) -> bool:
    """The first milestone is reached at every site."""
    return _reached(_done(state), Milestone.SERVING, state) is not None


def _done(state: st.RunState) -> dict[str, dict[StepId, dict[str, Any]]]:
    """Evidence of finished steps, by action and step."""
    found: dict[str, dict[StepId, dict[str, Any]]] = {}
    for step_id, step in state.steps.items():
        plan_step = state.plan.steps[step_id]
        if isinstance(step, st.Finished) and isinstance(plan_step, ActionStep):
            found.setdefault(plan_step.action, {})[step_id] = {**step.recorded, **step.applied, **step.verified}
    return found


def _reached(done: dict[str, dict[StepId, dict[str, Any]]], milestone: Milestone, state: st.RunState) -> Reached | None:
    """When the last site has reached it."""
    asked = [
        step.id
        for step in state.plan.runbook.steps
        if isinstance(step, ActionStep) and step.action == ReachMilestone.name and step.params["milestone"] == milestone.value
    ]
    evidence = done.get(ReachMilestone.name, {})
    if not asked or any(step not in evidence for step in asked):
        return None
    last = max((evidence[step] for step in asked), key=lambda one: one["reached_s"])
    return Reached(last["reached_s"], last["after_s"])


def _subject(state: st.RunState, step: StepId) -> str:
    plan_step = state.plan.steps[step]
    assert isinstance(plan_step, ActionStep)
    return str(plan_step.params["workload"])


def _reason(state: st.RunState) -> str:
    match state.mode:
        case st.OnHold(reason=reason) | st.NeedsPerson(reason=reason) | st.Ended(reason=reason) | st.Backward(reason=reason):
            return reason
        case _:
            return ""
