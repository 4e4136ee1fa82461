"""The engine: the shell around ``decide``. It journals, performs commands on a bounded pool of workers, and waits.

It decides nothing. Killed at any moment, the next process reads the journal and decides again (G11, J02, J15).
"""

from __future__ import annotations

import contextlib
import math
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec

from bridgehead import __version__
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.hashing import document_hash
from bridgehead.kernel.ids import Epoch, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import Runbook
from bridgehead.ports.clock import Clock
from bridgehead.ports.journal import DriverIdentity, Journal
from bridgehead.ports.metrics import Metrics
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Action, Json, Outcome, Pending
from bridgehead.runbook.apply import apply, fold
from bridgehead.runbook.comparing import COMPARE_S, Comparing, Comparison
from bridgehead.runbook.decide import Flight, Measure, Perform, decide
from bridgehead.runbook.perform import call_phase, measure, outcome_event, prepare

T = TypeVar("T")
LISTEN_S = 0.05
"""How often a waiting engine looks for words of operators in the journal."""
UPKEEP_S = 1.0
"""Time between two rounds of upkeep."""
PROGRESS_S = 1.0
"""Least time between two journalled progress reports of one step."""


class Landing(msgspec.Struct, frozen=True):
    """What came back from a worker; ``command`` is None for a round of upkeep, whose result is what it noticed."""

    command: Perform | Measure | None
    epoch: Epoch
    result: Outcome | PortError | ev.GateMeasured | list[str]


Watcher = Callable[[st.RunState, Sequence[ev.Event]], None]


def open_run(
    journal: Journal, run: RunId, runbook: Runbook, *, estate: Json, by: str, at_s: float, undoes: ev.Undoes | None = None
) -> None:
    """Write a run's first event. Raises Conflict when the run exists."""
    journal.create(run, ev.RunOpened(at_s, run, runbook, document_hash(runbook), estate, by, __version__, undoes))


def read_state(journal: Journal, run: RunId) -> st.RunState:
    """The state of a run as its journal tells it; needs no driver. Raises NotFound."""
    return fold(entry.event for entry in journal.read(run))


