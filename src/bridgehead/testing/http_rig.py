"""HttpRig: real requests through a real proxy for ``TrafficSuite``, and a load that counts what is lost."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import time
from collections import Counter
from threading import Event, Thread

from bridgehead.kernel.ids import SiteId
from bridgehead.ports.traffic import Traffic
from bridgehead.testing.traffic_suite import SERVICE, A, B, Session, Stream, TrafficRig, stamp

TIMEOUT_S = 10.0


class HttpRig(TrafficRig):
    """The client's side; what is special to a proxy is added by its own rig. ``address``: where the proxy listens."""

    address: str

    def send(self, count: int) -> Counter[SiteId]:
        """Over one kept connection, without cookies."""
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)) as connection:
            return Counter(_request(connection, {})[0] for _ in range(count))

    def session(self) -> Session:
        """A client with cookies."""
        return HttpSession(self.address)

    def stream(self) -> Stream:
        """About three seconds of server-sent events."""
        return HttpStream(self.address, parts=15, every_s=0.2)


def _request(connection: http.client.HTTPConnection, headers: dict[str, str]) -> tuple[SiteId, str]:
    connection.request("GET", "/", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, (answer.status, body)
    return SiteId(body.decode()), answer.headers.get("Set-Cookie", "").partition(";")[0]


class HttpSession:
    """A connection for each request; only the cookie holds the session together."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._cookie = ""

    def send(self) -> SiteId:
        """One request with the newest cookie."""
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)) as connection:
            site, cookie = _request(connection, {"Cookie": self._cookie} if self._cookie else {})
        self._cookie = cookie or self._cookie
        return site


class HttpStream:
    """A stream whose first event has arrived."""

    def __init__(self, address: str, *, parts: int, every_s: float) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        self._connection.request("GET", f"/stream?parts={parts}&every_s={every_s}")
        self._answer = self._connection.getresponse()
        self._parts = parts
        self._first = self._answer.readline()
        self.site = SiteId(self._first.split()[1].decode())

    def finish(self) -> bool:
        """Read the rest."""
        try:
            text = (self._first + self._answer.read()).decode()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            self._connection.close()
        return re.findall(r"data: (.*)\n\n", text) == [*(f"{self.site} {part}" for part in range(self._parts)), "end"]


class Load:
    """Requests from ``kept`` clients that keep their connection and ``fresh`` ones that open one for each, until the ``with`` block ends.

    No client tries again: each request that is not answered rightly is in ``failures``. The counts are complete after the block.
    """

    def __init__(self, address: str, *, kept: int, fresh: int) -> None:
        self.done = 0
        self.failures: list[str] = []
        self._host, _, self._port = address.rpartition(":")
        self._clients = [True] * kept + [False] * fresh
        self._stop = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        await asyncio.gather(*(self._client(keep) for keep in self._clients))

    async def _client(self, keep: bool) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while not self._stop.is_set():
            try:
                connection = connection or await asyncio.open_connection(self._host, int(self._port))
                await asyncio.wait_for(_ask(*connection), TIMEOUT_S)
                self.done += 1
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                self.failures.append(repr(error))
                keep_now = False
            else:
                keep_now = keep
            if connection is not None and not keep_now:
                connection[1].close()
                connection = None
            await asyncio.sleep(0.005)
        if connection is not None:
            connection[1].close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = re.search(r"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if not head.startswith("http/1.1 200") or body not in (b"a", b"b"):
        raise ValueError(f"{head.splitlines()[0]} {body[:80]!r}")


def change_under_load(driver: Traffic, address: str, *, changes: int, pause_s: float = 0.05) -> tuple[Load, list[float]]:
    """Change the weights ``changes`` times while half of the clients keep their connection and half open one for each request.

    Each change is read back before the next; every fourth leaves a site with 0. Returns the load and the seconds that each
    change took until it was in force.
    """
    took_s = []
    with Load(address, kept=4, fresh=4) as load:
        for number in range(changes):
            a = (0, 60, 100, 25)[number % 4]
            weights = {A: a, B: 100 - a}
            start_s = time.monotonic()
            driver.write(SERVICE, weights, stamp=stamp())
            while driver.read(SERVICE) != weights:
                if time.monotonic() - start_s > TIMEOUT_S:
                    raise TimeoutError(f"{weights} are not in force after {TIMEOUT_S} s")
                time.sleep(0.01)
            took_s.append(time.monotonic() - start_s)
            time.sleep(pause_s)
    return load, took_s
