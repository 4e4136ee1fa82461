"""Outcome: what a drill measured, read out of its ledger and held against the objectives (R1, R2, R13). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.app.drills.result import CaseResult, DrillResult, DrillVerdict, FaultResult, Measured, Moment, StepTime
from bridgehead.app.drills.source import Source
from bridgehead.kernel.ids import RunId, SnapshotId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.bubble import fault_name
from bridgehead.ports.journal import Entry
from bridgehead.recovery.drills.runbook import APPROVE, BEFORE, CLOSE, FAULTS, OPEN, DrillCase, DrillPlan, down, kills_of
from bridgehead.recovery.loss import Loss, Losses
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold


class Seen(msgspec.Struct, frozen=True):
    """What was seen outside of the bubble.

    Attributes:
        source: what the homes had.
        losses: of each workload that computes and whose snapshot is known.
        hit: planned faults of lines and blocks that struck in a drill that failed before they were counted.
        left: what could not be removed.
    """

    source: Source = Source()
    losses: Mapping[WorkloadId, Loss] = {}
    hit: frozenset[str] = frozenset()
    left: tuple[str, ...] = ()


def lost_at(plan: DrillPlan, events: Sequence[ev.Event]) -> float | None:
    """When the clock of the RTO began: the bubble was opened, or, where it was lost as a whole, its first job was killed."""
    if plan.goes_down:
        struck = [at_s for case in plan.cases if (at_s := _at(events, down(case.workload))) is not None]
        return min(struck, default=None)
    return _at(events, OPEN)


def proved_by(plan: DrillPlan, events: Sequence[ev.Event]) -> dict[WorkloadId, dict[str, Any]]:
    """What was found of each workload's snapshot when the drill took it up, as production had it."""
    ending = BEFORE if plan.goes_down else ""
    found = {case.workload: _evidence(events, f"prove-{case.workload}{ending}") for case in plan.cases}
    return {workload: evidence for workload, evidence in found.items() if evidence}


def outcome(plan: DrillPlan, run: RunId, entries: Sequence[Entry], seen: Seen, *, recovery: str, by: str, version: str) -> DrillResult:
    """Read the drill out of its ledger."""
    events = [entry.event for entry in entries]
    state = fold(events)
    began_s = lost_at(plan, events)
    proved = proved_by(plan, events)
    cases = tuple(_case(case, events, began_s, proved.get(case.workload, {}), seen) for case in plan.cases)
    hit = set(_evidence(events, FAULTS).get("hit", ())) | _struck(plan, events) | seen.hit
    faults = tuple(FaultResult(name, name in hit) for name in map(fault_name, plan.bubble.faults))
    verdict, reason = _verdict(state, events, cases, faults, seen.left)
    # None for a workload whose trainer's snapshot nobody could look up: a sum with an unknown part is unknown.
    computing = [case for case in cases if case.loss is not None]
    losses = Losses(tuple(case.loss for case in computing if case.loss is not None))
    rto_s = max((case.rto.measured_s for case in cases if case.rto.measured_s is not None), default=None)
    rto_s = rto_s if all(case.recovered for case in cases) else None
    closed_s = _done_at(events, CLOSE)
    return DrillResult(
        drill=plan.name,
        run=run,
        recovery=recovery,
        site=plan.bubble.of,
        by=by,
        approved_by=tuple(str(event.by) for event in events if isinstance(event, ev.Approved) and event.step == APPROVE),
        began_s=began_s if began_s is not None else events[0].at_s,
        ended_s=events[-1].at_s,
        verdict=verdict,
        reason=reason,
        rto_s=rto_s,
        rpo_s=losses.seconds if computing else None,
        rpo_steps=losses.steps if computing else None,
        rpo_gpu_hours=losses.gpu_hours if computing else None,
        rpo_exact=bool(computing) and losses.exact,
        milestones={
            "lost": _moment(began_s, began_s),
            "recovered": _moment(None if rto_s is None or began_s is None else began_s + rto_s, began_s),
            "clean": _moment(None if seen.left else closed_s, began_s),
        },
        cases=cases,
        faults=faults,
        steps=_timeline(plan, state, events),
        left=seen.left,
        network=plan.bubble.network,
        ledger_head=entries[-1].hash,
        entries=len(entries),
        version=version,
    )


def _case(case: DrillCase, events: Sequence[ev.Event], began_s: float | None, proved: Mapping[str, Any], seen: Seen) -> CaseResult:
    ready = _evidence(events, f"ready-{case.workload}")
    done_s = _done_at(events, f"ready-{case.workload}")
    what = ""
    if "resumed_step" in ready:
        what = f"computed step {ready['resumed_step']}"
    elif ready.get("model_hash"):
        what = f"answers with model {ready['model_hash'][:12]}"
    elif done_s is not None:
        what = f"runs as job {ready.get('job', '')}"
    loss = seen.losses.get(case.workload)
    return CaseResult(
        workload=case.workload,
        kind=case.kind,
        recovered=done_s is not None,
        snapshot=str(proved.get("snapshot", "")),
        evidence=what,
        rpo=Measured.against(_behind_s(case, proved, loss, seen.source), case.rpo),
        rto=Measured.against(None if done_s is None or began_s is None else done_s - began_s, case.rto),
        loss=loss,
        passed_over=tuple(proved.get("passed_over", ())),
        raw_bytes=proved.get("raw_bytes"),
    )


