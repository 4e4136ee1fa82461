"""The lean HTTP server behind the proxies of ``bench/traffic.py``: answers with its site and the request's token, and streams.

``GET /answer/TOKEN`` and ``POST /answer`` (the token is the body) answer ``SITE TOKEN``. ``GET /stream/TOKEN/OVER_MS`` sends
``EVENTS`` server-sent events ``SITE TOKEN NUMBER`` evenly over that time and then ``end``. ``GET /metrics`` has the counters.
"""

from __future__ import annotations

import asyncio
import re
import signal
from multiprocessing import parent_process
from multiprocessing.connection import Connection as Pipe

EVENTS = 10
IDLE_S = 5.0
"""A connection on which nothing was asked for this long is closed, as uvicorn does: proxies have to live with that."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Backend:
    """One site's server: its connections and its counters."""

    def __init__(self, site: str) -> None:
        self.site = site.encode()
        self.connections: set[_Connection] = set()
        self.done = self.open = self.cut = 0

    async def serve(self, report: Pipe) -> None:
        """Listen on loopback, send the port, serve until SIGTERM or until the parent has ended."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        if (parent := parent_process()) is not None:
            loop.add_reader(parent.sentinel, stop.set)
        server = await loop.create_server(lambda: _Connection(self, loop), "127.0.0.1", 0, backlog=1024)
        report.send(server.sockets[0].getsockname()[1])
        while not stop.is_set():
            for connection in [*self.connections]:
                connection.close_when_idle(loop.time() - IDLE_S)
            try:
                await asyncio.wait_for(stop.wait(), 0.5)
            except TimeoutError:
                continue
        server.close()

    def metrics(self) -> bytes:
        """``cut``: streams whose connection was lost before their end."""
        return (
            f"# TYPE requests_total counter\nrequests_total {self.done}\n"
            f"# TYPE requests_in_flight gauge\nrequests_in_flight {self.open}\n"
            f"# TYPE streams_cut_total counter\nstreams_cut_total {self.cut}\n"
        ).encode()


class _Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, backend: Backend, loop: asyncio.AbstractEventLoop) -> None:
        self._backend = backend
        self._loop = loop
        self._buffer = bytearray()
        self._streaming = False
        self._asked_s = loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._backend.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._backend.connections.discard(self)
        if self._streaming:
            self._backend.open -= 1
            self._backend.cut += 1

    def close_when_idle(self, since_s: float) -> None:
        if self._asked_s < since_s and not self._streaming and not self._buffer:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._answer_all()

    def _answer_all(self) -> None:
        while not self._streaming and (end := self._buffer.find(b"\r\n\r\n") + 4) >= 4:
            head = bytes(self._buffer[:end])
            method, target, _ = head.split(b" ", 2)
            length = _LENGTH.search(head)
            size = end + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                return
            body = bytes(self._buffer[end:size])
            del self._buffer[:size]
            self._asked_s = self._loop.time()
            self._answer(target.split(b"/"), body if method == b"POST" else b"")

    def _answer(self, path: list[bytes], body: bytes) -> None:
        match path:
            case [_, b"answer"] if body:
                self._send(b"%b %b" % (self._backend.site, body))
                self._backend.done += 1
            case [_, b"answer", token]:
                self._send(b"%b %b" % (self._backend.site, token))
                self._backend.done += 1
            case [_, b"stream", token, over_ms]:
                self._streaming = True
                self._backend.open += 1
                self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
                self._event(token, 0, int(over_ms) / 1000 / EVENTS)
            case [_, b"metrics"]:
                self._send(self._backend.metrics())
            case _:
                self._send(b"unknown", status=b"404 Not Found")

    def _send(self, body: bytes, *, status: bytes = b"200 OK") -> None:
        self._transport.write(b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))

    def _event(self, token: bytes, number: int, every_s: float) -> None:
        if self._transport.is_closing():
            return  # connection_lost counts it
        if number < EVENTS:
            part = b"data: %b %b %d\n\n" % (self._backend.site, token, number)
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
            self._loop.call_later(every_s, self._event, token, number + 1, every_s)
            return
        self._transport.write(b"b\r\ndata: end\n\n\r\n0\r\n\r\n")
        self._streaming = False
        self._asked_s = self._loop.time()
        self._backend.open -= 1
        self._backend.done += 1
        self._answer_all()


def serve(site: str, report: Pipe) -> None:
    """A process of its own; the parent ends it by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt from the terminal reaches the parent, which ends this process
    asyncio.run(Backend(site).serve(report))
