"""Each checker catches the violation that is planted for it: a rule is broken on purpose, and the run must not pass."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.drivers.world import Calls
from bridgehead.kernel.ids import StepId
from bridgehead.model.runbook import ActionStep
from bridgehead.recovery.actions.training import OnSilence
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Done, Pending
from bridgehead.simulate import faults as ft
from bridgehead.testing.fault_verdicts import violations
from bridgehead.testing.virtual_lab import RUN
from bridgehead.testing.virtual_move import BACKEND_NEW, SOURCE, TARGET, TRAIN, Temper, calm

SILENT = Temper(trainer_ignores=True, on_silence=OnSilence.LAST_VERIFIED)


def test_nothing_is_found_in_a_calm_move(play):
    played = play(calm())
    assert (played.verdict, played.violations) == ("done", [])


def test_nothing_is_found_when_the_trainer_ignores_all_orders(play):
    played = play(calm(SILENT))
    assert (played.verdict, played.violations) == ("done", [])


def test_J05_fence_that_the_old_side_never_sees_makes_two_writers(play, changed):
    """The old trainer computes on, and at its own site nothing closed its epoch."""

    def only_at_the_holder(real, params, call):
        return real(msgspec.structs.replace(params, sites=(params.holder,)), call)

    played = play(calm(SILENT), change={"training.fence": changed(apply=only_at_the_holder, verify=only_at_the_holder)})
    assert "one-writer" in played.rules


def test_J13_far_side_that_ignores_epochs_lets_a_dead_driver_act(play):
    class Careless(Calls):
        def __init__(self, world, **options):
            super().__init__(world, **options)
            world.admit = lambda place, stamp: None

    late = [ft.LateCall("traffic.write", 2, late_s=8.0, resume_after_s=0.5)]
    played = play(calm(), faults=late, calls=Careless)
    assert played.lab.book.missed == []
    assert "epochs" in played.rules
    assert play(calm(), faults=late).violations == []


def test_traffic_to_a_cold_backend_is_seen(play, changed):
    """The target is not waited for, and the shift does not look."""
    at_once = {"verify": lambda real, params, call: Done()}
    blind = {"precheck": lambda real, params, call: Done({"weights": {SOURCE: 100, TARGET: 0}})}
    played = play(calm(), change={"service.start": changed(**at_once), "traffic.shift": changed(**blind)})
    assert any("is cold" in violation.text for violation in played.violations if violation.rule == "serving-capacity")


def test_backend_of_another_model_is_seen(play, changed):
    warm = {"verify": lambda real, params, call: Pending(1.0) if call.now_s - call.since_s < 5.0 else Done()}
    blind = {"precheck": lambda real, params, call: Done({"weights": {SOURCE: 100, TARGET: 0}})}
    played = play(calm(Temper(wrong_model=True)), change={"service.start": changed(**warm), "traffic.shift": changed(**blind)})
    assert any("has model" in violation.text for violation in played.violations if violation.rule == "serving-capacity")


def test_too_little_capacity_is_seen(play):
    """Warm and right, but too small for all."""
    scenario = calm()
    small = tuple(msgspec.structs.replace(plan, capacity_rps=1.0) if plan.site == TARGET else plan for plan in scenario.blueprint.backends)
    played = play(msgspec.structs.replace(scenario, blueprint=msgspec.structs.replace(scenario.blueprint, backends=small)))
    assert played.rules == {"serving-capacity"}


def test_backend_that_is_stopped_before_its_streams_ended_is_seen(play, changed):
    def without_draining(real, params, call):
        return real(msgspec.structs.replace(params, drain_s=0.0), call)

    abort = [ft.Word(6.0, ft.Saying.ABORT)]
    played = play(calm(), faults=abort, change={"service.start": changed(undo=without_draining)})
    assert played.rules == {"streams"}
    assert play(calm(), faults=abort).violations == []


def test_run_that_never_ends_is_seen(play, changed, with_runbook):
    """Without a deadline that comes within a lifetime, an action that waits for ever hangs."""
    endless = with_runbook(calm(), lambda step: msgspec.structs.replace(step, deadline_s=1e9) if step.id == "drain" else step)
    played = play(endless, change={"traffic.drain": changed(apply=lambda real, params, call: Pending(600.0))})
    assert "ends" in played.rules


@pytest.mark.parametrize("left", [st.Waiting(), st.Broken(1.0, "why", "what", True, {}, {}), st.ToUndo(1.0, {}, {})])
def test_step_that_was_left_behind_is_seen(play, left):
    played = play(calm(), faults=[ft.Word(5.0, ft.Saying.ABORT)])
    assert played.verdict == "rolled-back"
    state = st.with_step(played.finished.state, StepId("standby"), left)
    found = violations(played.lab, msgspec.structs.replace(played.finished, state=state))
    assert [violation.rule for violation in found] == ["steps"]


def test_job_that_is_lost_is_seen(play, changed):
    """The release is never given, and yet reported."""

    def claims(real, params, call):
        return Done({"resumed_step": 1, "lost_steps": 0, "lost_compute_s": 1.0, "epoch": 1})

    played = play(calm(), change={"training.release": changed(apply=lambda real, params, call: Done(), verify=claims)})
    assert {"one-live-writer", "reported-losses"} <= played.rules


def test_G04_weights_that_an_undo_does_not_restore_are_seen(play, changed):
    abort = [ft.Word(6.0, ft.Saying.ABORT)]
    played = play(calm(), faults=abort, change={"traffic.shift": changed(undo=lambda real, params, call: Done())})
    assert "weights" in played.rules


def test_steps_computed_twice_without_a_word_are_seen(play):
    """The newest snapshot is passed over, and the report does not say that its steps are lost."""

    def older(action, ports):
        class Forgetful:
            name, params_type, undoable = action.name, action.params_type, True
            precheck, apply, undo = action.precheck, action.apply, action.undo

            def verify(self, params, call):
                outcome = action.verify(params, call)
                if not isinstance(outcome, Done):
                    return outcome
                old = min((held for held in held_at_target(ports)), key=lambda held: held.step)
                return Done({**outcome.evidence, "snapshot": old.id, "step": old.step, "lost_steps": 0})

        return Forgetful()

    def held_at_target(ports):
        return [held for held in world[0].vaults[TARGET].held.values() if held.workload == TRAIN]

    def silent(action, ports):
        class Silent:
            name, params_type, undoable = action.name, action.params_type, True
            precheck, apply, undo = action.precheck, action.apply, action.undo

            def verify(self, params, call):
                outcome = action.verify(params, call)
                return Done({**outcome.evidence, "lost_steps": 0}) if isinstance(outcome, Done) else outcome

        return Silent()

    world = []
    played = play(calm(), change={"training.hold": older, "training.release": silent}, prepare=lambda lab: world.append(lab.world))
    assert {"steps-once", "reported-losses"} <= played.rules


@pytest.mark.parametrize("lie", [{"lost_compute_s": 0.001}, {"lost_steps": 3}])
def test_wrong_report_is_seen(play, changed, lie):
    def lies(real, params, call):
        outcome = real(params, call)
        return Done({**outcome.evidence, **lie}) if isinstance(outcome, Done) else outcome

    played = play(calm(), change={"training.release": changed(verify=lies)})
    assert played.rules == {"reported-losses"}


def test_entry_that_was_changed_is_seen(play):
    played = play(calm())
    entries = list(played.finished.entries)
    entries[5] = msgspec.structs.replace(entries[5], payload=entries[5].payload.replace(b"1", b"2", 1))
    found = violations(played.lab, msgspec.structs.replace(played.finished, entries=entries))
    assert [violation.rule for violation in found] == ["ledger"]


def test_job_that_a_rollback_leaves_behind_is_seen(play, changed):
    played = play(calm(), faults=[ft.Word(6.0, ft.Saying.ABORT)], change={"service.start": changed(undo=lambda real, params, call: Done())})
    assert played.rules == {"jobs"}


def test_dead_backend_is_the_faults_doing_and_not_the_runs(play):
    played = play(calm(), faults=[ft.JobDeath(TARGET, BACKEND_NEW, 6.0)])
    assert (played.verdict, played.violations) == ("rolled-back", [])
    assert played.lab.journal.head_seq(RUN) == len(played.finished.entries)
    assert all(isinstance(step, ActionStep) or step.id.startswith("gate") for step in calm().runbook.steps)