def _behind_s(case: DrillCase, proved: Mapping[str, Any], loss: Loss | None, source: Source) -> float | None:
    """Seconds of work that would be lost: of what computes by its loss; of a model nothing while home has no newer one."""
    if case.stored is None or not proved:
        return None
    if loss is not None:
        return loss.seconds
    here = SnapshotId(proved["snapshot"])
    served = here == case.snapshot or source.newest.get(case.workload) == here
    return 0.0 if served else float(proved["age_s"])


def _verdict(
    state: st.RunState, events: Sequence[ev.Event], cases: Sequence[CaseResult], faults: Sequence[FaultResult], left: Sequence[str]
) -> tuple[DrillVerdict, str]:
    failed = broken(events)
    if APPROVE in failed and not left:
        return DrillVerdict.NOT_APPROVED, failed[APPROVE]
    if left:
        return DrillVerdict.FAILED, f"left over: {', '.join(left)}"
    if not isinstance(state.mode, st.Ended) or state.mode.verdict is not ev.Verdict.DONE:
        stopped = next((event.reason for event in events if isinstance(event, ev.AbortAsked)), None)
        if failed:
            return DrillVerdict.FAILED, "; ".join(f"step {step}: {reason}" for step, reason in failed.items())
        return (DrillVerdict.STOPPED, stopped) if stopped else (DrillVerdict.FAILED, "it was not driven to its end")
    missed = [fault.name for fault in faults if not fault.hit]
    if missed:
        return DrillVerdict.FAILED, f"planned and not hit: {', '.join(missed)}"
    late = [f"{case.workload}: {name}" for case in cases for name, one in (("RPO", case.rpo), ("RTO", case.rto)) if one.met is False]
    return (DrillVerdict.MISSED, f"objective missed by {', '.join(late)}") if late else (DrillVerdict.PASSED, "")


def broken(events: Sequence[ev.Event]) -> dict[str, str]:
    """The steps for which the run turned back, and why each could not reach its goal."""
    turned = next((number for number, event in enumerate(events) if isinstance(event, ev.RollbackBegan)), None)
    if turned is None:
        return {}
    before = fold(events[:turned])
    return {step: now.reason for step, now in before.steps.items() if isinstance(now, st.Broken)}


def _struck(plan: DrillPlan, events: Sequence[ev.Event]) -> set[str]:
    """Faults that ended jobs, also in a drill that failed before its faults were counted."""
    return {name for name, steps in kills_of(plan).items() if all(_evidence(events, step).get("ended_running") for step in steps)}


def _timeline(plan: DrillPlan, state: st.RunState, events: Sequence[ev.Event]) -> tuple[StepTime, ...]:
    """Steps that began, in that order."""
    failed = broken(events)
    workloads = [case.workload for case in plan.cases]
    turned_s = next((event.at_s for event in events if isinstance(event, ev.RollbackBegan | ev.AbortAsked)), events[-1].at_s)
    found = []
    for step in state.plan.runbook.steps:
        began_s, done_s = _at(events, step.id), _done_at(events, step.id)
        if began_s is None:
            continue
        name = step.id.removesuffix(BEFORE)
        of = max((workload for workload in workloads if name.endswith(f"-{workload}")), key=len, default="")
        ended_s = done_s if done_s is not None else turned_s
        found.append(StepTime(step.id, step.title, of, began_s, ended_s, done_s is not None, failed.get(step.id, "")))
    return tuple(sorted(found, key=lambda one: one.began_s))


def _moment(at_s: float | None, began_s: float | None) -> Moment | None:
    return None if at_s is None or began_s is None else Moment(at_s, at_s - began_s)


def _at(events: Sequence[ev.Event], step: str) -> float | None:
    return next((event.at_s for event in events if isinstance(event, ev.Intent) and event.step == step), None)


def _done_at(events: Sequence[ev.Event], step: str) -> float | None:
    """When an action step was verified, which is its end."""
    return next(
        (event.at_s for event in events if isinstance(event, ev.PhaseDone) and event.step == step and event.phase is ev.Phase.VERIFY), None
    )


def _evidence(events: Sequence[ev.Event], step: str) -> dict[str, Any]:
    """What apply and verify of a step have shown, the newest of each."""
    found: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ev.PhaseDone) and event.step == step and event.phase in (ev.Phase.APPLY, ev.Phase.VERIFY):
            found |= event.evidence
    return found
