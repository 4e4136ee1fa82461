"""A throw-away sshd on loopback with its own keys; logs in the user that runs the test."""

from __future__ import annotations

import contextlib
import getpass
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bridgehead.model.login import SshOptions
from bridgehead.testing.servers import Server, free_port, listens


class SshServer:
    """Files and port of one sshd."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("host", "client", "stranger"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
            subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
        (folder / "authorized").write_text((folder / "client.pub").read_text())
        key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {key}\n")
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {folder / 'host'}\nAuthorizedKeysFile {folder / 'authorized'}\n"
            f"PidFile {folder / 'sshd.pid'}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            "MaxStartups 100\nLogLevel VERBOSE\n"
        )

    def options(self, **changes: object) -> SshOptions:
        """How to log in."""
        fields: dict[str, object] = {
            "host": "127.0.0.1",
            "user": getpass.getuser(),
            "port": self.port,
            "identity_file": str(self.folder / "client"),
            "known_hosts_file": str(self.folder / "known_hosts"),
            "config_file": "/dev/null",
            "connect_timeout_s": 5.0,
        }
        return SshOptions(**(fields | changes))  # type: ignore[arg-type]  # a test names fields by keyword

    @contextlib.contextmanager
    def running(self) -> Iterator[Server]:
        """The server, ready inside the block; its connections end with it."""
        with contextlib.suppress(PermissionError):
            os.makedirs("/run/sshd", exist_ok=True)  # sshd insists on this folder for its unprivileged child
        server = Server(["/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")], log=self.folder / "sshd.log")
        try:
            server.wait_until(lambda: listens(f"127.0.0.1:{self.port}"))
            yield server
        finally:
            end_connections(server)
            server.stop()


def end_connections(server: Server) -> None:
    """Kill the processes that serve connections: they outlive their listener, in sessions of their own."""
    for child in _descendants(server.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, 9)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
