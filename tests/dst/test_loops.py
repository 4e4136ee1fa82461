"""Generic loops over every step of every runbook: fail it, repeat it, undo it twice, crash at each boundary of the journal."""

from __future__ import annotations

import pytest

from bridgehead.kernel.errors import Permanent, Unknown
from bridgehead.model.runbook import ActionStep, UndoPolicy
from bridgehead.simulate import faults as ft
from bridgehead.simulate.timeline import START_S
from bridgehead.testing.virtual_move import Temper, calm

RUNBOOKS = {"move": calm(), "move with approval": calm(Temper(approval=True))}
PHASES = ("precheck", "apply", "verify")
STEPS = [(name, step) for name, scenario in RUNBOOKS.items() for step in scenario.runbook.steps if isinstance(step, ActionStep)]
EACH_STEP = pytest.mark.parametrize(("name", "step"), STEPS, ids=[f"{name}: {step.id}" for name, step in STEPS])
UNDONE = [(name, step) for name, step in STEPS if step.undo is UndoPolicy.ACTION and step.id != "stop-training"]
EACH_UNDO = pytest.mark.parametrize(("name", "step"), UNDONE, ids=[f"{name}: {step.id}" for name, step in UNDONE])


def raises(error):
    def phase(real, params, call):
        raise error("planned", tried="do it", subject="the step")

    return phase


def acts_and_raises(error):
    """The effect is there, the phase fails: an action may do several things."""

    def phase(real, params, call):
        real(params, call)
        raise error("planned", tried="do it", subject="the step")

    return phase


def twice(real, params, call):
    real(params, call)
    return real(params, call)


def test_the_runbook_comes_to_its_goal(play):
    for scenario in RUNBOOKS.values():
        played = play(scenario)
        assert (played.verdict, played.violations) == ("done", [])


@pytest.mark.parametrize("phase", PHASES)
@EACH_STEP
def test_step_that_fails_for_good_is_rolled_back(play, changed, name, step, phase):
    played = play(RUNBOOKS[name], change={step.action: changed(step.id, **{phase: raises(Permanent)})})
    assert (played.verdict, played.violations) == ("rolled-back", [])


@EACH_STEP
def test_step_that_acts_and_fails_for_good_is_rolled_back(play, changed, name, step):
    played = play(RUNBOOKS[name], change={step.action: changed(step.id, apply=acts_and_raises(Permanent))})
    assert (played.verdict, played.violations) == ("rolled-back", [])


@EACH_STEP
def test_step_whose_answers_are_all_lost_is_settled(play, changed, name, step):
    """It is looked at, found done, and the run goes on; or it is rolled back."""
    played = play(RUNBOOKS[name], change={step.action: changed(step.id, apply=acts_and_raises(Unknown))})
    assert played.verdict in ("done", "rolled-back")
    assert played.violations == []


@EACH_STEP
def test_repeated_apply_changes_nothing(play, changed, name, step):
    played = play(RUNBOOKS[name], change={step.action: changed(step.id, apply=twice)})
    assert played.violations == []
    assert played.fingerprint == play(RUNBOOKS[name]).fingerprint


@EACH_UNDO
def test_repeated_undo_changes_nothing(play, changed, refuses, name, step):
    last = changed("stop-training", verify=refuses)
    once = play(RUNBOOKS[name], change=_both("job.stop", last, step.action, lambda action, ports: action))
    again = play(RUNBOOKS[name], change=_both("job.stop", last, step.action, changed(step.id, undo=twice)))
    assert once.verdict == "rolled-back"
    assert again.violations == []
    assert again.fingerprint == once.fingerprint


@EACH_UNDO
def test_undo_that_fails_for_good_is_stuck_with_an_instruction(play, changed, refuses, name, step):
    last = changed("stop-training", verify=refuses)
    played = play(RUNBOOKS[name], change=_both("job.stop", last, step.action, changed(step.id, undo=raises(Permanent))))
    assert (played.verdict, played.violations) == ("stuck", [])
    stuck = played.finished.state.steps[step.id]
    assert step.id in stuck.instruction


def _both(one, change_one, other, change_other):
    """Two changes, also when they concern the same action."""
    if one == other:
        return {one: lambda action, ports: change_other(change_one(action, ports), ports)}
    return {one: change_one, other: change_other}


EFFECTS = ("scheduler.start", "scheduler.stop", "training.request", "traffic.write", "vaults.replicate", "vaults.receipt", "vaults.fence")
WAYS = {"forward": (), "back": (ft.Word(9.0, ft.Saying.ABORT),), "all the way back": (ft.Word(17.2, ft.Saying.ABORT),)}


