"""What haproxy's runtime socket may do wrong: half a table is no table, and nothing waits for ever (G09, G10)."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic
from bridgehead.kernel.errors import Transient, Unknown
from bridgehead.testing.traffic_suite import SERVICE, A, B, stamp

NAMES = "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight"
WHOLE = f"1\n# {NAMES}\n3 chat 1 a 127.0.0.1 2 0 100\n3 chat 2 b 127.0.0.1 0 1 1\n"
STAT = "# pxname,svname,scur\nchat,a,3\nchat,b,0\n"


class Socket:
    """Answers each line as a test says: text; None for silence; a float for a byte in so many seconds, for ever."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, object] = {"show servers state": WHOLE, "show stat": STAT, "set": ""}
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self.over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.over.set()
        self._server.close()

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            line = connection.recv(4096).decode()
            answer = next(text for start, text in self.answers.items() if line.startswith(start))
            if answer is None:
                self.over.wait(20)
            elif isinstance(answer, float):
                while not self.over.wait(answer):
                    try:
                        connection.sendall(b"#")
                    except OSError:
                        return
            else:
                connection.sendall(str(answer).encode())


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bh-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fake(place: Path) -> Iterator[Socket]:
    fake = Socket(place / "run.sock")
    yield fake
    fake.close()


@pytest.fixture
def driver(place: Path) -> HaproxyTraffic:
    service = HaproxyService(listen="127.0.0.1:1", sites={A: "127.0.0.1:2", B: "127.0.0.1:3"}, initial={A: 100, B: 0})
    return HaproxyTraffic(HaproxyOptions(str(place / "run.sock"), str(place / "state.json"), {SERVICE: service}, timeout_s=0.3))


def test_a_whole_table_is_read(fake: Socket, driver: HaproxyTraffic) -> None:
    assert driver.read(SERVICE) == {A: 100, B: 0}
    assert driver.in_flight(SERVICE, A) == 3


@pytest.mark.parametrize("cut", range(1, len(WHOLE) - 1, 3))
def test_half_a_table_is_never_the_table(fake: Socket, driver: HaproxyTraffic, cut: int) -> None:
    """Whatever is left of it: an error, or the rows that are whole; never another weight."""
    fake.answers["show servers state"] = WHOLE[:cut]
    try:
        found = driver.read(SERVICE)
    except Transient:
        return
    assert found.items() <= {A: 100, B: 0}.items()


@pytest.mark.parametrize(("old", "new"), [(" 0 100", " 0 many"), (" 0 100", " x 100"), ("srv_uweight", "weight"), (" 2 0 100", " 100")])
def test_a_table_that_cannot_be_read_is_cannot_tell(fake: Socket, driver: HaproxyTraffic, old: str, new: str) -> None:
    fake.answers["show servers state"] = WHOLE.replace(old, new)
    with pytest.raises(Transient, match="cannot be read"):
        driver.read(SERVICE)
    fake.answers["show stat"] = STAT.replace("chat,a,3", "chat,a,")
    with pytest.raises(Transient, match="cannot be read"):
        driver.in_flight(SERVICE, A)


@pytest.mark.parametrize("answer", [None, 0.05])
def test_nothing_waits_for_ever(fake: Socket, driver: HaproxyTraffic, answer: object) -> None:
    fake.answers["show servers state"] = answer
    begun = time.monotonic()
    with pytest.raises(Transient):
        driver.read(SERVICE)
    assert time.monotonic() - begun < 3
    assert not Path(driver._options.state_file).exists()
    fake.answers |= {"show servers state": WHOLE, "set": answer}
    with pytest.raises(Unknown):
        driver.write(SERVICE, {A: 0, B: 100}, stamp=stamp())
    assert time.monotonic() - begun < 6
