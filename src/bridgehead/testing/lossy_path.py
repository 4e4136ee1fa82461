"""A path between an HTTP client and its server that loses, damages or delays a planned message."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading


class LossyPath:
    """Stands between client and server. For each connection in turn, ``plan`` says what happens to its first exchange:

    ``pass``, ``pass once`` (then it is closed), ``lose request``, ``lose answer``, ``damage answer`` (its last bit), ``hold second`` (the
    second request is kept back), ``late before second`` (what was kept back arrives before the second request). Connections beyond the
    plan are closed.
    """

    def __init__(self, target_port: int, plan: list[str]) -> None:
        self._target = ("127.0.0.1", target_port)
        self._plan = plan
        self._held = b""
        self._closed = False
        self._pairs: list[tuple[threading.Thread, socket.socket]] = []
        self.used: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            near = self._listener.accept()[0]
            if self._closed:
                near.close()
                return
            if not self._plan:
                near.close()
                continue
            what = self._plan.pop(0)
            self.used.append(what)
            # A client may keep a connection open while it opens the next.
            pair = threading.Thread(target=self._connection, args=(what, near))
            pair.start()
            self._pairs.append((pair, near))

    def _connection(self, what: str, near: socket.socket) -> None:
        # A client that has nothing more to ask just closes.
        with contextlib.closing(near), contextlib.suppress(OSError), contextlib.closing(socket.create_connection(self._target, 5.0)) as far:
            near.settimeout(5.0)
            self._exchanges(what, near, far)

    def _exchanges(self, what: str, near: socket.socket, far: socket.socket) -> None:
        if what == "lose request":
            _message(near)
            return
        for number in itertools.count():
            message = _message(near)
            bodiless = message.startswith(b"HEAD")
            if what == "hold second" and number == 1:
                self._held = message
                return
            if what == "late before second" and number == 1:
                with contextlib.closing(socket.create_connection(self._target, 5.0)) as late:
                    late.sendall(self._held)
                    _message(late)
            far.sendall(message)
            answer = _message(far, bodiless=bodiless)
            if what == "lose answer":
                return
            if what == "damage answer":
                answer = answer[:-1] + bytes([answer[-1] ^ 1])
            near.sendall(answer)
            if what == "pass once":
                return

    def close(self) -> None:
        """End all connections and threads."""
        self._closed = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()
        for thread, near in self._pairs:
            with contextlib.suppress(OSError):  # it has ended
                near.shutdown(socket.SHUT_RDWR)
            thread.join()


def _message(connection: socket.socket, *, bodiless: bool = False) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("closed")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while length and not bodiless and len(body) < length[0]:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("closed")
        body += part
    return head + b"\r\n\r\n" + body
