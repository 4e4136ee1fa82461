"""The linter on runbooks that are built in code; files with each fault are under tests/golden/bad/runbooks."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.app.wiring import ACTIONS, action_params, undoable_actions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId, StepId
from bridgehead.model.runbook import ActionStep, GateStep, HoldStep, Runbook, Step
from bridgehead.runbook import lint_actions
from bridgehead.runbook.finding import Finding, LintCode, Severity
from bridgehead.runbook.language import read_located, read_runbook
from bridgehead.runbook.lint import lint, refuse_faults

EXAMPLE = (Path(__file__).parents[2] / "examples" / "runbook.yaml").read_text(encoding="utf-8")


def findings(*steps: Step) -> list[Finding]:
    return lint(Runbook(name="x", steps=steps), action_params(), undoable=undoable_actions())


def test_the_example_has_no_findings() -> None:
    assert lint(read_runbook(EXAMPLE, file="x", actions=action_params()), action_params(), undoable=undoable_actions()) == []


def test_unknown_action_in_code_is_found() -> None:
    (finding,) = findings(ActionStep(id=StepId("a"), action="traffic.shfit", params={}, deadline_s=1.0))
    assert (finding.code, finding.severity) == (LintCode.UNKNOWN_ACTION, Severity.ERROR)
    assert str(finding) == "error [unknown-action] step 'a': there is no action 'traffic.shfit'; did you mean 'traffic.shift'?"


def test_bad_parameters_in_code_are_found() -> None:
    (finding,) = [one for one in findings(ActionStep(id=StepId("a"), action="traffic.drain", params={"service": 3}, deadline_s=1.0))]
    assert finding.code is LintCode.BAD_PARAMS


def without(runbook: Runbook, step_id: str) -> Runbook:
    """The runbook without a step; what needed it needs what it needed."""
    gone = next(step for step in runbook.steps if step.id == step_id)
    steps = []
    for step in runbook.steps:
        if step.id == step_id:
            continue
        needs = tuple(n for need in step.needs for n in (gone.needs if need == step_id else (need,)))
        steps.append(msgspec.structs.replace(step, needs=needs))
    return msgspec.structs.replace(runbook, steps=tuple(steps))


@pytest.mark.parametrize("gate", ["gate-25", "gate-100"])
def test_leaving_a_gate_out_is_noticed(gate: str) -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    codes = [finding.code for finding in lint(without(runbook, gate), action_params(), undoable=undoable_actions())]
    assert codes == [LintCode.UNGATED]


def test_each_gate_may_be_cleared_of_any_one_safety_and_it_is_noticed() -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    gate = next(step for step in runbook.steps if isinstance(step, GateStep))
    spoiled = [
        msgspec.structs.replace(gate, min_samples=0),
        msgspec.structs.replace(gate, min_traffic=0),
        msgspec.structs.replace(gate, criteria=()),
        msgspec.structs.replace(gate, criteria=(msgspec.structs.replace(gate.criteria[0], limit=None),)),
        msgspec.structs.replace(gate, baseline=None),
        msgspec.structs.replace(gate, baseline=SiteId("site-b")),
        msgspec.structs.replace(gate, deadline_s=1.0),
        msgspec.structs.replace(gate, deadline_s=0.0),
        msgspec.structs.replace(gate, interval_s=0.0),
    ]
    for bad in spoiled:
        steps = tuple(bad if step.id == gate.id else step for step in runbook.steps)
        found = lint(msgspec.structs.replace(runbook, steps=steps), action_params(), undoable=undoable_actions())
        assert any(finding.step == gate.id and finding.severity is Severity.ERROR for finding in found), bad


def test_warnings_do_not_stop_a_run_and_errors_do() -> None:
    text = "runbook: x\nsteps:\n  - {id: a, hold: 1000 d}\n"
    located = read_located(text, file="r.yaml", actions=action_params())
    refuse_faults(located, action_params(), undoable=undoable_actions())
    located = read_located(text.replace("1000 d", "0 s"), file="r.yaml", actions=action_params())
    with pytest.raises(BridgeheadError) as caught:
        refuse_faults(located, action_params(), undoable=undoable_actions())
    assert caught.value.code is ErrorCode.RUNBOOK_REFUSED
    assert "r.yaml:3:19: error [deadline-missing] step 'a'" in str(caught.value)


def test_the_actions_that_the_linter_knows_by_name_exist() -> None:
    named = {lint_actions.SHIFT, lint_actions.READY, lint_actions.FENCE, lint_actions.DRAIN, *lint_actions.RECEIPT}
    assert named <= {action.name for action in ACTIONS}


def test_findings_come_in_the_order_of_the_steps() -> None:
    steps = [HoldStep(id=StepId(name), hold_s=0.0) for name in "cab"]
    assert [finding.step for finding in findings(*steps)] == ["c", "a", "b"]


def test_a_thousand_steps_in_a_row_are_linted_quickly() -> None:
    steps = [HoldStep(id=StepId(f"s{n}"), hold_s=1.0, needs=(StepId(f"s{n - 1}"),) if n else ()) for n in range(1000)]
    assert findings(*steps) == []
