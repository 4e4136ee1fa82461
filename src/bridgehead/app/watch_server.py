"""The watch over HTTP: ``/metrics`` for Prometheus, ``/report`` as JSON, ``/healthz`` for probes.

Read-only; loopback unless told otherwise.
"""

from __future__ import annotations

import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.recovery.watch.metrics import exposition
from bridgehead.recovery.watch.readiness import WatchReport

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class WatchServer:
    """Serves the last report. ``with`` starts and ends it.

    Args:
        port: 0 takes a free one, see ``port``.
        stale_s: a report that is older makes ``/healthz`` answer 503.

    Raises BAD_USAGE when the address cannot be listened at.
    """

    def __init__(self, *, host: str, port: int, stale_s: float) -> None:
        self._report: WatchReport | None = None
        self._shown_s = time.monotonic()
        self._stale_s = stale_s
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="serve metrics",
                subject=f"{host}:{port}",
                happened=str(error),
                remedy="Choose another --metrics-port; 0 takes a free one.",
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="watch-server", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def show(self, report: WatchReport) -> None:
        """From now on this one is served."""
        self._report, self._shown_s = report, time.monotonic()

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Status, type and body for a path."""
        report = self._report
        if path == "/metrics":
            return HTTPStatus.OK, _TEXT, exposition(report).encode() if report is not None else b""
        if path == "/report":
            body = msgspec.json.encode(report) if report is not None else b"null"
            return HTTPStatus.OK, "application/json", body
        if path == "/healthz":
            old = report is None or time.monotonic() - self._shown_s > self._stale_s
            words = b"no look lately\n" if old else b"looking\n"
            return HTTPStatus.SERVICE_UNAVAILABLE if old else HTTPStatus.OK, "text/plain", words
        return HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /report, /healthz\n"

    def __enter__(self) -> WatchServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(server: WatchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status, kind, body = server.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not a line for each scrape."""

    return Handler
