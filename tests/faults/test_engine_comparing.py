"""The comparison of journal and world at a take-over keeps the lease, ends in time, and takes nothing unseen for agreement (J09, J13)."""

from __future__ import annotations

import threading
import time

import msgspec
import pytest

from bridgehead.drivers.postgres import PostgresJournal
from bridgehead.drivers.postgres import journal as postgres_journal
from bridgehead.drivers.system import SystemClock, this_driver
from bridgehead.drivers.world import WorldJournal
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, Transient
from bridgehead.kernel.ids import Epoch, RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Runbook
from bridgehead.ports.journal import DriverIdentity
from bridgehead.ports.metrics import Reading
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Done
from bridgehead.runbook.comparing import Comparison, Unseen
from bridgehead.runbook.engine import Engine, open_run
from bridgehead.runbook.ledger import KeyFolder

RUN = RunId("run")
RIVAL = DriverIdentity("there", 200, "boot:3")
LEASE_S = 0.4


class NoParams(msgspec.Struct):
    pass


class Once:
    """Does nothing, and knows whether it was asked."""

    name, params_type, undoable = "once", NoParams, True

    def __init__(self) -> None:
        self.asked = 0

    def precheck(self, params, call):
        self.asked += 1
        return Done()

    def apply(self, params, call):
        return Done()

    def verify(self, params, call):
        return Done()

    def undo(self, params, call):
        return Done()


class NoCounters:
    def read(self, service, site):
        return Reading({}, 0.0)


class LeasedJournal(WorldJournal):
    """A holder who has not read or written for ``LEASE_S`` is taken for dead, as by the journal on PostgreSQL."""

    def __init__(self) -> None:
        super().__init__(alive=self._heard_lately)
        self.heard_s = 0.0

    def _heard_lately(self, driver):
        return time.monotonic() - self.heard_s < LEASE_S

    def head_seq(self, run):
        self.heard_s = time.monotonic()
        return super().head_seq(run)

    def append(self, run, events, *, after_seq, holder):
        self.heard_s = time.monotonic()
        return super().append(run, events, after_seq=after_seq, holder=holder)

    def acquire(self, run, driver):
        epoch = super().acquire(run, driver)
        self.heard_s = time.monotonic()
        return epoch


class Driven:
    """One engine at work in a thread."""

    def __init__(self, journal, comparison: Comparison, *, limit_s: float = 15.0) -> None:
        self.journal, self.action = journal, Once()
        if RUN not in journal.runs():
            open_run(journal, RUN, Runbook("r", (ActionStep(StepId("one"), "once", {}, 60.0),)), estate={}, by="ann", at_s=time.time())
        self.engine = Engine(
            journal,
            actions={"once": self.action},
            metrics=NoCounters(),
            clock=SystemClock(),
            driver=this_driver(),
            compare=lambda state, epoch: comparison,
            compare_limit_s=limit_s,
        )
        self.raised: BaseException | None = None
        self.state: st.RunState | None = None
        self.thread = threading.Thread(target=self._drive)
        self.thread.start()

    def _drive(self) -> None:
        try:
            self.state = self.engine.drive(RUN)
        except BaseException as error:
            self.raised = error

    def end(self) -> None:
        self.thread.join(30.0)
        assert not self.thread.is_alive()

    def events(self, kind: type) -> list:
        return [entry.event for entry in self.journal.read(RUN) if isinstance(entry.event, kind)]


def slow(seconds: float):
    def lane():
        time.sleep(seconds)
        yield "seen"

    return lane


def hanging(until: threading.Event):
    def lane():
        until.wait(60.0)
        yield "too late"

    return lane


@pytest.fixture
def let_go():
    """Ends what hangs, after the test."""
    event = threading.Event()
    yield event
    event.set()


def rivals_wins(journal, driven: Driven, *, every_s: float) -> int:
    """How often another controller gets the lease while the comparison lasts."""
    wins = 0
    while driven.thread.is_alive():
        try:
            journal.acquire(RUN, RIVAL)
            wins += 1
        except Conflict:
            pass
        time.sleep(every_s)
    return wins


def test_J13_a_comparison_that_outlasts_the_lease_keeps_it():
    driven = Driven(LeasedJournal(), Comparison({"the vault of a": slow(3 * LEASE_S)}))
    time.sleep(0.1)
    assert rivals_wins(driven.journal, driven, every_s=0.05) == 0
    driven.end()
    assert driven.raised is None
    assert isinstance(driven.state.mode, st.Ended)
    assert [event.epoch for event in driven.events(ev.DriverTook)] == [1]


