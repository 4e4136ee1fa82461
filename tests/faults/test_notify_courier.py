"""The courier of a channel: pauses, threads, full disks, rows of other versions; nothing is told twice or never without a word."""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.notify import Courier, Outbox
from bridgehead.kernel.errors import Permanent, PortError, Transient, Unknown
from bridgehead.model.notice import Notice
from bridgehead.testing.notify_suite import notice, over


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Fickle:
    """A receiver in memory with a fate for each attempt: what real ones do, the conformance suite shows."""

    def __init__(self) -> None:
        self.refresh_s: float | None = None
        self.fates: dict[str, list[PortError]] = {}
        self.log: list[str] = []

    def receivers(self, told: Notice) -> tuple[str, ...]:
        return ("r",)

    def send(self, told: Notice, receiver: str) -> None:
        self.log.append(told.key)
        if self.fates.get(told.key):
            raise self.fates[told.key].pop(0)


class Bench:
    """A courier that is driven by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.receiver, self.said = Clock(), Fickle(), list[str]()
        self.outbox = Outbox(folder / "outbox.db")
        self.courier = Courier(
            "c", self.receiver, self.outbox, lock=folder / "c.lock", give_up_s=3600.0, say=self.said.append, now_s=self.clock
        )

    def post(self, *notices: Notice) -> None:
        for one in notices:
            self.outbox.post(one, [("c", "r")], now_s=self.clock.now_s)

    def after(self, wait_s: float) -> list[str]:
        """What is tried in a round so much later."""
        self.clock.now_s += wait_s
        del self.receiver.log[:]
        assert self.courier.round()
        return list(self.receiver.log)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def transient(retry_after_s: float = 1.0) -> Transient:
    return Transient("no answer", tried="tell", subject="r", retry_after_s=retry_after_s)


def test_pauses_double_up_to_five_minutes_and_the_receivers_wish_counts(bench: Bench) -> None:
    one = notice()
    bench.receiver.fates[one.key] = [*[transient() for _ in range(11)], transient(retry_after_s=900.0)]
    bench.post(one)
    tries_s, began_s = [], bench.clock.now_s
    while not tries_s or bench.outbox.pending():
        if bench.after(0.5):
            tries_s.append(bench.clock.now_s - began_s)
    pauses_s = [round(after_s - before_s) for before_s, after_s in itertools.pairwise(tries_s)]
    assert pauses_s == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 900]
    assert len(bench.said) == 2, "said when it begins and when it is over"


def test_a_thread_is_told_in_its_order_and_others_go_on(bench: Bench) -> None:
    first, other = notice(1), notice(2)
    bench.receiver.fates[first.key] = [Permanent("refused", tried="tell", subject="r")]
    bench.post(first, over(first), other)
    assert bench.after(0) == [first.key, other.key]
    assert bench.after(100) == []
    assert bench.after(300) == [first.key]
    assert bench.after(0) == [over(first).key]


def test_a_receiver_in_trouble_is_not_asked_for_each_notice(bench: Bench) -> None:
    bench.receiver.fates = {notice(number).key: [transient(), transient()] for number in range(1, 50)}
    bench.post(*(notice(number) for number in range(1, 50)))
    assert len(bench.after(0)) == 1


def test_an_unknown_outcome_is_told_again(bench: Bench) -> None:
    bench.receiver.fates[notice().key] = [Unknown("hung up", tried="tell", subject="r")]
    bench.post(notice())
    assert bench.after(0) == bench.after(2) == [notice().key]
    assert bench.after(100) == []


def test_what_cannot_be_told_for_too_long_is_given_up_and_that_is_said(bench: Bench) -> None:
    one = notice()
    bench.receiver.fates[one.key] = [Permanent("no such room", tried="tell", subject="r") for _ in range(99)]
    bench.post(one, over(one))
    for _ in range(30):
        bench.after(300)
    assert [(found.outcome, found.trouble) for found in bench.outbox.deliveries()] == [("told", ""), ("given-up", "no such room")]
    assert "gives up" in " ".join(bench.said)


def test_a_clock_that_was_set_back_delays_nothing_for_long(bench: Bench) -> None:
    bench.receiver.fates[notice().key] = [transient()]
    bench.post(notice())
    bench.after(0)
    assert bench.after(-30 * 86_400.0) == [notice().key]


def test_receivers_that_forget_are_told_again_what_stands_and_no_more(bench: Bench) -> None:
    bench.receiver.refresh_s = 60.0
    standing, ended = notice(1), notice(2)
    bench.post(standing, ended, over(ended))
    bench.after(0)
    bench.after(0)
    assert bench.after(59) == []
    assert bench.after(2) == [standing.key]
    bench.post(over(standing))
    bench.after(1)
    assert bench.after(61) == []


def test_old_threads_are_forgotten_when_they_are_over_and_told(bench: Bench) -> None:
    done, stands, stuck = notice(1), notice(2), notice(3)
    bench.receiver.fates[over(stuck).key] = [transient()]
    bench.post(done, over(done), stands, stuck, over(stuck))
    bench.after(0)
    bench.after(0)
    bench.outbox.prune(now_s=bench.clock.now_s + 1000)
    assert len(bench.outbox.deliveries()) == 5
    bench.outbox.prune(now_s=bench.clock.now_s + 91 * 86_400.0)
    left = {found.notice.thread for found in bench.outbox.deliveries()}
    assert left == {stands.thread, stuck.thread}


def test_a_driver_that_fails_in_an_unforeseen_way_stops_nobody(bench: Bench) -> None:
    bench.receiver.fates[notice(1).key] = [ZeroDivisionError("oh")]  # type: ignore[list-item]  # what no driver should raise
    bench.post(notice(1), notice(2))
    assert bench.after(0) == [notice(1).key, notice(2).key]
    assert "ZeroDivisionError" in bench.said[0]


FULL_DISK = """
import collections, json, resource, signal, sys
from pathlib import Path
from bridgehead.drivers.notify import Courier, Outbox
from bridgehead.kernel.errors import PortError, Unknown
from bridgehead.testing.notify_suite import notice
sent, said, now, folder = collections.Counter(), [], [1000.0], Path(sys.argv[1])
outbox = Outbox(folder / "outbox.db")
class Pager:
    refresh_s = None
    def send(self, told, receiver):
        sent[told.key] += 1
        if told == notice(2):
            raise Unknown("hung up", tried="tell", subject=receiver)
