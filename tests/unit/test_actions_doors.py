"""Actions at a scheduler's doors, in the simulated world: done and undone under faults, and what others closed or held left alone."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.drivers.slurm import SlurmAdmission
from bridgehead.drivers.world import Calls, connect
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import JobName, SiteId, StepId
from bridgehead.model.equipment import NodeId
from bridgehead.model.runbook import ActionStep, Runbook
from bridgehead.ports.admission import GraceTerms, Reservation
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.doors import DrainNodes, DrainNodesParams, ResumeNodes, ResumeNodesParams, Until
from bridgehead.recovery.actions.queues import CheckGrace, GraceParams, HoldJobs, QueueParams
from bridgehead.runbook.action import Call, Done, Failed, Pending
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.doors import Closed
from bridgehead.simulate.world import World
from bridgehead.testing.fault_verdicts import verdict_of, violations
from bridgehead.testing.scheduler_suite import stamp
from bridgehead.testing.virtual_lab import VirtualLab

A, B = SiteId("site-a"), SiteId("site-b")
NODES = (NodeId("site-a-n1"), NodeId("site-a-n2"))
ROOM = Reservation("room", (NodeId("site-b-n1"),))
BATCH, OTHER = JobName("batch"), JobName("other")
WHY = "the site is moved"


def book(*steps):
    """Steps one after the other."""
    made, before = [], ()
    for name, params in steps:
        made.append(ActionStep(StepId(name.replace(".", "-")), name, params, deadline_s=600.0, needs=before))
        before = (made[-1].id,)
    return Runbook(name="doors", steps=tuple(made))


CLOSING = book(
    ("job.grace", {"site": A, "job": BATCH, "needs_s": 20.0}),
    ("job.hold", {"site": A, "jobs": [BATCH, OTHER]}),
    ("nodes.drain", {"site": A, "nodes": list(NODES), "reason": WHY, "until": "empty"}),
    ("nodes.reserve", {"site": B, "reservation": msgspec.to_builtins(ROOM)}),
)
OPENING = book(
    ("nodes.unreserve", {"site": B, "reservation": msgspec.to_builtins(ROOM)}),
    ("nodes.resume", {"site": A, "nodes": [NODES[1]], "reason": WHY}),
    ("job.release", {"site": A, "jobs": [BATCH]}),
)
CALLS = ("admission.hold", "admission.drain", "admission.reserve", "admission.nodes", "admission.queue")
BACK = ("admission.unreserve", "admission.resume", "admission.release", "admission.nodes", "admission.reservation")


def faults_of(calls):
    """One of each kind at each call."""
    yield ()
    for call in calls:
        for fault in (
            ft.FailBefore(call, 1, 3), ft.DieInCall(call, 1, ft.Side.BEFORE, 2.0), ft.DieInCall(call, 1, ft.Side.AFTER, 2.0),
            *([ft.FailAfter(call, 1), ft.RepeatedCall(call, 1)] if call not in ("admission.nodes", "admission.queue") else []),
        ):  # fmt: skip
            yield (fault,)


def lab_of(runbook, faults):
    """Two jobs wait at site A: one is held by hand; one node is closed by hand, and everything by an earlier drain."""
    lab = VirtualLab(Blueprint(sites=(A, B)), runbook, wiring.actions, faults=faults)
    doors = lab.world.doors_of(A)
    doors.drain((NODES[0],), "bad fan", here=False)
    doors.drain((NODES[1],), "an earlier run", here=True)
    for name in (BATCH, OTHER):
        lab.world.start(A, JobSpec(name, ("sleeps",)), f"by-hand/{name}")
    doors.set_held(OTHER, held=True)
    return lab


def seen(world):
    """What is closed, reserved and held."""
    doors = world.doors_of(A)
    return dict(doors.closed), dict(world.doors_of(B).reservations), {one.name: one.held for one in doors.waiting}


@pytest.mark.parametrize("faults", [*faults_of(CALLS)], ids=str)
def test_M7_2_closing_is_done_and_undone_whatever_fails(faults):
    lab = lab_of(CLOSING, faults)
    before = seen(lab.world)
    finished = lab.run()
    assert (violations(lab, finished), verdict_of(finished), lab.book.missed) == ([], "done", [])
    closed, reserved, held = seen(lab.world)
    assert (closed, [*reserved], held) == (before[0], ["room"], {BATCH: True, OTHER: True})
    assert verdict_of(lab.undo()) == "rolled-back"
    assert seen(lab.world) == before


@pytest.mark.parametrize("faults", [*faults_of(BACK)], ids=str)
def test_opening_is_done_and_undone_whatever_fails(faults):
    lab = lab_of(OPENING, faults)
    lab.world.doors_of(B).reserve(ROOM)
    lab.world.doors_of(A).set_held(BATCH, held=True)
    finished = lab.run()
    assert (violations(lab, finished), verdict_of(finished), lab.book.missed) == ([], "done", [])
    assert seen(lab.world) == ({NODES[0]: Closed("bad fan", here=False)}, {}, {OTHER: True})
    assert not lab.world.newest(A, BATCH).waiting
    assert verdict_of(lab.undo()) == "rolled-back"
    closed, reserved, _ = seen(lab.world)
    assert (closed[NODES[1]].here, [*reserved]) == (True, ["room"])


@pytest.fixture
def world():
    return World(Blueprint(sites=(A, B)))


@pytest.fixture
def ports(world):
    return connect(Calls(world))


CALL = Call(stamp=stamp(), recorded={}, applied={}, earlier={}, since_s=0.0, now_s=0.0)


def test_a_drain_waits_for_jobs_and_until_closed_does_not(world, ports):
    world.start(A, JobSpec(BATCH, ("sleeps",)), "by-hand")
    params = DrainNodesParams(A, NODES, WHY)
    action = DrainNodes(ports)
    assert isinstance(action.verify(params, CALL), Failed)
    action.apply(params, CALL)
    assert isinstance(action.verify(params, CALL), Pending)
    assert action.verify(msgspec.structs.replace(params, until=Until.CLOSED), CALL) == Done({"closed": 2, "not_empty": [*NODES]})
    world.kill(A, BATCH)
    assert action.verify(params, CALL) == Done({"closed": 2, "not_empty": []})


def test_a_node_that_somebody_else_closed_is_not_resumed(world, ports):
    world.doors_of(A).drain((NODES[0],), "bad fan", here=False)
    found = ResumeNodes(ports).precheck(ResumeNodesParams(A, NODES, WHY), CALL)
    assert isinstance(found, Failed)
    assert "site-a-n1: bad fan" in found.reason


def test_an_undo_leaves_alone_what_was_drained_before(world, ports):
    params, action = DrainNodesParams(A, NODES, WHY), DrainNodes(ports)
    ports.admission(A).drain((NODES[0],), reason="earlier", stamp=stamp("earlier"))
    recorded = action.precheck(params, CALL).evidence
    action.apply(params, CALL)
    assert isinstance(action.undo(params, msgspec.structs.replace(CALL, recorded=recorded)), Done)
    assert [view.open for view in ports.admission(A).nodes(NODES)] == [False, True]


def test_a_job_that_is_handed_in_meanwhile_is_held_by_another_try(world, ports):
    world.doors_of(A).drain(NODES, WHY)
    params, action = QueueParams(A, (BATCH,)), HoldJobs(ports)
    action.apply(params, CALL)
    world.start(A, JobSpec(BATCH, ("sleeps",)), "late")
    assert isinstance(action.verify(params, CALL), Failed)
    action.apply(params, CALL)
    assert isinstance(action.verify(params, CALL), Done)


def test_J10_a_grace_that_is_shorter_than_a_last_save_is_refused(world, ports):
    world.doors_of(A).terms = GraceTerms(kill_wait_s=30.0, preempted="cancel", preempt_s=600.0)
    action = CheckGrace(ports)
    assert action.verify(GraceParams(A, BATCH, 30.0), CALL) == Done({"kill_wait_s": 30.0, "preempted": "cancel"})
    found = action.verify(GraceParams(A, BATCH, 31.0), CALL)
    assert isinstance(found, Failed)
    assert "30 s after TERM" in found.reason
    world.network.cut_off(A)
    with pytest.raises(Transient):
        action.verify(GraceParams(A, BATCH, 1.0), CALL)


def test_doors_are_connected_where_the_scheduler_has_some(tmp_path):
    slurm = {"driver": "slurm", "cluster": "a", "state": str(tmp_path / "state")}
    process = {"driver": "process", "directory": str(tmp_path)}
    ports = wiring.connect({"sites": {A: {"scheduler": slurm}, B: {"scheduler": process}}, "services": {}})
    assert isinstance(ports.admission(A), SlurmAdmission)
    with pytest.raises(NotFound, match="The estate connects: site-a"):
        ports.admission(B)
