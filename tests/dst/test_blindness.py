"""Blindness: the status path is down for ten minutes. Nobody is fenced, nothing is started again, and people are told (J01, J05).

Whoever may fail over does so at once here, without thinking: it is the verdicts, the second look and the majority that hold it back.
"""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app import wiring
from bridgehead.kernel.ids import Person
from bridgehead.model import event as ev
from bridgehead.model.recovery import Approvers, Escalation
from bridgehead.recovery.escalation import due, waits
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.watch.alarm import AlarmKind
from bridgehead.recovery.watch.liveness import Limits, SiteState
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import fold
from bridgehead.simulate import faults as ft
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.timeline import START_S
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.virtual_failover import NEW, OLD, TRAIN, TRAINERS, WITNESS, _case, calm_loss, protected
from bridgehead.testing.virtual_lab import RUN, VirtualLab
from bridgehead.testing.virtual_watch import VirtualObserver, VirtualWatch

LIMITS = Limits(every_s=30.0, stale_s=100.0, grace_s=300.0)
BLIND_S = 600.0
BEGINS_S, LENGTH_S = 120.0, 1200.0
ALL = (OLD, NEW, WITNESS, EDGE)


class Blinded:
    """A world in order, a watch, and a failover that stands ready and is begun at the first verdict that allows it."""

    def __init__(self, *, path=(), network=(), observers: int = 2, knows_blindness: bool = True, approved: bool = True, answers_s=5.0):
        recovery = protected()
        if approved:
            levels = (Escalation(60.0, (Person("ann"),)), Escalation(300.0, (Person("bob"),)))
            recovery = msgspec.structs.replace(recovery, approvers=Approvers((Person("ann"),), answer_s=3600.0), escalation=levels)
        cases = tuple(_case(one, OLD, NEW) for one in recovery.workloads)
        runbook = failover_runbook(Failover("failover", recovery, OLD, cases, START_S))
        cuts = [ft.CutOff(site, BEGINS_S, BLIND_S) for site in network]
        self.lab = VirtualLab(calm_loss().blueprint, runbook, wiring.actions, faults=cuts, people_answer_s=answers_s)
        self.world = self.lab.world
        sites = (OLD, NEW)
        made = [
            VirtualObserver(
                f"o{number}", self.world, recovery.workloads, sites, limits=LIMITS, witness=WITNESS, knows_blindness=knows_blindness
            )
            for number in range(observers)
        ]
        self.watch = VirtualWatch(self.world, made, every_s=LIMITS.every_s, until_s=START_S + LENGTH_S)
        self.watch.path_down([*path, *network], after_s=BEGINS_S, for_s=BLIND_S)
        self.watch.on_verdict = self._judged
        self.begun_s: float | None = None
        self.finished = None
        self.levels = recovery.escalation
        self.calls: dict[str, float] = {}

    def _judged(self, at_s, verdict) -> None:
        if verdict.may_fail_over and self.begun_s is None:
            self.begun_s = at_s

    def play(self, *, begin_at_s: float | None = None) -> Blinded:
        """Until the end. ``begin_at_s``: somebody begins the failover then, whatever the verdicts say."""
        while self.world.now_s < START_S + LENGTH_S and self.world.timeline.step():
            self.lab.invariants.look()
            if begin_at_s is not None and self.world.now_s >= START_S + begin_at_s and self.begun_s is None:
                self.begun_s = self.world.now_s
            if self.begun_s is not None and self.finished is None:
                self.world.timeline.after(1.0, self._escalate)
                self.finished = self.lab.run()
        return self

    def _escalate(self) -> None:
        entries = self.lab.journal.read(RUN)
        for call in due(waits(fold(entry.event for entry in entries)), self.levels, now_s=self.world.now_s):
            self.calls.setdefault(call.text, self.world.now_s)
        if self.lab._over_s is None:
            self.world.timeline.after(10.0, self._escalate)

    def assert_nothing_was_done(self) -> None:
        world = self.world
        assert world.decided(TRAIN) is None
        assert {site: vault.fences.get(TRAIN, []) for site, vault in world.vaults.items()} == {OLD: [], NEW: [], WITNESS: []}
        assert {key: len(executions) for key, executions in world.jobs.items() if executions} == {
            (OLD, name): 1 for name in ("train-old", "chat-old", "ldap-old")
        }
        assert all(executions[-1].running for executions in world.jobs.values() if executions)
        assert world.proxies["chat"].in_force == {OLD: 100, NEW: 0}
        assert self.lab.invariants.violations == []
        [stretch] = world.history[TRAIN]
        assert stretch.uncounted_from is None, "it computed on, and all of it counts"

    def states(self, begin_s: float, end_s: float, site=OLD) -> set[SiteState]:
        return {one.verdict.state for one in self.watch.seen if one.verdict.site == site and begin_s <= one.at_s - START_S <= end_s}


