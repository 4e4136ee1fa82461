"""The engine goes on through trouble that is not a port error, and never misses that it took a run over (J13, J15, G09)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import SystemClock, is_alive, this_driver
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Criterion, GateStep, HoldStep, Retry, Runbook
from bridgehead.ports.metrics import Reading
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Done
from bridgehead.runbook.engine import Engine, open_run
from bridgehead.runbook.ledger import KeyFolder


class NoParams(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Counting:
    """Counts its calls, and how many run at once."""

    name, params_type, undoable = "count", NoParams, True

    def __init__(self, busy_s: float = 0.0) -> None:
        self.calls: list[str] = []
        self.now, self.most, self.busy_s = 0, 0, busy_s
        self.lock = threading.Lock()

    def _called(self, what: str) -> Done:
        with self.lock:
            self.calls.append(what)
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.busy_s)
        with self.lock:
            self.now -= 1
        return Done()

    def precheck(self, params, call):
        return Done()

    def apply(self, params, call):
        return self._called("apply")

    def verify(self, params, call):
        return Done()

    def undo(self, params, call):
        return self._called("undo")


class Broken:
    def read(self, service, site):
        raise ValueError("not an address")


class Silent:
    def read(self, service, site):
        return Reading({}, 0.0)


def journal_at(folder: Path) -> SqliteJournal:
    return SqliteJournal(folder / "journal.db", signer=KeyFolder(folder / "keys"), alive=is_alive)


def engine_at(folder: Path, **options) -> Engine:
    values = {"actions": {"count": Counting()}, "metrics": Silent(), "clock": SystemClock(), "driver": this_driver()} | options
    return Engine(options.pop("journal", None) or journal_at(folder), **{k: v for k, v in values.items() if k != "journal"})


def opened(folder: Path, *steps) -> None:
    open_run(journal_at(folder), "run", Runbook("test", steps), estate={}, by="me", at_s=time.time())


def step(step_id: str, **changes) -> ActionStep:
    return ActionStep(step_id, "count", {}, **({"deadline_s": 20.0, "retry": Retry(2, 0.01)} | changes))


def events(folder: Path) -> list[ev.Event]:
    return [entry.event for entry in journal_at(folder).read("run")]


class Interrupted(SqliteJournal):
    """Right before the driver's first append somebody speaks."""

    spoken = False

    def append(self, run, events, *, after_seq, holder):
        if holder is not None and not self.spoken:
            self.spoken = True
            super().append(run, [ev.Noticed(time.time(), "a word")], after_seq=after_seq, holder=None)
        return super().append(run, events, after_seq=after_seq, holder=holder)


def test_J13_a_word_before_the_first_append_does_not_hide_the_take_over(tmp_path):
    opened(tmp_path, step("a"))
    journal = Interrupted(tmp_path / "journal.db", signer=KeyFolder(tmp_path / "keys"), alive=is_alive)
    engine_at(tmp_path, journal=journal).drive("run")
    assert [type(event).__name__ for event in events(tmp_path)][:3] == ["RunOpened", "Noticed", "DriverTook"]


def test_G09_upkeep_that_fails_is_tried_again_and_said_once(tmp_path):
    opened(tmp_path, HoldStep("h", 3.5))
    rounds = []

    def upkeep() -> list[str]:
        rounds.append(time.time())
        raise OSError("disk gone")

    engine_at(tmp_path, upkeep=upkeep).drive("run")
    assert len(rounds) >= 3
    noticed = [event.text for event in events(tmp_path) if isinstance(event, ev.Noticed)]
    assert len(noticed) == 1
    assert "disk gone" in noticed[0]


def test_a_source_of_counters_that_breaks_is_an_error_of_the_gate(tmp_path):
    gate = GateStep("g", "svc", "b", None, (Criterion("bad", "bad", "all", limit=0.0),), "all", 1, 2, 0.1, 1.0)
    opened(tmp_path, gate)
    state = engine_at(tmp_path, metrics=Broken()).drive("run")
    assert isinstance(state.mode, st.Ended)
    assert "not an address" in next(event.error for event in events(tmp_path) if isinstance(event, ev.GateMeasured))


def test_an_unknown_action_fails_its_step_and_not_the_engine(tmp_path):
    opened(tmp_path, msgspec.structs.replace(step("a"), action="of.tomorrow"))
    state = engine_at(tmp_path).drive("run")
    assert isinstance(state.mode, st.Ended)
    assert "does not know the action" in state.mode.reason


def test_a_journal_that_is_locked_for_a_while_is_waited_for(tmp_path, monkeypatch):
    opened(tmp_path, step("a"))
    journal, fails = journal_at(tmp_path), iter([True, True, False, True])
    append = journal.append

    def locked(*arguments, **options):
        if next(fails, False):
            raise Transient("the database is locked", tried="write", subject="journal", retry_after_s=0.05)
        return append(*arguments, **options)

    monkeypatch.setattr(journal, "append", locked)
    state = engine_at(tmp_path, journal=journal).drive("run")
    assert isinstance(state.mode, st.Ended)
    assert state.mode.verdict == "done"


def test_steps_do_not_age_while_they_wait_for_a_worker(tmp_path):
    counting = Counting(busy_s=0.1)
    opened(tmp_path, *[step(f"s{number}", deadline_s=2.0) for number in range(60)])
    state = engine_at(tmp_path, actions={"count": counting}, workers=4).drive("run")
    assert isinstance(state.mode, st.Ended)
    assert (state.mode.verdict, counting.most) == ("done", 4)


def test_no_space_in_the_journal_is_said_and_nothing_is_done(tmp_path, monkeypatch):
    opened(tmp_path, step("a"))
    journal, counting = journal_at(tmp_path), Counting()

    def full(*arguments, **options):
        raise Permanent("no space: disk is full", tried="write", subject="journal")

    monkeypatch.setattr(journal, "append", full)
    with pytest.raises(Permanent, match="no space"):
        engine_at(tmp_path, journal=journal, actions={"count": counting}).drive("run")
    assert counting.calls == []
