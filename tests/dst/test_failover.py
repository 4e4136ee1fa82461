"""Failovers in the simulated world: losses, partitions that heal, zombies, drivers that die at every boundary (J01, J05-J08, J13; R14)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.model import event as ev
from bridgehead.recovery.actions.losing import ConfirmLoss
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.runbook import state as st
from bridgehead.simulate import faults as ft
from bridgehead.simulate.timeline import START_S
from bridgehead.testing import virtual_failover
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.planted import asks_one, fences_nothing
from bridgehead.testing.virtual_failover import (
    BACKENDS,
    CHAT,
    LDAP,
    NEW,
    OLD,
    SERVICE,
    TRAIN,
    TRAINERS,
    WITNESS,
    _case,
    calm_loss,
    lost_by,
    protected,
)
from bridgehead.testing.virtual_lab import VirtualLab


def play(scenario, *, actions_of=wiring.actions, **how):
    return virtual_failover.play(scenario, actions_of=actions_of, **how)


def evidence(finished, step):
    done = finished.state.steps[step]
    assert isinstance(done, st.Finished), done
    return {**done.recorded, **done.applied, **done.verified}


def ended_at(lab, step):
    """World time at which a step's verify was journalled."""
    return next(
        at for at, event in lab.happened if isinstance(event, ev.PhaseDone) and (event.step, event.phase) == (step, ev.Phase.VERIFY)
    )


def began_at(lab, step):
    return next(at for at, event in lab.happened if isinstance(event, ev.Intent) and (event.step, event.phase) == (step, ev.Phase.APPLY))


@pytest.fixture(scope="module")
def calm():
    return play(calm_loss(), back=True)


def test_J08_both_milestones_are_facts_in_the_journal_and_the_second_ends_the_run(calm):
    assert (verdict_of(calm.failover), verdict_of(calm.failback), calm.violations) == ("done", "done", ())
    serving, protection = evidence(calm.failover, "serving"), evidence(calm.failover, "protected")
    assert serving["after_s"] < 10.0
    assert protection["reached_s"] > START_S + 15.0 > serving["reached_s"]


def test_J06_what_the_zombie_saves_counts_nowhere(calm):
    world = calm.lab.world
    zombies = [one for one in world.history[TRAIN] if one.trainer == f"{TRAINERS[OLD]}@{OLD}" and one.begun_s > START_S and one.epoch == 0]
    assert zombies
    assert zombies[-1].last >= zombies[-1].first
    assert zombies[-1].uncounted_from == zombies[-1].first
    assert world.vaults[OLD].newest(TRAIN).epoch == 2


def test_R14_needs_come_first_and_a_service_does_not_wait_for_the_training(calm):
    assert ended_at(calm.lab, f"ready-{LDAP}") < began_at(calm.lab, f"standby-{TRAIN}")
    assert ended_at(calm.lab, f"fence-{TRAIN}") < began_at(calm.lab, f"standby-{TRAIN}")


def test_R11_traffic_rises_no_faster_than_the_ramp_allows(calm):
    times = [(at, line) for at, line in calm.lab.trace if "traffic.write" in line]
    first = [at for at, _ in times if at < ended_at(calm.lab, "serving")]
    assert len(first) == 2
    assert first[1] - first[0] >= protected().ramp.every_s


def test_the_failback_loses_no_step(calm):
    assert evidence(calm.failback, f"ready-{TRAIN}")["lost_steps"] == 0


def test_the_stated_loss_is_the_real_one_where_the_source_can_be_read():
    """Its jobs are dead, its files can be seen."""
    dead = [ft.JobDeath(OLD, job, 0.0) for job in (TRAINERS[OLD], BACKENDS[OLD], "ldap-old")]
    played = play(msgspec.structs.replace(calm_loss(), faults=()), back=False, more=dead)
    assert (verdict_of(played.failover), played.violations) == ("done", ())
    loss = evidence(played.failover, f"ready-{TRAIN}")["loss"]
    source = played.lab.world.history[TRAIN][0]
    promoted = played.lab.world.history[TRAIN][1]
    assert loss["exact"]
    assert loss["steps"] == source.last - (promoted.first - 1)
    assert loss["steps"] > 0
    assert evidence(played.failover, f"measure-{TRAIN}")["lost_steps"] == loss["steps"]


