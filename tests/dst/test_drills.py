"""Drills in a simulated world: a hundred in a row, and with drivers that die, without a leftover (R13, J14)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridgehead.app import wiring
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep
from bridgehead.runbook import state as st
from bridgehead.simulate import faults as ft
from bridgehead.testing.virtual_drills import SITE, TRAINER, Finished, VirtualDrills, drill_of


def hits(finished: Finished) -> list[str]:
    """Faults that the drill's own step says were hit."""
    done = (entry.event for entry in finished.entries)
    evidence = [event.evidence for event in done if isinstance(event, ev.PhaseDone) and event.step == "faults" and event.phase == "verify"]
    return [name for one in evidence for name in one["hit"]]


def faults_of(number: int) -> set[tuple[str, str]]:
    opened = next(step for step in drill_of(number).steps if isinstance(step, ActionStep) and step.id == "open")
    return {(fault["fault"], fault.get("workload", "")) for fault in opened.params["bubble"]["faults"]}


def verdict(finished: Finished) -> ev.Verdict:
    assert isinstance(finished.state.mode, st.Ended)
    return finished.state.mode.verdict


def test_R13_a_hundred_drills_in_a_row_leave_nothing_and_strike_each_kind_of_fault() -> None:
    lab = VirtualDrills(wiring.actions)
    struck: list[str] = []
    for number in range(100):
        finished = lab.drill(number)
        assert verdict(finished) is ev.Verdict.DONE, f"drill {number}: {finished.state.mode}"
        assert lab.leftovers() == [], f"drill {number}"
        struck += hits(finished)
    assert {name.partition(":")[0] for name in struck} == {"slow-line", "damaged-block", "dead-node", "kill-restore", "site-down"}
    assert all(struck.count(name) >= 10 for name in set(struck))


def test_R13_production_trains_on_while_it_is_drilled() -> None:
    lab = VirtualDrills(wiring.actions)
    steps = []
    for number in range(3):
        lab.drill(number)
        job = lab.world.newest(SITE, TRAINER)
        assert job is not None
        assert job.running
        assert job.trainer is not None
        steps.append(job.trainer.report().step)
    assert steps[0] < steps[1] < steps[2]


def boundaries() -> Iterator[ft.Fault]:
    for nth in range(1, 60, 2):
        for side in ft.Side:
            yield ft.DieAtAppend(nth, side, resume_after_s=0.5, zombie_s=0.2 if nth % 4 == 1 else None)


@pytest.mark.parametrize("fault", list(boundaries()), ids=lambda fault: f"{fault.side}-{fault.nth}")
def test_R13_driver_that_dies_anywhere_leaves_nothing_once_another_took_over(fault: ft.DieAtAppend) -> None:
    lab = VirtualDrills(wiring.actions, faults=(fault,))
    finished = lab.drill(0)
    assert not lab.book.missed
    assert finished.ended
    assert verdict(finished) is ev.Verdict.DONE
    assert lab.leftovers() == []


def test_damage_of_the_newest_is_noticed_and_the_one_before_is_used() -> None:
    """Of the numbered drills, the first one with a damaged block of the training and no second recovery."""
    lab = VirtualDrills(wiring.actions)
    number = next(
        number
        for number in range(1, 100)
        if {("damaged-block", "train")} <= (planned := faults_of(number)) and ("site-down", "") not in planned
    )
    finished = lab.drill(number)
    proved = next(
        entry.event.evidence
        for entry in finished.entries
        if isinstance(entry.event, ev.PhaseDone) and entry.event.step == "prove-train" and entry.event.phase == "verify"
    )
    assert proved["passed_over"]
    assert proved["snapshot"] != proved["passed_over"][0]
