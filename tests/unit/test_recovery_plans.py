"""Order, streams, losses, escalation and runbooks of recoveries, without clock or file (R11, R14; J05-J08, G06)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from bridgehead.app import wiring
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Approvers, Escalation, Protected, Recovery, Role, SiteJob
from bridgehead.model.runbook import ActionStep, ApprovalStep, OnFailure, Runbook, UndoPolicy
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.recovery.escalation import due, waits
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.loss import LastSeen, Losses, loss_of
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.order import needed, ordered, tier
from bridgehead.recovery.protection import Protection, protect_runbook
from bridgehead.recovery.steps import Case
from bridgehead.runbook import state as st
from bridgehead.runbook.finding import WARNINGS
from bridgehead.runbook.language import read_runbook, write_runbook
from bridgehead.runbook.lint import lint
from bridgehead.testing.virtual_failover import NEW, OLD, protected

POINT = SnapshotInfo("lm@100", "lm", 100, 0, "a", 1000.0, 10, verified=True, counts=True)


def one(name: str, kind: WorkloadKind = WorkloadKind.SERVICE, **given: object) -> Protected:
    jobs = tuple(SiteJob(site, ("run", name)) for site in ("a", "b"))
    return Protected(name, kind, "a", "b", jobs, **given)


def test_R14_foundations_come_first_then_services_inference_by_priority_training_batch() -> None:
    work = [
        one("batch", WorkloadKind.BATCH),
        one("train", WorkloadKind.TRAINING),
        one("small", WorkloadKind.INFERENCE, service="s", priority=1),
        one("big", WorkloadKind.INFERENCE, service="b", priority=9),
        one("web"),
        one("slurm", role=Role.SCHEDULER),
        one("harbor", role=Role.REGISTRY),
        one("ceph", role=Role.STORAGE),
        one("bind", role=Role.DNS),
        one("ldap", role=Role.IDENTITY),
    ]
    assert [each.id for each in ordered(work)] == ["ldap", "bind", "ceph", "harbor", "slurm", "web", "big", "small", "train", "batch"]


def test_needs_are_stronger_than_tiers() -> None:
    work = [one("ldap", role=Role.IDENTITY, needs=("db",)), one("db"), one("bind", role=Role.DNS)]
    assert [each.id for each in ordered(work)] == ["db", "ldap", "bind"]
    by_name = {each.id: each for each in work}
    assert needed(by_name["ldap"], work) == ("db",)
    assert needed(by_name["db"], work) == ()  # ldap waits for it, and bind for ldap
    assert needed(by_name["bind"], work) == ("ldap",)


@given(some.data())
def test_whatever_is_needed_nothing_waits_for_itself(data: some.DataObject) -> None:
    kinds = [*WorkloadKind]
    names = [f"w{number}" for number in range(data.draw(some.integers(1, 9)))]
    work = []
    for number, name in enumerate(names):
        needs = tuple(data.draw(some.sets(some.sampled_from(names[:number])))) if number else ()
        work.append(one(name, data.draw(some.sampled_from(kinds)), role=data.draw(some.sampled_from([*Role])), needs=needs))
    order = [each.id for each in ordered(data.draw(some.permutations(work)))]
    assert sorted(order) == sorted(names)
    for each in work:
        assert all(order.index(need) < order.index(each.id) for need in needed(each, work))


def test_every_workload_waits_for_the_nearest_foundations() -> None:
    work = [one("ldap", role=Role.IDENTITY), one("ceph", role=Role.STORAGE), one("train", WorkloadKind.TRAINING, needs=("ldap",))]
    assert needed(work[2], work) == ("ldap", "ceph")
    assert needed(work[1], work) == ("ldap",)
    assert needed(work[0], work) == ()
    assert tier(work[0]) < tier(work[1]) < tier(work[2])


def test_the_loss_is_exact_where_the_trainer_was_seen_to_have_ended() -> None:
    loss = loss_of("lm", point=POINT, last=LastSeen(160, 1030.0, 1031.0, final=True), lost_s=1100.0, gpus=64)
    assert (loss.steps, loss.seconds, loss.exact) == (60, 30.0, True)
    assert loss.gpu_hours == pytest.approx(30 * 64 / 3600)
    assert loss.text == "lm: goes on from step 100 (lm@100); lost: 60 steps, 30 s of computing (0.533 GPU-hours)"


def test_an_older_report_is_a_lower_bound_and_the_time_an_upper_one() -> None:
    loss = loss_of("lm", point=POINT, last=LastSeen(160, 1030.0, 1031.0, final=False), lost_s=1100.0, gpus=1)
    assert (loss.steps, loss.seconds, loss.exact) == (60, 100.0, False)
    assert "at least 60 steps, at most 1 min 40 s of computing" in loss.text


def test_what_is_not_known_is_never_nothing() -> None:
    silent = loss_of("lm", point=POINT, last=None, lost_s=1100.0, gpus=1)
    nothing = loss_of("lm", point=None, last=None, lost_s=1100.0, gpus=1)
    assert "an unknown number of steps, at most 1 min 40 s" in silent.text
    assert "EVERYTHING is lost" in nothing.text
    both = Losses((loss_of("x", point=POINT, last=LastSeen(100, 999.0, 999.0, final=True), lost_s=1.0, gpus=1), silent))
    assert (both.steps, both.seconds, both.exact) == (None, 100.0, False)
    assert Losses((silent, nothing)).seconds is None


def case(workload: Protected, **given: object) -> Case:
    return Case(workload, "a", "b", **given)


def recovery(*work: Protected, **given: object) -> Recovery:
    return Recovery("r", ("a", "b"), work, witness="w", **given)


def actions(runbook: Runbook) -> dict[str, ActionStep]:
    return {step.id: step for step in runbook.steps if isinstance(step, ActionStep)}


def test_the_approval_says_what_is_lost() -> None:
    train = one("lm", WorkloadKind.TRAINING, gpus=8)
    cases = (case(train, point=POINT, last=LastSeen(160, 1030.0, 1031.0, final=True)),)
    book = failover_runbook(Failover("f", recovery(train, approvers=Approvers(("ada",))), "a", cases, 1100.0))
    asked = next(step for step in book.steps if isinstance(step, ApprovalStep))
    assert "lost: 60 steps, 30 s of computing" in asked.text
    assert "nothing that a writes of lm counts" in asked.text
    assert asked.needs == ("confirm",)


def test_nothing_is_started_before_its_fence_and_nothing_is_taken_back() -> None:
    train, work = one("lm", WorkloadKind.TRAINING), one("job", WorkloadKind.BATCH)
    steps = actions(failover_runbook(Failover("f", recovery(train, work), "a", (case(train, point=POINT), case(work)), 0.0)))
    assert "fence-lm" in steps["standby-lm"].needs
    assert "fence-job" in steps["ready-job"].needs
    assert "of" not in steps["fence-job"].params  # a batch job without snapshots is fenced all the same
    assert {step.undo for step in steps.values()} == {UndoPolicy.KEEP}
    assert {step.on_failure for name, step in steps.items() if name != "confirm"} == {OnFailure.FREEZE}


def test_what_the_refuge_lacks_is_fetched_through_a_bounded_number_of_streams() -> None:
    work = [one(f"m{number}", WorkloadKind.INFERENCE, service=f"s{number}", restore_bytes=10) for number in range(6)]
    cases = tuple(case(each, model=f"model-{each.id}", copy_from="archive") for each in work)
    book = failover_runbook(Failover("f", recovery(*work, archives=("archive",), streams=2), "a", cases, 0.0))
    fetches = {name: step for name, step in actions(book).items() if name.startswith("fetch-")}
    assert book.limits == {"restore": 2}
    assert {(step.limit, step.needs) for step in fetches.values()} == {("restore", ("confirm",))}
    assert {step.limit for name, step in actions(book).items() if name not in fetches} == {""}
    assert "fetch-m2" in actions(book)["start-m2"].needs
    assert failover_runbook(Failover("f", recovery(*work), "a", (case(work[0], model="m"),), 0.0)).limits == {}


def test_runbooks_pass_the_linter_and_are_read_back_as_they_were() -> None:
    plan = protected()
    away = tuple(Case(each, OLD, NEW, model="m" if each.service else None) for each in plan.workloads)
    home = tuple(Case(each, NEW, OLD, model="m" if each.service else None) for each in plan.workloads)
    books = [
        failover_runbook(Failover("failover", plan, OLD, away, 0.0)),
        move_runbook(Move("move", plan, OLD, NEW, away, 0.0)),
        move_runbook(Move("gated", plan, OLD, NEW, tuple(msgspec.structs.replace(one, gated=True) for one in away), 0.0)),
        move_runbook(Move("failback", plan, NEW, OLD, home, 0.0, returned=True)),
        protect_runbook(Protection("protect", plan, OLD, away, 0.0)),
    ]
    types = wiring.action_params()
    for book in books:
        text = write_runbook(book, actions=types)
        assert read_runbook(text, file="x.yaml", actions=types) == book, book.name
        found = lint(book, types, undoable=wiring.undoable_actions())
        assert [one for one in found if one.code not in WARNINGS] == [], book.name


def test_G06_people_are_called_one_level_after_the_other_and_each_once() -> None:
    book = failover_runbook(Failover("f", recovery(one("web"), approvers=Approvers(("ada",))), "a", (case(one("web")),), 0.0))
    from bridgehead.model import event as ev
    from bridgehead.runbook.apply import fold

    events = [ev.RunOpened(0.0, "run", book, "", {}, "me", "0"), ev.DriverTook(0.0, 1, "x")]
    for phase in (ev.Phase.PRECHECK, ev.Phase.APPLY, ev.Phase.VERIFY):
        events += [ev.Intent(1.0, "confirm", phase, 1, 1), ev.PhaseDone(1.0, "confirm", phase, 1, 1, {})]
    state = fold([*events, ev.StepStarted(10.0, "approve")])
    assert isinstance(state.steps["approve"], st.Asking)
    levels = (Escalation(300.0, ("ben", "eve")), Escalation(60.0, ("ada",)))
    called = {now_s: [call.text for call in due(waits(state), levels, now_s=now_s)] for now_s in (50.0, 71.0, 311.0)}
    first, second = (f"calling {who}: run waits for an approval: approve" for who in ("ada", "ben, eve"))
    assert called == {50.0: [], 71.0: [first], 311.0: [first, second]}
