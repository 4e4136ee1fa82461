"""What S3Blobs makes of answers that a real server does not give on demand: overload, conflicts, failures after the deed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.testing.seaweed import environ

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class ScriptedServer(ThreadingHTTPServer):
    """One bucket in memory. ``script`` says how each PUT in turn is answered: a status, and whether the value is stored nevertheless."""

    daemon_threads = True

    def __init__(self, script: list[tuple[int, bool]]) -> None:
        self.script = script
        self.puts = 0
        self.values: dict[str, bytes] = {}
        self.get_statuses: list[int] = []
        self.short_by = 0
        super().__init__(("127.0.0.1", 0), _Handler)

    def blobs(self, *, retries: int = 3) -> S3Blobs:
        return S3Blobs(
            S3BlobsOptions("s3://bucket/a", timeout_s=2.0, retries=retries), environ=environ(f"http://127.0.0.1:{self.server_port}")
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["If-None-Match"] == "*"
        self.server.puts += 1
        status, stored = self.server.script.pop(0) if self.server.script else (200, True)
        if status == 200 and self.path in self.server.values:
            status, stored = 412, False
        if stored:
            self.server.values.setdefault(self.path, body)
        self.answer(status, SLOW_DOWN if status == 503 else b"")

    def do_GET(self) -> None:
        status = self.server.get_statuses.pop(0) if self.server.get_statuses else 200
        value = self.server.values.get(self.path)
        self.answer(404 if value is None else status, value or b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Wed, 02 Dec 2026 14:19:10 GMT")
        self.end_headers()
        self.wfile.write(body[: len(body) - self.server.short_by])
        self.close_connection = bool(self.server.short_by)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[ScriptedServer]:
    server = ScriptedServer([])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_overload_is_waited_for(server: ScriptedServer) -> None:
    server.script = [(503, False), (503, False)]
    assert server.blobs().put_new("k", b"mine") is True
    assert server.puts == 3


def test_overload_without_end_is_transient_since_nothing_was_done(server: ScriptedServer) -> None:
    server.script = [(503, False)] * 9
    with pytest.raises(Transient, match="SlowDown"):
        server.blobs(retries=2).put_new("k", b"mine")
    assert server.puts == 3


def test_failure_after_the_deed_is_found_out(server: ScriptedServer) -> None:
    server.script = [(500, True)]
    assert server.blobs().put_new("k", b"mine") is True
    assert server.puts == 1


def test_failure_on_the_value_of_somebody_else_is_no_win(server: ScriptedServer) -> None:
    server.values["/bucket/a/k"] = b"theirs"
    server.script = [(500, False)]
    assert server.blobs().put_new("k", b"mine") is False


def test_failure_without_end_is_unknown_since_it_may_be_done_yet(server: ScriptedServer) -> None:
    server.script = [(500, False)] * 9
    with pytest.raises(Unknown):
        server.blobs(retries=2).put_new("k", b"mine")
    assert server.puts == 3


def test_failure_whose_look_up_fails_is_unknown(server: ScriptedServer) -> None:
    server.script, server.get_statuses = [(500, True)], [500] * 9
    with pytest.raises(Unknown, match="then"):
        server.blobs(retries=1).put_new("k", b"mine")


def test_conflict_with_another_writer_is_neither_won_nor_lost(server: ScriptedServer) -> None:
    """409: somebody wrote at the same moment. Whether a value is there is seen by trying again."""
    server.script = [(409, False)]
    assert server.blobs().put_new("k", b"mine") is True
    server.script = [(409, False)] * 9
    with pytest.raises(Transient):
        server.blobs(retries=1).put_new("other", b"mine")


@pytest.mark.parametrize(("status", "word"), [(501, "501"), (507, "no space"), (403, "access denied"), (400, "400")])
def test_refusal_is_not_repeated(server: ScriptedServer, status: int, word: str) -> None:
    server.script = [(status, False)] * 9
    with pytest.raises(Permanent, match=word):
        server.blobs().put_new("k", b"mine")
    assert server.puts == 1


def test_V31_value_that_breaks_off_is_transient(server: ScriptedServer) -> None:
    server.values["/bucket/a/k"] = b"value" * 1000
    server.short_by = 10
    with pytest.raises(Transient):
        server.blobs(retries=0).get("k")
    with pytest.raises(Transient):
        server.blobs(retries=0).digest("k")


def test_value_beyond_the_limit_is_refused_before_it_is_sent(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.drivers.s3.folder.MAX_BODY_BYTES", 10)
    with pytest.raises(Permanent, match="11 bytes"):
        server.blobs().put_new("k", bytes(11))
    assert server.puts == 0
    assert server.blobs().put_new("k", bytes(10)) is True
