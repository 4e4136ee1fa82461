"""Linting the graph of a runbook: duplicate steps, unknown needs, cycles, limits, and steps that can never start."""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.kernel.ids import StepId
from bridgehead.kernel.phrase import nearest
from bridgehead.model.runbook import ActionStep, Runbook, Step
from bridgehead.runbook.finding import Finding, LintCode, found


class Graph:
    """Steps and needs of a runbook that may be faulty (``state.CompiledRunbook`` is for sound ones)."""

    def __init__(self, runbook: Runbook) -> None:
        self.all_steps = runbook.steps
        self.steps: dict[StepId, Step] = {}
        for step in runbook.steps:
            self.steps.setdefault(step.id, step)
        self._ancestors: dict[StepId, frozenset[StepId]] = {}

    def ancestors(self, step_id: StepId) -> frozenset[StepId]:
        """Every known step that must be done before; on a cycle this includes the step itself."""
        if step_id not in self._ancestors:
            seen: set[StepId] = set()
            ahead = list(self.steps[step_id].needs)
            while ahead:
                need = ahead.pop()
                if need in self.steps and need not in seen:
                    seen.add(need)
                    ahead += self.steps[need].needs
            self._ancestors[step_id] = frozenset(seen)
        return self._ancestors[step_id]

    def before(self, step_id: StepId) -> list[Step]:
        """The ancestors as steps, in the order of the file."""
        ancestors = self.ancestors(step_id)
        return [step for step in self.steps.values() if step.id in ancestors]

    def descendants(self, step_id: StepId) -> list[Step]:
        """Every step that needs this one, directly or not, in the order of the file."""
        return [step for step in self.steps.values() if step_id in self.ancestors(step.id)]


def check_graph(graph: Graph) -> list[Finding]:
    """Findings about ids and needs."""
    return [*_duplicates(graph.all_steps), *_unknown(graph), *_cycles(graph), *_unreachable(graph)]


def _duplicates(steps: Iterable[Step]) -> list[Finding]:
    seen: set[StepId] = set()
    findings = []
    for step in steps:
        if step.id in seen:
            findings.append(found(LintCode.DUPLICATE_STEP, step.id, "id", "another step has this id too: ids are unique in a runbook"))
        seen.add(step.id)
    return findings


def _unknown(graph: Graph) -> list[Finding]:
    findings = []
    for step in graph.all_steps:
        for need in step.needs:
            if need not in graph.steps:
                message = f"needs '{need}', which does not exist; {nearest(need, graph.steps)}"
                findings.append(found(LintCode.UNKNOWN_NEED, step.id, "needs", message))
    return findings


def _cycles(graph: Graph) -> list[Finding]:
    """One finding for each group of steps that wait for each other."""
    findings: list[Finding] = []
    reported: set[StepId] = set()
    for step_id in graph.steps:
        if step_id in reported or step_id not in graph.ancestors(step_id):
            continue
        ring = _ring(graph, step_id)
        reported |= {other for other in graph.ancestors(step_id) if step_id in graph.ancestors(other)}
        way = " needs ".join(f"'{one}'" for one in [*ring, step_id])
        message = f"it waits for itself: {way}" if len(ring) > 1 else "it needs itself"
        findings.append(found(LintCode.CYCLE, step_id, "needs", message))
    return findings


def _ring(graph: Graph, start: StepId) -> list[StepId]:
    """The shortest way from a step along its needs back to it."""
    came_from: dict[StepId, StepId] = {}
    ahead = [start]
    while ahead:
        here = ahead.pop(0)
        for need in graph.steps[here].needs:
            if need == start:
                ring = [here]
                while ring[-1] != start:
                    ring.append(came_from[ring[-1]])
                return ring[::-1]
            if need in graph.steps and need not in came_from:
                came_from[need] = here
                ahead.append(need)
    raise AssertionError("only asked for steps on a cycle")


def _unreachable(graph: Graph) -> list[Finding]:
    """Steps behind a cycle or an unknown need, but not themselves at fault."""
    findings = []
    for step_id, step in graph.steps.items():
        if step_id in graph.ancestors(step_id) or any(need not in graph.steps for need in step.needs):
            continue
        blockers = [
            other.id
            for other in graph.before(step_id)
            if other.id in graph.ancestors(other.id) or any(need not in graph.steps for need in other.needs)
        ]
        if blockers:
            message = f"it can never start, because '{blockers[0]}' before it cannot"
            findings.append(found(LintCode.UNREACHABLE, step_id, "needs", message))
    return findings


def check_limits(runbook: Runbook) -> list[Finding]:
    """Limits that let nothing begin, and steps that name one which is not there."""
    findings = []
    for name, most in runbook.limits.items():
        if most < 1:
            findings.append(found(LintCode.LIMIT, None, "", f"the limit '{name}' is {most}: no step that names it could ever begin"))
    for step in runbook.steps:
        if isinstance(step, ActionStep) and step.limit and step.limit not in runbook.limits:
            hint = nearest(step.limit, runbook.limits) if runbook.limits else "the runbook has no 'limits'"
            findings.append(found(LintCode.LIMIT, step.id, "limit", f"there is no limit '{step.limit}'; {hint}"))
    return findings
