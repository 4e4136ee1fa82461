"""The server that takes answers: ``POST /answers/<responder>``, signed. Nothing else changes anything, and a GET never does: programs that
look at links before people do must not approve."""

from __future__ import annotations

import contextlib
import errno
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.ports.people import MAX_BODY_BYTES, AnswerRefused, Delivered, Recorded, Refusal

PATH: Final = "/answers/"
AT_ONCE: Final = 32
"""Connections beyond that wait: nobody keeps the server from working by opening many."""
TIMEOUT_S: Final = 10.0
"""For each wait on a client."""
LONGEST_S: Final = 30.0
"""For a whole connection: nobody keeps a place by sending a byte now and then."""
_STATUS: Final = {
    Refusal.UNKNOWN_SENDER: HTTPStatus.UNAUTHORIZED,
    Refusal.FORGED: HTTPStatus.UNAUTHORIZED,
    Refusal.MALFORMED: HTTPStatus.BAD_REQUEST,
    Refusal.NOT_ALLOWED: HTTPStatus.FORBIDDEN,
    Refusal.NOT_THIS: HTTPStatus.FORBIDDEN,
    Refusal.ANSWERED: HTTPStatus.CONFLICT,
    Refusal.NOT_NOW: HTTPStatus.CONFLICT,
    Refusal.NO_SUCH_RUN: HTTPStatus.NOT_FOUND,
    Refusal.LATER: HTTPStatus.SERVICE_UNAVAILABLE,
}
Take = Callable[[Delivered], Recorded]
Say = Callable[[str], None]


class AnswerServer:
    """Serves inside its ``with`` block.

    Args:
        take: records an answer; raises AnswerRefused.
        port: 0 takes a free one, see ``port``.
        tls: certificate chain and key as paths of PEM files; None for plain HTTP behind a proxy on the same machine.
        say: told of each answer, and of each refusal.

    Raises BAD_USAGE when the address or the certificate cannot be used.
    """

    def __init__(
        self, *, host: str, port: int, take: Take, tls: tuple[str, str | None] | None = None, say: Say = lambda text: None
    ) -> None:
        try:
            context = _context(tls)
            self._server = _Bounded((host, port), _handler(take, say), context=context)
        except (OSError, OverflowError) as error:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="serve answers",
                subject=f"{host}:{port}",
                happened=str(error),
                remedy="Choose another --port (0 takes a free one); check --cert and --key.",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="answers", daemon=True, kwargs={"poll_interval": 0.1})

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> AnswerServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Bounded(socketserver.TCPServer):
    """A thread for each connection, and so many at most; handshakes are made in them, so that a silent client blocks nobody."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], *, context: ssl.SSLContext | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._context = context
        self._room = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, when there is room."""
        self._room.acquire()
        try:
            threading.Thread(target=self._served, args=(request, client_address), daemon=True).start()
        except BaseException:  # no room for a thread: the caller ends the connection
            self._room.release()
            raise

    def _served(self, request: socket.socket, client_address: Any) -> None:
        """Descriptors and threads may be short just now: that ends this connection, and costs no place."""
        try:
            with contextlib.suppress(OSError), _cut_after(LONGEST_S, request):
                request.settimeout(TIMEOUT_S)
                if self._context is not None:
                    request = self._context.wrap_socket(request, server_side=True)
                self.finish_request(request, client_address)
        finally:
            with contextlib.suppress(OSError):
                self.shutdown_request(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


@contextlib.contextmanager
def _cut_after(longest_s: float, connection: socket.socket) -> Iterator[None]:
    """Raises OSError when there is no descriptor or no thread for it."""
    with connection.dup() as twin:  # what TLS takes over is another object
        ending = threading.Timer(longest_s, _cut, args=(twin,))
        ending.daemon = True
        try:
            ending.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        try:
            yield
        finally:
            ending.cancel()


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _context(tls: tuple[str, str | None] | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*tls)
    return context


def _delivered(request: BaseHTTPRequestHandler, responder: str) -> Delivered:
    """What was posted. Raises AnswerRefused for what is too long, cut off, or what a form of a web page could send."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > MAX_BODY_BYTES:
        raise AnswerRefused(Refusal.MALFORMED, f"a length of at most {MAX_BODY_BYTES} bytes is needed")
    if request.headers.get_content_type() != "application/json":
        raise AnswerRefused(Refusal.MALFORMED, "an answer is application/json")
    body = request.rfile.read(int(length))
    if len(body) < int(length):
        raise AnswerRefused(Refusal.MALFORMED, "it was cut off")
    return Delivered(responder, headers, body)


def _handler(take: Take, say: Say) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S
        server_version, sys_version = "bridgehead", ""

        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(HTTPStatus.OK, {"serving": True})
            else:
                self._only_post()

        def do_POST(self) -> None:
            path = self.path
            if not path.startswith(PATH) or "?" in path or "/" in path.removeprefix(PATH):
                self._answer(HTTPStatus.NOT_FOUND, {"happened": f"answers are posted to {PATH}<responder>"})
                return
            try:
                done = take(_delivered(self, unquote(path.removeprefix(PATH))))
            except AnswerRefused as refused:
                say(f"an answer was refused ({refused.why.value}): {refused.happened}")
                self._answer(_STATUS[refused.why], {"refused": refused.why.value, "happened": refused.happened})
            except Exception as error:  # whatever it is, the server goes on, and whoever posts tries again
                say(f"an answer could not be taken: {type(error).__name__}: {error}")
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"refused": Refusal.LATER.value, "happened": "it cannot be recorded now"})
            else:
                say(f"{done.person}: {done.answer.value} {done.step} of {done.run}")
                self._answer(HTTPStatus.OK, {"recorded": msgspec.to_builtins(done)})

        def _only_post(self) -> None:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, {"happened": "answers are posted"}, Allow="POST")

        do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _only_post

        def _answer(self, status: HTTPStatus, document: dict[str, Any], **headers: str) -> None:
            body = msgspec.json.encode(document)
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Answers are said, requests are not."""

    return Handler
