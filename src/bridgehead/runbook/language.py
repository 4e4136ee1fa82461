"""The runbook language: YAML that people review in git, to ``model.runbook.Runbook`` and back (R14, M10.4).

``docs/reference/runbook-language.md`` explains it to its users.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from bridgehead.kernel.decode import BAD, Codec, Decoder
from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.ids import StepId
from bridgehead.kernel.located import Mapping as MappingNode
from bridgehead.kernel.located import Mark, Node, Path, Scalar
from bridgehead.kernel.phrase import nearest, one_of
from bridgehead.kernel.schema import json_schema, struct_schema
from bridgehead.kernel.shape import StructShape, shape_of
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, Runbook, Step, TaskStep, UndoPolicy
from bridgehead.runbook import filing
from bridgehead.runbook.asking import check_criteria, criterion_of

ActionTypes = Mapping[str, type[msgspec.Struct]]
"""Names of actions with the struct of their ``with:`` block."""


class Located(msgspec.Struct, frozen=True):
    """A runbook that was read from a file, with the place of each step and field."""

    runbook: Runbook
    file: str
    marks: Mapping[Path, Mark]

    def place(self, step: StepId | None, field: str = "") -> str:
        """``file:line:column`` of a step's field, or of the step, or of the file."""
        end = tuple(field.split(".")) if field else ()
        paths = [("steps", f"[{step}]", *end[:count]) for count in range(len(end), -1, -1)]
        mark = next((self.marks[path] for path in [*paths, ("steps",)] if path in self.marks), Mark(1, 1))
        return f"{self.file}:{mark.line}:{mark.column}"


def read_runbook(text: str, *, file: str, actions: ActionTypes) -> Runbook:
    """Read a runbook. Raises BadFile (BAD_INPUT) with every fault of the file; what is only unwise is for ``runbook.lint``."""
    return read_located(text, file=file, actions=actions).runbook


def read_located(text: str, *, file: str, actions: ActionTypes) -> Located:
    """Like ``read_runbook``, with places for the linter's findings."""
    document, marks = read_document(text, filing.RunbookFile, file=file, what="runbook", codecs=_codecs(actions), check=check_criteria)
    runbook = Runbook(
        name=document.runbook,
        steps=tuple(_step(entry) for entry in document.steps),
        description=document.description,
        pause_expires_s=document.pause_expires_s,
        limits=document.limits,
    )
    return Located(runbook, file, marks)


def write_runbook(runbook: Runbook, *, actions: ActionTypes) -> str:
    """YAML that ``read_runbook`` reads as an equal runbook. Raises KeyError for an action that is not in ``actions``."""
    document = filing.RunbookFile(
        runbook=runbook.name,
        steps=tuple(_entry(step) for step in runbook.steps),
        description=runbook.description,
        pause_expires_s=runbook.pause_expires_s,
        limits=runbook.limits,
    )
    written = to_file(document, shape_of(filing.RunbookFile), codecs=_codecs(actions))
    order = ("runbook", "description", "pause_expires", "limits", "steps")
    return dump({key: written[key] for key in order if key in written})


def runbook_schema(actions: ActionTypes) -> dict[str, Any]:
    """JSON Schema of runbook files, for editors."""
    return json_schema(filing.RunbookFile, title="Bridgehead runbook", codecs=_codecs(actions))


def _codecs(actions: ActionTypes) -> dict[type, Codec]:
    return {filing.ActionEntry: _ActionCodec(actions)}


class _ActionCodec:
    """An action step: ``action`` decides what ``with`` may hold."""

    def __init__(self, actions: ActionTypes) -> None:
        self._actions = actions

    def decode(self, decoder: Decoder, node: Node, path: Path) -> Any:
        """Read the step, and its parameters by the type that the action names."""
        assert isinstance(node, MappingNode)
        params: Any = {}
        name, given = node.get("action"), node.get("with")
        if isinstance(name, Scalar) and name.text not in self._actions:
            decoder.fault(name.mark, (*path, "action"), f"there is no action '{name.text}'", nearest(name.text, self._actions))
            params = BAD
        elif isinstance(name, Scalar):
            empty = MappingNode((), node.mark)
            params = decoder.plain_struct(given if given is not None else empty, self._actions[name.text], (*path, "with"))
        step = decoder.struct(node, _shape(filing.ActionEntry), path, given={"params": params})
        return BAD if params is BAD else step

    def encode(self, value: Any) -> Any:
        """Write the step; parameters with their units."""
        params = to_file(value.params, _shape(self._actions[value.action]))
        written = to_file(value, _shape(filing.ActionEntry))
        written.pop("with", None)
        order = ("id", "title", "action")
        head = {key: written.pop(key) for key in order if key in written}
        return head | ({"with": params} if params else {}) | written

    def schema(self) -> dict[str, Any]:
        """One alternative for each action."""
        base = struct_schema(filing.ActionEntry)
        base["properties"]["action"] = {"enum": sorted(self._actions), "description": one_of(self._actions)}
        base["allOf"] = [
            {"if": {"properties": {"action": {"const": name}}}, "then": {"properties": {"with": struct_schema(kind)}}}
            for name, kind in sorted(self._actions.items())
        ]
        return base


