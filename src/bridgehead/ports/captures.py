"""Captures: what belongs to a workload beside its state: code, dependencies, configuration, a manifest of its data (R10)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.model.recovery import Capture


class Captured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """It is in files.

    Attributes:
        files: path in the snapshot to the file that has it.
        pairs: the context of the snapshot.
    """

    files: dict[str, str]
    pairs: dict[str, str]


class Captures(Protocol):
    """Captures are made on the controller's machine, where code and data must be seen."""

    def capture(self, what: Capture, *, folder: str) -> Captured | None:
        """Begin it, and return None until it is done: call again. What is in ``folder`` already, whole, is not made again.

        Raises Permanent when something that was named is not there or cannot be read.
        """
        ...

    def drop(self, folder: str) -> None:
        """Remove what is in ``folder``. No effect when there is nothing."""
        ...