for number in (1, 2, 3):
    outbox.post(notice(number), [("c", "pager")], now_s=now[0])
courier = Courier("c", Pager(), outbox, lock=folder / "c.lock", give_up_s=3600.0, say=said.append, now_s=lambda: now[0])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
refusals = 0
def rounds(count):
    global refusals
    for _ in range(count):
        try:
            courier.round()
        except PortError:
            refusals += 1
        now[0] += 0.5
(folder / "c.lock").touch()
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
rounds(20)
full = dict(sent)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
before = refusals
rounds(1)
left = [found.notice.key for found in outbox.deliveries() if not found.outcome]
print(json.dumps({"full": full, "after": dict(sent), "left": left, "refusals": [before, refusals]}))
"""


def test_a_full_disk_calls_nobody_again_and_again(tmp_path: Path) -> None:
    """What was sent and cannot be struck out is not sent again; what may have arrived comes again with the pauses that it always has."""
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    one, two, three = (notice(number).key for number in (1, 2, 3))
    assert found["full"] == {one: 1, two: 4, three: 1}, "at 0, 1, 3 and 7 s"
    assert found["after"] == found["full"]
    assert found["left"] == [two]
    assert found["refusals"] == [20, 20], "the outbox says so, until there is space"


def rewrite(folder: Path, told: Notice, body: bytes) -> None:
    """As another version might have written it."""
    database = sqlite3.connect(folder / "outbox.db")
    with database:
        assert database.execute("UPDATE notices SET body = ? WHERE key = ?", (body, told.key)).rowcount == 1
    database.close()


@pytest.mark.parametrize("body", [msgspec.json.encode(notice()).replace(b'"ask"', b'"newer"'), b"{", b"\xff"])
def test_a_notice_that_this_version_cannot_read_waits_for_another_and_the_others_are_told(
    bench: Bench, tmp_path: Path, body: bytes
) -> None:
    odd, other = notice(1), notice(2)
    bench.post(odd, other)
    rewrite(tmp_path, odd, body)
    assert bench.after(0) == [other.key]
    assert "cannot be read" in bench.said[0]
    assert [(found.outcome, bool(found.unreadable)) for found in bench.outbox.deliveries()] == [("told", False), ("", True)]
    assert list(bench.outbox.open_threads("")) == [other.thread], "nobody who cannot read it ends its thread"
    rewrite(tmp_path, odd, msgspec.json.encode(odd))
    bench.receiver.refresh_s = 60.0
    assert bench.after(301) == [odd.key, odd.key, other.key], "told, and then refreshed like all that stands"
    rewrite(tmp_path, odd, body)
    assert bench.after(61) == [other.key]


class Gone(Fickle):
    """Fails where nobody expects it."""

    @property  # type: ignore[override]  # a value there, and here a trap
    def refresh_s(self) -> float | None:
        raise ZeroDivisionError("oh")

    @refresh_s.setter
    def refresh_s(self, value: float | None) -> None:
        pass


def test_a_courier_works_on_whatever_happens_also_when_nothing_can_be_said(tmp_path: Path) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        raise OSError("no space left for the log")

    outbox, receiver = Outbox(tmp_path / "outbox.db"), Gone()
    courier = Courier("c", receiver, outbox, lock=tmp_path / "c.lock", give_up_s=3600.0, say=say)
    courier.start()
    for number in (1, 2):
        outbox.post(notice(number), [("c", "r")], now_s=0.0)
        courier.wake()
        end_s = time.monotonic() + 20
        while outbox.pending() and time.monotonic() < end_s:
            time.sleep(0.02)
    courier.stop()
    assert receiver.log == [notice(1).key, notice(2).key]
    assert said == ["c: ZeroDivisionError: oh"]


def test_one_courier_works_for_a_channel_and_the_next_takes_over_at_once(tmp_path: Path) -> None:
    first, second = Bench(tmp_path), Bench(tmp_path)
    assert first.courier.round()
    assert not second.courier.round()
    first.courier.start()
    first.courier.stop()
    assert second.courier.round()


def test_an_outbox_that_is_damaged_or_has_no_place_says_so(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_bytes(b"not a database, and long enough to be told from an empty one" * 20)
    with pytest.raises(Permanent, match="told again"):
        Outbox(tmp_path / "outbox.db")
    with pytest.raises(PortError):
        Outbox(tmp_path / "outbox.db" / "inner.db")
