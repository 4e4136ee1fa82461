"""Escalation: what of a run waits for people, and who is called when nobody answers or a run stands still (G06, G08).

Pure, and without memory: what is due follows from the run and the time, so that another process calls nobody twice by the same key.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import assert_never

import msgspec

from bridgehead.kernel.ids import Person, StepId
from bridgehead.model.recovery import Escalation
from bridgehead.model.runbook import ApprovalStep, TaskStep
from bridgehead.runbook import state as st


class WaitKind(enum.StrEnum):
    """For what a run waits."""

    APPROVAL = "approval"
    TASK = "task"
    TROUBLE = "trouble"
    """Somebody must look: a step failed, a gate froze the run, an undo is stuck, the world differs."""
    DRIVER = "driver"
    """The run should go on, and no process drives it."""


class Wait(msgspec.Struct, frozen=True):
    """Something that a run waits for people with.

    Attributes:
        step: which; empty for the run as a whole.
        since_s: since when.
        people: whose turn it is; empty where nobody is named.
        what: in words.
    """

    kind: WaitKind
    step: StepId
    since_s: float
    people: tuple[Person, ...]
    what: str


class Call(msgspec.Struct, frozen=True):
    """A level of the escalation that is due. ``number``: of the level, from 1."""

    wait: Wait
    number: int
    people: tuple[Person, ...]
    due_s: float

    @property
    def text(self) -> str:
        """One line, the same whoever makes it."""
        return f"calling {', '.join(self.people)}: {self.wait.what}"


def waits(state: st.RunState) -> list[Wait]:
    """What waits for people now, in the order of the runbook."""
    if isinstance(state.mode, st.Ended | st.Abandoning):
        return []
    found = [wait for step in state.plan.steps if step in state.active and (wait := _wait(state, step)) is not None]
    match state.mode:
        case st.NeedsPerson(since_s=since_s, reason=reason):
            found.append(Wait(WaitKind.TROUBLE, StepId(""), since_s, (), f"{state.run} needs a person: {reason}"))
        case st.OnHold(since_s=since_s, by=by, reason=reason, frozen=True):
            found.append(Wait(WaitKind.TROUBLE, StepId(""), since_s, (), f"{state.run} stands still: {by}: {reason}"))
        case _:
            pass
    return found


def undriven(state: st.RunState, *, since_s: float) -> Wait | None:
    """For what a run waits that nobody drives; None when it would not go on by itself either.

    Args:
        since_s: since when nobody drives it, as whoever looks at its lease has seen.
    """
    match state.mode:
        case st.Forward():
            way = "its way to the goal"
        case st.Backward():
            way = "its way back"
        case st.OnHold() | st.NeedsPerson() | st.Abandoning() | st.Ended():
            return None
        case _ as never:
            assert_never(never)
    return Wait(WaitKind.DRIVER, StepId(""), since_s, (), f"{state.run} stands still on {way}: no process drives it")


def due(found: Sequence[Wait], levels: Sequence[Escalation], *, now_s: float) -> list[Call]:
    """Every level that has been reached, the first one first."""
    chain = sorted(levels, key=lambda level: level.after_s)
    return [
        Call(wait, number, level.people, wait.since_s + level.after_s)
        for wait in found
        for number, level in enumerate(chain, start=1)
        if now_s - wait.since_s >= level.after_s
    ]


def _wait(state: st.RunState, step: StepId) -> Wait | None:
    plan_step = state.plan.steps[step]
    match state.steps[step]:
        case st.Asking(started_s=since_s, rejected_by=None) as asking:
            assert isinstance(plan_step, ApprovalStep)
            people = tuple(person for person in plan_step.approvers if person not in asking.approved_by)
            return Wait(WaitKind.APPROVAL, step, since_s, people, f"{state.run} waits for an approval: {step}")
        case st.Assigned(started_s=since_s, undoing=undoing):
            assert isinstance(plan_step, TaskStep)
            what = f"{state.run} waits for a task{' to be taken back' if undoing else ''}: {step}"
            return Wait(WaitKind.TASK, step, since_s, (plan_step.owner,), what)
        case st.Broken(failed_s=since_s, reason=reason, paged=True):  # others turn the run round by themselves
            return Wait(WaitKind.TROUBLE, step, since_s, (), f"{state.run}: {step} failed: {reason}")
        case st.Measuring(started_s=since_s, paged=True):
            return Wait(WaitKind.TROUBLE, step, since_s, (), f"{state.run}: the evidence of gate {step} is bad")
        case _:
            return None
