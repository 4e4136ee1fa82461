"""Real servers for tests: started on free ports with all their files in one folder, ended by their process id."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyTraffic, haproxy_command
from bridgehead.drivers.traefik import TraefikOptions, TraefikTraffic, traefik_command
from bridgehead.kernel.errors import PortError

START_S = 20.0
"""How long a server may take to come up on a busy machine."""
STOP_S = 5.0


class Server:
    """A running server process and its log."""

    def __init__(self, command: list[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log, self.command = log, tuple(command)
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(env or {})}, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Process id; the leader of its own process group."""
        return self.process.pid

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Return when ``ready`` says so. Raises RuntimeError with the log when the server ends or takes longer than ``START_S``."""
        deadline = time.monotonic() + START_S
        while not ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                what = f"ended with {ended}" if ended is not None else f"is not ready after {START_S} s"
                raise RuntimeError(f"{self.process.args!r} {what}:\n{self.log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)

    def stop(self, *, number: signal.Signals = signal.SIGTERM) -> None:
        """End it with its children, at first by ``number``; no effect when it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        # The group is ours alone (start_new_session) and stays named as long as a child of it lives.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def running(command: list[str], *, log: Path, ready: Callable[[], bool]) -> Iterator[Server]:
    """A server that is ready inside the ``with`` block and ended after it."""
    server = Server(command, log=log)
    try:
        server.wait_until(ready)
        yield server
    finally:
        server.stop()


def free_port() -> int:
    """A port of loopback that was free just now, for servers that cannot be told to take port 0 and say which.

    From below the range that the system uses for outgoing connections: there, a client could take it before the server does.
    """
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port found")


@contextlib.contextmanager
def python_server(module: str, *arguments: str, folder: Path, name: str, port_option: str = "--port-file") -> Iterator[tuple[Server, int]]:
    """``python -m module`` that writes its port into a file; yields the server and the port."""
    port_file = folder / f"{name}.port"
    port_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, *arguments, port_option, str(port_file)]
    with running(command, log=folder / f"{name}.log", ready=port_file.exists) as server:
        yield server, int(port_file.read_text())


@contextlib.contextmanager
def backend(site: str, *, folder: Path) -> Iterator[int]:
    """A backend of ``testing.backend``; yields its port."""
    with python_server("bridgehead.testing.backend", "--site", site, folder=folder, name=f"backend-{site}") as (_, port):
        yield port


@contextlib.contextmanager
def relay(target_port: int, *, folder: Path, rate_bps: float = 0.0) -> Iterator[tuple[int, Path, Path]]:
    """A relay of ``testing.relay``; yields its port, the path of its cut file and that of its status file."""
    cut, status = folder / "relay.cut", folder / "relay.status.json"
    arguments = ["--to", f"127.0.0.1:{target_port}", "--rate", str(rate_bps), "--cut-file", str(cut), "--status-file", str(status)]
    module = "bridgehead.testing.relay"
    with python_server(module, *arguments, folder=folder, name="relay", port_option="--listen-port-file") as (_, port):
        yield port, cut, status


@contextlib.contextmanager
def traefik(options: TraefikOptions, *, listen: str, folder: Path) -> Iterator[Server]:
    """A traefik that the driver with ``options`` steers; ready when it has loaded every service and listens."""
    traffic = TraefikTraffic(options)
    traffic.install()
    with running(
        traefik_command(options, listen=listen), log=folder / "traefik.log", ready=lambda: _loaded(traffic, options, listen)
    ) as server:
        yield server


@contextlib.contextmanager
def haproxy(options: HaproxyOptions, *, folder: Path) -> Iterator[Server]:
    """A haproxy that the driver with ``options`` steers; ready when its runtime socket answers."""
    traffic = HaproxyTraffic(options)
    traffic.install()
    listen = next(iter(options.services.values())).listen
    with running(haproxy_command(options), log=folder / "haproxy.log", ready=lambda: _loaded(traffic, options, listen)) as server:
        yield server


def listens(address: str) -> bool:
    """Whether ``host:port`` accepts a connection."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True


def _loaded(traffic: TraefikTraffic | HaproxyTraffic, options: TraefikOptions | HaproxyOptions, listen: str) -> bool:
    try:
        for service in options.services:
            traffic.read(service)
    except PortError:
        return False
    return listens(listen)
