"""A throw-away PostgreSQL server for tests: on a free port of loopback, with all its files in one folder, ended by its process id."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.testing.servers import Server, free_port

USER: Final = "bridgehead"
_SETTINGS: Final = {
    "fsync": "off",  # the machine does not lose power while a test runs
    "shared_buffers": "16MB",
    "max_wal_size": "64MB",
    "max_connections": "60",
    "autovacuum": "off",
    "log_min_messages": "warning",
}


class PostgresServer:
    """A running server; whoever reaches it may do everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._numbers = itertools.count(1)
        self._server: Server | None = None

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        assert self._server is not None
        return self._server.pid

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Where a database is; ``port``: of something that stands before the server."""
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """The address of an empty database."""
        name = f"test_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def sql(self, statement: str, *, database: str = "postgres") -> str:
        """Carry one statement out and return what it printed, without decoration."""
        program = _program("psql")
        command = [program, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30.0, check=False)
        if done.returncode:
            raise RuntimeError(f"{statement}: {done.stderr}")
        return done.stdout.strip()

    def start(self) -> None:
        """Start it on its data and wait until it answers."""
        settings = {**_SETTINGS, "listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": str(self.folder)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [*_as_other_user(), _program("postgres"), "-D", str(self.folder / "data"), *options]
        self._server = Server(command, log=self.folder / "postgres.log")
        self._server.wait_until(self._answers)

    def stop(self, *, number: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT closes all connections, SIGQUIT is as a crash. What was committed is there when it starts again."""
        if self._server is not None:
            self._server.stop(number=number)
            self._server = None

    def _answers(self) -> bool:
        command = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False, timeout=10.0).returncode == 0


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server that is ready inside the ``with`` block; it and its files are gone after it."""
    # Not below the folder of the test: that is closed to the other user, as which a server that root starts has to run.
    with tempfile.TemporaryDirectory(prefix="bridgehead-pg-", ignore_cleanup_errors=True) as name:
        server = PostgresServer(Path(name))
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(name, user.pw_uid, user.pw_gid)
        command = [*_as_other_user(), _program("initdb"), "-D", str(server.folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8"]
        subprocess.run([*command, "--locale=C", "--no-sync", "--no-instructions"], check=True, stdout=subprocess.DEVNULL, cwd="/")
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _as_other_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []


def _program(name: str) -> str:
    """The newest of Debian's versions, which are not on the path; else what the path has. Raises RuntimeError."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    program = str(found[-1]) if found else shutil.which(name)
    if program is None:
        raise RuntimeError(f"{name} is not installed: apt-get install postgresql")
    return program
