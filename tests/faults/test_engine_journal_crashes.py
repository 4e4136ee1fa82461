"""The SQLite journal under real faults: processes killed while they write, two writers, a full disk, tampering (J02, J13, J15)."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive
from bridgehead.kernel.errors import Conflict, Permanent
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.model.runbook import HoldStep, Runbook
from bridgehead.ports.journal import DriverIdentity
from bridgehead.runbook.ledger import KeyFolder, verify_chain

RUN = RunId("run")

WRITER = """
import sys
import time
from pathlib import Path
from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive, this_driver
from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import RunId
from bridgehead.model.event import Noticed
from bridgehead.runbook.ledger import KeyFolder

folder, name, most, rest_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
journal = SqliteJournal(folder / "journal.db", signer=KeyFolder(folder / "keys"), alive=is_alive)
run, me = RunId("run"), this_driver()
written = 0
while written < most:
    try:
        journal.acquire(run, me)
    except Conflict:
        continue
    for _ in range(min(3, most - written)):
        seq = journal.head_seq(run)
        entries = journal.append(run, [Noticed(1.0, f"{name} {written} {part}") for part in "ab"], after_seq=seq, holder=me)
        written += 1
        # Only now it is acknowledged.
        print(entries[-1].seq, entries[-1].hash, flush=True)
        time.sleep(rest_s)
    journal.release(run, me)
