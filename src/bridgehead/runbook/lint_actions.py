"""Linting action steps: parameters, undo, and the order in which dangerous actions come (design rules 4, 5, 8)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, get_args

import msgspec

from bridgehead.kernel.ids import StepId
from bridgehead.kernel.phrase import nearest
from bridgehead.model.runbook import ActionStep, GateStep, Step, UndoPolicy
from bridgehead.runbook.finding import Finding, LintCode, found
from bridgehead.runbook.language import ActionTypes
from bridgehead.runbook.lint_graph import Graph

SHIFT = "traffic.shift"
READY = "service.start"
FENCE = "training.fence"
RECEIPT = frozenset({"vault.replicate"})
DRAIN = "traffic.drain"


def check_action(step: ActionStep, actions: ActionTypes, undoable: Collection[str]) -> list[Finding]:
    """Findings about one action step by itself."""
    if step.action not in actions:
        message = f"there is no action '{step.action}'; {nearest(step.action, actions)}"
        return [found(LintCode.UNKNOWN_ACTION, step.id, "action", message)]
    findings = _params(step, actions)
    if step.undo is UndoPolicy.KEEP and not step.undo_reason.strip():
        findings.append(found(LintCode.KEEP_REASON, step.id, "undo", "its effect stays after a rollback, but nobody says why that is safe"))
    if step.undo is UndoPolicy.ACTION and step.action not in undoable:
        message = f"'{step.action}' cannot be undone: say 'undo: {{keep: <why it is safe that the effect stays>}}'"
        findings.append(found(LintCode.UNDO_MISSING, step.id, "undo", message))
    if step.retry.attempts < 1:
        message = f"'attempts' is {step.retry.attempts}: the first try counts too"
        findings.append(found(LintCode.RETRY, step.id, "retry.attempts", message))
    return findings


def check_order(step: Step, graph: Graph, actions: ActionTypes) -> list[Finding]:
    """Findings about what comes before and after a gate or an action step."""
    if isinstance(step, GateStep):
        return _idle_baseline(step, graph)
    if not isinstance(step, ActionStep) or step.action not in actions:
        return []
    findings = _step_references(step, graph, actions)
    match step.action:
        case name if name == SHIFT:
            return findings + _cold_targets(step, graph) + _ungated(step, graph)
        case name if name == FENCE:
            return findings + _fence(step, graph)
        case _:
            return findings


def _params(step: ActionStep, actions: ActionTypes) -> list[Finding]:
    try:
        msgspec.convert(step.params, actions[step.action])
    except msgspec.ValidationError as error:
        return [found(LintCode.BAD_PARAMS, step.id, "with", f"the parameters do not fit '{step.action}': {error}")]
    if step.action != SHIFT:
        return []
    weights: dict[str, int] = step.params.get("weights", {})
    if any(weight < 0 for weight in weights.values()):
        return [found(LintCode.WEIGHTS, step.id, "with.weights", "a weight is negative: weights are percent")]
    total = sum(weights.values())
    if total != 100:
        shown = " + ".join(map(str, weights.values())) or "nothing"
        return [found(LintCode.WEIGHTS, step.id, "with.weights", f"the weights add up to {total} ({shown}), not to 100")]
    return []


def _step_references(step: ActionStep, graph: Graph, actions: ActionTypes) -> list[Finding]:
    """Parameters that name a step: its evidence is only there when it is done before."""
    findings = []
    for info in msgspec.structs.fields(actions[step.action]):
        name = step.params.get(info.encode_name)
        if StepId not in (info.type, *get_args(info.type)) or not isinstance(name, str):
            continue
        field = f"with.{info.encode_name}"
        if name not in graph.steps:
            message = f"'{info.encode_name}' names the step '{name}', which does not exist; {nearest(name, graph.steps)}"
            findings.append(found(LintCode.STEP_REFERENCE, step.id, field, message))
        elif name not in graph.ancestors(step.id):
            message = f"'{info.encode_name}' names the step '{name}', but does not need it: add it to 'needs'"
            findings.append(found(LintCode.STEP_REFERENCE, step.id, field, message))
    return findings


def _idle_baseline(gate: GateStep, graph: Graph) -> list[Finding]:
    """A gate that compares with a site from which all traffic was taken before would wait for data until its deadline."""
    compares = [c for c in gate.criteria if c.over_baseline is not None or c.ratio_to_baseline is not None]
    shifts = [one for one in graph.before(gate.id) if isinstance(one, ActionStep) and one.action == SHIFT]
    shifts = [one for one in shifts if one.params.get("service") == gate.service]
    newest = [one for one in shifts if not any(one.id in graph.ancestors(other.id) for other in shifts)]
    idle = [one.id for one in newest if one.params.get("weights", {}).get(gate.baseline) == 0]
    if not compares or not idle:
        return []
    message = f"it compares with '{gate.baseline}', which has no traffic since '{idle[0]}': it would have no data and never pass"
    return [found(LintCode.IDLE_BASELINE, gate.id, "gate.baseline", message)]


def _cold_targets(step: ActionStep, graph: Graph) -> list[Finding]:
    """Sites that get traffic without a step that makes them ready. Sites that others are compared with serve already."""
    service = step.params.get("service")
    before = _of_service(graph.before(step.id), service)
    ready = {params.get("site") for params in _params_of(before, READY)}
    ready |= {site for params in _params_of(before, SHIFT) for site, weight in params.get("weights", {}).items() if weight > 0}
    everywhere = list(graph.steps.values())
    ready |= {params.get("like") for params in _params_of(_of_service(everywhere, service), READY)}
    ready |= {gate.baseline for gate in everywhere if isinstance(gate, GateStep) and gate.service == service}
    cold = [site for site, weight in step.params.get("weights", {}).items() if weight > 0 and site not in ready]
    because = f"but no earlier '{READY}' step makes '{service}' ready there"
    return [found(LintCode.COLD_TARGET, step.id, "with.weights", f"'{site}' gets traffic, {because}") for site in cold]


def _ungated(step: ActionStep, graph: Graph) -> list[Finding]:
    """What follows a shift must wait for a gate that judges it."""
    after = graph.descendants(step.id)
    gates = {gate.id for gate in after if isinstance(gate, GateStep)}
    for follower in after:
        if isinstance(follower, ActionStep) and follower.action != DRAIN and not gates & graph.ancestors(follower.id):
            message = f"'{follower.id}' follows this shift of traffic without a gate in between that judges it"
            return [found(LintCode.UNGATED, step.id, "", message)]
    return [] if gates else [found(LintCode.UNGATED, step.id, "", "no gate judges this shift of traffic")]


def _fence(step: ActionStep, graph: Graph) -> list[Finding]:
    """A fence counts what the new holder has, so the new holder must have confirmed it (design rule 8)."""
    workload = step.params.get("workload")
    earlier = (one for one in graph.before(step.id) if isinstance(one, ActionStep) and one.action in RECEIPT)
    if any(one.params.get("workload") == workload for one in earlier):
        return []
    message = f"no earlier '{min(RECEIPT)}' step gets a receipt for '{workload}': the fence may count a snapshot that nobody holds"
    return [found(LintCode.FENCE_WITHOUT_RECEIPT, step.id, "", message)]


def _params_of(steps: Iterable[Step], action: str) -> list[dict[str, Any]]:
    return [step.params for step in steps if isinstance(step, ActionStep) and step.action == action]


def _of_service(steps: Iterable[Step], service: str | None) -> list[Step]:
    return [step for step in steps if isinstance(step, ActionStep) and step.params.get("service") == service]
