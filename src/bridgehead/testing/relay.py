"""A TCP relay that can be slowed and cut: a real network fault for tests and the demo.

``python -m bridgehead.testing.relay --listen-port-file F --to HOST:PORT [--rate BITS_PER_S] [--cut-file PATH] [--status-file PATH]``

While the cut file exists, connections are reset and new ones refused. The rate holds for each direction, shared by all connections.
The status file holds the JSON of ``RelayStatus``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

POLL_S = 0.01
"""How soon the cut file is noticed."""
STATUS_S = 0.1
CHUNK_BYTES = 65536
SLICE_S = 0.01
"""With a rate, no piece is longer than what the line carries in this time, so that connections share it fairly."""


class RelayStatus(msgspec.Struct):
    """What the relay has seen so far.

    Attributes:
        to_bytes: bytes handed on towards the target; ``back_bytes``: from it.
        resets: connections that a cut has ended.
    """

    cut: bool = False
    accepted: int = 0
    open: int = 0
    resets: int = 0
    to_bytes: int = 0
    back_bytes: int = 0


class Line:
    """One direction of the simulated line: hands out the moment when a piece has passed."""

    def __init__(self, rate_bps: float) -> None:
        self._rate_bps = rate_bps
        self._free_s = 0.0
        self.chunk_bytes = max(256, min(CHUNK_BYTES, int(rate_bps / 8 * SLICE_S))) if rate_bps else CHUNK_BYTES

    async def carry(self, size_bytes: int) -> None:
        """Return when ``size_bytes`` have passed, behind all that was handed in before."""
        if self._rate_bps:
            self._free_s = max(self._free_s, time.monotonic()) + size_bytes * 8 / self._rate_bps
            await asyncio.sleep(max(0.0, self._free_s - time.monotonic()))


class Relay:
    """Relays from a port of this machine to ``host:port``; create it inside a running event loop and ``await`` ``run``."""

    def __init__(
        self, host: str, port: int, *, rate_bps: float = 0.0, cut_file: Path | None = None, status_file: Path | None = None
    ) -> None:
        self._target = (host, port)
        self._lines = (Line(rate_bps), Line(rate_bps))
        self._cut_file = cut_file
        self._status_file = status_file
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.status = RelayStatus()
        # Keeps the port ours while a cut has closed the listening socket. It never listens, so the system refuses connections.
        self._holder = _bound(0)
        self.port: int = self._holder.getsockname()[1]

    async def run(self, ready: Path | None = None) -> None:
        """Relay until cancelled; ``ready`` gets the port as text when the first connection can be made."""
        written_s, written = 0.0, b""
        try:
            while True:
                await self._follow_cut_file()
                if ready is not None:
                    _write(ready, f"{self.port}\n".encode())
                    ready = None
                content = msgspec.json.encode(self.status)
                if self._status_file is not None and content != written and time.monotonic() - written_s >= STATUS_S:
                    _write(self._status_file, content)
                    written_s, written = time.monotonic(), content
                await asyncio.sleep(POLL_S)
        finally:
            self._stop()
            self._holder.close()
            if self._status_file is not None:
                _write(self._status_file, msgspec.json.encode(self.status))

    async def _follow_cut_file(self) -> None:
        self.status.cut = self._cut_file is not None and self._cut_file.exists()
        if self.status.cut and self._server is not None:
            self._stop()
        elif not self.status.cut and self._server is None:
            self._server = await asyncio.start_server(self._accept, sock=_bound(self.port))

    def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            _reset(writer)
        self.status.resets += len(self._writers) // 2
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status.accepted += 1
        if self._server is None:
            _reset(writer)  # accepted in the moment of the cut
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        if self._server is None:
            _reset(writer)
            _reset(far_writer)
            return
        pair = {writer, far_writer}
        self._writers |= pair
        self.status.open += 1
        try:
            await asyncio.gather(self._pump(reader, far_writer, back=False), self._pump(far_reader, writer, back=True))
        except OSError:
            _reset(writer)
            _reset(far_writer)
        finally:
            self.status.open -= 1
            self._writers -= pair
            for each in pair:
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, back: bool) -> None:
        line = self._lines[back]
        while data := await reader.read(line.chunk_bytes):
            await line.carry(len(data))
            writer.write(data)
            if back:
                self.status.back_bytes += len(data)
            else:
                self.status.to_bytes += len(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _bound(port: int) -> socket.socket:
    """A socket on loopback that shares its port with the others that this function makes for it."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST: what is still buffered is lost, as in a real cut."""
    connection: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


async def _main(asked: argparse.Namespace) -> None:
    host, _, port = asked.to.rpartition(":")
    relay = Relay(host, int(port), rate_bps=asked.rate, cut_file=asked.cut_file, status_file=asked.status_file)
    task = asyncio.ensure_future(relay.run(asked.listen_port_file))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main(arguments: Sequence[str] | None = None) -> None:
    """Relay until SIGTERM."""
    parser = argparse.ArgumentParser(prog="bridgehead.testing.relay", description=__doc__)
    parser.add_argument("--listen-port-file", type=Path, required=True, help="gets the port as text")
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--rate", type=float, default=0.0, metavar="BITS_PER_S", help="0: as fast as it goes")
    parser.add_argument("--cut-file", type=Path)
    parser.add_argument("--status-file", type=Path)
    asyncio.run(_main(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
