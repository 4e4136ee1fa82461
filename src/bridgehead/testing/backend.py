"""A small HTTP backend for tests of proxies: says which site it is, streams, and counts what it has open.

``python -m bridgehead.testing.backend --site S --port-file F``: ``/`` answers the site's name; ``/stream?parts=N&every_s=X`` sends N
server-sent events and then ``data: end``; ``/metrics`` shows counters and the gauge of open requests; ``/healthz`` its health.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit

import msgspec

from bridgehead.ports.serving import ServingHealth


class Backend:
    """One site's backend. Its own pages (metrics, health) do not count as requests."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._open = 0
        self._done = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept alive until the client closes it."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = [int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                await reader.readexactly(length[0] if length else 0)
                await self._answer(urlsplit(head.split(" ", 2)[1]), writer)
        writer.close()

    async def _answer(self, target: SplitResult, writer: asyncio.StreamWriter) -> None:
        path, query = target.path, parse_qs(target.query)
        if path == "/metrics":
            await _send(writer, self._metrics(), "text/plain; version=0.0.4")
            return
        if path == "/healthz":
            health = ServingHealth(warm=True, model_hash="hash", snapshot="snapshot")
            await _send(writer, msgspec.json.encode(health), "application/json")
            return
        self._open += 1
        try:
            if path == "/stream":
                await self._stream(writer, int(query["parts"][0]), float(query["every_s"][0]))
            else:
                await _send(writer, self._site.encode(), "text/plain")
        finally:
            self._open -= 1
            self._done += 1

    async def _stream(self, writer: asyncio.StreamWriter, parts: int, every_s: float) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in [f"data: {self._site} {number}\n\n" for number in range(parts)] + ["data: end\n\n"]:
            writer.write(f"{len(part):x}\r\n{part}\r\n".encode())
            await writer.drain()
            await asyncio.sleep(every_s)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _metrics(self) -> bytes:
        label = f'{{site="{self._site}"}}'
        return (
            f"# TYPE requests_total counter\nrequests_total{label} {self._done}\n"
            f"# TYPE requests_in_flight gauge\nrequests_in_flight{label} {self._open}\n"
        ).encode()


async def _send(writer: asyncio.StreamWriter, body: bytes, kind: str) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


async def _main(site: str, port_file: Path) -> None:
    server = await asyncio.start_server(Backend(site).serve, "127.0.0.1", 0)
    temporary = port_file.with_name(port_file.name + ".tmp")
    temporary.write_text(f"{server.sockets[0].getsockname()[1]}\n")
    os.replace(temporary, port_file)
    await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="bridgehead.testing.backend", description=__doc__)
    parser.add_argument("--site", required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    asked = parser.parse_args(arguments)
    asyncio.run(_main(asked.site, asked.port_file))


if __name__ == "__main__":
    main()
