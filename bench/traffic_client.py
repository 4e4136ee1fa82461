"""The lean HTTP client of ``bench/traffic.py``: asks without pause on kept and on fresh connections, and checks every answer.

No request is tried again, on no ground: a client library that repeats requests by itself would hide what a proxy loses.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from array import array
from collections import Counter
from collections.abc import MutableSequence
from multiprocessing import parent_process
from multiprocessing.connection import Connection as Pipe

import msgspec
from traffic_backend import EVENTS

from bridgehead.kernel.streams import stream

SLOTS = 16
"""Clients that ask one request after the other, each on a kept connection of its own."""
FRESH_SHARE, POST_SHARE, STREAM_SHARE = 0.1, 0.5, 0.01
SESSION_SHARE, SESSION_GOES_ON = 0.25, 0.95
"""Clients that hold sessions by the proxy's cookie, and how likely a session goes on with the next request."""
STREAM_MS = (1000, 2000)
MAX_STREAMS = 400
TIMEOUT_S = 20.0
FAILURES_KEPT = 50

DONE, WEIGHTS, ENOUGH = 0, 1, 2
"""Places in the memory that is shared with who changes the weights: requests that have ended; number of the weights that are in force,
or CHANGING; 1 when all changes are made."""
CHANGING = -1

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_COOKIE = re.compile(rb"\r\nset-cookie: *([^;\r]+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


class LoadOptions(msgspec.Struct, frozen=True):
    """How much is asked. After ``limit_s`` no new request is sent, however few there were."""

    port: int
    requests: int
    seed: int
    limit_s: float


class Failure(msgspec.Struct, frozen=True):
    """A request that went wrong. ``used``: requests that the connection had carried before; ``weights``: as in shared memory."""

    at_s: float
    outcome: str
    what: str
    used: int
    weights: int
    why: str


class Result(msgspec.Struct):
    """What the client saw.

    Attributes:
        kinds: requests by what they were; a request can be several things.
        outcomes: requests by "ok", "failed" (no answer, or not 200), "wrong" (another's answer) and "cut" (a stream without its end).
        split: answers by (number of the weights in force from before the request to after the answer, site, of a session).
        latencies_s: of answers that are no streams, with the connecting.
    """

    kinds: Counter[str] = msgspec.field(default_factory=Counter)
    outcomes: Counter[str] = msgspec.field(default_factory=Counter)
    sites: Counter[str] = msgspec.field(default_factory=Counter)
    split: Counter[tuple[int, str, bool]] = msgspec.field(default_factory=Counter)
    failures: list[Failure] = msgspec.field(default_factory=list)
    latencies_s: array[float] = msgspec.field(default_factory=lambda: array("d"))
    duration_s: float = 0.0


class Lost(Exception):
    """No whole answer; ``begun``: some of it had come."""

    def __init__(self, why: str, *, begun: bool) -> None:
        super().__init__(why)
        self.begun = begun


class _Connection(asyncio.Protocol):
    """One request at a time. ``usable``: another may be sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[bytes, bytes]] | None = None
        self._asked_s = 0.0
        self.used = 0
        self.usable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._fail(f"connection lost: {exc!r}" if exc else "connection closed")

    def fail_older_than(self, asked_s: float) -> None:
        if self._answer is not None and self._asked_s < asked_s:
            self._fail(f"no whole answer in {TIMEOUT_S:g} s")

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    async def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Head and body (as it came) of the answer. Raises Lost."""
        self._answer = self._loop.create_future()
        self._asked_s = self._loop.time()
        self._transport.write(request)
        head, body = await self._answer
        self.used += 1
        if _CLOSE.search(head):
            self.close()
        return head, body

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n") + 4
        if end < 4 or self._answer is None:
            if self._answer is None:
                self.close()  # nobody asked; the next request finds the connection unusable
            return
        head = bytes(self._buffer[:end])
        if length := _LENGTH.search(head):
            missing = end + int(length[1]) - len(self._buffer)
        else:
            missing = 0 if self._buffer.endswith(b"\r\n0\r\n\r\n") else 1
        if missing < 0:
            self._fail(f"{-missing} bytes after the answer")
        elif missing == 0:
            answer, self._answer = self._answer, None
            body = bytes(self._buffer[end:])
            self._buffer.clear()
            answer.set_result((head, body))

    def _fail(self, why: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self.close()
            answer.set_exception(Lost(f"{why} after {len(self._buffer)} bytes {bytes(self._buffer[:60])!r}", begun=bool(self._buffer)))


class _Visitor(msgspec.Struct):
    """One client: its kept connection, and its cookie if it holds sessions."""

    session: bool
    connection: _Connection | None = None
    cookie: bytes = b""


class Load:
    """Sends until there were enough requests and enough weight changes."""

    def __init__(self, options: LoadOptions, shared: MutableSequence[int]) -> None:
        self.result = Result()
        self._options = options
        self._shared = shared
        self._random = stream(options.seed, "client")
        self._sent = 0
        self._open: set[_Connection] = set()
        self._resting: list[_Connection] = []
        self._streams: set[asyncio.Task[None]] = set()

    async def run(self) -> Result:
        """Send; wait for the open streams."""
        self._loop = asyncio.get_running_loop()
        began_s = self._loop.time()
        self._end_s = began_s + self._options.limit_s
        if (parent := parent_process()) is not None:
            self._loop.add_reader(parent.sentinel, self._orphaned, parent.sentinel)
        watch = asyncio.create_task(self._watch())
        await asyncio.gather(*(self._slot(number < SLOTS * SESSION_SHARE) for number in range(SLOTS)))
        self.result.duration_s = self._loop.time() - began_s
        await asyncio.gather(*self._streams)
        watch.cancel()
        for connection in [*self._open]:
            connection.close()
        return self.result

    def _orphaned(self, sentinel: int) -> None:
        self._loop.remove_reader(sentinel)
        self._end_s = 0.0

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._open = {connection for connection in self._open if connection.usable}
            for connection in self._open:
                connection.fail_older_than(self._loop.time() - TIMEOUT_S)

    async def _slot(self, session: bool) -> None:
        visitor = _Visitor(session)
        while (self._sent < self._options.requests or not self._shared[ENOUGH]) and self._loop.time() < self._end_s:
            if self._random.random() < STREAM_SHARE and len(self._streams) < MAX_STREAMS:
                task = asyncio.create_task(self._stream())
                self._streams.add(task)
                task.add_done_callback(self._streams.discard)
            else:
                await self._short(visitor, fresh=self._random.random() < FRESH_SHARE)

    async def _short(self, visitor: _Visitor, *, fresh: bool) -> None:
        token = self._token()
        carried = visitor.cookie if visitor.session and self._random.random() < SESSION_GOES_ON else b""
        extra = b"Cookie: %b\r\n" % carried if carried else b""
        if post := self._random.random() < POST_SHARE:
            request = b"POST /answer HTTP/1.1\r\nHost: bench\r\n%bContent-Length: %d\r\n\r\n%b" % (extra, len(token), token)
        else:
            request = b"GET /answer/%b HTTP/1.1\r\nHost: bench\r\n%b\r\n" % (token, extra)
        weights, began_s = self._shared[WEIGHTS], self._loop.time()
        kept = None if fresh else visitor.connection
        connection, used = kept, 0
        site, why = "", ""
        try:
            if connection is None or not connection.usable:
                connection = await self._connect()
            used = connection.used
            head, body = await connection.ask(request)
            site, why = _judged(head, body, token)
            if visitor.session:
                visitor.cookie = cookie[1] if (cookie := _COOKIE.search(head)) else carried
        except (Lost, OSError) as error:
            outcome, why = "failed", repr(error)
        else:
            outcome = "wrong" if why and site else "failed" if why else "ok"
        self.result.latencies_s.append(self._loop.time() - began_s)
        if fresh and connection is not None:
            connection.close()
        elif not fresh:
            visitor.connection = connection
        kinds = ("kept", "fresh")[fresh], ("GET", "POST")[post], *(("session",) if carried else ())
        self._ended(outcome, kinds, site, used=used, weights=weights, why=why)
        if outcome == "ok" and weights == self._shared[WEIGHTS] != CHANGING:
            self.result.split[weights, site, bool(carried)] += 1

    async def _stream(self) -> None:
        token = self._token()
        request = b"GET /stream/%b/%d HTTP/1.1\r\nHost: bench\r\n\r\n" % (token, self._random.randint(*STREAM_MS))
        fresh = self._random.random() < FRESH_SHARE or not self._resting
        weights = self._shared[WEIGHTS]
        site, why, used = "", "", 0
        try:
            connection = None if fresh else self._resting.pop()
            if connection is None or not connection.usable:
                connection = await self._connect()
            used = connection.used
            head, body = await connection.ask(request)
            site, why = _judged_stream(head, body, token)
            self._resting.append(connection)
        except Lost as error:
            outcome, why = "cut" if error.begun else "failed", repr(error)
        except OSError as error:
            outcome, why = "failed", repr(error)
        else:
            outcome = "wrong" if why and site else "failed" if why else "ok"
        self._ended(outcome, ("stream", ("kept", "fresh")[fresh]), site, used=used, weights=weights, why=why)

    def _token(self) -> bytes:
        self._sent += 1
        return b"%x-%x" % (self._sent, self._options.seed)

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(TIMEOUT_S):
            _, connection = await self._loop.create_connection(lambda: _Connection(self._loop), "127.0.0.1", self._options.port)
        self._open.add(connection)
        return connection

    def _ended(self, outcome: str, kinds: tuple[str, ...], site: str, *, used: int, weights: int, why: str) -> None:
        self._shared[DONE] += 1
        self.result.outcomes[outcome] += 1
        self.result.kinds.update(kinds)
        self.result.sites[site] += 1
        if why and len(self.result.failures) < FAILURES_KEPT:
            self.result.failures.append(Failure(time.time(), outcome, " ".join(kinds), used, weights, why))


def _judged(head: bytes, body: bytes, token: bytes) -> tuple[str, str]:
    """The site that answered, and what is wrong; no site when it is no answer of a site at all."""
    if not head.startswith(b"HTTP/1.1 200 "):
        return "", f"{head[:60]!r}"
    site, _, echoed = body.partition(b" ")
    return site.decode(), "" if echoed == token else f"answered {body[:60]!r} where {token!r} was asked"


def _judged_stream(head: bytes, body: bytes, token: bytes) -> tuple[str, str]:
    """The same for a stream, whose body is in chunks."""
    if not head.startswith(b"HTTP/1.1 200 "):
        return "", f"{head[:60]!r}"
    text = bytearray()
    rest = body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        text += rest[:length]
        rest = rest[length + 2 :]
    site = text[6:].partition(b" ")[0]
    right = b"".join(b"data: %b %b %d\n\n" % (site, token, number) for number in range(EVENTS)) + b"data: end\n\n"
    return site.decode(), "" if text == right else f"streamed {bytes(text[-60:])!r} where {token!r} was asked"


def send(options: LoadOptions, numbers: MutableSequence[int], report: Pipe) -> None:
    """A process of its own, that sends its ``Result`` and ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt from the terminal reaches the parent, which ends this process
    report.send(asyncio.run(Load(options, numbers).run()))
