"""A receiver of web hooks for tests, on a free port of loopback: checks signatures, keeps what it took, and drops doubles by their id."""

from __future__ import annotations

import http.server
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.host.webhook_signature import ID, Forged, check, secret_bytes

PATIENCE_S = 30.0


class HookReceiver:
    """A context manager.

    Args:
        secret: what senders sign with.
        tls: PEM file with certificate and key; plain HTTP without it.

    Attributes:
        answers: statuses for the next requests, with headers; 200 when there is none left.
        requests: headers and body of each request, whatever came of it.
        paths: of each request, with its query.
        taken: what was accepted, by id, in order: doubles are dropped.
        forged: why requests were refused.
        hang_up: whether the connection of the next request is cut when it was taken.
        gate: cleared, no request is answered until it is set.
    """

    def __init__(self, *, secret: str, tls: Path | None = None) -> None:
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []
        self.taken: dict[str, dict[str, Any]] = {}
        self.forged: list[str] = []
        self.hang_up = False
        self.gate = threading.Event()
        self.gate.set()
        self._secret = secret_bytes(secret)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._tls = tls is not None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._server.server_port}/hook?room=ops"

    def data(self, kind: str) -> list[dict[str, Any]]:
        """What was taken of a type (``bridgehead.ask.open``), in order."""
        return [one["data"] for one in list(self.taken.values()) if one["type"] == kind]

    def until(self, found: Callable[[], Any]) -> Any:
        """What ``found`` gives as soon as it is something. Raises TimeoutError."""
        end_s = time.monotonic() + PATIENCE_S
        while not (result := found()):
            if time.monotonic() > end_s:
                raise TimeoutError(f"it did not come; taken: {[one['type'] for one in self.taken.values()]}")
            time.sleep(0.02)
        return result

    def __enter__(self) -> HookReceiver:
        self._thread.start()
        return self

    def close(self) -> None:
        """Refuse connections from now on; no effect when done already."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str]]:
        self.requests.append((headers, body))
        self.gate.wait(PATIENCE_S)
        if self.answers:
            return self.answers.pop(0)
        try:
            check([self._secret], headers, body=body, now_s=time.time())
        except Forged as error:
            self.forged.append(str(error))
            return 401, {}
        self.taken.setdefault(headers[ID], msgspec.json.decode(body))
        return 200, {}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.append(self.path)
                status, headers = receiver._take({name.lower(): value for name, value in self.headers.items()}, body)
                if receiver.hang_up:
                    receiver.hang_up = False
                    return
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler
