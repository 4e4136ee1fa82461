"""What a journal can have brought about, and what is seen, in the simulated world (J09, G09)."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from bridgehead.drivers.world import Calls
from bridgehead.drivers.world.connect import connect
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import Epoch, JobName, RunId, ServiceId, SiteId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Runbook
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.agreement import comparison
from bridgehead.runbook.apply import fold
from bridgehead.simulate.blueprint import Blueprint, ServicePlan
from bridgehead.simulate.world import World

A, B, CHAT, RUN = SiteId("site-a"), SiteId("site-b"), ServiceId("chat"), RunId("move")
JOB = {"name": "serve", "command": ["serve"]}
STEPS = (
    ActionStep(StepId("quarter"), "traffic.shift", {"service": CHAT, "weights": {A: 75, B: 25}}, 60.0),
    ActionStep(StepId("half"), "traffic.shift", {"service": CHAT, "weights": {A: 50, B: 50}}, 60.0, needs=(StepId("quarter"),)),
    ActionStep(StepId("more"), "job.start", {"site": B, "job": JOB}, 60.0, needs=(StepId("half"),)),
)


def journal(*done: str, doing: str = "") -> list[ev.Event]:
    """A driver finished these steps, and is in the middle of another."""
    events: list[ev.Event] = [ev.RunOpened(1.0, RUN, Runbook("move", STEPS), "hash", {}, "ann", "0"), ev.DriverTook(1.0, Epoch(1), "x/1")]
    before = {A: 100, B: 0}
    for step in (*done, *([doing] if doing else [])):
        after = STEPS[0 if step == "quarter" else 1].params["weights"]
        seen = {ev.Phase.PRECHECK: {"weights": before}, ev.Phase.APPLY: {"asked_s": 2.0}, ev.Phase.VERIFY: {"weights": after}}
        for phase, evidence in seen.items():
            events.append(ev.Intent(2.0, StepId(step), phase, 1, Epoch(1)))
            if step == doing and phase is ev.Phase.APPLY:
                return events
            events.append(ev.PhaseDone(2.0, StepId(step), phase, 1, Epoch(1), evidence))
        before = after
    return events


@pytest.fixture
def world() -> World:
    return World(Blueprint(sites=(A, B), services=(ServicePlan(CHAT, {A: 100, B: 0}, rate_rps=0.0),)))


def compared(world: World, events: list[ev.Event], *, epoch: int = 2) -> list[str]:
    def sleep(seconds: float) -> None:
        world.timeline.run_until(world.now_s + seconds)

    asked = comparison(fold(events), Epoch(epoch), connect(Calls(world)), vault_sites=[A, B], sleep=sleep)
    facts = []
    for lane in asked.lanes.values():  # in virtual time one after the other
        with contextlib.suppress(PortError):
            facts += lane()
    return asked.judge(facts)


def shifted(world: World, a_percent: int) -> None:
    """As a driver shifts traffic."""
    stamp = Stamp(RUN, StepId("any"), 1, Epoch(1))
    connect(Calls(world)).traffic(CHAT).write(CHAT, {A: a_percent, B: 100 - a_percent}, stamp=stamp)
    world.timeline.run_until(world.now_s + 30.0)


@pytest.mark.parametrize("a_percent", [100, 75, 50])
def test_weights_are_those_of_the_last_shift_or_of_one_under_way(world, a_percent) -> None:
    shifted(world, a_percent)
    found = {
        "nothing done": compared(world, journal()),
        "quarter done": compared(world, journal("quarter")),
        "half under way": compared(world, journal("quarter", doing="half")),
        "half done": compared(world, journal("quarter", "half")),
    }
    agreeing = {100: {"nothing done"}, 75: {"nothing done", "quarter done", "half under way"}}
    agreeing[50] = {"nothing done", "half under way", "half done"}
    assert {name for name, texts in found.items() if not texts} == agreeing[a_percent]
    for texts in found.values():
        assert all(f"chat has the weights site-a {a_percent} %" in text for text in texts)


def test_G09_a_proxy_that_lost_its_weights_is_no_difference(world) -> None:
    shifted(world, 75)
    world.proxies[CHAT].forget()
    assert compared(world, journal("quarter")) == []


def test_a_job_that_no_step_has_started_is_a_difference(world) -> None:
    shifted(world, 75)
    world.start(B, msgspec.convert(JOB, JobSpec), "somebody")
    [text] = compared(world, journal("quarter"))
    assert "job serve runs at site-b" in text
    assert world.newest(B, JobName("serve")) is not None
    assert compared(world, journal("quarter")[:1]) == []  # a run that nobody drove yet: its precheck says it


def test_a_run_that_others_drove_further_is_told_by_the_vaults(world) -> None:
    world.admit("vault@site-b", Stamp(RUN, StepId("any"), 1, Epoch(7)))
    [text] = compared(world, journal())
    assert text == "the vault of site-b was changed by driver 7 of this run, the journal knows of 1"
    assert compared(world, journal(), epoch=8) == []
    world.network.cut_off(B)
    assert compared(world, journal()) == []
