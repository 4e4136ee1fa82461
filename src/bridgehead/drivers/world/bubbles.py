"""Bubbles of a simulated world."""

from __future__ import annotations

from bridgehead.drivers.world.calls import Calls
from bridgehead.model.bubble import Bubble, BubbleId
from bridgehead.model.stamp import Stamp


class WorldBubbles:
    """Implements ``ports.bubbles.Bubbles``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def open(self, bubble: Bubble, *, stamp: Stamp) -> None:
        """See the port."""
        world = self._calls.world

        def effect() -> None:
            world.bubbles.begin(bubble, of=world.vaults[bubble.of], view=world.vaults[bubble.site])

        self._calls.write("bubbles.open", bubble.site, effect, stamp=stamp, place=f"bubble@{bubble.site}")

    def hits(self, bubble: BubbleId) -> frozenset[str]:
        """See the port."""
        book = self._calls.world.bubbles
        site = book.open[bubble].site if bubble in book.open else next(iter(self._calls.world.vaults))
        return self._calls.read("bubbles.hits", site, lambda: frozenset(book.hit.get(bubble, ())))

    def close(self, bubble: BubbleId, *, stamp: Stamp) -> tuple[str, ...]:
        """See the port."""
        world = self._calls.world
        opened = world.bubbles.open.get(bubble)
        if opened is None:
            return ()

        def effect() -> tuple[str, ...]:
            running = [name for (site, name), jobs in world.jobs.items() if site == opened.site and jobs[-1].running]
            if not running and bubble in world.bubbles.open:
                world.bubbles.end(bubble, view=world.vaults[opened.site], desk=world.desks[opened.site])
            return tuple(f"job {name}" for name in running)

        return self._calls.write("bubbles.close", opened.site, effect, stamp=stamp, place=f"bubble@{opened.site}")
