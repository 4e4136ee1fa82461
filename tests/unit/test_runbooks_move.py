"""The runbook of a move: sound, complete, and the same after it was written to a file and read again (M7.1, M7.3, M10.4)."""

from __future__ import annotations

import pytest

from bridgehead.app.wiring import action_params, undoable_actions
from bridgehead.kernel.ids import JobName, Person, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, UndoPolicy
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.training import OnSilence
from bridgehead.recovery.runbooks import CanaryRules, Move, ServiceMove, TrainingMove, move_runbook
from bridgehead.runbook.language import read_located, write_runbook
from bridgehead.runbook.lint import lint, lint_located


def job(name: str) -> JobSpec:
    return JobSpec(JobName(name), ("python", f"{name}.py"), env={"SITE": "x"}, grace_s=7.5)


def move(*, approvers: tuple[str, ...] = (), percents: tuple[int, ...] = (5, 25, 50, 100)) -> Move:
    training = TrainingMove(WorkloadId("llm"), JobName("llm"), job("llm-new"), job("llm"), 12.5, OnSilence.LAST_VERIFIED)
    service = ServiceMove(ServiceId("chat"), JobName("chat"), job("chat-new"), job("chat"), WorkloadId("llm"), SnapshotId("llm-0-7"))
    people = tuple(Person(name) for name in approvers)
    return Move("go", SiteId("ams"), SiteId("fra"), training, service, CanaryRules(percents=percents), approvers=people)


MOVES = {
    "without approvers": move(),
    "with approvers": move(approvers=("ann", "bob")),
    "one canary step": move(percents=(50, 100)),
    "all at once": move(percents=(100,), approvers=("ann",)),
}


@pytest.mark.parametrize("kind", MOVES)
def test_it_has_no_lint_errors_and_survives_a_file(kind):
    book = move_runbook(MOVES[kind])
    assert [str(finding) for finding in lint(book, action_params(), undoable=undoable_actions())] == []
    text = write_runbook(book, actions=action_params())
    located = read_located(text, file="move.yaml", actions=action_params())
    assert located.runbook == book
    assert lint_located(located, action_params(), undoable=undoable_actions()) == []


def test_approvers_are_asked_right_before_the_cut_over():
    steps = {step.id: step for step in move_runbook(MOVES["with approvers"]).steps}
    assert isinstance(steps["approve"], ApprovalStep)
    assert steps["approve"].approvers == ("ann", "bob")
    assert set(steps["approve"].needs) == {"standby", "gate-100"}
    assert steps["precopy-again"].needs == ("approve",)
    assert "approve" not in {step.id for step in move_runbook(MOVES["without approvers"]).steps}


def test_every_shift_has_its_gate_and_the_last_one_compares_with_nobody():
    steps = {step.id: step for step in move_runbook(MOVES["without approvers"]).steps}
    for percent in (5, 25, 50, 100):
        gate = steps[f"gate-{percent}"]
        assert isinstance(gate, GateStep)
        assert gate.needs == (f"shift-{percent}",)
        assert gate.baseline == ("ams" if percent < 100 else None)


def test_only_copies_stay_after_a_rollback():
    kept = {
        step.action for step in move_runbook(move()).steps if isinstance(step, ActionStep) and step.undo is UndoPolicy.KEEP
    }  # fmt: skip
    assert kept == {"vault.replicate", "vault.precopy"}
