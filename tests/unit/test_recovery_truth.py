"""Recoveries say no more than they know, and do no more than was approved (design rules 7 to 9; J05, J12, R6)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.app.recover_look import UNSEEN, look
from bridgehead.app.recover_outcome import outcome_of
from bridgehead.drivers.world import Calls, connect
from bridgehead.kernel.errors import PortError, Transient
from bridgehead.model import event as ev
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Approvers, Hook, HookPoint, Protected, Recovery, SiteJob
from bridgehead.model.runbook import ActionStep, ApprovalStep
from bridgehead.model.site_map import SiteLook
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.scheduler import JobIdentity, JobRunning, JobSpec
from bridgehead.ports.training import TrainerState, TrainingProgress
from bridgehead.recovery.actions.jobs import is_running
from bridgehead.recovery.actions.losing import ConfirmLoss, ConfirmLossParams, MeasureLoss, MeasureLossParams, Watched
from bridgehead.recovery.actions.proving import ProveNewest, ProveParams
from bridgehead.recovery.actions.ramping import RampParams, RampTraffic
from bridgehead.recovery.actions.running import EnsureJob, EnsureParams
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.loss import LastSeen, Loss, Losses, loss_of
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.steps import LONG_PAUSE_S, Case
from bridgehead.runbook.action import Call, Done, Failed, Pending
from bridgehead.runbook.apply import fold
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint, StoredPlan
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.timeline import START_S
from bridgehead.simulate.world import World
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.scheduler_suite import stamp
from bridgehead.testing.virtual_failover import CHAT, LDAP, NEW, OLD, SERVICE, TRAIN, TRAINERS, _case, calm_loss, play, protected

POINT = SnapshotInfo("lm@100", "lm", 100, 0, "a", 1000.0, 10, verified=True, counts=True)


def call(world: World, *, recorded: dict | None = None, earlier: dict | None = None, since_s: float | None = None) -> Call:
    return Call(stamp(), recorded or {}, {}, earlier or {}, world.now_s if since_s is None else since_s, world.now_s)


def two_sites(*stored: StoredPlan) -> World:
    return World(Blueprint(sites=("a", "b"), stored=stored))


def work(kind: WorkloadKind, name: str = "w") -> Protected:
    return Protected(name, kind, "a", "b", tuple(SiteJob(site, ("run",)) for site in ("a", "b")))


# a job that ended well long ago


@pytest.mark.parametrize("code", [0, 3])
def test_J12_an_old_execution_that_ended_is_no_proof_that_this_one_did(code: int) -> None:
    world = two_sites()
    ports = connect(Calls(world))
    spec = JobSpec(name="job", command=("exits", str(code)))
    ports.scheduler("a").start(spec, stamp=stamp("last-month"))
    world.timeline.run_until(world.now_s + 5)
    ensure, params = EnsureJob(ports), EnsureParams("a", msgspec.structs.replace(spec, command=("exits", "0")))
    before = ensure.precheck(params, call(world))
    assert isinstance(before, Done)
    assert not before.evidence["ran_before"]
    world.timeline.run_until(world.now_s + 5)
    assert isinstance(ensure.verify(params, call(world, recorded=before.evidence)), Failed)
    assert isinstance(ensure.apply(params, call(world, recorded=before.evidence)), Done)
    world.timeline.run_until(world.now_s + 5)
    ended = ensure.verify(params, call(world, recorded=before.evidence))
    assert isinstance(ended, Done)
    assert ended.evidence["ended"] == "well"


# what was approved


def test_an_older_snapshot_than_the_approved_one_is_not_promoted() -> None:
    world = two_sites(StoredPlan("b", "lm", 100))
    prove = ProveNewest(connect(Calls(world)))
    assert isinstance(prove.precheck(ProveParams("lm", "b", at_least_step=100), call(world)), Done)
    refused = prove.precheck(ProveParams("lm", "b", at_least_step=101), call(world))
    assert isinstance(refused, Failed)
    assert "of step 100" in refused.reason
    assert "from step 101" in refused.reason
    assert "new failover" in refused.remedy


def test_after_the_answer_it_is_looked_again_and_the_point_is_the_approved_one() -> None:
    train = msgspec.structs.replace(work(WorkloadKind.TRAINING, "lm"), gpus=8)
    plan = Recovery("r", ("a", "b"), (train,), witness="w", approvers=Approvers(("ada",)))
    book = failover_runbook(Failover("f", plan, "a", (Case(train, "a", "b", point=POINT),), 1100.0))
    steps = {step.id: step for step in book.steps}
    assert isinstance(steps["approve"], ApprovalStep)
    assert steps["confirm-again"].needs == ("approve",)
    assert steps["confirm-again"].params == steps["confirm"].params
    assert {steps[name].params["confirmed"] for name in ("ready-lm", "measure-lm")} == {"confirm-again"}
    assert steps["prove-lm"].params["at_least_step"] == 100
    changing = [step for step in book.steps if isinstance(step, ActionStep) and step.action not in ("recovery.confirm-loss",)]
    for step in changing:
        assert "confirm-again" in _before(steps, step.id), step.id


def _before(steps: dict, step: str) -> set[str]:
    found = set(steps[step].needs)
    for need in steps[step].needs:
        found |= _before(steps, need)
    return found


def test_J05_a_site_that_returns_while_people_think_is_not_failed_over() -> None:
    """The answer comes after 5 s; the site was only cut off, for 3."""
    scenario = calm_loss(loss=ft.CutOff(OLD, 0.0, 3.0))
    asking = msgspec.structs.replace(protected(), approvers=Approvers(("ada",)))
    away = tuple(_case(one, OLD, NEW) for one in asking.workloads)
    book = failover_runbook(Failover("failover", asking, OLD, away, START_S))
    played = play(msgspec.structs.replace(scenario, failover=book), back=False, actions_of=wiring.actions)
    assert (verdict_of(played.failover), played.violations) == ("rolled-back", ())
    assert f"{OLD} is alive" in played.failover.state.mode.reason
    assert played.lab.world.decided(TRAIN) is None
    assert played.lab.world.newest(NEW, TRAINERS[NEW]) is None


# moves


def test_what_a_batch_job_saved_last_counts_behind_the_fence() -> None:
    batch = work(WorkloadKind.BATCH)
    for saved in (True, None):
        steps = {step.id: step for step in _moved(batch, saved).steps}
        assert steps["final-copy-w"].needs == ("stop-w",)
        assert steps["fence-w"].params["of"] == "final-copy-w"
        assert set(steps["fence-w"].needs) == {"stop-w", "final-copy-w"}
    book = _moved(batch, False)
    assert "of" not in {step.id: step for step in book.steps}["fence-w"].params
    assert "Nothing is saved of w: it begins from the beginning" in book.description


def _moved(batch: Protected, saved: bool | None):
    plan = Recovery("r", ("a", "b"), (batch,), witness="w")
    return move_runbook(Move("m", plan, "a", "b", (Case(batch, "a", "b", saved=saved),), 0.0))


def test_a_move_that_waits_for_people_is_not_taken_back_over_the_weekend() -> None:
    assert _moved(work(WorkloadKind.BATCH), False).pause_expires_s == LONG_PAUSE_S


# losses


def test_a_report_without_the_time_of_its_step_bounds_the_loss_and_does_not_end_it() -> None:
    loss = loss_of("lm", point=POINT, last=LastSeen(160, 0.0, 1031.0, final=True), lost_s=1100.0, gpus=1)
    assert (loss.steps, loss.seconds, loss.exact) == (60, 100.0, False)
    level = loss_of("lm", point=POINT, last=LastSeen(100, 0.0, 1031.0, final=True), lost_s=1100.0, gpus=1)
    assert (level.steps, level.seconds, level.exact) == (0, 0.0, True)


def _report(step: int, ended_s: float) -> TrainingProgress:
    return TrainingProgress(
        state=TrainerState.RUNNING, step=step, epoch=0, saved=None, loaded=None, obeyed="", reported_s=1400.0, step_ended_s=ended_s
    )


@pytest.mark.parametrize(
    ("now", "before", "lost"),
    [
        ((130, 1050.0), None, 30),
        ((110, 0.0), (130, 1050.0), 30),  # began again from a snapshot, and completed nothing
        ((110, 0.0), None, None),
        ((110, 1040.0), (130, 1050.0), 30),  # two reports from before the fence: the higher one was really done
        ((500, 1300.0), (130, 1050.0), 30),  # behind the fence
        ((500, 1300.0), None, None),
        (None, (130, 1050.0), 30),
        (None, None, None),
    ],
)
def test_the_measured_loss_is_of_what_was_done_before_the_fence(now, before, lost) -> None:
    world = two_sites()
    if now is not None:
        step, ended_s = now
        world.desks["a"].reports["lm"] = _report(step, ended_s)
    earlier = {"prove": {"step": 100}, "fence": {"decided_s": 1200.0}, "confirm": {}}
    if before is not None:
        earlier["confirm"] = {"lm": msgspec.to_builtins(LastSeen(before[0], before[1], 1100.0, final=False))}
    params = MeasureLossParams("lm", "a", "lm", "prove", "fence", "confirm")
    found = MeasureLoss(connect(Calls(world))).verify(params, call(world, earlier=earlier))
    assert isinstance(found, Done)
    assert found.evidence["lost_steps"] == lost


def test_the_outcome_of_a_failover_is_unknown_until_it_is_measured_or_was_stated() -> None:
    batch, train = work(WorkloadKind.BATCH, "job"), work(WorkloadKind.TRAINING, "lm")
    plan = Recovery("r", ("a", "b"), (batch, train), witness="w")
    cases = tuple(Case(one, "a", "b", point=POINT if one is train else None) for one in (batch, train))
    book = failover_runbook(Failover("f", plan, "a", cases, 0.0))
    state = fold([ev.RunOpened(0.0, "run", book, "", {}, "me", "0")])
    silent = outcome_of(state, head="h")
    assert (silent.rpo_s, silent.rpo_steps, silent.rpo_exact) == (None, None, False)
    assert [one.workload for one in silent.losses] == ["lm", "job"]
    stated = Losses((Loss("lm", "lm@100", 100, 110, 10, 5.0, 8, exact=True),))
    partly = outcome_of(state, head="h", stated=stated)
    assert (partly.rpo_s, partly.rpo_steps, partly.rpo_exact) == (None, None, False)
    moved = outcome_of(fold([ev.RunOpened(0.0, "run", _moved(batch, False), "", {}, "me", "0")]), head="h")
    assert (moved.rpo_s, moved.rpo_steps, moved.rpo_exact) == (None, None, False)  # the batch job begins again
    assert moved.losses[0].text == "job: what is lost is not known"
    served = move_runbook(
        Move("m", Recovery("r", ("a", "b"), (work(WorkloadKind.SERVICE),)), "a", "b", (Case(work(WorkloadKind.SERVICE), "a", "b"),), 0.0)
    )
    nothing = outcome_of(fold([ev.RunOpened(0.0, "run", served, "", {}, "me", "0")]), head="h")
    assert (nothing.rpo_s, nothing.rpo_steps, nothing.rpo_exact) == (0.0, 0, True)


# looking


def test_what_cannot_be_seen_is_neither_at_home_nor_empty() -> None:
    world = World(calm_loss().blueprint)
    ports = connect(Calls(world))
    seen = look(ports, protected(), site=OLD)
    assert {case.id: case.gated for case in seen.cases}[CHAT]
    world.network.cut_off(EDGE)
    blind = look(ports, protected(), site=OLD)
    assert blind.left_out == {CHAT: UNSEEN}
    assert {case.id for case in blind.cases} == {LDAP, TRAIN}
    world.network.join(EDGE)
    world.network.cut_off(NEW)
    with pytest.raises(PortError):
        look(ports, protected(), site=OLD, only=[TRAIN])


# ramps


def test_counters_that_begin_again_hide_no_errors() -> None:
    world = World(calm_loss().blueprint)
    ports, now_s = connect(Calls(world)), world.now_s
    ports.scheduler(NEW).start(JobSpec(name="chat-new", command=("serve",)), stamp=stamp("serve"))
    world.timeline.run_until(now_s + 10)
    ramp, params = RampTraffic(ports), RampParams(SERVICE, OLD, NEW, 10, 1.0, errors=0.05)
    before = ramp.precheck(params, call(world))
    assert isinstance(before, Done)
    counters = world.proxies[SERVICE].counters[NEW]
    counters.update(requests_total=1000.0, errors_total=0.0)
    assert isinstance(ramp.apply(params, call(world, recorded=before.evidence)), Pending)
    world.timeline.run_until(world.now_s + 3)
    counters.update(requests_total=100.0, errors_total=90.0)  # the backend was replaced
    held = ramp.apply(params, call(world, recorded=before.evidence))
    assert isinstance(held, Pending)
    assert "were errors" in held.progress["held_by"]


def test_R14_what_a_move_needs_is_proved_before_anything_is_copied_or_stopped() -> None:
    train = work(WorkloadKind.TRAINING, "lm")
    needs = SiteNeeds(workload="lm", source="a", target="b", look=SiteLook("b"))
    plan = Recovery("r", ("a", "b"), (train,), witness="w", mapping="policy.yaml")
    book = move_runbook(Move("m", plan, "a", "b", (Case(train, "a", "b"),), 0.0, needs=(needs,)))
    steps = {step.id: step for step in book.steps}
    assert steps["preflight-lm"].needs == ()
    for step in book.steps:
        assert step.id == "preflight-lm" or "preflight-lm" in _before(steps, step.id), step.id


# what waits in a queue


def test_a_job_that_waits_in_a_queue_does_not_work_and_shows_no_life() -> None:
    queued = JobRunning(JobIdentity("b", "job", "site-b/7", 1.0), waiting_for="Resources")
    waits = is_running(queued, "b")
    assert isinstance(waits, Pending)
    assert "Resources" in waits.progress["waiting_for"]
    assert isinstance(is_running(msgspec.structs.replace(queued, waiting_for=""), "b"), Done)


class Trainer:
    """A source whose scheduler is out of reach, and whose trainer reports."""

    def __init__(self) -> None:
        self.world = two_sites()
        self.ports = connect(Calls(self.world))
        self.ports.schedulers["a"].observe = self.unseen  # type: ignore[method-assign]  # a source that is out of reach

    def unseen(self, name: str) -> None:
        raise Transient("out of reach", tried="observe", subject=name)

    def report(self, at_s: float) -> None:
        self.world.desks["a"].reports["lm"] = msgspec.structs.replace(_report(5, at_s), reported_s=at_s)


@pytest.mark.parametrize("quiet_s", [5.0, 60.0])
def test_J05_a_trainer_is_listened_to_from_the_first_look_on_whenever_that_is(quiet_s: float) -> None:
    """The step has waited for something else first, or another driver has taken over: both have heard nothing yet."""
    trainer, params = Trainer(), ConfirmLossParams("a", (Watched("lm", trains="lm", quiet_s=quiet_s),))
    now_s = trainer.world.now_s
    trainer.report(now_s - 1.4 * quiet_s)
    confirm = ConfirmLoss(trainer.ports)

    def look(after_s: float):
        return confirm.precheck(params, Call(stamp(), {}, {}, {}, now_s - 100.0, now_s + after_s))

    assert isinstance(look(0.0), Pending)
    assert isinstance(look(0.5 * quiet_s), Pending)
    trainer.report(now_s + 0.55 * quiet_s)
    alive = look(0.6 * quiet_s)
    assert isinstance(alive, Failed)
    assert "lm reports" in alive.reason
    silent = ConfirmLoss(trainer.ports)
    confirm = silent
    assert isinstance(look(0.7 * quiet_s), Pending)
    assert isinstance(look(1.8 * quiet_s), Done)


def test_counters_that_are_silent_for_a_moment_hide_no_errors() -> None:
    world = World(calm_loss().blueprint)
    ports = connect(Calls(world))
    ports.scheduler(NEW).start(JobSpec(name="chat-new", command=("serve",)), stamp=stamp("serve"))
    world.timeline.run_until(world.now_s + 10)
    ramp, params = RampTraffic(ports), RampParams(SERVICE, OLD, NEW, 10, 1.0, errors=0.05)
    before = ramp.precheck(params, call(world))
    assert isinstance(before, Done)
    counters, read = world.proxies[SERVICE].counters[NEW], ports.metrics.read
    counters.update(requests_total=1_000_000.0, errors_total=0.0)
    assert isinstance(ramp.apply(params, call(world, recorded=before.evidence)), Pending)

    def silent(service: str, site: str) -> None:
        raise Transient("no answer", tried="read", subject=service)

    ports.metrics.read = silent  # type: ignore[method-assign]  # a source that is out of reach
    world.timeline.run_until(world.now_s + 3)
    assert isinstance(ramp.apply(params, call(world, recorded=before.evidence)), Pending)  # rises, and cannot count
    ports.metrics.read = read  # type: ignore[method-assign]  # a source that is out of reach
    counters.update(requests_total=1_000_100.0, errors_total=100.0)
    world.timeline.run_until(world.now_s + 3)
    held = ramp.apply(params, call(world, recorded=before.evidence))
    assert isinstance(held, Pending)
    assert "were errors" in held.progress["held_by"]


# hooks


def test_R16_hooks_stand_before_all_that_changes_a_workload_and_after_it_works() -> None:
    hooks = (Hook("ready", HookPoint.BEFORE_RECOVERY, ("true",)), Hook("go", HookPoint.AFTER_RECOVERY, ("true",)))
    train = msgspec.structs.replace(work(WorkloadKind.TRAINING, "lm"), hooks=hooks)
    plain = work(WorkloadKind.SERVICE, "web")
    plan = Recovery("r", ("a", "b"), (train, plain), witness="w")
    cases = (Case(train, "a", "b", point=POINT), Case(plain, "a", "b"))
    for book, first in (
        (failover_runbook(Failover("f", plan, "a", cases, 0.0, folder="/h")), "fence-lm"),
        (move_runbook(Move("m", plan, "a", "b", cases, 0.0, folder="/h")), "precopy-again-lm"),
    ):
        steps = {step.id: step for step in book.steps}
        assert "before-lm" in _before(steps, first)
        assert steps["after-lm"].needs == ("ready-lm",)
        assert steps["before-lm"].params["folder"] == "/h"
        assert [hook["id"] for hook in steps["before-lm"].params["undo"]] == ["go"]
        assert "after-lm" not in _before(steps, "serving")
        assert "before-web" not in steps
