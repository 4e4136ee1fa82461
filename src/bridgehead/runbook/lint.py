"""The runbook linter: faults that make a runbook unsafe although it can be read (M10.4, R14). Nothing overrides it."""

from __future__ import annotations

from collections.abc import Collection
from typing import assert_never

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, Runbook, Step, TaskStep
from bridgehead.runbook.finding import Finding, LintCode, Severity, found
from bridgehead.runbook.language import ActionTypes, Located
from bridgehead.runbook.lint_actions import check_action, check_order
from bridgehead.runbook.lint_gates import check_gate
from bridgehead.runbook.lint_graph import Graph, check_graph, check_limits

DAY_S = 86_400.0
ABSURD_S = 90 * DAY_S
"""No single step of a move is waited for longer than the ninety days that its assessment takes (M5.0)."""


def lint(runbook: Runbook, actions: ActionTypes, *, undoable: Collection[str]) -> list[Finding]:
    """All findings, in the order of the steps; empty for a sound runbook.

    Args:
        actions: registered actions with the types of their parameters.
        undoable: those of them that can be undone.
    """
    if not runbook.steps:
        return [found(LintCode.EMPTY, None, "", "the runbook has no steps")]
    graph = Graph(runbook)
    findings = [*check_graph(graph), *check_limits(runbook), *_pause(runbook)]
    for step in runbook.steps:
        findings += _step(step, actions, undoable)
        findings += check_order(step, graph, actions)
    position = {step.id: number for number, step in reversed(list(enumerate(runbook.steps)))}
    return sorted(findings, key=lambda finding: -1 if finding.step is None else position[finding.step])


def lint_located(located: Located, actions: ActionTypes, *, undoable: Collection[str]) -> list[Finding]:
    """Like ``lint``, with the place of each finding in the file."""
    findings = lint(located.runbook, actions, undoable=undoable)
    return [msgspec.structs.replace(finding, location=located.place(finding.step, finding.field)) for finding in findings]


def refuse_faults(located: Located, actions: ActionTypes, *, undoable: Collection[str]) -> None:
    """Raise RUNBOOK_REFUSED with all errors, if there are any; warnings do not stop a run."""
    findings = lint_located(located, actions, undoable=undoable)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise BridgeheadError(
            ErrorCode.RUNBOOK_REFUSED,
            tried="accept the runbook",
            subject=located.runbook.name,
            happened="\n  ".join([f"it has {len(errors)} error{'s' if len(errors) > 1 else ''}:", *map(str, errors)]),
            remedy="See docs/reference/runbook-lint.md for each code.",
        )


def _pause(runbook: Runbook) -> list[Finding]:
    if runbook.pause_expires_s > 0:
        return []
    return [found(LintCode.DEADLINE_MISSING, None, "", "'pause_expires' is zero: every pause would roll back at once")]


def _step(step: Step, actions: ActionTypes, undoable: Collection[str]) -> list[Finding]:
    match step:
        case ActionStep():
            findings = [*_deadline(step, step.deadline_s), *_deadline(step, step.undo_deadline_s, field="undo_deadline")]
            return findings + check_action(step, actions, undoable)
        case GateStep():
            return [*_deadline(step, step.deadline_s), *check_gate(step)]
        case ApprovalStep():
            return [*_deadline(step, step.deadline_s), *_approval(step)]
        case TaskStep():
            return [*_deadline(step, step.deadline_s), *_task(step)]
        case HoldStep():
            return [] if step.until_s is not None and step.hold_s == 0 else _deadline(step, step.hold_s, field="hold")
        case _:
            assert_never(step)


def _deadline(step: Step, deadline_s: float, *, field: str = "deadline") -> list[Finding]:
    if deadline_s <= 0:
        return [found(LintCode.DEADLINE_MISSING, step.id, field, f"'{field}' is zero: give it a time, such as '{field}: 10 min'")]
    if deadline_s > ABSURD_S:
        days = f"{deadline_s / DAY_S:.0f} days"
        return [found(LintCode.DEADLINE_ABSURD, step.id, field, f"'{field}' is {days}: nobody would notice that it hangs")]
    return []


def _approval(step: ApprovalStep) -> list[Finding]:
    if not step.approvers:
        return [found(LintCode.APPROVERS, step.id, "approval.approvers", "nobody may approve: name the approvers")]
    people = len(set(step.approvers))
    if step.quorum < 1:
        return [found(LintCode.QUORUM, step.id, "approval.quorum", f"'quorum' is {step.quorum}: at least one person must approve")]
    if step.quorum > people:
        message = f"{step.quorum} approvals are needed, but only {people} people may approve: it can only expire"
        return [found(LintCode.QUORUM, step.id, "approval.quorum", message)]
    return []


def _task(step: TaskStep) -> list[Finding]:
    if step.checklist and all(item.strip() for item in (*step.checklist, *step.undo_checklist)):
        return []
    return [found(LintCode.CHECKLIST, step.id, "task.checklist", "the checklist is empty or has an empty item: say what is to be done")]
