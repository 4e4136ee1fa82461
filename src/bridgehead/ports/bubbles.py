"""Bubbles: isolated places for drills (R13). Nothing that happens in one changes what is outside."""

from __future__ import annotations

from typing import Protocol

from bridgehead.model.bubble import Bubble, BubbleId
from bridgehead.model.stamp import Stamp


class Bubbles(Protocol):
    """What makes and removes bubbles. Their jobs are started and ended through the scheduler port of ``bubble.site``."""

    def open(self, bubble: Bubble, *, stamp: Stamp) -> None:
        """Make it: its network, its view of the vault, its planned faults. A repeat does nothing more.

        Raises:
            Permanent: it cannot be made here (a network namespace without root).
            Conflict: the epoch is old.
        """
        ...

    def hits(self, bubble: BubbleId) -> frozenset[str]:
        """Names (``model.bubble.fault_name``) of planned faults of lines and blocks that struck. Raises Transient."""
        ...

    def close(self, bubble: BubbleId, *, stamp: Stamp) -> tuple[str, ...]:
        """Remove all of it, and say what is still there: call again until nothing is. No effect when there is no such bubble.

        Its jobs must have ended before: those that run are named as left over, and nothing below them is removed.
        """
        ...
