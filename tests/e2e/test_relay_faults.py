"""The relay really cuts, refuses, heals, slows and counts; and a blob store behind it fails as the port says."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
from bridgehead.kernel.errors import Transient, Unknown
from bridgehead.testing import servers
from bridgehead.testing.relay import RelayStatus

TIMEOUT_S = 10.0


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_S)


@contextmanager
def echo():
    """A server that sends back what it gets; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except ConnectionError:
                pass

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


def exchanged(connection: socket.socket, data: bytes) -> bytes:
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    got = b""
    while len(got) < len(data):
        part = connection.recv(65536)
        if not part:
            break
        got += part
    sender.join()
    return got


def eventually(holds) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def refused(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return True
    return False


def test_cut_resets_refuses_and_heals_and_bytes_are_counted(stack, tmp_path):
    port, cut, status_file = stack.enter_context(servers.relay(stack.enter_context(echo()), folder=tmp_path))

    def status() -> RelayStatus:
        return msgspec.json.decode(status_file.read_bytes(), type=RelayStatus)

    with connect(port) as connection:
        data = bytes(range(256)) * 4000
        assert exchanged(connection, data) == data
        cut.touch()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    eventually(lambda: refused(port))
    assert refused(port)
    eventually(lambda: status().cut)
    assert (status().to_bytes, status().back_bytes, status().resets) == (len(data), len(data), 1)
    cut.unlink()
    eventually(lambda: not refused(port))
    with connect(port) as connection:
        assert exchanged(connection, b"again") == b"again"
    eventually(lambda: status().to_bytes == len(data) + 5 and status().open == 0)


def test_end_of_one_direction_is_handed_on(stack, tmp_path):
    port, _, _ = stack.enter_context(servers.relay(stack.enter_context(echo()), folder=tmp_path))
    with connect(port) as connection:
        connection.sendall(b"all")
        connection.shutdown(socket.SHUT_WR)
        assert connection.makefile("rb").read() == b"all"


def test_rate_holds_for_all_connections_together(stack, tmp_path):
    rate_bps = 8_000_000
    port, _, _ = stack.enter_context(servers.relay(stack.enter_context(echo()), folder=tmp_path, rate_bps=rate_bps))
    data = b"x" * 250_000
    start = time.monotonic()
    with connect(port) as one, connect(port) as two:
        threads = [threading.Thread(target=exchanged, args=(connection, data)) for connection in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    took_s = time.monotonic() - start
    ideal_s = 2 * len(data) * 8 / rate_bps
    # Never faster than the line; slower only by what a busy machine adds.
    assert ideal_s * 0.95 <= took_s < ideal_s * 4


def test_target_that_is_down_is_a_reset_and_not_a_hang(stack, tmp_path):
    port, _, _ = stack.enter_context(servers.relay(servers.free_port(), folder=tmp_path))
    with pytest.raises(ConnectionResetError), connect(port) as connection:
        connection.recv(1)


def test_blob_store_behind_a_cut_line_fails_as_the_port_says_and_goes_on_after_it(stack, tmp_path: Path):
    (tmp_path / "store").mkdir()
    arguments = ["--directory", str(tmp_path / "store")]
    _, server_port = stack.enter_context(servers.python_server("bridgehead.app.blobserver", *arguments, folder=tmp_path, name="blobs"))
    port, cut, _ = stack.enter_context(servers.relay(server_port, folder=tmp_path, rate_bps=16_000_000))
    blobs = HttpBlobs(HttpBlobsOptions(url=f"http://127.0.0.1:{port}"))
    direct = HttpBlobs(HttpBlobsOptions(url=f"http://127.0.0.1:{server_port}"))
    assert blobs.put_new("small", b"x") is True
    big = bytes(2_000_000)
    timer = threading.Timer(0.3, cut.touch)  # a transfer of 2 MB takes a second
    timer.start()
    with pytest.raises((Transient, Unknown)):
        blobs.put_new("big", big)
    timer.join()
    assert direct.size("big") is None
    with pytest.raises(Transient):
        blobs.get("small")
    cut.unlink()
    eventually(lambda: not refused(port))
    assert blobs.get("small") == b"x"
    assert blobs.put_new("big", big) is True
    assert direct.get("big") == big
