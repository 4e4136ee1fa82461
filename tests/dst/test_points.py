"""Points in a simulated world: drivers die at every boundary, calls fail, and there is one moment or none (R16; J02, J13)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.databases import WorldQuiesce
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import Epoch, RunId, StepId
from bridgehead.model.event import Verdict
from bridgehead.model.stamp import Stamp
from bridgehead.recovery.actions.consistency import HoldDatabases, HoldDatabasesParams
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Call, Done
from bridgehead.simulate import faults as ft
from bridgehead.testing.virtual_points import PAUSE_S, VirtualPoints, faults_of, runbook

SEEDS = 40


def played(*faults: ft.Fault) -> tuple[VirtualPoints, Verdict, list[str]]:
    """One point; its lab, how it ended, what was broken."""
    lab = VirtualPoints(wiring.actions, faults=faults)
    mode = lab.run().state.mode
    assert isinstance(mode, st.Ended), mode
    return lab, mode.verdict, lab.broken(done=mode.verdict is Verdict.DONE)


def test_R16_a_calm_point_is_taken_in_its_order() -> None:
    lab, verdict, broken = played()
    assert (verdict, broken) == (Verdict.DONE, [])
    assert lab.hooks.begun == ["freeze", "thaw"]
    assert len(lab.world.databases.pinned) == 2
    assert not lab.invariants.violations


@pytest.mark.parametrize("side", list(ft.Side))
def test_J02_a_driver_that_dies_at_any_boundary_leaves_one_moment_or_none(side) -> None:
    """Nothing is held or pinned after it, hooks have come to their end, and everything goes on."""
    appends = played()[0].book.appends
    verdicts = set()
    for nth in range(1, appends + 1):
        lab, verdict, broken = played(ft.DieAtAppend(nth, side, resume_after_s=0.5))
        assert lab.book.missed == []
        assert broken == [], f"death {side} append {nth}: {verdict}"
        verdicts.add(verdict)
    assert verdicts == {Verdict.DONE, Verdict.ROLLED_BACK}  # rolled back where what was pinned died with the driver


def test_R16_whatever_goes_wrong() -> None:
    missed = 0
    for seed in range(SEEDS):
        faults = faults_of(seed)
        lab, verdict, broken = played(*faults)
        assert broken == [], f"seed {seed}, {faults}: {verdict}"
        missed += len(lab.book.missed)
    assert missed < SEEDS  # faults of calls that a point did not come to


def test_a_hold_that_ended_before_all_were_held_is_not_believed() -> None:
    """The controller stood still between two holds, for longer than the first one lasts: it is all done again."""

    class Slow(WorldQuiesce):
        stood_s = PAUSE_S + 1.0

        def hold(self, database, **more):
            held = super().hold(database, **more)
            world.timeline.run_until(world.now_s + Slow.stood_s)
            return held

    lab = VirtualPoints(wiring.actions)
    world = lab.world
    ports = msgspec.structs.replace(lab.ports, databases=dict.fromkeys(lab.ports.databases, Slow(Calls(world))))
    (pin,) = [step for step in runbook().steps if step.id == "pin"]
    action = HoldDatabases(ports)
    params = msgspec.convert(pin.params, HoldDatabasesParams)
    stamp = Stamp(RunId("r"), StepId("pin"), 1, Epoch(1))
    call = Call(stamp, {}, {}, {}, world.now_s, world.now_s)
    with pytest.raises(Transient, match="went on before all databases were held"):
        action.apply(params, call)
    assert not world.databases.held(world.now_s)
    assert not world.databases.holds
    Slow.stood_s = 0.0
    assert isinstance(action.apply(params, call), Done)
