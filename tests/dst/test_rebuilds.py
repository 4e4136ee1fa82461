"""A hundred nodes are rebuilt in simulated time, with drivers that die, calls that are lost, and nodes that stay dead (R15)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bridgehead.app import wiring
from bridgehead.drivers.world.machines import WorldMachines
from bridgehead.kernel.errors import Transient
from bridgehead.model.rebuild import Image, ImageFile, NodeBuild, Profile, Rebuild
from bridgehead.ports.machines import NodeReport
from bridgehead.recovery.bare_metal import rebuild_runbook
from bridgehead.runbook import state as st
from bridgehead.runbook.finding import WARNINGS
from bridgehead.runbook.language import read_runbook, write_runbook
from bridgehead.runbook.lint import lint
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.machines import MachinePlan
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.virtual_lab import VirtualLab

SITE = "b"
GPUS = NodeReport("", 8, "550.54.15", "NVIDIA H100 80GB HBM3")


def rebuild(nodes: int, **given: object) -> Rebuild:
    file = ImageFile("vmlinuz", "0" * 64)
    return Rebuild(
        "hall",
        SITE,
        "http://10.0.0.1",
        (Image("ubuntu", file, file),),
        (Profile("h100", "ubuntu", "/dev/nvme0n1", gpu_model=GPUS.gpu_model, gpus=8, driver=GPUS.driver),),
        tuple(NodeBuild(f"n{number}", "h100", f"02:00:00:00:00:{number:02x}", f"10.0.0.{number + 1}/24") for number in range(nodes)),
        **given,
    )


def played(asked: Rebuild, plans: list[MachinePlan], *faults: ft.Fault):
    blueprint = Blueprint(sites=(SITE,), machines=((SITE, tuple(plans)),))
    lab = VirtualLab(blueprint, rebuild_runbook(asked), wiring.actions, faults=faults)
    return lab, lab.run()


def plans(nodes: int, **given: object) -> list[MachinePlan]:
    return [MachinePlan(f"n{number}", **given) for number in range(nodes)]


def test_R15_a_hundred_nodes_are_back_in_two_hours_although_some_fail_at_first() -> None:
    nodes = plans(100)
    for number in (3, 50, 97):
        nodes[number] = msgspec.structs.replace(nodes[number], dead_attempts=1)
    lab, finished = played(rebuild(100, at_once=20, tries=2, node_s=1800.0), nodes)
    assert verdict_of(finished) == "done"
    done = finished.state.steps["rebuild"]
    assert isinstance(done, st.Finished)
    assert (done.verified["back"], done.verified["lost"]) == (100, {})
    assert done.verified["slowest_node_s"] < 1800.0
    assert lab.happened[-1][0] - lab.happened[0][0] < 7200.0
    assert lab.world.rooms[SITE].most_at_once == 20
    assert {name: one.begun for name, one in lab.world.rooms[SITE].machines.items() if one.begun != 1} == {"n3": 2, "n50": 2, "n97": 2}


def test_too_few_that_come_back_call_a_person_as_soon_as_it_is_certain() -> None:
    nodes = plans(10)
    nodes[4] = msgspec.structs.replace(nodes[4], dead_attempts=99)
    _, finished = played(rebuild(10, at_once=10, tries=1, node_s=1200.0, deadline_s=86_400.0), nodes)
    assert verdict_of(finished) == "on-hold"
    assert "1 of 10 nodes did not come back, 10 must: n4" in finished.state.mode.reason
    _, finished = played(rebuild(10, at_once=10, tries=1, node_s=1200.0, needed=0.9), nodes)
    assert verdict_of(finished) == "done"
    assert finished.state.steps["rebuild"].verified["lost"] == {"n4": "its installation has not ended"}


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (msgspec.structs.replace(GPUS, gpus=7), "it shows 7 GPUs, not 8"),
        (msgspec.structs.replace(GPUS, driver="535.1"), "its driver is 535.1, not 550.54.15"),
        (msgspec.structs.replace(GPUS, gpu_model="NVIDIA A100"), "its GPUs are NVIDIA A100, not NVIDIA H100"),
    ],
)
def test_a_node_that_is_not_what_it_was_to_become_is_not_back(report: NodeReport, why: str) -> None:
    nodes = plans(3)
    nodes[1] = msgspec.structs.replace(nodes[1], report=report)
    _, finished = played(rebuild(3, tries=1), nodes)
    assert verdict_of(finished) == "on-hold"
    assert why in finished.state.mode.reason


def test_controllers_that_do_not_answer_keep_nobody_waiting() -> None:
    """The first ten of forty refuse every order; ten may be under way at once."""

    class Deaf(WorldMachines):
        def rebuild(self, node, *, build, attempt, stamp):
            if int(node[1:]) < 10:
                asked.append(node)
                raise Transient("no answer", tried="rebuild", subject=node)
            super().rebuild(node, build=build, attempt=attempt, stamp=stamp)

    asked: list[str] = []
    book = rebuild_runbook(rebuild(40, at_once=10, needed=0.75, node_s=1800.0, deadline_s=86_400.0))

    def actions(ports):
        deaf = Deaf(SITE, ports.rooms[SITE]._calls)
        return wiring.actions(msgspec.structs.replace(ports, rooms={SITE: deaf}))

    lab = VirtualLab(Blueprint(sites=(SITE,), machines=((SITE, tuple(plans(40))),)), book, actions)
    lab.run()
    back = [one for name, one in lab.world.rooms[SITE].machines.items() if int(name[1:]) >= 10]
    assert all(one.state.report is not None for one in back)
    assert max(one.state.reported_s for one in back) - lab.happened[0][0] < 3600.0
    assert len(asked) < 10 * 90 * 60  # once a minute each, not at every look


@settings(max_examples=40, deadline=None)
@given(some.data())
def test_J15_whatever_dies_or_is_lost_each_attempt_is_given_once(data: some.DataObject) -> None:
    faults: list[ft.Fault] = []
    for _ in range(data.draw(some.integers(0, 3))):
        side = data.draw(some.sampled_from(list(ft.Side)))
        faults.append(
            data.draw(
                some.sampled_from(
                    [
                        ft.DieAtAppend(data.draw(some.integers(2, 40)), side, data.draw(some.floats(0.1, 600.0))),
                        ft.CutOff(SITE, data.draw(some.floats(0.0, 900.0)), data.draw(some.floats(1.0, 900.0))),
                    ]
                )
            )
        )
    lab, finished = played(rebuild(12, at_once=4, deadline_s=86_400.0), plans(12), *faults)
    assert verdict_of(finished) == "done", finished.state.mode
    assert {one.begun for one in lab.world.rooms[SITE].machines.values()} == {1}
    assert lab.world.rooms[SITE].most_at_once <= 4


def test_the_runbook_passes_the_linter_and_is_read_back_as_it_was() -> None:
    book, types = rebuild_runbook(rebuild(3), approvers=("ada",)), wiring.action_params()
    assert read_runbook(write_runbook(book, actions=types), file="x.yaml", actions=types) == book
    assert [one for one in lint(book, types, undoable=wiring.undoable_actions()) if one.code not in WARNINGS] == []
