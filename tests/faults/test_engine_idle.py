"""A waiting engine waits: what is left of calls of steps that are over does not make it spin."""

from __future__ import annotations

import threading
import time

import msgspec

from bridgehead.drivers.system import SystemClock, this_driver
from bridgehead.drivers.world import WorldJournal
from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Runbook, UndoPolicy
from bridgehead.ports.metrics import Reading
from bridgehead.runbook.action import Done, Pending
from bridgehead.runbook.engine import Engine, open_run

RUN = RunId("run")


class NoParams(msgspec.Struct):
    pass


class Slow:
    """Never done; its undo takes a second."""

    name, params_type, undoable = "slow", NoParams, True

    def precheck(self, params, call):
        return Done()

    def apply(self, params, call):
        return Pending(0.2)

    def verify(self, params, call):
        return Done()

    def undo(self, params, call):
        return Done() if call.now_s - call.since_s > 1.0 else Pending(0.2)


class CountingClock(SystemClock):
    def __init__(self):
        super().__init__()
        self.asked = 0

    def now_s(self):
        self.asked += 1
        return super().now_s()


class NoCounters:
    def read(self, service, site):
        return Reading({}, 0.0)


def test_engine_does_not_spin_on_polls_of_steps_that_are_over():
    kept = ActionStep(StepId("kept"), "slow", {}, 60.0, undo=UndoPolicy.KEEP, undo_reason="harmless")
    runbook = Runbook("slow", (kept, ActionStep(StepId("undone"), "slow", {}, 60.0)))
    journal, clock = WorldJournal(), CountingClock()
    open_run(journal, RUN, runbook, estate={}, by="ann", at_s=clock.now_s())
    engine = Engine(journal, actions={"slow": Slow()}, metrics=NoCounters(), clock=clock, driver=this_driver())
    thread = threading.Thread(target=engine.drive, args=(RUN,))
    thread.start()
    time.sleep(0.5)
    asked_before = clock.asked
    written = False
    while not written:
        try:
            journal.append(RUN, [ev.AbortAsked(time.time(), "ann", "test")], after_seq=journal.head_seq(RUN), holder=None)
            written = True
        except Conflict:
            time.sleep(0.01)  # the engine wrote in between
    thread.join(timeout=30)
    events = [entry.event for entry in journal.read(RUN)]
    assert isinstance(events[-1], ev.RunEnded)
    assert events[-1].verdict is ev.Verdict.ROLLED_BACK
    # About twenty looks a second, a handful of questions for the time each; a spinning engine asks a hundred thousand times.
    assert clock.asked - asked_before < 2000