@pytest.mark.parametrize("side", list(ft.Side))
@pytest.mark.parametrize("way", WAYS)
def test_J02_crash_at_each_boundary_of_the_journal_ends_in_the_same_state(play, way, side):
    """Between intent and effect, between effect and outcome; a new driver goes on, in the next epoch."""
    undisturbed = play(calm(), faults=WAYS[way])
    assert undisturbed.lab.book.missed == []
    assert undisturbed.violations == []
    # The crash comes soon and lasts short, so that the abort still finds the run where it found it.
    for nth in range(1, undisturbed.lab.book.appends + 1):
        played = play(calm(), faults=[*WAYS[way], ft.DieAtAppend(nth, side, resume_after_s=0.01)])
        assert played.violations == [], f"crash {side} append {nth}"
        assert played.lab.book.missed == [], f"crash {side} append {nth}"
        assert _without_skipped(played) == _without_skipped(undisturbed), f"crash {side} append {nth}"
        ended_before = side is ft.Side.AFTER and nth == undisturbed.lab.book.appends
        assert played.finished.state.epoch == (1 if ended_before else 2), f"crash {side} append {nth}"


def _without_skipped(played):
    """After an abort, a step that the crash delayed a little may be skipped instead of undone: nothing of it is left either way."""
    fingerprint = dict(played.fingerprint)
    if played.verdict == "rolled-back":
        fingerprint["steps"] = {step for step, state in fingerprint["steps"].items() if state not in ("skipped", "undone", "finished")}
        fingerprint["jobs"] = {key for key, running in fingerprint["jobs"].items() if running}
    return fingerprint


@pytest.mark.parametrize("late_s", [0.5, 6.0])
def test_J13_each_call_of_a_dead_driver_that_arrives_late_does_no_harm(play, late_s):
    """Every call with an effect in turn: the driver dies when it has sent it, another one goes on, then the call arrives."""
    undisturbed = play(calm())
    for call in EFFECTS:
        for nth in range(1, 1 + undisturbed.lab.book.calls(call)):
            played = play(calm(), faults=[ft.LateCall(call, nth, late_s, resume_after_s=0.2)])
            assert (played.verdict, played.violations) == ("done", []), f"{call} {nth}"
            assert played.fingerprint == undisturbed.fingerprint, f"{call} {nth}"


@pytest.mark.parametrize("late_s", [1.0, 6.0])
def test_J13_late_call_of_a_dead_driver_after_an_abort_changes_nothing_that_was_restored(play, late_s):
    """The new driver finds an abort, sees nothing of the call, and must not trust that."""
    undisturbed = play(calm())
    sent = [(at_s, line.split()[0]) for at_s, line in undisturbed.lab.trace if line.split()[0] in EFFECTS]
    seen = {}
    for at_s, call in sent:
        seen[call] = seen.get(call, 0) + 1
        dies_s = at_s - START_S
        faults = [ft.LateCall(call, seen[call], late_s, resume_after_s=0.2), ft.Word(dies_s + 0.1, ft.Saying.ABORT)]
        played = play(calm(), faults=faults)
        assert played.lab.book.missed == [], f"{call} {seen[call]}"
        assert (played.verdict, played.violations) == ("rolled-back", []), f"{call} {seen[call]}"


@pytest.mark.parametrize("way", WAYS)
def test_J13_commands_of_a_frozen_driver_that_are_carried_out_late_do_no_harm(play, way):
    """At each boundary of the journal the driver freezes with all that it had begun; another takes over; then it wakes up."""
    undisturbed = play(calm(), faults=WAYS[way])
    for nth in range(1, undisturbed.lab.book.appends):
        played = play(calm(), faults=[*WAYS[way], ft.DieAtAppend(nth, ft.Side.AFTER, resume_after_s=0.01, zombie_s=3.0)])
        assert played.violations == [], f"frozen at append {nth}"
        assert _without_skipped(played) == _without_skipped(undisturbed), f"frozen at append {nth}"


def test_G05_abort_at_any_moment_restores_everything(play):
    for tenths in range(0, 208, 2):
        played = play(calm(), faults=[ft.Word(tenths / 10, ft.Saying.ABORT)])
        assert (played.verdict, played.violations) == ("rolled-back", []), f"abort at {tenths / 10} s"


def test_pause_at_any_moment_loses_nothing(play):
    for tenths in range(0, 208, 5):
        words = [ft.Word(tenths / 10, ft.Saying.PAUSE), ft.Word(tenths / 10 + 90.0, ft.Saying.RESUME)]
        played = play(calm(), faults=words)
        assert (played.verdict, played.violations) == ("done", []), f"pause at {tenths / 10} s"
