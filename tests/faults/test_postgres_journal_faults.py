"""The PostgreSQL journal when connections, servers and controllers fail (J02, J13, J15)."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bridgehead.drivers.postgres import PostgresJournal
from bridgehead.drivers.postgres.journal import LEASE_S
from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import this_driver
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, Permanent, Transient, Unknown
from bridgehead.kernel.ids import Epoch
from bridgehead.model.event import DriverTook
from bridgehead.runbook.ledger import KeyFolder, verify_chain
from bridgehead.testing.journal_suite import HERE, RUN, THERE, noticed, opening

pytestmark = pytest.mark.server("pg_ctlcluster")


class Hop:
    """A hop before the server that forwards, and cuts connections: all of them, or when a word passes, before or after it."""

    def __init__(self, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = port
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.cut_before = self.cut_after = b""
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self.pairs.append((client, server))
                threading.Thread(target=self.forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self.forward, args=(server, client, False), daemon=True).start()

    def forward(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if asks and self.cut_before and self.cut_before in data:
                    self.cut_before = b""
                    break
                if asks and self.cut_after and self.cut_after in data:
                    self.cut_after = b""
                    source.shutdown(socket.SHUT_RDWR)  # first, so that the server's answer finds nobody
                    target.sendall(data)
                    target.shutdown(socket.SHUT_WR)
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()


@pytest.fixture
def url(postgres_server):
    return postgres_server.new_database()


@pytest.fixture
def open_journal(tmp_path: Path):
    opened = []

    def opener(url: str) -> PostgresJournal:
        opened.append(PostgresJournal(url, signer=KeyFolder(tmp_path / "keys")))
        return opened[-1]

    yield opener
    for journal in opened:
        journal.close()


@pytest.fixture
def hop(postgres_server):
    hop = Hop(postgres_server.port)
    yield hop
    hop.listener.close()
    hop.cut()


def through(hop: Hop, url: str) -> str:
    return f"postgresql://bridgehead@127.0.0.1:{hop.port}/{url.rpartition('/')[2]}"


def texts(journal: PostgresJournal) -> list[str]:
    entries = journal.read(RUN)
    return [entry.event.text for entry in entries[1:]]


@pytest.mark.parametrize("word", [b"INSERT", b"COMMIT", b"FOR UPDATE"])
def test_a_request_that_never_arrived_was_not_done(open_journal, hop, url, tmp_path, word) -> None:
    journal = open_journal(through(hop, url))
    journal.create(RUN, opening())
    journal.acquire(RUN, HERE)
    hop.cut_before = word
    with pytest.raises((Transient, Unknown)):
        journal.append(RUN, [noticed("a"), noticed("b")], after_seq=1, holder=HERE)
    assert texts(open_journal(url)) == []
    entries = journal.append(RUN, [noticed("a"), noticed("b")], after_seq=1, holder=HERE)
    assert [entry.seq for entry in entries] == [2, 3]
    assert texts(journal) == ["a", "b"]


def test_a_commit_whose_answer_was_lost_is_not_repeated(open_journal, hop, url, tmp_path) -> None:
    journal = open_journal(through(hop, url))
    journal.create(RUN, opening())
    journal.acquire(RUN, HERE)
    hop.cut_after = b"COMMIT"
    with pytest.raises(Unknown):
        journal.append(RUN, [noticed("a"), noticed("b")], after_seq=1, holder=HERE)
    entries = journal.append(RUN, [noticed("a"), noticed("b")], after_seq=1, holder=HERE)
    assert entries == journal.read(RUN)[1:]
    journal.append(RUN, [noticed("c")], after_seq=3, holder=HERE)
    assert texts(open_journal(url)) == ["a", "b", "c"]
    assert verify_chain(journal.read(RUN), KeyFolder(tmp_path / "keys")) == []


def test_who_comes_back_quickly_keeps_the_run_and_who_does_not_loses_it(open_journal, hop, url) -> None:
    journal, standby = open_journal(through(hop, url)), open_journal(url)
    journal.create(RUN, opening())
    journal.acquire(RUN, HERE)
    hop.cut()
    with pytest.raises(Transient):
        journal.head_seq(RUN)
    with pytest.raises(Conflict):
        standby.acquire(RUN, THERE)
    journal.append(RUN, [noticed("still mine")], after_seq=1, holder=HERE)
    hop.listener.close()
    hop.cut()
    began_s = time.monotonic()
    while True:
        try:
            assert standby.acquire(RUN, THERE) == 2
            break
        except Conflict:
            time.sleep(0.05)
    assert time.monotonic() - began_s < 4.0
    with pytest.raises(Transient):
        journal.append(RUN, [noticed("nobody hears")], after_seq=2, holder=HERE)
    assert texts(standby) == ["still mine"]


def test_a_server_that_is_restarted_loses_and_doubles_nothing(postgres_server, open_journal, url, tmp_path) -> None:
    journal = open_journal(url)
    journal.create(RUN, opening())
    journal.acquire(RUN, HERE)
    seq, troubles = 1, 0
    restart = threading.Thread(target=lambda: (postgres_server.stop(number=signal.SIGQUIT), postgres_server.start()))
    restart.start()
    while restart.is_alive() or seq < 100:
        try:
            seq = journal.append(RUN, [noticed(f"event {seq}")], after_seq=seq, holder=HERE)[-1].seq
        except (Transient, Unknown):
            troubles += 1
            time.sleep(0.02)
    restart.join()
    assert troubles
    assert texts(journal) == [f"event {number}" for number in range(1, seq)]
    assert verify_chain(journal.read(RUN), KeyFolder(tmp_path / "keys")) == []


HOLDER = """
import sys
from pathlib import Path
from bridgehead.drivers.postgres import PostgresJournal
from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import this_driver
from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch
from bridgehead.model.event import DriverTook
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.journal_suite import RUN, noticed
journal = PostgresJournal(sys.argv[1], signer=KeyFolder(Path(sys.argv[2])))
journal.acquire(RUN, this_driver())
print("holds", flush=True)
import time
while True:
    journal.head_seq(RUN)
    try:
        journal.append(RUN, [noticed("mine")], after_seq=journal.head_seq(RUN), holder=this_driver())
    except Conflict as error:
        print("refused:", error.happened, flush=True)
        break
    time.sleep(0.05)
