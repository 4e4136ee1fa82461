"""A throw-away OpenBao server for tests, in memory, on a free port of loopback; ended by its process id."""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.testing.servers import Server, free_port

ROOT: Final = "root-token-of-a-test"
POLICY: Final = """
path "kv/data/bridgehead/*" { capabilities = ["read"] }
path "transit/encrypt/vault" { capabilities = ["update"] }
path "transit/decrypt/vault" { capabilities = ["update"] }
"""


class OpenBaoServer:
    """A running server with KV version 2 at ``kv``, transit at ``transit`` with key ``vault``, and an AppRole ``bridgehead``."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: object = None, *, token: str = ROOT) -> Any:
        """A request with the root token. Raises RuntimeError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10.0)
        with contextlib.closing(connection):
            data = None if body is None else msgspec.json.encode(body)
            connection.request(method, f"/v1/{path}", data, {"X-Vault-Token": token})
            answer = connection.getresponse()
            text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        return msgspec.json.decode(text) if text.strip() else None

    def ready(self) -> bool:
        """Whether it is up and unsealed."""
        try:
            return bool(self.ask("GET", "sys/health")["initialized"])
        except (OSError, RuntimeError, http.client.HTTPException):
            return False

    def put(self, path: str, **fields: str) -> None:
        """Write a secret below ``kv/bridgehead/``."""
        self.ask("POST", f"kv/data/bridgehead/{path}", {"data": fields})

    def role(self, **settings: object) -> dict[str, str]:
        """A login: the environment that programs need. Settings as those of an AppRole, such as ``token_ttl="2s"``."""
        self.ask("POST", "auth/approle/role/bridgehead", {"token_policies": ["bridgehead"], **settings})
        role_id = self.ask("GET", "auth/approle/role/bridgehead/role-id")["data"]["role_id"]
        secret_id = self.ask("POST", "auth/approle/role/bridgehead/secret-id", {})["data"]["secret_id"]
        return {"BAO_ADDR": self.address, "BAO_ROLE_ID": role_id, "BAO_SECRET_ID": secret_id}

    def seal(self) -> None:
        """From now on it gives nothing out."""
        self.ask("PUT", "sys/seal", {})

    def unseal(self) -> None:
        """With the key that it printed when it started."""
        found = re.search(r"Unseal Key: (\S+)", self.server.log.read_text(errors="replace"))
        if found is None:
            raise RuntimeError("the server printed no key")
        self.ask("PUT", "sys/unseal", {"key": found[1]})


@contextlib.contextmanager
def openbao(folder: Path) -> Iterator[OpenBaoServer]:
    """A server that is ready inside the ``with`` block."""
    program = shutil.which("bao", path=sysconfig.get_path("scripts")) or "bao"
    port = free_port()
    command = [program, "server", "-dev", "-dev-no-store-token", f"-dev-root-token-id={ROOT}", f"-dev-listen-address=127.0.0.1:{port}"]
    server = Server(command, log=folder / "openbao.log", env={"HOME": str(folder)})
    running = OpenBaoServer(server, port)
    try:
        server.wait_until(running.ready)
        running.ask("POST", "sys/mounts/kv", {"type": "kv", "options": {"version": "2"}})
        running.ask("POST", "sys/mounts/transit", {"type": "transit"})
        running.ask("POST", "transit/keys/vault", {})
        running.ask("POST", "sys/auth/approle", {"type": "approle"})
        running.ask("PUT", "sys/policies/acl/bridgehead", {"policy": POLICY})
        yield running
    finally:
        server.stop()