"""


def opened(folder):
    return SqliteJournal(folder / "journal.db", signer=KeyFolder(folder / "keys"), alive=is_alive)


def begin(folder):
    journal = opened(folder)
    journal.create(RUN, ev.RunOpened(1.0, RUN, Runbook("nap", (HoldStep("wait", 1.0),)), "hash", {}, "ann", "0"))
    return journal


def writer(folder, name, most, *, rest_s=0.0):
    """With a rest after each write it can be frozen outside of any transaction, but holding the lease."""
    command = [sys.executable, "-c", WRITER, str(folder), name, str(most), str(rest_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(child):
    child.kill()
    child.communicate()


@pytest.fixture
def journal(tmp_path):
    journal = begin(tmp_path)
    yield journal
    journal.close()


@pytest.mark.parametrize("after", [1, 4, 17])
def test_J02_kill_9_loses_nothing_that_was_acknowledged(tmp_path, journal, after):
    child = writer(tmp_path, "victim", 1_000_000)
    acknowledged = [child.stdout.readline().split() for _ in range(after)]
    time.sleep(0.01 * after)  # into the middle of some later write
    child.kill()
    acknowledged += [line.split() for line in child.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]

    entries = journal.read(RUN)
    assert verify_chain(entries, KeyFolder(tmp_path / "keys")) == []
    found = {(str(entry.seq), entry.hash) for entry in entries}
    assert {(seq, value) for seq, value in acknowledged} <= found
    # A batch is there whole or not at all: the opening, then pairs.
    assert len(entries) % 2 == 1
    # The dead process holds nothing any more, and the next one writes on.
    mine = DriverIdentity("elsewhere", 1, "x")
    assert journal.acquire(RUN, mine) >= 2
    journal.append(RUN, [ev.Noticed(2.0, "went on")], after_seq=entries[-1].seq, holder=mine)
    assert verify_chain(journal.read(RUN), KeyFolder(tmp_path / "keys")) == []


def test_J15_two_processes_take_turns_by_the_lease(tmp_path, journal):
    children = [writer(tmp_path, name, 15) for name in ("one", "two")]
    acknowledged = [child.communicate(timeout=120)[0].split("\n")[:-1] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [len(lines) for lines in acknowledged] == [15, 15]

    entries = journal.read(RUN)
    assert len(entries) == 1 + 2 * 30
    assert verify_chain(entries, KeyFolder(tmp_path / "keys")) == []
    for name in ("one", "two"):
        texts = [entry.event.text for entry in entries[1:] if entry.event.text.startswith(name)]
        assert texts == [f"{name} {number} {part}" for number in range(15) for part in "ab"]


def test_J13_frozen_driver_that_wakes_up_after_a_take_over_writes_nothing(tmp_path, journal):
    """SIGSTOP for a while, another takes over (it is told that the frozen one is dead), SIGCONT."""
    child = writer(tmp_path, "frozen", 1_000_000, rest_s=0.3)
    child.stdout.readline()
    os.kill(child.pid, signal.SIGSTOP)
    try:
        takes_over = SqliteJournal(tmp_path / "journal.db", signer=KeyFolder(tmp_path / "keys"), alive=lambda driver: False)
        mine = DriverIdentity("elsewhere", 1, "x")
        takes_over.acquire(RUN, mine)
        seq = takes_over.head_seq(RUN)
        takes_over.append(RUN, [ev.Noticed(2.0, "taken over")], after_seq=seq, holder=mine)
        takes_over.close()
    finally:
        os.kill(child.pid, signal.SIGCONT)
    _, told = child.communicate(timeout=30)
    assert "another process took the run over" in told
    assert [entry.event.text for entry in journal.read(RUN, after_seq=seq)] == ["taken over"]


def test_full_disk_at_any_point_leaves_a_valid_journal(tmp_path):
    """The file may grow only so far; each size of it stops another write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = tmp_path / "home"
    journal = begin(folder)
    try:
        refused = 0
        for allowed in range(0, 200_000, 20_000):
            largest = max(path.stat().st_size for path in folder.glob("journal.db*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + allowed, resource.RLIM_INFINITY))
            head = journal.read(RUN)[-1]
            try:
                journal.append(RUN, [ev.Noticed(1.0, "x" * 60_000), ev.Noticed(1.0, "y" * 60_000)], after_seq=head.seq, holder=None)
                told = ""
            except Permanent as error:
                told = error.happened
            if told:
                refused += 1
            assert told.startswith("no space") or journal.head_seq(RUN) == head.seq + 2
            assert not told or journal.read(RUN)[-1] == head
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            assert verify_chain(journal.read(RUN), KeyFolder(folder / "keys")) == []
        assert refused >= 3
        journal.append(RUN, [ev.Noticed(1.0, "space again")], after_seq=journal.head_seq(RUN), holder=None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        journal.close()


@pytest.mark.parametrize("statement", ["UPDATE events SET payload = x'00'", "DELETE FROM events", "DELETE FROM events WHERE seq = 3"])
def test_events_are_append_only(tmp_path, journal, statement):
    journal.append(RUN, [ev.Noticed(1.0, "a"), ev.Noticed(1.0, "b")], after_seq=1, holder=None)
    database = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="append-only"):
        database.execute(statement)
    database.close()
    assert len(journal.read(RUN)) == 3


CHANGED_TEXT = "CAST(replace(CAST(payload AS TEXT), 'paid', 'free') AS BLOB)"
TAMPERING = {
    "content": (
        "UPDATE events SET payload = CAST(replace(CAST(payload AS TEXT), 'paid', 'free') AS BLOB) WHERE seq = 3",
        "content was changed",
    ),
    "dropped": ("DELETE FROM events WHERE seq = 3", "entry 3 is missing"),
    "swapped": ("UPDATE events SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3)", "does not follow"),
    "resigned": ("UPDATE events SET signature = (SELECT signature FROM events WHERE seq = 2) WHERE seq = 3", "signature is wrong"),
    "cut off": ("DELETE FROM events WHERE seq = 4", "newer entries were cut off"),
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_tampering_past_the_triggers_is_found(tmp_path, journal, kind):
    statement, problem = TAMPERING[kind]
    head = journal.append(RUN, [ev.Noticed(1.0, text) for text in ("a", "paid", "b")], after_seq=1, holder=None)[-1].hash
    database = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    for trigger in ("events_are_not_changed", "events_are_not_deleted"):
        database.execute(f"DROP TRIGGER {trigger}")
    changed = database.execute(statement)
    assert changed.rowcount > 0
    database.execute("UPDATE events SET seq = -seq WHERE seq < 0")
    database.close()
    faults = verify_chain(journal.read(RUN), KeyFolder(tmp_path / "keys"), head=head)
    assert any(problem in fault.problem for fault in faults), faults


def test_forged_chain_with_another_key_is_found(tmp_path, journal):
    """Whoever can write the file can compute hashes, but not sign."""
    forger = SqliteJournal(tmp_path / "journal.db", signer=KeyFolder(tmp_path / "forged"), alive=is_alive)
    forger.append(RUN, [ev.Noticed(1.0, "forged")], after_seq=1, holder=None)
    forger.close()
    faults = verify_chain(journal.read(RUN), KeyFolder(tmp_path / "keys"))
    assert [fault.seq for fault in faults] == [2]


def test_J15_second_driver_is_refused_while_the_first_process_lives(tmp_path, journal):
    child = writer(tmp_path, "first", 1_000_000, rest_s=1.0)
    child.stdout.readline()
    os.kill(child.pid, signal.SIGSTOP)  # frozen is not dead
    try:
        assert journal.holder(RUN).pid == child.pid
        with pytest.raises(Conflict, match=str(child.pid)):
            journal.acquire(RUN, DriverIdentity("elsewhere", 1, "x"))
    finally:
        end(child)
    assert journal.holder(RUN) is None