@pytest.mark.server("pg_ctlcluster")
def test_J13_it_keeps_the_lease_of_the_journal_on_postgresql(postgres_server, tmp_path, monkeypatch):
    for name, value in (("LEASE_S", 2.0), ("GRACE_S", 0.8), ("RENEWAL_S", 0.2)):
        monkeypatch.setattr(postgres_journal, name, value)
    url, keys = postgres_server.new_database(), KeyFolder(tmp_path / "keys")
    ours, theirs = PostgresJournal(url, signer=keys), PostgresJournal(url, signer=keys)
    driven = Driven(ours, Comparison({"the vault of a": slow(3.0)}))
    while theirs.holder(RUN) is None:
        time.sleep(0.02)
    assert rivals_wins(theirs, driven, every_s=0.1) == 0
    driven.end()
    assert driven.raised is None
    assert isinstance(driven.state.mode, st.Ended)
    ours.close()
    theirs.close()


def test_J09_what_hangs_ends_with_the_time_and_hides_nothing_of_the_others(let_go):
    def seen():
        yield "weights differ"

    asked = Comparison({"the vault of a": hanging(let_go), "the proxy": seen}, lambda facts: list(facts))
    begun_s = time.monotonic()
    driven = Driven(WorldJournal(), asked, limit_s=0.5)
    driven.end()
    assert 0.4 < time.monotonic() - begun_s < 5.0
    [differs], [noticed] = driven.events(ev.WorldDiffers), driven.events(ev.Noticed)
    assert differs.differences == ["weights differ"]
    assert noticed.text == "could not be compared with the journal: the vault of a (no answer within 0.5 s)"
    assert isinstance(driven.state.mode, st.NeedsPerson)
    assert driven.action.asked == 0


def test_J09_a_site_that_is_lost_does_not_stop_the_run_and_is_named(let_go):
    def refuses():
        yield Unseen("the vault of b", "no route")
        raise Transient("gone", tried="look", subject="b")

    def broken():
        yield "half"
        raise KeyError("weights")

    lanes = {"the vault of a": hanging(let_go), "the vault of b": refuses, "the proxy": broken}
    judged: list[list[str]] = []
    driven = Driven(WorldJournal(), Comparison(lanes, lambda facts: judged.append(list(facts)) or []), limit_s=0.5)
    driven.end()
    assert isinstance(driven.state.mode, st.Ended)
    assert judged == [["half"]], "what was said before it broke counts"
    [noticed] = driven.events(ev.Noticed)
    for text in ("the vault of a (no answer", "the vault of b (no route)", "the proxy (KeyError: 'weights')"):
        assert text in noticed.text


def test_J13_who_lost_the_lease_while_it_compares_stops_and_does_nothing(let_go):
    journal = LeasedJournal()
    driven = Driven(journal, Comparison({"the vault of a": hanging(let_go)}))
    while not driven.events(ev.DriverTook):
        time.sleep(0.01)
    journal._leases[RUN] = (Epoch(2), RIVAL)  # as after a freeze of this process
    while True:
        try:
            journal.append(RUN, [ev.DriverTook(time.time(), Epoch(2), "there/200")], after_seq=journal.head_seq(RUN), holder=RIVAL)
            break
        except Conflict:
            continue
    driven.end()
    assert isinstance(driven.raised, Conflict)
    assert driven.action.asked == 0


def test_one_that_is_asked_to_stop_while_it_compares_hands_over_soon(let_go):
    driven = Driven(WorldJournal(), Comparison({"the vault of a": hanging(let_go)}))
    while not driven.events(ev.DriverTook):
        time.sleep(0.01)
    driven.engine.stop()
    asked_s = time.monotonic()
    driven.end()
    assert time.monotonic() - asked_s < 2.0
    assert driven.journal.holder(RUN) is None
    assert driven.events(ev.Noticed) == [], "it says nothing of what it did not wait for"


def test_a_word_of_an_operator_is_heard_while_it_compares(let_go):
    driven = Driven(WorldJournal(), Comparison({"the vault of a": hanging(let_go)}), limit_s=1.0)
    while not driven.events(ev.DriverTook):
        time.sleep(0.01)
    seq = driven.journal.head_seq(RUN)
    driven.journal.append(RUN, [ev.AbortAsked(time.time(), "ann", "changed my mind")], after_seq=seq, holder=None)
    driven.end()
    assert isinstance(driven.state.mode, st.Ended)
    assert driven.state.mode.verdict is ev.Verdict.ROLLED_BACK
    assert driven.action.asked == 0


def test_a_second_driver_finds_it_busy(let_go):
    journal = WorldJournal()
    driven = Driven(journal, Comparison({"the vault of a": hanging(let_go)}), limit_s=1.0)
    while not driven.events(ev.DriverTook):
        time.sleep(0.01)
    second = Driven(journal, Comparison())
    second.end()
    assert isinstance(second.raised, BridgeheadError)
    assert second.raised.code is ErrorCode.RUN_BUSY
    driven.end()
