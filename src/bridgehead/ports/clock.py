"""Clock: engine time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Seconds since the Unix epoch. While a process lives it follows the monotonic clock, so that a jump of the wall clock
    neither fires a deadline nor stretches one."""

    def now_s(self) -> float:
        """Never less than an earlier answer in this process."""
        ...
