"""haproxy's runtime socket: one command line, one answer; and what its tables say."""

from __future__ import annotations

import csv
import socket
from collections.abc import Mapping

from bridgehead.kernel.errors import Conflict, NotFound, Transient, Unknown
from bridgehead.kernel.ids import ServiceId, SiteId

_NOT_SERVING = 0x01 | 0x02 | 0x08 | 0x10 | 0x20 | 0x40
"""Bits of srv_admin_state: maintenance (forced 0x01, inherited 0x02, by name resolution 0x20 and 0x40), drain (0x08, 0x10)."""


def ask(path: str, command: str, *, tried: str, timeout_s: float, changes: bool = False) -> str:
    """Send one line and return the whole answer.

    Raises:
        Transient: no connection; or, when nothing is changed by the command, no whole answer.
        Unknown: the command ``changes`` something and its answer was lost.
    """
    sent = False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            sent = True
            connection.sendall(command.encode("ascii") + b"\n")
            # The master's socket answers and then waits for the next line unless it sees the end of ours.
            connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
    except OSError as error:
        happened = "no answer in time" if isinstance(error, TimeoutError) else f"no answer ({error})"
        if sent and changes:
            raise Unknown(happened, tried=tried, subject=path, remedy="Read the weights back.") from error
        raise Transient(happened, tried=tried, subject=path, remedy="Check that haproxy runs and its socket may be used.") from error
    return b"".join(parts).decode("utf-8", "replace")


def change(path: str, commands: list[str], *, timeout_s: float) -> None:
    """Send commands that answer nothing when they succeed, in one line. Raises Conflict with haproxy's words otherwise."""
    answer = ask(path, "; ".join(commands), tried="set traffic weights", timeout_s=timeout_s, changes=True).strip()
    if answer:
        happened = " ".join(answer.split())
        raise Conflict(happened, tried="set traffic weights", subject=path, remedy="Compare its configuration with the driver's options.")


def weights_in_force(path: str, service: ServiceId, *, timeout_s: float) -> dict[SiteId, int]:
    """Weight of each server of the service; 0 for one in maintenance or drain.

    Raises NotFound when haproxy has no such backend section, Transient when it does not answer.
    """
    tried = "read the weights in force"
    answer = ask(path, f"show servers state {service}", tried=tried, timeout_s=timeout_s)
    lines = answer.strip().splitlines()
    if len(lines) < 2 or not lines[1].startswith("# "):
        raise NotFound(
            " ".join(lines) or "empty answer", tried=tried, subject=f"{service} at {path}", remedy="Check haproxy's configuration."
        )
    names = lines[1].removeprefix("# ").split()
    rows = [dict(zip(names, line.split(), strict=False)) for line in lines[2:] if line.strip()]
    return {SiteId(row["srv_name"]): 0 if int(row["srv_admin_state"]) & _NOT_SERVING else int(row["srv_uweight"]) for row in rows}


def sessions_open(path: str, service: ServiceId, site: SiteId, *, prefix: str, timeout_s: float) -> int | None:
    """Requests and streams that one worker has open at the server; None when the worker does not have that server.

    Args:
        prefix: ``""`` for the runtime socket; ``@!PID`` and a blank for one worker behind the master's socket.
    """
    answer = ask(path, f"{prefix}show stat", tried="count open requests", timeout_s=timeout_s).strip()
    if not answer.startswith("# "):
        return None
    for row in csv.DictReader(answer.removeprefix("# ").splitlines()):
        if row["pxname"] == service and row["svname"] == site:
            return int(row["scur"])
    return None


def workers(master: str, *, timeout_s: float) -> Mapping[int, bool]:
    """Process id of each worker behind the master's socket, and whether it is one that a reload left to finish its streams."""
    answer = ask(master, "show proc", tried="list the workers", timeout_s=timeout_s)
    found: dict[int, bool] = {}
    old = False
    for line in answer.splitlines():
        if line.startswith("#"):
            old = "old workers" in line
        elif len(columns := line.split()) > 1 and columns[1] == "worker":
            found[int(columns[0])] = old
    return found
