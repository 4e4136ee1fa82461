"""Hooks: programs of the application around a snapshot or a recovery (R16)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.recovery import Hook
from bridgehead.model.stamp import Stamp


class HookRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hook has ended.

    Attributes:
        exit_code: None when it did not end in time or could not be begun; ``happened`` says which.
        happened: in words, "" when it ended with 0.
        output: the last part of what it said.
        log: the file with all of it.
        began_s: seconds since the Unix epoch.
    """

    exit_code: int | None
    happened: str
    output: str
    log: str
    began_s: float
    took_s: float

    @property
    def well(self) -> bool:
        """It ended with 0."""
        return self.exit_code == 0


class Hooks(Protocol):
    """Where hooks of all sites are run. A program that was under way when its driver died is run again: at least once, never half."""

    def run(self, hook: Hook, *, site: SiteId, folder: str, env: dict[str, str], stamp: Stamp) -> HookRun | None:
        """Begin it, and return None until it has ended: call again.

        In one ``folder`` a hook that ended well is not run again, one that failed is once for each attempt of the stamp.
        Whatever comes of the program is a result. Raises Transient when results cannot be kept.
        """
        ...