@pytest.mark.parametrize("observers", [1, 2, 3])
def test_J01_ten_minutes_without_any_status_path_restart_nothing_and_people_are_told_that_nobody_can_tell(observers):
    blinded = Blinded(path=(OLD, NEW, WITNESS), observers=observers)
    told = []
    blinded.world.timeline.after(BEGINS_S + BLIND_S - 1.0, lambda: told.extend(blinded.watch.texts()))
    blinded.play()
    assert blinded.begun_s is None
    blinded.assert_nothing_was_done()
    assert blinded.states(BEGINS_S + LIMITS.stale_s, BEGINS_S + BLIND_S - 1) == {SiteState.UNKNOWN}
    assert len(told) == 2 * observers, "of both sites, each observer"
    assert all("cannot tell whether it lives" in text for text in told)
    # It sees again, and the alarms end.
    assert blinded.states(BEGINS_S + BLIND_S + 30, LENGTH_S) == {SiteState.ALIVE}
    assert blinded.watch.texts() == []
    assert blinded.world.now_s - START_S >= LENGTH_S


def test_the_alarm_is_that_of_the_unknown_and_comes_within_minutes():
    blinded = Blinded(path=(OLD, NEW, WITNESS))
    when: list[float] = []

    def look() -> None:
        kinds = {alarm.kind for observer in blinded.watch.observers for alarm in observer.alarms.values()}
        if AlarmKind.UNKNOWN in kinds:
            when.append(blinded.world.now_s - START_S)
        blinded.world.timeline.after(5.0, look)

    look()
    blinded.play()
    assert when[0] - BEGINS_S <= LIMITS.stale_s + 2 * LIMITS.every_s + LIMITS.every_s


def test_observers_that_take_their_blindness_for_silence_would_fail_over():
    """The fault is planted: with it the verdicts allow a failover. Even then the look of the failover itself sees that the site lives."""
    blinded = Blinded(path=(OLD, NEW), knows_blindness=False, approved=False).play()
    assert blinded.begun_s is not None
    assert LIMITS.grace_s <= blinded.begun_s - START_S - BEGINS_S < BLIND_S
    assert verdict_of(blinded.finished) == "rolled-back"
    assert f"{OLD} is alive" in blinded.finished.state.mode.reason
    blinded.assert_nothing_was_done()


def test_J05_one_site_out_of_sight_of_all_observers_is_looked_at_again_by_who_may_act():
    """Two observers agree that it is silent; what they share is the path. The way of the controller is another one."""
    blinded = Blinded(path=(OLD,), approved=False).play()
    assert blinded.begun_s is not None
    assert verdict_of(blinded.finished) == "rolled-back"
    blinded.assert_nothing_was_done()


def test_one_observer_alone_never_allows_it():
    blinded = Blinded(path=(OLD,), observers=1).play()
    assert blinded.begun_s is None
    assert blinded.states(BEGINS_S + 200, BEGINS_S + BLIND_S - 1) == {SiteState.SILENT}
    blinded.assert_nothing_was_done()


