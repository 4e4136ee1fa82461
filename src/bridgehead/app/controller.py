"""Controller: a process that stands by and drives every open run that nobody drives (G11, J02, J13, J15).

Several may run, on several machines with one PostgreSQL journal. Each run's lease says who is active; the others look twice a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError, Transient
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.runbook import state as st

if TYPE_CHECKING:
    from bridgehead.ports.journal import Journal
    from bridgehead.runbook.engine import Engine

POLL_S: Final = 0.5
"""How often a controller looks for runs without a driver."""
PATIENCE_S: Final = 2.0
"""So long, a run that was just opened, or given back, is left to whoever is about to drive it."""
AFTER_TROUBLE_S: Final = 30.0
"""So long, a run that could not be driven here is left to others."""
COPY_S: Final = 10.0
"""Time between two copies of the journal: so much of it, at most, is lost with its site."""
Say = Callable[[str], None]


class Controller:
    """Stands by and drives until ``stop``. One thread looks; each run that is driven here has one of its own.

    Args:
        say: told, in a line, of everything that people may want to know; called from several threads.
        at_once: upper bound of runs that are driven here at a time.
        copies: vault to which the journal is copied every ``COPY_S``; None: nowhere.
    """

    def __init__(self, home: Home, *, say: Say, at_once: int = 16, copies: str | None = None) -> None:
        self._home = home
        self._say = say
        self._at_once = at_once
        self._copies = copies
        self._copy_trouble = ""
        self._stop = threading.Event()
        self._driving: dict[RunId, threading.Thread] = {}
        self._engines: dict[RunId, Engine] = {}
        self._not_before_s: dict[RunId, float] = {}
        self._idle_since_s: dict[RunId, float] = {}
        self._seen: dict[RunId, tuple[int, bool]] = {}
        self._trouble = ""

    def stop(self) -> None:
        """Hand every run over: leases are given back as soon as calls that are out have ended. Safe from a signal handler."""
        self._stop.set()
        for engine in list(self._engines.values()):
            engine.stop()

    def run(self) -> None:
        """Until ``stop``. Raises BridgeheadError for a journal that cannot be used at all."""
        journal = self._home.journal()
        self._say(f"stands by; the journal is {self._home.place}")
        copying = threading.Thread(target=self._copy, name="copy", daemon=True)
        copying.start()
        telling = threading.Thread(target=self._tell, name="tell")
        telling.start()
        try:
            while not self._stop.is_set():
                self._look(journal)
                self._stop.wait(POLL_S)
        finally:
            self.stop()
            for thread in list(self._driving.values()):
                thread.join()
            telling.join()
            journal.close()

    def _copy(self) -> None:
        """Bring the journal to the copy, again and again. Trouble there is said once and stops nobody."""
        from bridgehead.app.journal_copies import copy

        while self._copies is not None and not self._stop.is_set():
            try:
                refused = [f"{run}: {why}" for run, why in copy(self._home, self._copies).refused.items()]
                trouble = "; ".join(refused)
            except BridgeheadError as error:
                trouble = error.happened
            if trouble != self._copy_trouble:
                self._say(f"the journal cannot be copied: {trouble}" if trouble else "the journal is copied again")
            self._copy_trouble = trouble
            self._stop.wait(COPY_S)

    def _tell(self) -> None:
        """Tell people of all runs, also of those that nobody drives. Trouble there is said and stops nobody."""
        from bridgehead.app.notifying import ringing
        from bridgehead.app.notifying_runs import RunsTelling

        with ringing(self._home, say=self._say) as bell:
            if bell is not None:
                RunsTelling(self._home, bell, say=self._say).run(self._stop)

    def _look(self, journal: Journal) -> None:
        """One round. A journal that is out of reach is said once, and waited for."""
        self._driving = {run: thread for run, thread in self._driving.items() if thread.is_alive()}
        try:
            for run in journal.runs():
                if run not in self._driving and len(self._driving) < self._at_once and self._is_ours(journal, run):
                    self._drive(run)
        except PortError as error:
            if self._trouble != error.happened:
                self._say(f"the journal cannot be read: {error.happened}")
            self._trouble = error.happened
        else:
            if self._trouble:
                self._say("the journal can be read again")
            self._trouble = ""

    def _is_ours(self, journal: Journal, run: RunId) -> bool:
        """Open, without a driver, and for long enough that nobody is about to drive it."""
        now_s = time.monotonic()
        if now_s < self._not_before_s.get(run, 0.0) or not self._is_open(journal, run):
            return False
        if journal.holder(run) is not None:
            self._idle_since_s[run] = -PATIENCE_S  # it had a driver: when that one is gone, nobody else is about to come
            return False
        return now_s - self._idle_since_s.setdefault(run, now_s) >= PATIENCE_S

    def _is_open(self, journal: Journal, run: RunId) -> bool:
        """Whether a driver has anything to do; read again only when something was written."""
        seq, is_open = self._seen.get(run, (0, True))
        if not is_open and seq == 0:
            return False  # damaged, and said before
        head = journal.head_seq(run)
        if head != seq:
            try:
                mode = runs.state_of(self._home, run, journal=journal).mode
            except PortError:
                raise
            except BridgeheadError as error:
                self._say(f"{run}: {error.happened}; {error.remedy}")
                self._seen[run] = (0, False)
                return False
            is_open = not isinstance(mode, st.Ended | st.NeedsPerson)
            self._seen[run] = (head, is_open)
        return is_open

    def _drive(self, run: RunId) -> None:
        thread = threading.Thread(target=self._driven, args=(run,), name=f"drive {run}")
        self._driving[run] = thread
        thread.start()

    def _driven(self, run: RunId) -> None:
        """Whatever comes of one run, the others go on."""
        try:
            state = runs.drive(
                self._home, run, watcher=self._watched, on_engine=partial(self._began, run), say=lambda text: self._say(f"{run}: {text}")
            )
            self._say(f"{run}: {_word(state)}")
        except BridgeheadError as error:
            if error.code is not ErrorCode.RUN_BUSY and not isinstance(error, Transient):
                self._not_before_s[run] = time.monotonic() + AFTER_TROUBLE_S
            self._say(f"does not drive {run}: {error.happened}; {error.remedy}")
        finally:
            self._engines.pop(run, None)

    def _watched(self, state: st.RunState, events: Sequence[ev.Event]) -> None:
        if any(isinstance(event, ev.DriverTook) for event in events):  # only now it is: two may try at once
            self._say(f"takes {state.run} over")

    def _began(self, run: RunId, engine: Engine) -> None:
        self._engines[run] = engine
        if self._stop.is_set():
            engine.stop()


def _word(state: st.RunState) -> str:
    match state.mode:
        case st.Ended(verdict=verdict, reason=reason):
            return f"{verdict.value}: {reason}"
        case st.NeedsPerson(reason=reason):
            return f"needs a person: {reason}"
        case _:
            return "handed over"
