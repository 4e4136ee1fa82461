"""A real Alertmanager for tests, on free ports of loopback, with its data in one folder; it calls nobody."""

from __future__ import annotations

import contextlib
import http.client
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bridgehead.testing.servers import Server, free_port, running


class AlertmanagerServer:
    """A running one."""

    def __init__(self, server: Server, port: int) -> None:
        self.server, self.port = server, port
        self.url = f"http://127.0.0.1:{port}"

    def alerts(self, *, active: bool = True) -> list[dict[str, Any]]:
        """Alerts that fire, or (not ``active``) those that are resolved and not forgotten yet. Raises OSError, HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5.0)
        with contextlib.closing(connection):
            connection.request("GET", f"/api/v2/alerts?active={str(active).lower()}")
            answer = connection.getresponse()
            found: list[dict[str, Any]] = msgspec.json.decode(answer.read())
        return found


@contextlib.contextmanager
def alertmanager(folder: Path, *, port: int | None = None) -> Iterator[AlertmanagerServer]:
    """One that is ready inside the ``with`` block.

    Args:
        port: where it is to listen; None takes a free one.
    """
    config = folder / "alertmanager.yml"
    config.write_text(yaml.safe_dump({"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}))
    port = port or free_port()
    command = [
        shutil.which("prometheus-alertmanager") or "prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]

    def ready() -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
            with contextlib.closing(connection):
                connection.request("GET", "/-/ready")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    with running(command, log=folder / "alertmanager.log", ready=ready) as server:
        yield AlertmanagerServer(server, port)