def _shape(kind: type[msgspec.Struct]) -> StructShape:
    shape = shape_of(kind)
    assert isinstance(shape, StructShape)
    return shape


def _step(entry: filing.Entry) -> Step:
    match entry:
        case filing.ActionEntry(undo=undo):
            return ActionStep(
                id=entry.id, action=entry.action, params=entry.params, deadline_s=entry.deadline_s, needs=entry.needs, retry=entry.retry,
                undo=UndoPolicy.KEEP if isinstance(undo, filing.KeptEffect) else UndoPolicy.ACTION,
                undo_reason=undo.keep if isinstance(undo, filing.KeptEffect) else "",
                undo_deadline_s=entry.undo_deadline_s, title=entry.title, on_failure=entry.on_failure,
                limit=entry.limit,
            )  # fmt: skip
        case filing.GateEntry(gate=gate):
            return GateStep(
                id=entry.id, service=gate.service, target=gate.target, baseline=gate.baseline,
                criteria=tuple(criterion_of(body) for body in gate.criteria), traffic=gate.traffic, min_traffic=gate.min_traffic,
                min_samples=gate.min_samples, interval_s=gate.interval_s, deadline_s=entry.deadline_s, needs=entry.needs,
                on_breach=gate.on_breach, title=entry.title,
            )  # fmt: skip
        case filing.ApprovalEntry(approval=approval):
            return ApprovalStep(
                id=entry.id, approvers=approval.approvers, deadline_s=entry.deadline_s, needs=entry.needs, quorum=approval.quorum,
                text=approval.text, title=entry.title,
            )  # fmt: skip
        case filing.TaskEntry(task=task):
            return TaskStep(
                id=entry.id, owner=task.owner, checklist=task.checklist, deadline_s=entry.deadline_s, needs=entry.needs,
                undo_checklist=task.undo_checklist, title=entry.title, due_s=entry.due_s,
            )  # fmt: skip
        case filing.HoldEntry():
            return HoldStep(id=entry.id, hold_s=entry.hold_s, needs=entry.needs, title=entry.title, until_s=entry.until_s)
        case _:
            assert_never(entry)


def _entry(step: Step) -> filing.Entry:
    match step:
        case ActionStep():
            return filing.ActionEntry(
                id=step.id, title=step.title, needs=step.needs, action=step.action, params=step.params, deadline_s=step.deadline_s,
                retry=step.retry, undo=filing.KeptEffect(step.undo_reason) if step.undo is UndoPolicy.KEEP else "action",
                undo_deadline_s=step.undo_deadline_s, on_failure=step.on_failure, limit=step.limit,
            )  # fmt: skip
        case GateStep():
            criteria = tuple(
                filing.CriterionBody(c.name, (c.numerator, c.denominator), c.limit, c.over_baseline, c.ratio_to_baseline, c.no_data)
                for c in step.criteria
            )
            body = filing.GateBody(
                service=step.service, target=step.target, traffic=step.traffic, min_traffic=step.min_traffic, min_samples=step.min_samples,
                interval_s=step.interval_s, criteria=criteria, baseline=step.baseline, on_breach=step.on_breach,
            )  # fmt: skip
            return filing.GateEntry(id=step.id, title=step.title, needs=step.needs, gate=body, deadline_s=step.deadline_s)
        case ApprovalStep():
            approval = filing.ApprovalBody(step.approvers, step.quorum, step.text)
            return filing.ApprovalEntry(id=step.id, title=step.title, needs=step.needs, approval=approval, deadline_s=step.deadline_s)
        case TaskStep():
            task = filing.TaskBody(step.owner, step.checklist, step.undo_checklist)
            return filing.TaskEntry(id=step.id, title=step.title, needs=step.needs, task=task, deadline_s=step.deadline_s, due_s=step.due_s)
        case HoldStep():
            return filing.HoldEntry(id=step.id, title=step.title, needs=step.needs, hold_s=step.hold_s, until_s=step.until_s)
        case _:
            assert_never(step)
