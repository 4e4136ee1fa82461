"""Quiesce: databases stand still for a moment, in which their state is pinned; it is copied while they go on (R16).

Writers stand still only between ``hold`` and ``release``; what was pinned in between is copied after it. Two databases agree when both
were held at the same time: each ``release`` says whether its hold was intact until then.

Holds live in the process that took them and are named by a key, so they take no stamp: when that process dies or freezes, they end by
themselves, and the next driver takes new ones.
"""

from __future__ import annotations

from typing import NewType, Protocol

import msgspec

from bridgehead.model.recovery import Database

HoldKey = NewType("HoldKey", str)
"""Names a hold: the same for a repeat, another one for another try. Of letters, digits, ``.``, ``_``, ``-`` and ``/``."""


class Held(msgspec.Struct, frozen=True):
    """Nobody writes.

    Attributes:
        pinned: the state is kept even when writers go on; until then, ask again and do not release.
        evidence: what the database says of this state (version, position in its log, tables).
    """

    pinned: bool
    evidence: dict[str, str]


class Released(msgspec.Struct, frozen=True):
    """Writers go on.

    Attributes:
        intact: the hold had lasted without a gap until now, and the state is pinned.
        held_s: how long writers stood still, from the first that was made to wait.
    """

    intact: bool
    held_s: float


class Copied(msgspec.Struct, frozen=True):
    """How far the copy of the pinned state is.

    Attributes:
        done: ``file`` is complete and has been read back.
        file: where it lies.
    """

    done: bool
    file: str
    size_bytes: int
    evidence: dict[str, str] = {}


class Quiesce(Protocol):
    """The databases of one engine."""

    def check(self, database: Database) -> dict[str, str]:
        """Whether it can be held and copied: it is reached, the rights are there, and the programs. Nobody is made to wait.

        Raises NotFound (there is no such database), Permanent (not allowed, a program is missing), Transient (out of reach).
        """
        ...

    def hold(self, database: Database, *, key: HoldKey, folder: str, wait_s: float, lasts_s: float) -> Held:
        """Let no one write, wait for those that do, and pin the state. A repeat returns how it stands.

        Args:
            folder: where the copy will lie; made when it is missing.
            wait_s: how long it waits for those that write; nobody else can begin to write meanwhile.
            lasts_s: then the hold ends by itself, also when this process is dead or frozen.

        Raises Transient when somebody wrote all the time (nothing is held then), else as ``check``.
        """
        ...

    def release(self, database: Database, *, key: HoldKey) -> Released:
        """Let writers go on; the pinned state stays. Not intact when there is no such hold, or it has ended before."""
        ...

    def copy(self, database: Database, *, key: HoldKey) -> Copied:
        """Write the pinned state into a file; returns at once: call again until it is done.

        Raises NotFound when nothing is pinned by that key in this process, Permanent when the copy failed.
        """
        ...

    def drop(self, database: Database, *, key: HoldKey) -> None:
        """End the hold, forget the pinned state and remove its copy. No effect when there is none."""
        ...
