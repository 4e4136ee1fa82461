"""What the simulation tests share: running a scenario, and actions that are changed on purpose."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.drivers.world import Calls
from bridgehead.runbook.action import Failed
from bridgehead.simulate.invariants import writers
from bridgehead.testing.fault_verdicts import verdict_of, violations
from bridgehead.testing.virtual_lab import VirtualLab


class Changed:
    """An action of which single phases of one step (None: of every step) behave otherwise.

    ``phases`` maps the name of a phase to a function of (the real phase, params, call).
    """

    def __init__(self, action, step=None, **phases):
        self.name, self.params_type, self.undoable = action.name, action.params_type, action.undoable
        self._action, self._step, self._phases = action, step, phases
        self.called = 0

    def _call(self, phase, params, call):
        real = getattr(self._action, phase)
        if phase in self._phases and self._step in (None, call.stamp.step):
            self.called += 1
            return self._phases[phase](real, params, call)
        return real(params, call)

    def precheck(self, params, call):
        return self._call("precheck", params, call)

    def apply(self, params, call):
        return self._call("apply", params, call)

    def verify(self, params, call):
        return self._call("verify", params, call)

    def undo(self, params, call):
        return self._call("undo", params, call)


class Played:
    """A scenario after its end."""

    def __init__(self, lab):
        self.lab = lab
        self.finished = lab.run()
        self.verdict = verdict_of(self.finished)
        self.violations = violations(lab, self.finished)
        self.rules = {violation.rule for violation in self.violations}

    @property
    def fingerprint(self):
        """The final state of run and world, but for times, step numbers, and who drove."""
        world = self.lab.world
        newest = {key: executions[-1] for key, executions in world.jobs.items()}
        return {
            "verdict": self.verdict,
            "steps": {step: state.__struct_config__.tag for step, state in self.finished.state.steps.items()},
            "weights": {service: proxy.in_force for service, proxy in world.proxies.items()},
            "writers": {name: [(one.plan.site, one.epoch) for one in found] for name, found in writers(world).items()},
            "jobs": {key: job.running for key, job in newest.items()},
            "fences": {site: [(f.epoch, f.holder) for f in vault.fences.get("train", [])] for site, vault in world.vaults.items()},
        }


@pytest.fixture
def play():
    """Run a scenario. ``change`` maps action names to functions that make the changed action from the real one and the ports."""

    def run(scenario, *, faults=(), change=None, calls=Calls, prepare=lambda lab: None):
        def actions_of(ports):
            actions = wiring.actions(ports)
            for name, changed in (change or {}).items():
                actions[name] = changed(actions[name], ports)
            return actions

        lab = VirtualLab(scenario.blueprint, scenario.runbook, actions_of, faults=[*scenario.faults, *faults], calls=calls)
        prepare(lab)
        return Played(lab)

    return run


@pytest.fixture
def changed():
    """``changed(step, phase=function)`` for the ``change`` of ``play``."""
    return lambda step=None, **phases: lambda action, ports: Changed(action, step, **phases)


@pytest.fixture
def refuses():
    """A phase that fails for good."""
    return lambda real, params, call: Failed("planned", "nothing")


@pytest.fixture
def with_runbook():
    """A scenario with other steps: ``with_runbook(scenario, lambda step: step)``."""

    def replaced(scenario, change):
        steps = tuple(change(step) for step in scenario.runbook.steps)
        return msgspec.structs.replace(scenario, runbook=msgspec.structs.replace(scenario.runbook, steps=steps))

    return replaced
