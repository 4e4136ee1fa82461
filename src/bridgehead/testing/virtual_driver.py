"""VirtualDriver: the second shell around ``decide``: one thread, virtual time, and it can die at any moment.

It journals and performs exactly what ``runbook.engine`` does, with the same ``decide``, ``apply``, ``prepare``, ``call_phase``,
``measure`` and ``outcome_event``. Where the engine has a pool of threads, this one has a delay before a call and one after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from bridgehead.drivers.world import Calls, WorldClock
from bridgehead.kernel.errors import Conflict, PortError
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model import event as ev
from bridgehead.ports.journal import DriverIdentity, Journal
from bridgehead.ports.metrics import Metrics
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Action, Outcome, Pending
from bridgehead.runbook.apply import apply, fold
from bridgehead.runbook.decide import Flight, Measure, Perform, decide
from bridgehead.runbook.engine import LISTEN_S, PROGRESS_S, UPKEEP_S
from bridgehead.runbook.perform import PhaseCall, call_phase, measure, outcome_event, prepare
from bridgehead.simulate.fault_book import DriverDied

DISPATCH_S = 0.001
"""From the decision to the beginning of the call."""
LISTENS_AFTER_S = LISTEN_S / 2
"""How soon, on average, a driver hears what was written to the journal."""
GIVES_UP_RESUME_S = 2.0
"""How soon another process resumes when one gave up because of its journal."""


class Shop(msgspec.Struct, frozen=True):
    """What a driver works with."""

    journal: Journal
    actions: dict[str, Action]
    metrics: Metrics
    calls: Calls
    upkeep: Callable[[], list[str]]
    trace: Callable[[str], None]
    watch: Callable[[st.RunState, Sequence[ev.Event]], None]
    upkeep_s: float = UPKEEP_S


class VirtualDriver:
    """One process that drives one run. ``left`` is told how it went: the delay after which another one should resume, or None at the
    run's end (or when a person is needed)."""

    def __init__(self, shop: Shop, run: RunId, identity: DriverIdentity, *, left: Callable[[float | None], None]) -> None:
        self.identity = identity
        self.alive = True
        self._shop, self._run, self._left = shop, run, left
        self._timeline = shop.calls.world.timeline
        self._clock = WorldClock(shop.calls.world)
        self._flights: dict[StepId, Flight] = {}
        self._progress_at_s: dict[StepId, float] = {}
        self._wakes = 0
        self._zombie_s: float | None = None
        self._started: list[Callable[[], None]] = []

    def start(self) -> None:
        """Take the run over and begin. Raises Conflict while another live process drives it."""
        self._epoch = self._shop.journal.acquire(self._run, self.identity)
        entries = self._shop.journal.read(self._run)
        self._seq = entries[-1].seq
        self._state = fold(entry.event for entry in entries)
        self._ahead_s = max(0.0, self._state.last_s - self._clock.now_s())
        if self._shop.calls.book is not None:
            self._shop.calls.book.on_driver_start()
        self._guard(self._take_over)

    def listen(self) -> None:
        """An operator spoke."""
        if self.alive:
            self._guard(lambda: self._turn() if self._listen() else None)

    # life and death

    def _guard(self, work: Callable[[], object]) -> None:
        try:
            work()
        except DriverDied as death:
            self._die(death.resume_after_s, death.zombie_s)
        except PortError as error:
            # The real process ends with an error message when its journal fails or its lease is lost.
            self._shop.trace(f"driver {self.identity.pid} gives up: {error.happened}")
            self._die(GIVES_UP_RESUME_S, None)

    def _die(self, resume_after_s: float, zombie_s: float | None) -> None:
        if not self.alive:
            return
        self.alive = False
        self._zombie_s = zombie_s
        self._shop.trace(f"driver {self.identity.pid} dies" + ("" if zombie_s is None else ", its calls arrive late"))
        if zombie_s is not None:
            for execute in self._started:
                self._timeline.after(zombie_s, execute)
        self._left(resume_after_s)

    def _go(self) -> None:
        self.alive = False
        self._shop.journal.release(self._run, self.identity)
        self._left(None)

    # turns

    def _take_over(self) -> None:
        if not isinstance(self._state.mode, st.Ended):
            while not self._append([ev.DriverTook(self._now_s(), self._epoch, f"{self.identity.host}/{self.identity.pid}")]):
                pass
        self._timeline.after(self._shop.upkeep_s, self._keep_up)
        self._turn()

    def _keep_up(self) -> None:
        """One round of upkeep, as the engine's."""
        if not self.alive:
            return

        def work() -> None:
            try:
                noticed = self._shop.upkeep()
            except PortError:
                noticed = []
            events = [ev.Noticed(self._now_s(), text) for text in noticed]
            while events and not self._append(events):
                pass

        self._guard(work)
        if self.alive:
            self._timeline.after(self._shop.upkeep_s, self._keep_up)

    def _now_s(self) -> float:
        return self._clock.now_s() + self._ahead_s

    def _turn(self) -> None:
        while True:
            if isinstance(self._state.mode, st.Ended | st.NeedsPerson):
                self._go()
                return
            now_s = self._now_s()
            decision = decide(self._state, self._flights, now_s)
            if decision.records:
                self._append(decision.records)
                continue
            intents = [command.intent for command in decision.commands if isinstance(command, Perform) and command.intent is not None]
            if intents and not self._append(intents):
                continue
            for command in decision.commands:
                self._begin(command, now_s)
            self._sleep(decision.wake_s)
            return

    def _sleep(self, wake_s: float) -> None:
        self._wakes += 1
        number = self._wakes
        if math.isfinite(wake_s):
            # A hair late rather than early: sums of floats differ in the last bit.
            self._timeline.after(max(0.0, wake_s - self._now_s()) + 1e-6, lambda: self._wake(number))

    def _wake(self, number: int) -> None:
        if self.alive and number == self._wakes:
            self._guard(self._turn)

    # commands

    def _begin(self, command: Perform | Measure, now_s: float) -> None:
        self._flights[command.step] = Flight(busy=True, poll_at_s=math.inf)
        call = prepare(self._state, command, self._shop.actions, now_s) if isinstance(command, Perform) else None

        def execute() -> None:
            if execute in self._started:
                self._started.remove(execute)
                self._execute(command, call)

        self._started.append(execute)
        self._timeline.after(DISPATCH_S, lambda: execute() if self.alive else None)

    def _execute(self, command: Perform | Measure, call: PhaseCall | None) -> None:
        """Also runs for a dead driver whose calls arrive late; nobody hears the outcome then."""
        try:
            result = self._call(command, call)
        except DriverDied as death:
            self._die(death.resume_after_s, death.zombie_s)
            return
        spent_s = self._shop.calls.take_spent_s()
        self._timeline.after(spent_s, lambda: self._guard(lambda: self._land(command, result)) if self.alive else None)

    def _call(self, command: Perform | Measure, call: PhaseCall | None) -> Outcome | PortError | ev.GateMeasured:
        if isinstance(command, Measure):
            return measure(self._state, command, self._shop.metrics, self._now_s())
        assert call is not None
        try:
            return call_phase(call)
        except PortError as error:
            return error

    def _land(self, command: Perform | Measure, result: Outcome | PortError | ev.GateMeasured) -> None:
        now_s, step_id = self._now_s(), command.step
        self._flights.pop(step_id, None)
        event: ev.Event | None
        if isinstance(result, ev.GateMeasured):
            event = msgspec.structs.replace(result, at_s=now_s)
        else:
            assert isinstance(command, Perform)
            event = outcome_event(command, self._epoch, result, now_s)
            if isinstance(result, Pending):
                self._flights[step_id] = Flight(busy=False, poll_at_s=now_s + result.poll_after_s)
                if result.progress and now_s - self._progress_at_s.get(step_id, -math.inf) >= PROGRESS_S:
                    self._progress_at_s[step_id] = now_s
                    event = ev.PhaseProgress(now_s, step_id, command.phase, result.progress)
        while event is not None and not self._append([event]):
            pass
        self._turn()

    # journal

    def _append(self, events: Sequence[ev.Event]) -> bool:
        """False when an operator's word came first. Raises Conflict when the lease is lost, DriverDied when it is planned."""
        try:
            entries = self._shop.journal.append(self._run, events, after_seq=self._seq, holder=self.identity)
        except Conflict:
            if self._shop.journal.head_seq(self._run) == self._seq or not self._listen():
                raise
            return False
        self._take([entry.event for entry in entries], entries[-1].seq)
        return True

    def _listen(self) -> bool:
        entries = self._shop.journal.read(self._run, after_seq=self._seq)
        if not entries or any(isinstance(entry.event, ev.DriverTook) for entry in entries):
            return False
        self._take([entry.event for entry in entries], entries[-1].seq)
        return True

    def _take(self, events: Sequence[ev.Event], seq: int) -> None:
        for event in events:
            self._state = apply(self._state, event)
        self._seq = seq
        self._shop.watch(self._state, events)
