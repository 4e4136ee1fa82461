"""BlobServer: offers a blob store over HTTP, a thread for each connection.

No login and no encryption: for loopback and for networks that are themselves private and trusted.
"""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from bridgehead.drivers.httpblobs.protocol import BLOBS, ERROR_HEADER, HASH_HEADER, LIST, MAX_BODY_BYTES, STATUS, Listed
from bridgehead.kernel.errors import ErrorCode, Permanent, PortError
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs

IDLE_S = 60.0
"""A connection without a request for this long is closed."""


class BlobServer(ThreadingHTTPServer):
    """Serves ``blobs`` at ``host:port`` (port 0: a free one, see ``server_port``); run it with ``serve_forever``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, blobs: Blobs, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.blobs = blobs
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; its request was either done or not, and the client asks."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_S
    wbufsize = -1  # headers and body leave together
    server: BlobServer
    _lists: ClassVar[msgspec.json.Encoder] = msgspec.json.Encoder()

    def do_PUT(self) -> None:
        key, _ = self._target()
        length = self.headers.get("Content-Length", "")
        if key is None or not length.isdecimal() or int(length) > MAX_BODY_BYTES or self.headers.get("If-None-Match") != "*":
            self.close_connection = True  # the body is left unread
            self._answer(400, b"PUT needs /blobs/KEY, Content-Length and If-None-Match: *")
            return
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            self.close_connection = True
            return  # the client went away midway: nothing is written
        if block_hash(body) != self.headers.get(HASH_HEADER):
            self._error(ErrorCode.PORT_TRANSIENT, "the body does not have the hash that its header says")
            return
        try:
            written = self.server.blobs.put_new(key, body)
        except PortError as error:
            self._error(error.code, error.happened)
        else:
            self._answer(201 if written else 412)

    def do_GET(self) -> None:
        key, query = self._target()
        try:
            if key is not None:
                body = self._value(key, query)
                self._answer(200, body, {HASH_HEADER: block_hash(body)})
            elif urlsplit(self.path).path == LIST:
                self._answer(200, self._lists.encode(self._listed(query.get("prefix", [""])[0])))
            else:
                self._answer(400, b"no such address")
        except PortError as error:
            self._error(error.code, error.happened)

    def do_HEAD(self) -> None:
        key, query = self._target()
        try:
            if key is None:
                self._answer(400)
            elif "hash" in query:
                digest = self.server.blobs.digest(key)
                self._answer(200, headers={HASH_HEADER: digest.blake3}, length=digest.size_bytes)
            elif (size := self.server.blobs.size(key)) is None:
                self._error(ErrorCode.PORT_NOT_FOUND, "no such key")
            else:
                self._answer(200, length=size)
        except PortError as error:
            self._error(error.code, error.happened)

    def do_DELETE(self) -> None:
        key, _ = self._target()
        if key is None:
            self._answer(400, b"DELETE needs /blobs/KEY")
            return
        try:
            self.server.blobs.delete(key)
        except PortError as error:
            self._error(error.code, error.happened)
        else:
            self._answer(204)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _target(self) -> tuple[str | None, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        key = unquote(parts.path.removeprefix(BLOBS)) if parts.path.startswith(BLOBS) else None
        return key, parse_qs(parts.query, keep_blank_values=True)

    def _value(self, key: str, query: dict[str, list[str]]) -> bytes:
        if "offset" not in query:
            return self.server.blobs.get(key)
        offset, size = query["offset"][0], query.get("size", [""])[0]
        if not (offset.isdecimal() and size.isdecimal() and int(size) <= MAX_BODY_BYTES):
            raise Permanent(f"offset and size must be numbers, size at most {MAX_BODY_BYTES}", tried="read a part of a value", subject=key)
        return self.server.blobs.get_range(key, int(offset), int(size))

    def _listed(self, prefix: str) -> list[Listed]:
        sized = ((key, self.server.blobs.size(key)) for key in self.server.blobs.list(prefix))
        return [Listed(key=key, size_bytes=size) for key, size in sized if size is not None]  # None: deleted meanwhile

    def _error(self, code: ErrorCode, happened: str) -> None:
        self._answer(STATUS[code], happened.encode(), {ERROR_HEADER: code.value})

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def setup(self) -> None:
        """Larger socket buffers: a block of some hundred kB then travels without waiting for the reader in between."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        super().setup()
