"""Compiling plans: the order of a plan, what people sign off, and that the runbook runs from the first to the last day (M7, M10.4)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import dst, wiring
from bridgehead.app.example_estate import example
from bridgehead.app.plan_runbook import plan_runbook
from bridgehead.app.plan_set import load_plan_set
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import StepId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.estatefile import write_estate
from bridgehead.model.plan import PhaseId, Shrink, SwingMode, TaskKind, write_plan
from bridgehead.model.policy import write_policy
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, OnBreach, TaskStep, UndoPolicy
from bridgehead.runbook.language import read_runbook, write_runbook
from bridgehead.runbook.lint import lint
from bridgehead.simulate import faults as ft
from bridgehead.simulate.flows import Change, waits_for
from bridgehead.simulate.plan_network import network_of
from bridgehead.simulate.runbook_world import blueprint_of
from bridgehead.simulate.vault import WriteFault
from bridgehead.testing.fault_verdicts import verdict_of, violations
from bridgehead.testing.plain_plan import plain_plan
from bridgehead.testing.virtual_lab import VirtualLab

MADE = example(400, seed=1, used=0.4)
PLAN = plain_plan(MADE.estate, MADE.policy, racks_per_wave=4)
BOOK = plan_runbook(PLAN, estate=MADE.estate, policy=MADE.policy)
STEPS = {step.id: step for step in BOOK.steps}
NETWORK = network_of(PLAN, estate=MADE.estate, policy=MADE.policy)
START_S = PLAN.phases[0].begins_s - 3600.0
FIRST_SWING_S = min(swing.begins_s for swing in PLAN.swings) - START_S


def behind(step_id: StepId) -> set[StepId]:
    found: set[StepId] = set()
    ahead = [step_id]
    while ahead:
        for need in STEPS[ahead.pop()].needs:
            if need not in found:
                found.add(need)
                ahead.append(need)
    return found


def test_the_linter_finds_nothing():
    assert lint(BOOK, wiring.action_params(), undoable=wiring.undoable_actions()) == []


def test_file_and_runbook_are_the_same():
    actions = wiring.action_params()
    assert read_runbook(write_runbook(BOOK, actions=actions), file="book.yaml", actions=actions) == BOOK


def test_M7_every_task_of_every_wave_is_a_step():
    for wave in PLAN.waves:
        for task in wave.tasks:
            step = STEPS[StepId(f"{wave.id}-{task.id.value}")]
            if task.id in (TaskKind.ACCLIMATISE, TaskKind.BURN_IN):
                assert isinstance(step, HoldStep)
                assert step.hold_s == task.ends_s - task.begins_s
            else:
                assert isinstance(step, TaskStep)
                assert step.due_s == task.ends_s
                assert step.checklist
                assert task.crew in ("", step.owner)


def test_M10_4_each_action_is_undone_or_says_why_not():
    actions = [step for step in BOOK.steps if isinstance(step, ActionStep)]
    assert actions
    assert all(step.undo is UndoPolicy.ACTION or step.undo_reason for step in actions)


def test_a_workload_goes_over_by_its_mode():
    modes = {swing.mode for swing in PLAN.swings}
    assert {SwingMode.CANARY, SwingMode.PRECOPY} <= modes
    for swing in PLAN.swings:
        names = [step.id.removeprefix(f"swing-{swing.id}-") for step in BOOK.steps if step.id.startswith(f"swing-{swing.id}-")]
        if swing.mode is SwingMode.PRECOPY:
            wanted = ["from", "precopy", "standby", "approve", "precopy-again", "hold", "final-copy", "fence", "release", "stop"]
            assert names == wanted
        if swing.mode is SwingMode.CANARY:
            assert [name for name in names if name.startswith("gate")] == ["gate-5", "gate-25", "gate-50", "gate-100"]


def test_gates_freeze_and_roll_nothing_back_by_themselves():
    gates = [step for step in BOOK.steps if isinstance(step, GateStep)]
    assert gates
    assert all(gate.on_breach is OnBreach.FREEZE for gate in gates)


@pytest.mark.parametrize("mode", [SwingMode.RESTART, SwingMode.REQUEUE])
def test_other_modes_run_too(mode):
    swings = tuple(msgspec.structs.replace(one, mode=mode) if one.mode is SwingMode.PRECOPY else one for one in PLAN.swings)
    book = plan_runbook(msgspec.structs.replace(PLAN, swings=swings), estate=MADE.estate, policy=MADE.policy)
    assert lint(book, wiring.action_params(), undoable=wiring.undoable_actions()) == []
    assert dst.simulate_runbook(book).verdict == "done"


def test_shrinks_are_tasks_of_their_workload():
    one = next(one for one in MADE.estate.workloads if one.kind is WorkloadKind.TRAINING)
    swing = next(swing for swing in PLAN.swings if swing.id == one.id)
    shrink = Shrink(one.id, PLAN.source, one.gpus // 2, swing.begins_s - 86_400.0, swing.begins_s)
    book = plan_runbook(msgspec.structs.replace(PLAN, shrinks=(shrink,)), estate=MADE.estate, policy=MADE.policy)
    step = next(step for step in book.steps if step.id == f"shrink-{one.id}-0")
    assert isinstance(step, TaskStep)
    assert step.owner == one.id
    assert dst.simulate_runbook(book).verdict == "done"


def test_nothing_waits_for_what_is_planned_later():
    ends = {one.id: one.ends_s for one in NETWORK}
    for one in NETWORK:
        assert all(ends[need] <= one.begins_s + 1e-3 for need in one.needs)


def test_a_swing_waits_for_the_racks_and_a_wave_for_the_swings_whose_gpus_they_take():
    waits = {one.id: one.needs for one in NETWORK}
    joins = {need for one in NETWORK if one.id.startswith("swing-") for need in one.needs if need.endswith("-join")}
    assert joins
    assert any(need.startswith("swing-") for need in waits[StepId(f"{PLAN.waves[-1].id}-drain")])


def test_phases_open_one_after_the_other():
    heads = [StepId(f"phase-{phase.value}") for phase in PhaseId]
    assert all(head in STEPS for head in heads)
    assert heads[1] in behind(heads[2])
    assert StepId("services-done") in behind(heads[3])
    assert StepId("decommission") in behind(heads[6])


def test_M10_4_a_point_of_return_stands_between_what_was_before_and_what_comes_after():
    point = StepId("point-services")
    assert StepId("services-done") in behind(point)
    assert all(point in behind(StepId(f"swing-{swing.id}-from")) for swing in PLAN.swings)


def test_approvals_of_the_policy_are_asked_before_the_cut_over():
    asked = [step for step in BOOK.steps if isinstance(step, ApprovalStep)]
    assert len(asked) == len(PLAN.swings)
    assert all(step.approvers == MADE.policy.approvals[0].approvers for step in asked)


def test_flow_uses_first_what_was_freed_first():
    changes = [Change(0.0, -2, StepId("a")), Change(5.0, 2, StepId("a")), Change(5.0, -1, StepId("b")), Change(6.0, -2, StepId("c"))]
    assert waits_for(3.0, changes) == {StepId("a"): set(), StepId("b"): set(), StepId("c"): {StepId("a")}}


def test_the_whole_plan_runs_at_its_times():
    foreseen = dst.simulate_runbook(BOOK)
    assert foreseen.verdict == "done"
    signed = {moment.step: moment.at_s for moment in foreseen.moments if moment.what.startswith("task-signed-off")}
    for wave in PLAN.waves:
        assert signed[StepId(f"{wave.id}-join")] == pytest.approx(wave.joins_s - START_S, abs=60.0)
    last = PLAN.phases[-1].ends_s - START_S
    assert foreseen.moments[-1].at_s == pytest.approx(last + 86_400.0, abs=60.0)


FAULTS = {
    "deaths": ((ft.DieAtAppend(60, ft.Side.BEFORE, 2.0), ft.DieAtAppend(200, ft.Side.AFTER, 2.0, zombie_s=5.0)), "done"),
    "answers lost": ((ft.FailAfter("vaults.fence", 2), ft.FailBefore("vaults.fence", 1, 4), ft.FailAfter("training.request", 1)), "done"),
    "cuts": ((ft.CutLink(FIRST_SWING_S, 3600.0), ft.CutOff(PLAN.target, FIRST_SWING_S + 5000.0, 600.0)), "done"),
    "a torn write": ((ft.BadWrite(PLAN.target, 2, WriteFault.TORN),), "rolled-back"),
    "an abort": ((ft.Word(FIRST_SWING_S + 1500.0, ft.Saying.ABORT),), "rolled-back"),
    "a pause": ((ft.Word(FIRST_SWING_S + 1500.0, ft.Saying.PAUSE), ft.Word(FIRST_SWING_S + 9000.0, ft.Saying.RESUME)), "done"),
    "a forgetful proxy": ((ft.ProxyForgets(FIRST_SWING_S + 900.0),), "done"),
    "an old primary": ((ft.OldPrimary(5.0, 1000.0),), "done"),
    "a clock": ((ft.ClockJump(FIRST_SWING_S, -3600.0), ft.DieAtAppend(150, ft.Side.BEFORE, 2.0)), "done"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_whole_plan_under_faults_keeps_every_promise(name):
    faults, verdict = FAULTS[name]
    lab = VirtualLab(blueprint_of(BOOK), BOOK, wiring.actions, faults=faults)
    finished = lab.run()
    assert lab.book.missed == []
    assert violations(lab, finished) == []
    assert verdict_of(finished) == verdict


def test_a_plan_for_another_estate_is_refused(tmp_path):
    (tmp_path / "plan.yaml").write_text(write_plan(PLAN))
    with pytest.raises(BridgeheadError, match=r"there is no .*estate.yaml"):
        load_plan_set(tmp_path / "plan.yaml")
    (tmp_path / "estate.yaml").write_text(write_estate(MADE.estate))
    (tmp_path / "policy.yaml").write_text(write_policy(MADE.policy))
    assert load_plan_set(tmp_path / "plan.yaml").plan == PLAN
    (tmp_path / "estate.yaml").write_text(write_estate(example(400, seed=1).estate))
    with pytest.raises(BridgeheadError, match="made for another estate") as refused:
        load_plan_set(tmp_path / "plan.yaml")
    assert refused.value.code is ErrorCode.BAD_INPUT