"""


@contextlib.contextmanager
def holder_process(url: str, keys: Path):
    command = [sys.executable, "-c", HOLDER, url, str(keys)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def taken_after_s(journal: PostgresJournal) -> float:
    began_s = time.monotonic()
    while True:
        try:
            assert journal.acquire(RUN, this_driver()) == 2
            return time.monotonic() - began_s
        except (Conflict, Transient):
            time.sleep(0.05)


def test_J15_the_run_of_a_process_that_was_killed_is_free_soon(open_journal, url, tmp_path) -> None:
    journal = open_journal(url)
    journal.create(RUN, opening())
    with holder_process(url, tmp_path / "keys") as process:
        time.sleep(0.3)
        process.kill()
        assert taken_after_s(journal) < 3.0


def test_J13_a_process_that_was_frozen_loses_the_run_and_writes_nothing_when_it_wakes(open_journal, url, tmp_path) -> None:
    journal = open_journal(url)
    journal.create(RUN, opening())
    with holder_process(url, tmp_path / "keys") as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        assert 1.0 < taken_after_s(journal) < LEASE_S + 6.0
        seq = journal.append(RUN, [noticed("theirs")], after_seq=journal.head_seq(RUN), holder=this_driver())[-1].seq
        process.send_signal(signal.SIGCONT)
        line = process.stdout.readline()
        assert line == "refused: another process took the run over\n" or not line  # or its connection was ended inside a transaction
        assert journal.head_seq(RUN) == seq


def test_it_says_what_is_wrong_and_never_the_password(open_journal, postgres_server) -> None:
    gone = f"postgresql://ann:hunter2@127.0.0.1:{postgres_server.port}/no_such_database"
    with pytest.raises(Permanent, match="does not exist") as refused:
        open_journal(gone).runs()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(Transient, match=rf"127.0.0.1:{port}") as away:
        open_journal(f"postgresql://ann:hunter2@127.0.0.1:{port}/journal").runs()
    for error in (refused.value, away.value):
        assert "hunter2" not in str(error)


def test_events_are_append_only_and_a_newer_format_is_left_alone(open_journal, postgres_server, url) -> None:
    journal = open_journal(url)
    journal.create(RUN, opening())
    database = url.rpartition("/")[2]
    for statement in ("UPDATE bridgehead.events SET hash = ''", "DELETE FROM bridgehead.events", "TRUNCATE bridgehead.events"):
        with pytest.raises(RuntimeError, match="append-only"):
            postgres_server.sql(statement, database=database)
    postgres_server.sql("UPDATE bridgehead.format SET version = 99", database=database)
    with pytest.raises(BridgeheadError, match="newer Bridgehead") as error:
        open_journal(url).runs()
    assert error.value.code is ErrorCode.JOURNAL_DAMAGED


def test_entries_of_a_file_journal_go_on_in_a_database(open_journal, url, tmp_path) -> None:
    keys = KeyFolder(tmp_path / "keys")
    old = SqliteJournal(tmp_path / "journal.db", signer=keys, alive=lambda driver: False)
    old.create(RUN, opening())
    assert old.acquire(RUN, HERE) == 1
    old.append(RUN, [DriverTook(2.0, Epoch(1), "here/1"), noticed("before")], after_seq=1, holder=HERE)
    journal, seals = open_journal(url), old.sealed(RUN)
    assert journal.adopt(RUN, seals) == 3
    assert journal.adopt(RUN, seals) == 0
    assert journal.acquire(RUN, THERE) == 2
    journal.append(RUN, [noticed("after")], after_seq=3, holder=THERE)
    old.append(RUN, [noticed("there"), noticed("too")], after_seq=3, holder=None)
    with pytest.raises(Conflict, match="drives it"):
        journal.adopt(RUN, [*seals, *old.sealed(RUN)[4:]])
    assert verify_chain(journal.read(RUN), keys, run=RUN) == []
    old.close()
