"""Conformance suite of the journal port (J02, J13, J15; design rule 3). A driver inherits the class and gives it a rig.

Call ``pytest.register_assert_rewrite("bridgehead.testing.journal_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import abc

import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Permanent
from bridgehead.kernel.hashing import ZERO_HASH
from bridgehead.kernel.ids import RunId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import HoldStep, Runbook
from bridgehead.ports.journal import DriverIdentity, Journal
from bridgehead.runbook.ledger import Verifier, verify_chain

RUN, OTHER = RunId("run-1"), RunId("run-2")
HERE = DriverIdentity(host="here", pid=100, started="boot:1")
REUSED = DriverIdentity(host="here", pid=100, started="boot:2")
THERE = DriverIdentity(host="there", pid=200, started="boot:3")


def opening(run: RunId = RUN) -> ev.RunOpened:
    """A run's first event."""
    return ev.RunOpened(1.0, run, Runbook("nap", (HoldStep(StepId("wait"), 1.0),)), "hash", {"sites": {}}, "ann", "0")


def noticed(text: str) -> ev.Noticed:
    """Any event."""
    return ev.Noticed(2.5, text)


class JournalRig(abc.ABC):
    """An empty journal."""

    @abc.abstractmethod
    def journal(self) -> Journal:
        """The journal, opened anew: what another process has. All of them see the same."""

    @abc.abstractmethod
    def verifier(self) -> Verifier:
        """Knows the keys that the journal signs with."""

    @abc.abstractmethod
    def die(self, driver: DriverIdentity) -> None:
        """From now on the process is known to be dead; before, every driver lives."""

    @abc.abstractmethod
    def fill(self) -> None:
        """From now on there is no space for a large entry."""


