"""A finished move is rolled back by a run of its own: traffic and training are at the old site again, and nothing is lost (M10.4, J06)."""

from __future__ import annotations

import pytest

from bridgehead.app import wiring
from bridgehead.kernel.ids import Epoch
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.virtual_lab import VirtualLab
from bridgehead.testing.virtual_move import Temper, calm


@pytest.mark.parametrize("approval", [False, True])
def test_undo_of_a_finished_move(approval):
    scenario = calm(Temper(approval=approval))
    lab = VirtualLab(scenario.blueprint, scenario.runbook, wiring.actions)
    done = lab.run()
    assert verdict_of(done) == "done"
    hold, fence, shift = (next(step for step in scenario.runbook.steps if step.id == name) for name in ("hold", "fence", "shift-5"))
    workload, source, target = hold.params["workload"], hold.params["site"], fence.params["holder"]
    before = lab.ports.vaults.newest(workload, site=target)
    undone = lab.undo()
    assert verdict_of(undone) == "rolled-back"
    assert lab.invariants.violations == []
    service = shift.params["service"]
    assert lab.ports.traffic(service).read(service) == {source: 100, target: 0}
    in_force = lab.ports.vaults.newest_fence(workload, site=source)
    assert (in_force.holder, in_force.epoch) == (source, Epoch(2))
    assert lab.ports.vaults.newest_fence(workload, site=target) == in_force
    trainer = lab.ports.training(source).progress(hold.params["job"])
    assert (trainer.state, trainer.epoch) == ("running", Epoch(2))
    assert trainer.step > before.step, "training went on from what the other site had computed"
