"""HttpBlobs and BlobServer keep the blobs port's contract, and say truthfully what is known when the network fails."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
from bridgehead.drivers.httpblobs.protocol import HASH_HEADER
from bridgehead.drivers.httpblobs.server import BlobServer
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.hashing import block_hash
from bridgehead.testing.blobs_suite import BlobsSuite
from bridgehead.testing.lossy_path import LossyPath


@contextlib.contextmanager
def serving(store) -> Iterator[BlobServer]:
    server = BlobServer(store)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def client(port: int, *, timeout_s: float = 5.0) -> HttpBlobs:
    return HttpBlobs(HttpBlobsOptions(url=f"http://127.0.0.1:{port}", timeout_s=timeout_s))


class TestHttpBlobs(BlobsSuite):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Iterator[HttpBlobs]:
        with serving(LocalBlobs(LocalBlobsOptions(str(tmp_path)))) as server:
            self.port = server.server_port
            yield client(self.port)

    def reopened(self, blobs: HttpBlobs) -> HttpBlobs:
        return client(self.port)


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobs:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path)))
    store.put_new("present", b"value")
    return store


@pytest.fixture
def path(store) -> Iterator:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(store))

        def make(*plan: str) -> LossyPath:
            lossy = LossyPath(server.server_port, list(plan))
            stack.callback(lossy.close)
            return lossy

        yield make


def test_lost_answer_of_a_put_is_looked_up_and_counts_as_written(path, store):
    lossy = path("lose answer", "pass")
    assert client(lossy.port).put_new("new", b"mine") is True
    assert lossy.used == ["lose answer", "pass"]
    assert store.get("new") == b"mine"


def test_lost_answer_of_a_put_on_a_key_of_somebody_else_is_not_a_win(path, store):
    lossy = path("lose answer", "pass")
    assert client(lossy.port).put_new("present", b"mine") is False
    assert store.get("present") == b"value"


def test_put_that_never_arrived_is_unknown_because_it_may_still_arrive(path, store):
    lossy = path("lose request", "pass")
    with pytest.raises(Unknown):
        client(lossy.port).put_new("new", b"mine")
    assert lossy.used == ["lose request", "pass"]


def test_put_whose_look_up_fails_too_is_unknown(path, store):
    lossy = path("lose answer", "lose answer")
    with pytest.raises(Unknown, match="then"):
        client(lossy.port).put_new("new", b"mine")
    assert store.get("new") == b"mine"


def test_kept_connection_that_the_server_has_closed_is_replaced(path, store):
    lossy = path("pass once", "pass")
    blobs = client(lossy.port)
    assert blobs.size("present") == 5
    assert blobs.put_new("new", b"mine") is True
    assert store.get("new") == b"mine"
    assert lossy.used == ["pass once", "pass"]


def test_put_that_arrives_late_is_known_again_by_its_content(path, store):
    """The look-up finds nothing yet, the second try finds the key taken: by the first one."""
    lossy = path("hold second", "late before second")
    blobs = client(lossy.port)
    assert blobs.size("present") == 5
    assert blobs.put_new("new", b"mine") is True
    assert store.get("new") == b"mine"


def test_lost_answer_of_a_read_is_transient_and_of_a_delete_unknown(path, store):
    with pytest.raises(Transient):
        client(path("lose answer").port).get("present")
    with pytest.raises(Unknown):
        client(path("lose answer").port).delete("present")


def test_V31_value_damaged_on_the_way_is_found(path):
    with pytest.raises(Transient, match="another hash"):
        client(path("damage answer").port).get("present")


def test_no_server_is_transient_for_every_method(store):
    with serving(store) as server:
        blobs = client(server.server_port)
    for call in (
        lambda: blobs.put_new("new", b"x"),
        lambda: blobs.get("present"),
        lambda: blobs.size("present"),
        lambda: blobs.list(""),
        lambda: blobs.delete("present"),
    ):
        with pytest.raises(Transient):
            call()


def test_server_that_hangs_is_noticed_in_time():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        blobs = client(listener.getsockname()[1], timeout_s=0.2)
        with pytest.raises(Transient, match="in time"):
            blobs.get("present")
        with pytest.raises(Unknown, match="in time"):
            blobs.put_new("new", b"x")


class Failing:
    """A store whose every method fails in one way."""

    def __init__(self, error: PortError) -> None:
        self._error = error

    def _fail(self, *_: object) -> None:
        raise self._error

    put_new = get = digest = size = list = delete = _fail


@pytest.mark.parametrize("kind", [NotFound, Conflict, Permanent, Transient, Unknown])
def test_errors_of_the_store_arrive_as_they_are(kind):
    with serving(Failing(kind("no space left on device", tried="store", subject="disk"))) as server:
        blobs = client(server.server_port)
        with pytest.raises(kind, match="no space left on device"):
            blobs.put_new("new", b"x" * 100_000)
        with pytest.raises(kind):
            blobs.get("present")
        with pytest.raises(kind):
            blobs.digest("present")
        with pytest.raises(kind):
            blobs.delete("present")


def raw(port: int, *, body: bytes, digest: str, length: int, condition: str = "*") -> int | None:
    """Status of a PUT whose headers need not be true; None when the server closed without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    with contextlib.closing(connection):
        connection.putrequest("PUT", "/blobs/raw")
        for name, value in (("Content-Length", str(length)), (HASH_HEADER, digest), ("If-None-Match", condition)):
            connection.putheader(name, value)
        connection.endheaders(body)
        with contextlib.suppress(OSError):  # the server may have answered and closed already
            connection.sock.shutdown(socket.SHUT_WR)
        try:
            return connection.getresponse().status
        except http.client.RemoteDisconnected:
            return None


def test_V12_server_stores_only_what_is_whole(store):
    good = block_hash(b"value")
    with serving(store) as server:
        port = server.server_port
        assert raw(port, body=b"valu", digest=good, length=5) is None
        assert raw(port, body=b"valuE", digest=good, length=5) == 503
        assert raw(port, body=b"value", digest=good, length=5, condition="none") == 400
        assert store.size("raw") is None
        assert raw(port, body=b"value", digest=good, length=5) == 201
        assert raw(port, body=b"value", digest=good, length=5) == 412
