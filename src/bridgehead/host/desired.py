"""The desired traffic on disk: a proxy forgets what it was told (reload, restart, a file edited by hand); this file does not (G09)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bridgehead.host.durable import write_durably
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model.desired import DesiredTraffic

LOCK_WAIT_S = 2.0
"""How long a call waits for another process that is just changing the same proxy."""


class DesiredFile:
    """The state file at ``path``; changed under a lock, so that two processes never mix their changes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock while the state is read, changed and applied.

        Raises Transient when another process holds it for longer than ``LOCK_WAIT_S``, Permanent when the file system refuses. A process
        that dies lets go of it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Permanent(
                error.strerror or str(error),
                tried="lock the desired traffic",
                subject=str(self.path),
                remedy="Check the free space and the rights of its folder.",
            ) from error
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise Transient(
                            "another process is changing the same proxy",
                            tried="lock the desired traffic",
                            subject=str(self.path),
                            remedy="Look for a second or a halted process that drives this proxy.",
                        ) from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)

    def load(self) -> DesiredTraffic:
        """The newest state; an empty one when there is no file yet. Raises Permanent when the file cannot be understood."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=DesiredTraffic)
        except FileNotFoundError:
            return DesiredTraffic()
        except (OSError, msgspec.MsgspecError) as error:
            raise Permanent(
                str(error),
                tried="read the desired traffic",
                subject=str(self.path),
                remedy="Restore the file, or remove it: the weights of the configuration are then the desired ones.",
            ) from error

    def save(self, state: DesiredTraffic) -> None:
        """Make ``state`` durable. Raises as ``write_for_proxy``."""
        write_for_proxy(self.path, msgspec.json.format(msgspec.json.encode(state), indent=2))


def write_for_proxy(path: Path, data: bytes) -> None:
    """Replace a file that a proxy reads. Raises Permanent when the file system refuses; the old content is still there then."""
    try:
        write_durably(str(path), data)
    except OSError as error:
        raise Permanent(
            error.strerror or str(error),
            tried="write a file of the proxy",
            subject=str(path),
            remedy="Check the free space and the rights of its folder.",
        ) from error