def test_what_is_not_known_of_the_loss_is_said_to_be_unknown_and_bounded(calm):
    loss = evidence(calm.failover, f"ready-{TRAIN}")["loss"]
    assert loss["steps"] is None
    assert not loss["exact"]
    assert loss["seconds"] >= 0


def test_J05_a_site_that_is_alive_is_not_failed_over():
    played = play(msgspec.structs.replace(calm_loss(), faults=()), back=False)
    assert verdict_of(played.failover) == "rolled-back"
    assert f"{OLD} is alive" in played.failover.state.mode.reason
    assert played.lab.world.newest(NEW, TRAINERS[NEW]) is None
    assert played.lab.world.decided(TRAIN) is None


def test_J05_without_a_majority_nothing_is_promoted_until_the_witness_is_back():
    away = ft.CutOff(WITNESS, 0.0, 30.0)
    played = play(msgspec.structs.replace(calm_loss(), faults=(ft.SiteLoss(OLD, 0.0, 60.0),)), back=False, more=[away])
    assert (verdict_of(played.failover), played.violations) == ("done", ())
    assert began_at(played.lab, f"standby-{TRAIN}") > START_S + 30.0


def test_a_fence_that_only_the_new_holder_knows_is_found_out():
    """The checks see a controller that does not ask a majority."""
    gone = ft.CutOff(OLD, 0.0, 20.0)
    played = play(calm_loss(loss=gone), back=False, actions_of=asks_one(wiring.actions))
    assert {violation.rule for violation in played.violations} == {"decided-first"}


def test_J05_a_fence_that_is_only_claimed_promotes_nothing():
    """The step that promotes looks for itself."""
    for seed in range(5):
        played = play(lost_by(seed), back=False, actions_of=fences_nothing(wiring.actions))
        assert (verdict_of(played.failover), played.violations) == ("on-hold", ()), f"seed {seed}"
        assert f"no fence gives {TRAIN} to {NEW}" in played.failover.state.mode.reason
        assert [one.trainer for one in played.lab.world.history[TRAIN] if one.epoch > 0] == []


def test_an_operator_may_give_up_a_site_that_lives_by_saying_why():
    scenario = msgspec.structs.replace(calm_loss(), faults=())
    steps = [
        msgspec.structs.replace(step, params={**step.params, "because": "flood in the hall"}) if step.id == "confirm" else step
        for step in scenario.failover.steps
    ]
    forced = msgspec.structs.replace(scenario, failover=msgspec.structs.replace(scenario.failover, steps=tuple(steps)))
    played = play(forced, back=False)
    assert (verdict_of(played.failover), played.violations) == ("done", ())
    assert evidence(played.failover, "confirm")["signs"]
    assert not played.lab.world.newest(OLD, TRAINERS[OLD]).running


def outcome(played):
    world = played.lab.world
    jobs = {key: (executions[-1].running, len(executions)) for key, executions in world.jobs.items()}
    fences = {site: [fence.epoch for fence in vault.fences.get(TRAIN, ())] for site, vault in world.vaults.items()}
    weights = {service: proxy.in_force for service, proxy in world.proxies.items()}
    verdicts = (verdict_of(played.failover), None if played.failback is None else verdict_of(played.failback))
    return verdicts, jobs, fences, weights


@pytest.mark.parametrize("side", list(ft.Side))
def test_J02_a_controller_killed_at_every_boundary_of_failover_and_failback_has_one_effect_each(calm, side):
    """Every boundary of the journal, in turns before and after the write: each side covers one half of them."""
    wanted = outcome(calm)
    for nth in range(1 if side is ft.Side.BEFORE else 2, calm.lab.book.appends + 1, 2):
        played = play(calm_loss(), back=True, more=[ft.DieAtAppend(nth, side, resume_after_s=0.01)])
        assert played.violations == (), f"killed {side} append {nth}"
        assert outcome(played) == wanted, f"killed {side} append {nth}"