class JournalSuite:
    """What every journal must do. Override the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> JournalRig:
        """Nothing was ever written."""
        raise NotImplementedError

    # create, append, read

    def test_what_was_written_is_read_back_in_order(self, rig: JournalRig) -> None:
        """By everybody, event by event."""
        journal = rig.journal()
        first = journal.create(RUN, opening())
        entries = journal.append(RUN, [noticed("a"), noticed("b")], after_seq=1, holder=None)
        entries += journal.append(RUN, [noticed("c")], after_seq=3, holder=None)
        for reader in (journal, rig.journal()):
            assert reader.read(RUN) == [first, *entries]
            assert reader.read(RUN, after_seq=2) == entries[1:]
            assert reader.read(RUN, after_seq=4) == []
            assert reader.head_seq(RUN) == 4
        assert [entry.seq for entry in journal.read(RUN)] == [1, 2, 3, 4]
        assert [entry.event for entry in journal.read(RUN)] == [opening(), noticed("a"), noticed("b"), noticed("c")]

    def test_the_chain_verifies(self, rig: JournalRig) -> None:
        """From the first entry, which follows nothing, each run for itself."""
        journal = rig.journal()
        for run in (RUN, OTHER):
            journal.create(run, opening(run))
            journal.append(run, [noticed("x"), noticed("y")], after_seq=1, holder=None)
        for run in (RUN, OTHER):
            entries = journal.read(run)
            assert entries[0].previous == ZERO_HASH
            assert verify_chain(entries, rig.verifier(), head=entries[-1].hash) == []

    def test_a_run_is_created_once(self, rig: JournalRig) -> None:
        """The second time changes nothing."""
        journal = rig.journal()
        journal.create(RUN, opening())
        with pytest.raises(Conflict):
            rig.journal().create(RUN, opening())
        assert journal.head_seq(RUN) == 1

    def test_runs_are_listed_newest_first(self, rig: JournalRig) -> None:
        """Whatever their names, and whichever was written to last."""
        journal = rig.journal()
        assert journal.runs() == []
        names = [RunId("m"), RunId("a"), RunId("z")]
        for run in names:
            journal.create(run, opening(run))
        journal.append(names[0], [noticed("late")], after_seq=1, holder=None)
        assert rig.journal().runs() == names[::-1]

    def test_an_unknown_run_is_not_found(self, rig: JournalRig) -> None:
        """Every method."""
        journal = rig.journal()
        with pytest.raises(NotFound):
            journal.read(RUN)
        with pytest.raises(NotFound):
            journal.head_seq(RUN)
        with pytest.raises(NotFound):
            journal.append(RUN, [noticed("x")], after_seq=0, holder=None)
        with pytest.raises(NotFound):
            journal.acquire(RUN, HERE)
        with pytest.raises(NotFound):
            journal.holder(RUN)

    def test_of_two_writers_behind_the_same_entry_one_wins(self, rig: JournalRig) -> None:
        """The other reads, and decides again; also behind an entry that does not exist."""
        one, two = rig.journal(), rig.journal()
        one.create(RUN, opening())
        one.append(RUN, [noticed("first")], after_seq=1, holder=None)
        with pytest.raises(Conflict):
            two.append(RUN, [noticed("second"), noticed("third")], after_seq=1, holder=None)
        with pytest.raises(Conflict):
            two.append(RUN, [noticed("second")], after_seq=7, holder=None)
        assert [entry.event for entry in two.read(RUN, after_seq=1)] == [noticed("first")]

    # leases

    def test_J15_one_driver_at_a_time(self, rig: JournalRig) -> None:
        """The second hears who it is; a reused pid is another process."""
        journal = rig.journal()
        journal.create(RUN, opening())
        assert journal.holder(RUN) is None
        assert journal.acquire(RUN, HERE) == 1
        assert journal.holder(RUN) == HERE
        for stranger in (THERE, REUSED):
            with pytest.raises(Conflict, match="100"):
                rig.journal().acquire(RUN, stranger)
        assert rig.journal().holder(RUN) == HERE

    def test_epochs_grow_by_one_at_each_take_over(self, rig: JournalRig) -> None:
        """After a release, after a death, and for each run by itself."""
        journal = rig.journal()
        for run in (RUN, OTHER):
            journal.create(run, opening(run))
        assert journal.acquire(RUN, HERE) == 1
        journal.release(RUN, HERE)
        assert journal.holder(RUN) is None
        assert journal.acquire(RUN, THERE) == 2
        rig.die(THERE)
        assert journal.holder(RUN) is None
        assert rig.journal().acquire(RUN, REUSED) == 3
        assert journal.acquire(OTHER, REUSED) == 1

    def test_releasing_what_one_does_not_hold_has_no_effect(self, rig: JournalRig) -> None:
        """Not even with the holder's pid."""
        journal = rig.journal()
        journal.create(RUN, opening())
        journal.acquire(RUN, HERE)
        journal.release(RUN, THERE)
        journal.release(RUN, REUSED)
        assert journal.holder(RUN) == HERE

    def test_J13_a_driver_that_lost_the_lease_writes_nothing(self, rig: JournalRig) -> None:
        """However right its sequence number is; the new one and operators do."""
        journal = rig.journal()
        journal.create(RUN, opening())
        journal.acquire(RUN, HERE)
        journal.append(RUN, [noticed("mine")], after_seq=1, holder=HERE)
        rig.die(HERE)
        journal.acquire(RUN, THERE)
        with pytest.raises(Conflict):
            journal.append(RUN, [noticed("zombie")], after_seq=2, holder=HERE)
        journal.append(RUN, [noticed("theirs")], after_seq=2, holder=THERE)
        journal.append(RUN, [noticed("a word")], after_seq=3, holder=None)
        journal.release(RUN, THERE)
        with pytest.raises(Conflict):
            journal.append(RUN, [noticed("after the release")], after_seq=4, holder=THERE)
        assert [entry.event for entry in journal.read(RUN, after_seq=1)] == [noticed("mine"), noticed("theirs"), noticed("a word")]

    # no space

    def test_no_space_is_permanent_and_nothing_was_written(self, rig: JournalRig) -> None:
        """All or nothing, and what was there before verifies."""
        journal = rig.journal()
        journal.create(RUN, opening())
        before = journal.append(RUN, [noticed("small")], after_seq=1, holder=None)
        rig.fill()
        with pytest.raises(Permanent, match="no space"):
            journal.append(RUN, [noticed("small again"), noticed("x" * 3_000_000)], after_seq=2, holder=None)
        entries = journal.read(RUN)
        assert entries[1:] == before
        assert verify_chain(entries, rig.verifier()) == []
