"""haproxy's runtime sockets: one line of commands, one answer; and what its tables say."""

from __future__ import annotations

import csv
import socket
import time
from collections.abc import Mapping, Sequence

from bridgehead.drivers.haproxy.options import HaproxyOptions
from bridgehead.kernel.errors import Conflict, NotFound, Transient, Unknown
from bridgehead.kernel.ids import ServiceId, SiteId

_NOT_SERVING = 0x01 | 0x02 | 0x08 | 0x10 | 0x20 | 0x40
"""Bits of srv_admin_state: maintenance (forced 0x01, inherited 0x02, by name resolution 0x20 and 0x40), drain (0x08, 0x10)."""

_MOST_BYTES = 16 * 1024 * 1024
_QUEUE_S = 0.01
"""Until the next try to get into the queue of a socket."""
_CHECK = "Check that haproxy runs and its socket may be used."


class Runtime:
    """Speaks to the current worker.

    With a master socket it goes through the master, which knows which worker is the current one: for a moment after a reload the
    worker's own socket still leads to the old one, where a change would be lost. Without, ``reconcile`` has to find that.
    """

    def __init__(self, options: HaproxyOptions) -> None:
        self._master = options.master_socket
        self._path = options.master_socket or options.socket
        self._worker = options.socket
        self._prefix = "@1 " if options.master_socket else ""
        self._timeout_s = options.timeout_s

    def change(self, commands: list[str]) -> None:
        """Send commands that answer nothing when they succeed, in one line.

        Raises Transient when there is no connection, Unknown when the answer is lost, Conflict with haproxy's words otherwise.
        """
        tried = "set traffic weights"
        answer = self._ask("; ".join(self._prefix + command for command in commands), tried=tried, changes=True).strip()
        if answer:
            happened = " ".join(answer.split())
            raise Conflict(happened, tried=tried, subject=self._path, remedy="Compare its configuration with the driver's options.")

    def take_turns_anew(self, service: ServiceId, serving: Sequence[SiteId], weights: Mapping[SiteId, int]) -> None:
        """Let haproxy's round robin forget whose turn it was under the old weights.

        Otherwise a server that becomes heavier catches up first, or waits for the end of an old cycle: a canary of 54 % got every one of
        its first 128 requests in our bench. Weight 0 and back puts a server anew into the queue; in one line to the worker itself nothing
        comes in between. After a reload this may reach the old worker, which is harmless: the new one has no old turns.
        """
        if len(serving) < 2:
            return
        commands = [f"set server {service}/{site} weight {weight}" for site in serving for weight in (0, weights[site])]
        self._ask("; ".join(commands), tried="set traffic weights", changes=True, path=self._worker)

    def weights_in_force(self, service: ServiceId) -> dict[SiteId, int]:
        """Weight of each server of the service; 0 for one in maintenance or drain.

        Raises NotFound when haproxy has no such backend section, Transient when it does not answer.
        """
        tried = "read the weights in force"
        answer = self._ask(f"{self._prefix}show servers state {service}", tried=tried)
        lines = answer.strip().splitlines()
        if len(lines) < 2 or not lines[1].startswith("# "):
            happened, subject = " ".join(lines), f"{service} at {self._path}"
            if "find backend" in happened:
                raise NotFound(happened, tried=tried, subject=subject, remedy="Check haproxy's configuration.")
            raise Transient(happened or "empty answer", tried=tried, subject=subject, remedy=_CHECK)
        names = lines[1].removeprefix("# ").split()
        try:
            if not answer.endswith("\n"):
                raise ValueError("its last line is cut off")
            rows = [dict(zip(names, line.split(), strict=True)) for line in lines[2:] if line.strip()]
            return {SiteId(row["srv_name"]): 0 if int(row["srv_admin_state"]) & _NOT_SERVING else int(row["srv_uweight"]) for row in rows}
        except (KeyError, ValueError) as error:
            # A part of a table is not the table: a server that is left out would count as absent.
            raise Transient(
                f"its table cannot be read ({error})", tried=tried, subject=f"{service} at {self._path}", remedy=_CHECK
            ) from error

    def sessions_open(self, service: ServiceId, site: SiteId) -> int:
        """Requests and streams open at the server, with those that a reload left in old workers if there is a master socket.

        Raises Transient when that cannot be seen.
        """
        tried = "count open requests"
        total = self._sessions_in(self._prefix, service, site)
        if total is None:
            subject = f"{service} at {site}"
            raise Transient("haproxy does not show this server", tried=tried, subject=subject, remedy="Check haproxy's configuration.")
        for pid in self._old_workers():
            # None: it has finished since it was listed, so nothing is open there.
            total += self._sessions_in(f"@!{pid} ", service, site) or 0
        return total

    def _sessions_in(self, prefix: str, service: ServiceId, site: SiteId) -> int | None:
        answer = self._ask(f"{prefix}show stat", tried="count open requests").strip()
        if answer.startswith("# "):
            for row in csv.DictReader(answer.removeprefix("# ").splitlines()):
                if row.get("pxname") == service and row.get("svname") == site:
                    if not (row.get("scur") or "").isdigit():
                        subject = f"{service} at {site}"
                        raise Transient("its table cannot be read", tried="count open requests", subject=subject, remedy=_CHECK)
                    return int(row["scur"])
        return None

    def _old_workers(self) -> list[int]:
        if not self._master:
            return []
        found, old = [], False
        for line in self._ask("show proc", tried="list the workers").splitlines():
            if line.startswith("#"):
                old = "old workers" in line
            elif old and len(columns := line.split()) > 1 and columns[1] == "worker":
                found.append(int(columns[0]))
        return found

    def _join(self, connection: socket.socket, path: str) -> None:
        """Connect. Where as many wait as haproxy lets wait (ten), the system turns one away at once: come again, within the timeout."""
        until_s = time.monotonic() + self._timeout_s
        while True:
            try:
                connection.connect(path)
                return
            except BlockingIOError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(_QUEUE_S)

    def _ask(self, line: str, *, tried: str, changes: bool = False, path: str = "") -> str:
        path = path or self._path
        sent = False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(self._timeout_s)
                self._join(connection, path)
                sent = True
                connection.sendall(line.encode("ascii") + b"\n")
                # The master answers and then waits for the next line unless it sees the end of ours.
                connection.shutdown(socket.SHUT_WR)
                parts, size_bytes, until_s = [], 0, time.monotonic() + self._timeout_s
                while part := connection.recv(65536):
                    parts.append(part)
                    size_bytes += len(part)
                    if size_bytes > _MOST_BYTES or time.monotonic() > until_s:
                        raise TimeoutError  # it would go on for ever
        except OSError as error:
            happened = "no answer in time" if isinstance(error, TimeoutError) else f"no answer ({error})"
            if sent and changes:
                raise Unknown(happened, tried=tried, subject=path, remedy="Read the weights back.") from error
            raise Transient(happened, tried=tried, subject=path, remedy=_CHECK) from error
        return b"".join(parts).decode("utf-8", "replace")