def test_J05_a_site_that_nobody_reaches_is_not_fenced_without_an_answer_and_never_after_it_is_back():
    """Cut off from everybody for ten minutes, and alive. The failover is asked for; the answer comes when the site is back."""
    blinded = Blinded(network=(OLD,), answers_s=400.0).play()
    assert blinded.begun_s is not None
    assert blinded.begun_s - START_S - BEGINS_S < BLIND_S, "begun while it was out of reach"
    approved = [at for at, event in blinded.lab.happened if isinstance(event, ev.Approved)]
    assert approved[0] > START_S + BEGINS_S + BLIND_S
    assert verdict_of(blinded.finished) == "rolled-back"
    assert f"{OLD} is alive" in blinded.finished.state.mode.reason
    blinded.assert_nothing_was_done()
    called = list(blinded.calls)
    assert [text.split(":")[0] for text in called] == ["calling ann", "calling bob"]
    assert all("waits for an approval" in text for text in called)


@pytest.mark.parametrize("at_s", [150.0, 300.0, 500.0, 719.0])
def test_J05_a_failover_that_is_begun_while_nothing_at_all_can_be_seen_does_nothing(at_s):
    """The controller is cut off, not the site: there is no majority. When it sees again, it sees that the site lives."""
    blinded = Blinded(network=ALL, approved=False).play(begin_at_s=at_s)
    assert verdict_of(blinded.finished) == "rolled-back"
    blinded.assert_nothing_was_done()


def test_J05_a_majority_that_comes_back_with_the_site_does_not_fence_it():
    """The site was out of reach when it was looked at; then nothing was in reach for minutes; then all of it, alive."""
    blinded = Blinded(network=(OLD,), approved=False)
    timeline, network = blinded.world.timeline, blinded.world.network
    cut_s: list[float] = []

    def cut_when_confirmed() -> None:
        looked = [event for _, event in blinded.lab.happened if isinstance(event, ev.PhaseDone) and event.phase is ev.Phase.VERIFY]
        if not looked:
            timeline.after(0.001, cut_when_confirmed)
            return
        cut_s.append(blinded.world.now_s)
        for site in (NEW, WITNESS, EDGE):
            network.cut_off(site)
            timeline.at(START_S + BEGINS_S + BLIND_S, lambda site=site: network.join(site))

    timeline.after(BEGINS_S + LIMITS.grace_s - 60.0, cut_when_confirmed)
    blinded.play()
    assert cut_s[0] - blinded.begun_s < 1.0
    assert isinstance(blinded.finished.state.steps["confirm"], st.Finished)
    assert verdict_of(blinded.finished) == "on-hold"
    assert f"{OLD} is alive" in blinded.finished.state.mode.reason
    assert "was not fenced" in blinded.finished.state.mode.reason
    assert blinded.world.decided(TRAIN) is None
    assert [one.running for one in blinded.world.jobs[OLD, TRAINERS[OLD]]] == [True]
    assert blinded.world.newest(NEW, TRAINERS[NEW]) is None


def test_a_site_that_is_really_lost_is_failed_over():
    """Else the tests above would hold for a watch that never allows anything."""
    blinded = Blinded(approved=False)
    loss = ft.SiteLoss(OLD, BEGINS_S, 4000.0)
    blinded.lab.book._arm(0, loss)
    blinded.play()
    assert blinded.begun_s is not None
    assert blinded.begun_s - START_S - BEGINS_S < LIMITS.grace_s + 4 * LIMITS.every_s
    assert blinded.world.decided(TRAIN).holder == NEW
    assert blinded.world.newest(NEW, TRAINERS[NEW]).running
    assert isinstance(blinded.finished.state.steps[f"ready-{TRAIN}"], st.Finished)
