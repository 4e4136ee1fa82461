"""Views: what people and scripts see of a run. Pure; made from its state."""

from __future__ import annotations

import datetime
from typing import assert_never

import msgspec

from bridgehead.app.runs import mode_word
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model.event import Phase
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, Step, TaskStep
from bridgehead.runbook import state as st
from bridgehead.runbook.gates import judge


class StepView(msgspec.Struct, frozen=True):
    """One step. ``state`` is a word of the engine's; ``detail`` says what it waits for or what came of it."""

    id: StepId
    title: str
    kind: str
    state: str
    detail: str
    deadline_s: float | None
    """When it fails if nothing happens; seconds since the Unix epoch."""


class RunView(msgspec.Struct, frozen=True):
    """A run. ``waits_for`` lists, in plain words, what has to happen next and who has to do it."""

    run: RunId
    runbook: str
    mode: str
    reason: str
    opened_s: float
    last_s: float
    epoch: int
    driver: str
    steps: tuple[StepView, ...]
    waits_for: tuple[str, ...]
    what_you_can_do: tuple[str, ...]


def view(state: st.RunState, *, driver: str) -> RunView:
    """The whole run. ``driver``: who drives it now, "" for nobody."""
    steps = tuple(step_view(state, step_id) for step_id in state.plan.steps)
    return RunView(
        run=state.run,
        runbook=state.plan.runbook.name,
        mode=mode_word(state),
        reason=_reason(state),
        opened_s=state.opened_s,
        last_s=state.last_s,
        epoch=state.epoch,
        driver=driver,
        steps=steps,
        waits_for=tuple(_waits_for(state, steps, driver)),
        what_you_can_do=tuple(_verbs(state, driver)),
    )


def step_view(state: st.RunState, step_id: StepId) -> StepView:
    """One step."""
    plan_step, step = state.plan.steps[step_id], state.steps[step_id]
    title = plan_step.title or step_id
    return StepView(step_id, title, _kind(plan_step), _word(step), _detail(plan_step, step), _deadline_s(state, plan_step, step))


def clock_time(at_s: float) -> str:
    """Local wall time with seconds, for people."""
    return datetime.datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _kind(step: Step) -> str:
    match step:
        case ActionStep():
            return step.action
        case GateStep():
            return "gate"
        case ApprovalStep():
            return "approval"
        case TaskStep():
            return "task"
        case HoldStep():
            return "hold"
        case _:
            assert_never(step)


def _word(step: st.StepState) -> str:
    match step:
        case st.Working():
            if step.looking:
                return "looking"
            return {Phase.PRECHECK: "checking", Phase.APPLY: "working", Phase.VERIFY: "verifying", Phase.UNDO: "undoing"}[step.phase]
        case st.Finished():
            return "done"
        case st.Broken():
            return "failed"
        case st.Undone():
            return "kept" if step.kept else "undone"
        case st.Assigned(undoing=True):
            return "assigned (undo)"
        case _:
            return str(step.__struct_config__.tag)


def _detail(plan_step: Step, step: st.StepState) -> str:
    match step:
        case st.Working():
            if step.error:
                return f"attempt {step.attempt}; {step.error}"
            return ", ".join(f"{key} {value}" for key, value in step.progress.items())
        case st.Undoing():
            return step.error or "taking it back"
        case st.Broken():
            return step.reason
        case st.Stuck():
            return f"{step.reason} -> {step.instruction}"
        case st.Measuring():
            assert isinstance(plan_step, GateStep)
            judgement = judge(plan_step, step.samples)
            return f"{judgement.verdict.value}: {judgement.text}" + ("; a person was called" if step.paged else "")
        case st.Asking():
            assert isinstance(plan_step, ApprovalStep)
            return f"{len(step.approved_by)} of {plan_step.quorum} approvals; asked: {', '.join(plan_step.approvers)}"
        case st.Assigned():
            assert isinstance(plan_step, TaskStep)
            items = plan_step.undo_checklist if step.undoing else plan_step.checklist
            return f"{plan_step.owner}: {'; '.join(items)}"
        case st.Finished():
            return ", ".join(f"{key} {_short(value)}" for key, value in {**step.applied, **step.verified}.items())
        case _:
            return ""


def _short(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _deadline_s(state: st.RunState, plan_step: Step, step: st.StepState) -> float | None:
    if not isinstance(step, st.Working | st.Measuring | st.Asking | st.Assigned | st.Holding | st.Undoing):
        return None
    if isinstance(step, st.Undoing):
        limit_s = plan_step.undo_deadline_s if isinstance(plan_step, ActionStep) else 0.0
    else:
        limit_s = plan_step.hold_s if isinstance(plan_step, HoldStep) else plan_step.deadline_s
    return step.started_s + limit_s + state.paused_total_s - step.paused_before_s


def _reason(state: st.RunState) -> str:
    match state.mode:
        case st.Backward(reason=reason) | st.OnHold(reason=reason) | st.NeedsPerson(reason=reason) | st.Ended(reason=reason):
            return reason
        case _:
            return ""


def _waits_for(state: st.RunState, steps: tuple[StepView, ...], driver: str) -> list[str]:
    match state.mode:
        case st.Ended():
            return []
        case st.NeedsPerson() | st.Abandoning():
            return [f"a person, at step '{step.id}': {step.detail}" for step in steps if step.state == "stuck"]
        case st.OnHold():
            return ["an operator who resumes or aborts it"]
        case _:
            pass
    lines = [] if driver else [f"a process that drives it: `bridgehead run resume {state.run}`"]
    for step in steps:
        if step.id in state.active and step.state != "failed":
            until = "" if step.deadline_s is None else f" (until {clock_time(step.deadline_s)})"
            lines.append(f"step '{step.id}', {step.state}{until}{': ' + step.detail if step.detail else ''}")
    return lines


def _verbs(state: st.RunState, driver: str) -> list[str]:
    run = state.run
    match state.mode:
        case st.Ended(verdict=verdict):
            return [f"bridgehead run undo {run}"] if verdict == "done" else []
        case st.OnHold():
            return [f"bridgehead run resume {run}", f"bridgehead run abort {run}"]
        case st.NeedsPerson() | st.Abandoning():
            return [
                f"bridgehead run resume {run}   (after the cause is gone: tries the undo again)",
                f"bridgehead run abort {run}   (ends here)",
            ]
        case _:
            pass
    verbs = [f"bridgehead run watch {run}" if driver else f"bridgehead run resume {run}"]
    for step_id, step in state.steps.items():
        if isinstance(step, st.Asking):
            verbs.append(f"bridgehead run approve {run} {step_id} --as NAME")
        if isinstance(step, st.Assigned):
            verbs.append(f"bridgehead run done {run} {step_id} --as NAME --evidence TEXT")
    return [*verbs, f"bridgehead run pause {run}", f"bridgehead run abort {run}"]
