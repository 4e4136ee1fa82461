"""WrappedTrainer: a trainer that the sidecar starts and steers by signals, because it knows nothing of Bridgehead."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence


class WrappedTrainer:
    """A child in a process group of its own, so that a freeze reaches its helpers and not us; and in our session, so that whoever ends the
    job ends it too.

    Args:
        command: program and arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(list(command), process_group=0)
        self._stopped = False

    @property
    def exit_code(self) -> int | None:
        """None while it lives; 128 + N when signal N ended it."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the trainer itself; nothing when it has ended (its number is not reused before ``exit_code`` is read)."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def freeze(self) -> None:
        """Stop the whole group where it stands: it computes nothing more until ``thaw``."""
        self._to_group(signal.SIGSTOP)
        self._stopped = True

    def thaw(self) -> None:
        """Let it go on."""
        if self._stopped:
            self._to_group(signal.SIGCONT)
            self._stopped = False

    def end(self) -> None:
        """Ask it to end; a frozen one is thawed so that it can."""
        self.send(signal.SIGTERM)
        self.thaw()

    def kill(self) -> None:
        """End the whole group now, and wait."""
        self._to_group(signal.SIGKILL)
        self._process.wait()

    def _to_group(self, number: signal.Signals) -> None:

        if self._process.poll() is None:
            os.killpg(self._process.pid, number)
