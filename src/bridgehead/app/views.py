"""Views: what people and scripts see of a run. Pure; made from its state."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from bridgehead.app.runs import mode_word
from bridgehead.app.step_facts import facts
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model.event import Phase, Verdict
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, Step, TaskStep, UndoPolicy
from bridgehead.ports.journal import DriverIdentity
from bridgehead.runbook import state as st
from bridgehead.runbook.gates import judge

LOOKS_ONLY: Final = frozenset(
    {"recovery.confirm-loss", "recovery.measure-loss", "recovery.milestone", "vault.prove", "sites.preflight", "job.grace"}
)
"""Actions that look and change nothing: there is nothing to take back of them, and nothing that stays."""


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
    """A run.

    Attributes:
        reason: why it is in this mode, "" when that needs no reason.
        driver: who drives it now, "" for nobody.
        waits_for: in plain words, what has to happen next and who has to do it.
        what_you_can_do: complete commands, each with a comment behind ``#`` where it is not plain what it does.
    """

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


def view(state: st.RunState, *, driver: str, home_option: str = "") -> RunView:
    """The whole run.

    Args:
        driver: who drives it now, "" for nobody.
        home_option: what commands need to find the run, see ``home.Home.option``.
    """
    steps = tuple(step_view(state, step_id) for step_id in state.plan.steps)
    return RunView(
        run=state.run,
        runbook=state.plan.runbook.name,
        mode=mode_word(state),
        reason=reason_of(state),
        opened_s=state.opened_s,
        last_s=state.last_s,
        epoch=state.epoch,
        driver=driver,
        steps=steps,
        waits_for=tuple(_waits_for(state, steps, driver)),
        what_you_can_do=tuple(_verbs(state, driver, home_option)),
    )


def unreadable(run: RunId, reason: str, *, home_option: str) -> RunView:
    """A run whose journal is damaged."""
    verify = f"bridgehead ledger verify {run}{home_option}"
    return RunView(run, "", "unreadable", reason, 0.0, 0.0, 0, "", (), (), (verify,))


def step_view(state: st.RunState, step_id: StepId) -> StepView:
    """One step."""
    plan_step, step = state.plan.steps[step_id], state.steps[step_id]
    title = plan_step.title or step_id
    return StepView(step_id, title, _kind(plan_step), _word(step), _detail(plan_step, step), _deadline_s(state, plan_step, step))


def changed(state: st.RunState) -> bool:
    """Whether anything may have been done that stays unless it is taken back, or was taken back."""
    return any(_may_have_changed(state.plan.steps[step_id], step) for step_id, step in state.steps.items())


def stays(state: st.RunState) -> bool:
    """A rollback would take nothing back: something was done, and all of it is of steps whose effects stay."""
    touched = [state.plan.steps[step_id] for step_id, step in state.steps.items() if _may_have_changed(state.plan.steps[step_id], step)]
    return bool(touched) and all(isinstance(one, ActionStep) and one.undo is UndoPolicy.KEEP for one in touched)


def driver_text(holder: DriverIdentity | None) -> str:
    """Who drives, "" for nobody."""
    return "" if holder is None else f"process {holder.pid} on {holder.host}"


def clock_time(at_s: float) -> str:
    """Local wall time with seconds, for people."""
    return datetime.datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _looks_only(plan_step: Step) -> bool:
    return isinstance(plan_step, ActionStep) and plan_step.action in LOOKS_ONLY


def _may_have_changed(plan_step: Step, step: st.StepState) -> bool:
    if not isinstance(plan_step, ActionStep | TaskStep) or _looks_only(plan_step):
        return False
    match step:
        case st.Working():
            return step.may_have_changed_the_world
        case st.Broken():
            return step.touched
        case _:
            return isinstance(step, st.Finished | st.Assigned | st.ToUndo | st.Undoing | st.Undone | st.Stuck)


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
            return _trouble(step) if step.error else facts(step.progress)
        case st.Undoing():
            return _trouble(step) if step.error else "is being taken back"
        case st.Broken():
            return _sentences(step.reason, step.remedy)
        case st.Stuck():
            return _sentences(step.reason, step.instruction)
        case st.Undone(kept=True):
            if _looks_only(plan_step):
                return "it only looked: there is nothing to take back"
            return f"its effect stays: {plan_step.undo_reason}" if isinstance(plan_step, ActionStep) else "its effect stays"
        case st.Measuring():
            assert isinstance(plan_step, GateStep)
            judgement = judge(plan_step, step.samples)
            return f"{judgement.verdict.value}: {judgement.text}" + ("; a person was called" if step.paged else "")
        case st.Asking():
            assert isinstance(plan_step, ApprovalStep)
            if step.rejected_by is not None:
                return f"rejected by {step.rejected_by}: whoever drives the run next rolls it back"
            asked = ", ".join(person for person in plan_step.approvers if person not in step.approved_by)
            question = f"{plan_step.text} " if plan_step.text else ""
            return f"{question}{len(step.approved_by)} of {plan_step.quorum} approvals; asked: {asked}"
        case st.Assigned():
            assert isinstance(plan_step, TaskStep)
            items = plan_step.undo_checklist if step.undoing else plan_step.checklist
            return f"{plan_step.owner}: {'; '.join(items)}"
        case st.Finished():
            return facts({**step.applied, **step.verified})
        case _:
            return ""


def _trouble(step: st.Working | st.Undoing) -> str:
    kind, _, what = step.error.partition(": ")
    return f"waits, and tries again: {what}" if kind == "transient" and what else f"attempt {step.attempt}; {step.error}"


def _sentences(*texts: str) -> str:
    return " ".join(f"{text[0].upper()}{text[1:].rstrip('.')}." for text in texts if text)


def _deadline_s(state: st.RunState, plan_step: Step, step: st.StepState) -> float | None:
    if not isinstance(step, st.Working | st.Measuring | st.Asking | st.Assigned | st.Holding | st.Undoing):
        return None
    if not isinstance(state.mode, st.Forward | st.Backward):
        return None  # nothing fails for want of time while the run stands still
    if isinstance(step, st.Undoing):
        limit_s = plan_step.undo_deadline_s if isinstance(plan_step, ActionStep) else 0.0
    else:
        limit_s = plan_step.hold_s if isinstance(plan_step, HoldStep) else plan_step.deadline_s
    deadline_s = step.started_s + limit_s + state.paused_total_s - step.paused_before_s
    until_s = plan_step.until_s if isinstance(plan_step, HoldStep) else None
    return deadline_s if until_s is None else max(deadline_s, until_s)


def reason_of(state: st.RunState) -> str:
    """Why it is in its mode, "" when that needs no reason."""
    match state.mode:
        case st.Backward(reason=reason) | st.NeedsPerson(reason=reason) | st.Ended(reason=reason):
            return reason
        case st.OnHold(by=by, reason=reason, frozen=True):
            return f"{by}: {reason}"
        case st.OnHold(by=by, reason=reason) | st.Abandoning(by=by, reason=reason):
            return f"by {by}: {reason}"
        case st.Forward():
            return ""
        case _:
            assert_never(state.mode)


def _waits_for(state: st.RunState, steps: tuple[StepView, ...], driver: str) -> list[str]:
    match state.mode:
        case st.Ended():
            return []
        case st.NeedsPerson():
            stuck = [(step_id, state.steps[step_id]) for step_id in state.plan.steps]
            if state.mode.differences:
                return [f"a person who finds out why: {text}" for text in state.mode.differences]
            people = [f"a person, at step '{name}': {_sentences(now.instruction)}" for name, now in stuck if isinstance(now, st.Stuck)]
            return people + _later([step.id for step in steps if step.state in ("to-undo", "undoing", "assigned (undo)")])
        case st.OnHold(since_s=since_s, direction=direction):
            onward = "ends, and what it did stays" if stays(state) else "rolls back"
            then = "goes on rolling back" if isinstance(direction, st.Backward) else onward
            expires = clock_time(since_s + state.plan.runbook.pause_expires_s)
            nobody = [] if driver else ["a process that drives it: nobody does now, so the pause does not expire by itself"]
            return [f"an operator who resumes or aborts it, since {clock_time(since_s)}; otherwise it {then} at {expires}", *nobody]
        case st.Abandoning():
            return [] if driver else ["a process that writes down its end"]
        case st.Forward() | st.Backward():
            pass
        case _:
            assert_never(state.mode)
    lines = [] if driver else ["a process that drives it: nobody does now, so nothing happens"]
    for step in steps:
        if step.id in state.active and step.state not in ("failed", "to-undo"):
            until = "" if step.deadline_s is None else f" (until {clock_time(step.deadline_s)})"
            lines.append(f"step '{step.id}', {step.state}{until}{': ' + step.detail if step.detail else ''}")
    return lines + _later([step.id for step in steps if step.state == "to-undo"])


def _later(steps: Sequence[StepId]) -> list[str]:
    """What is still in its changed state, and stays so when a person ends the run."""
    return [f"after that, to be undone: {', '.join(reversed(steps))}"] if steps else []


def _verbs(state: st.RunState, driver: str, home_option: str) -> list[str]:
    def command(verb: str, rest: str = "", *, comment: str = "") -> str:
        text = f"bridgehead {verb} {state.run}{' ' + rest if rest else ''}{home_option}"
        return f"{text}  # {comment}" if comment else text

    backwards = "end the run here: what it did stays" if stays(state) else "roll back"
    match state.mode:
        case st.Ended(verdict=verdict):
            undo = [command("run undo", comment="roll it back")] if verdict is Verdict.DONE and not stays(state) else []
            return [command("ledger show", comment="all that happened"), *undo]
        case st.OnHold(direction=direction, frozen=frozen, by=by):
            back = "go on rolling back" if isinstance(direction, st.Backward) else backwards
            again = "measure anew" if by.startswith("gate ") else "when the cause is mended: try it again"
            onward = again if frozen else "go on"
            return [command("run resume", comment=onward), command("run abort", comment=back)]
        case st.NeedsPerson(differences=differences) if differences:
            return [
                command("run resume", comment="go on all the same, from what this journal tells"),
                command("run abort", comment="end the run here; nothing is touched, and you take over by hand"),
                f"bridgehead journal import FILE{home_option}  # when there is a newer copy of the journal",
            ]
        case st.NeedsPerson():
            return [
                command("run resume", comment="when you have done that: the undo looks again and goes on"),
                command("run abort", comment="end the run here; what is not undone stays as it is"),
            ]
        case st.Abandoning():
            return [] if driver else [command("run resume", comment="write down its end")]
        case st.Forward() | st.Backward():
            pass
        case _:
            assert_never(state.mode)
    verbs = [command("run watch") if driver else command("run resume", comment="drive it in this terminal")]
    for step_id, plan_step in state.plan.steps.items():
        step = state.steps[step_id]
        if isinstance(step, st.Asking) and step.rejected_by is None:
            assert isinstance(plan_step, ApprovalStep)
            first, *others = [person for person in plan_step.approvers if person not in step.approved_by] or plan_step.approvers
            may = f"or --as {', '.join(others)}" if others else ""
            verbs += [command("run approve", f"{step_id} --as {shlex.quote(first)}", comment=may)]
            verbs += [command("run reject", f"{step_id} --as {shlex.quote(first)}", comment="roll back")]
        if isinstance(step, st.Assigned):
            assert isinstance(plan_step, TaskStep)
            items = plan_step.undo_checklist if step.undoing else plan_step.checklist
            evidence = " ".join(f"--evidence {shlex.quote(item + ': ...')}" for item in items)
            verbs.append(command("run done", f"{step_id} --as {shlex.quote(plan_step.owner)} {evidence}"))
    if isinstance(state.mode, st.Backward):
        return [*verbs, command("run pause")]
    return [*verbs, command("run pause"), command("run abort", comment=backwards)]
