"""Shell: runs one program at a site, here or on another machine, and collects what it says (issue 6; J01)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class ShellResult(msgspec.Struct, frozen=True):
    """The program ran to its end.

    Attributes:
        exit_code: 128 + N after the end by signal N.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last lines of standard error, or of standard output when that is empty, in one line for messages."""
        lines = (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace").splitlines()
        return "; ".join(line.strip() for line in lines[-3:] if line.strip()) or f"it ended with {self.exit_code}"


class Shell(Protocol):
    """A place where programs can be run. An exit code other than 0 is a result, not an error."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] = {}, timeout_s: float = 30.0) -> ShellResult:
        """Run ``argv``, with ``env`` added to the place's own environment; no shell takes the words apart.

        Over the network, ``env`` and ``argv`` can be seen in the process list of the other machine: secrets go into ``stdin``.

        Raises:
            Permanent: the program does not exist there or cannot be executed, or the words cannot be passed. Nothing was done.
            Transient: the place cannot be reached. Nothing was done.
            Unknown: the program began, and it is not known how it ended (time was up, or the connection broke).
        """
        ...
