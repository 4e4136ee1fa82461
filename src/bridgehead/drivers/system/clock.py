"""Engine time: wall time at the start, then the monotonic clock."""

from __future__ import annotations

import time


class SystemClock:
    """Implements ``ports.clock.Clock``."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_s(self) -> float:
        """See the port."""
        return self._offset_s + time.monotonic()