def test_J05_partitions_that_heal_never_leave_two_writers_that_count():
    """Fifty seeds here; ``bench/partitions.py`` plays as many as one likes."""
    verdicts, kinds, zombies = set(), set(), 0
    for seed in range(50):
        played = play(lost_by(seed), back=seed % 5 == 0)
        assert played.violations == (), f"seed {seed}"
        verdicts.add(verdict_of(played.failover))
        kinds |= {type(fault) for fault in played.lab.book.hit}
        zombies += any(one.uncounted_from is not None and (one.last or 0) >= one.uncounted_from for one in played.lab.world.history[TRAIN])
    assert verdicts == {"done"}
    assert {ft.SiteLoss, ft.CutOff, ft.LateCall, ft.RepeatedCall, ft.DieAtAppend} <= kinds
    assert zombies > 10


def test_the_same_seed_is_the_same_run():
    traces = [[play(lost_by(7), back=True).lab.trace for _ in range(2)][number] for number in range(2)]
    assert traces[0] == traces[1]


def test_J01_ten_minutes_without_the_status_path_restart_nothing():
    """A planned move whose source cannot be seen for ten minutes: everything waits, nothing is started again, nothing is lost."""
    scenario = calm_loss()
    recovery = protected()
    cases = tuple(_case(one, OLD, NEW) for one in recovery.workloads)
    long = msgspec.structs.replace(recovery.deadlines, step_s=3600.0, restore_s=3600.0, copy_s=3600.0)
    patient = tuple(msgspec.structs.replace(one, patience_s=3600.0) for one in recovery.workloads)
    cases = tuple(msgspec.structs.replace(case, workload=one) for case, one in zip(cases, patient, strict=True))
    plan = Move("move", msgspec.structs.replace(recovery, deadlines=long, workloads=patient), OLD, NEW, cases, START_S)
    for at_s in (0.5, 3.0, 4.0, 6.0, 8.0):
        lab = VirtualLab(scenario.blueprint, move_runbook(plan), wiring.actions, faults=[ft.CutOff(OLD, at_s, 600.0)])
        finished = lab.run()
        assert verdict_of(finished) == "done", at_s
        assert lab.invariants.violations == [], at_s
        assert lab.book.missed == [], at_s
        assert {len(executions) for executions in lab.world.jobs.values()} == {1}, at_s
        assert evidence(finished, f"ready-{TRAIN}")["lost_steps"] == 0, at_s


def test_a_service_that_does_not_come_up_holds_up_only_what_needs_it():
    scenario = calm_loss()
    steps = []
    for step in scenario.failover.steps:
        if step.id == f"start-{CHAT}":
            job = {**step.params["job"], "command": ["cannot-execute"]}
            step = msgspec.structs.replace(step, params={**step.params, "job": job})
        steps.append(step)
    broken = msgspec.structs.replace(scenario, failover=msgspec.structs.replace(scenario.failover, steps=tuple(steps)))
    lab = VirtualLab(broken.blueprint, broken.failover, wiring.actions, faults=broken.faults)
    lab._pace = msgspec.structs.replace(lab._pace, limit_s=120.0)
    finished = lab.run()
    assert isinstance(finished.state.mode, st.OnHold)
    assert isinstance(finished.state.steps[f"ready-{TRAIN}"], st.Finished)
    assert isinstance(finished.state.steps["serving"], st.Waiting)
    assert any(isinstance(event, ev.Paged) for _, event in lab.happened)
    assert lab.world.proxies[SERVICE].in_force == {OLD: 100, NEW: 0}


def test_the_look_at_the_source_is_repeated_right_before_it_is_fenced_off():
    """It is up again when the approval comes: what was lost an hour ago may live now."""
    assert ConfirmLoss.name == calm_loss().failover.steps[0].action
    needs = {step.id: step.needs for step in calm_loss().failover.steps}
    assert "confirm" in needs[f"fence-{TRAIN}"]