class Engine:
    """Drives one run in this process.

    Args:
        actions: registered actions by name.
        metrics: counters for gates.
        workers: upper bound of calls at a time.
        upkeep: called about every second while the run is driven; puts outside things right that are not a step's business, such as
            weights that a proxy lost, and returns what it noticed, for the ledger. Raises port errors only.
        compare: called once at each take-over, with the state before it and the new epoch: what to ask of the world, and how it differs
            from what the journal can have brought about (J09). Any difference that no person knows of stops the run before anything is
            done; what was not seen within ``compare_limit_s`` is noticed. Must not raise, and asks nothing itself.
        watcher: told of every batch of events with the state after it (progress display, metrics); must not raise.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        actions: Mapping[str, Action],
        metrics: Metrics,
        clock: Clock,
        driver: DriverIdentity,
        workers: int = 8,
        upkeep: Callable[[], list[str]] = list,
        compare: Callable[[st.RunState, Epoch], Comparison] = lambda state, epoch: Comparison(),
        compare_limit_s: float = COMPARE_S,
        watcher: Watcher = lambda state, events: None,
    ) -> None:
        self._journal = journal
        self._actions = actions
        self._metrics = metrics
        self._clock = clock
        self._driver = driver
        self._workers = workers
        self._upkeep = upkeep
        self._compare = compare
        self._compare_limit_s = compare_limit_s
        self._watcher = watcher
        self._stop_asked = False

    def stop(self) -> None:
        """Let ``drive`` return soon, with the run where it is; safe from a signal handler."""
        self._stop_asked = True

    def drive(self, run: RunId) -> st.RunState:
        """Drive ``run`` until it has ended, needs a person, or ``stop`` was called; returns the state then.

        Raises:
            BridgeheadError: RUN_BUSY when another live process drives it, RUN_NOT_FOUND.
            Conflict: the lease was lost to another process; nothing that this one does counts any more.
        """
        try:
            epoch = self._journal.acquire(run, self._driver)
        except Conflict as conflict:
            raise BridgeheadError(
                ErrorCode.RUN_BUSY,
                tried=conflict.tried,
                subject=str(run),
                happened=conflict.happened,
                remedy="Watch it with `bridgehead run watch`, or end that process first.",
            ) from conflict
        try:
            return _Drive(self, run, epoch).loop()
        finally:
            with contextlib.suppress(PortError):  # a lease that stays is that of a dead process, and is taken
                self._journal.release(run, self._driver)


def _perform(state: st.RunState, command: Perform, actions: Mapping[str, Action], now_s: float) -> Outcome:
    return call_phase(prepare(state, command, actions, now_s))


def _patiently(ask: Callable[[], T]) -> T:
    """A journal that is locked or out of reach is waited for: going on without it would be worse.

    Where it is unknown whether something was written, the same call again says it.
    """
    while True:
        try:
            return ask()
        except Transient as error:
            time.sleep(min(1.0, error.retry_after_s))
        except Unknown:
            time.sleep(0.2)


class _Drive:
    """One stay at the wheel: the volatile part (what is in flight), which a crash loses and a resume does without."""

    def __init__(self, engine: Engine, run: RunId, epoch: Epoch) -> None:
        self._engine = engine
        self._run = run
        self._epoch = epoch
        self._flights: dict[StepId, Flight] = {}
        self._landed: queue.SimpleQueue[Landing] = queue.SimpleQueue()
        self._progress_at_s: dict[StepId, float] = {}
        self._upkeep_at_s = -math.inf
        self._listened_at_s = -math.inf
        self._trouble = ""
        entries = _patiently(lambda: engine._journal.read(run))
        self._seq = entries[-1].seq
        self._state = fold(entry.event for entry in entries)

    def loop(self) -> st.RunState:
        clock = self._engine._clock
        # Engine time never runs behind the journal, even if the wall clock was set back while no process drove the run.
        self._ahead_s = max(0.0, self._state.last_s - clock.now_s())
        driver = f"{self._engine._driver.host}/{self._engine._driver.pid}"
        if not isinstance(self._state.mode, st.Ended):
            before = self._state
            # However many words come in between: without this event the epoch of the dead driver would still be in force.
            while not self._append([ev.DriverTook(self._now_s(), self._epoch, driver)]):
                pass
            self._compare(before)
        chores = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upkeep")
        pool = ThreadPoolExecutor(max_workers=self._engine._workers, thread_name_prefix="step")
        try:
            while not isinstance(self._state.mode, st.Ended | st.NeedsPerson) and not self._engine._stop_asked:
                self._turn(pool, chores)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            chores.shutdown(wait=False, cancel_futures=True)
        return self._state

    def _compare(self, before: st.RunState) -> None:
        """Hold the world against the journal. The lease is kept meanwhile: another controller would begin the same all over again."""
        comparing = Comparing(self._engine._compare(before, self._epoch), limit_s=self._engine._compare_limit_s)
        while not self._engine._stop_asked and comparing.goes_on(wait_s=LISTEN_S):
            self._hear()
        compared = comparing.close()
        if self._engine._stop_asked:
            return  # nothing was done; whoever drives it next compares anew
        if compared.unseen:
            text = f"could not be compared with the journal: {'; '.join(compared.unseen)}"
            while not self._append([ev.Noticed(self._now_s(), text)]):
                pass
        found = compared.differences
        while set(found) - set(self._state.accepted) and not self._append([ev.WorldDiffers(self._now_s(), found)]):
            pass

    def _now_s(self) -> float:
        return self._engine._clock.now_s() + self._ahead_s

    def _turn(self, pool: ThreadPoolExecutor, chores: ThreadPoolExecutor) -> None:
        now_s = self._now_s()
        decision = decide(self._state, self._flights, now_s)
        if decision.records:
            self._append(decision.records)
            return
        # Only what a worker is free for: a step's time does not run while it waits in a queue.
        commands = decision.commands[: self._engine._workers - sum(flight.busy for flight in self._flights.values())]
        intents = [command.intent for command in commands if isinstance(command, Perform) and command.intent is not None]
        if intents and not self._append(intents):
            return  # somebody spoke meanwhile: decide again before acting
        for command in commands:
            self._flights[command.step] = Flight(busy=True, poll_at_s=math.inf)
            if isinstance(command, Perform):
                pool.submit(self._work, command, partial(_perform, self._state, command, self._engine._actions, now_s))
            else:
                pool.submit(self._work, command, partial(measure, self._state, command, self._engine._metrics, now_s))
        if now_s >= self._upkeep_at_s:
            self._upkeep_at_s = math.inf
            chores.submit(self._work, None, self._engine._upkeep)
        self._wait(decision.wake_s)

    def _work(self, command: Perform | Measure | None, work: Callable[[], Outcome | ev.GateMeasured | list[str]]) -> None:
        try:
            result: Outcome | PortError | ev.GateMeasured | list[str] = work()
        except PortError as error:
            result = error
        except Exception as error:  # whatever it is, the engine goes on and says it
            result = Permanent(f"{type(error).__name__}: {error}", tried="work", subject=self._run, remedy="Report this with the ledger.")
        self._landed.put(Landing(command, self._epoch, result))

    def _wait(self, wake_s: float) -> None:
        """Until something lands, time changes the decision, or an operator spoke."""
        timeout_s = max(0.0, min(wake_s, self._upkeep_at_s) - self._now_s())
        try:
            landings = [self._landed.get(timeout=min(timeout_s, LISTEN_S)) if timeout_s > 0 else self._landed.get_nowait()]
        except queue.Empty:
            landings = []
        while not self._landed.empty():
            landings.append(self._landed.get_nowait())
        if landings:
            self._land(landings)
        self._hear()

    def _hear(self) -> None:
        """Look for words of operators, at most every ``LISTEN_S``, also while quick polls land all the time. This renews the lease, too.

        Raises Conflict when another process took the run over.
        """
        now_s = self._now_s()
        if now_s - self._listened_at_s < LISTEN_S:
            return
        self._listened_at_s = now_s
        if _patiently(lambda: self._engine._journal.head_seq(self._run)) != self._seq and not self._listen():
            raise Conflict("another process took the run over", tried="drive the run", subject=self._run)

    def _land(self, landings: Sequence[Landing]) -> None:
        now_s = self._now_s()
        events: list[ev.Event] = []
        for landing in landings:
            if landing.command is None:
                self._upkeep_at_s = now_s + UPKEEP_S
                events += self._noticed(landing.result, now_s)
                continue
            step_id = landing.command.step
            self._flights.pop(step_id, None)
            if isinstance(landing.result, ev.GateMeasured):
                events.append(msgspec.structs.replace(landing.result, at_s=now_s))
                continue
            assert not isinstance(landing.result, list)
            if isinstance(landing.command, Measure):
                assert isinstance(landing.result, PortError)
                events.append(ev.GateMeasured(now_s, step_id, None, None, landing.result.happened))
                continue
            event = outcome_event(landing.command, landing.epoch, landing.result, now_s)
            if event is not None:
                events.append(event)
                continue
            assert isinstance(landing.result, Pending)
            self._flights[step_id] = Flight(busy=False, poll_at_s=now_s + landing.result.poll_after_s)
            if landing.result.progress and now_s - self._progress_at_s.get(step_id, -math.inf) >= PROGRESS_S:
                self._progress_at_s[step_id] = now_s
                events.append(ev.PhaseProgress(now_s, step_id, landing.command.phase, landing.result.progress))
        while events and not self._append(events):
            pass  # an operator's word came first; outcomes are facts and are appended behind it

    def _noticed(self, result: object, now_s: float) -> list[ev.Event]:
        """What upkeep said; the same trouble twice in a row is said once."""
        texts = result if isinstance(result, list) else [f"upkeep failed: {result}"]
        fresh = [text for text in texts if isinstance(result, list) or text != self._trouble]
        self._trouble = "" if isinstance(result, list) else texts[0]
        return [ev.Noticed(now_s, text) for text in fresh]

    def _append(self, events: Sequence[ev.Event]) -> bool:
        """Journal and apply. False when an operator's word came first: it is read, and the caller decides again.

        Raises Conflict when the lease is lost.
        """
        journal = self._engine._journal
        try:
            entries = _patiently(lambda: journal.append(self._run, events, after_seq=self._seq, holder=self._engine._driver))
        except Conflict:
            if _patiently(lambda: journal.head_seq(self._run)) == self._seq or not self._listen():
                raise
            return False
        self._take([entry.event for entry in entries], entries[-1].seq)
        return True

    def _listen(self) -> bool:
        """Read what others wrote. False when nothing is new, or when another driver took over (then nothing of ours counts)."""
        entries = _patiently(lambda: self._engine._journal.read(self._run, after_seq=self._seq))
        if not entries or any(isinstance(entry.event, ev.DriverTook) for entry in entries):
            return False
        self._take([entry.event for entry in entries], entries[-1].seq)
        return True

    def _take(self, events: Sequence[ev.Event], seq: int) -> None:
        for event in events:
            self._state = apply(self._state, event)
        self._seq = seq
        self._engine._watcher(self._state, events)
