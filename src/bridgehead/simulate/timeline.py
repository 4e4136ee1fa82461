"""Timeline: virtual time. It jumps from event to event; the same events in the same order, whenever it is run."""

from __future__ import annotations

import heapq
from collections.abc import Callable

START_S = 1_000_000.0
"""Where virtual time begins: far from zero, so that a time that was forgotten (0.0) is seen."""


class Timeline:
    """A queue of events. Events of the same moment happen in the order in which they were entered."""

    def __init__(self, start_s: float = START_S) -> None:
        self.now_s = start_s
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._entered = 0

    def at(self, when_s: float, event: Callable[[], None]) -> None:
        """Enter an event; one in the past happens now."""
        self._entered += 1
        heapq.heappush(self._heap, (max(when_s, self.now_s), self._entered, event))

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        """Enter an event ``delay_s`` seconds from now."""
        self.at(self.now_s + delay_s, event)

    def step(self) -> bool:
        """Let the next event happen. False when none is left."""
        if not self._heap:
            return False
        when_s, _, event = heapq.heappop(self._heap)
        self.now_s = when_s
        event()
        return True

    def run_until(self, when_s: float) -> None:
        """Let everything up to ``when_s`` happen; it is ``when_s`` then."""
        while self._heap and self._heap[0][0] <= when_s:
            self.step()
        self.now_s = max(self.now_s, when_s)
