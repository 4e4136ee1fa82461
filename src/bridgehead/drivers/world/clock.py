"""Engine time of one simulated process: the wall clock as it was when the process began, then virtual time."""

from __future__ import annotations

from bridgehead.simulate.world import World


class WorldClock:
    """Implements ``ports.clock.Clock``; make a new one for each process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset_s = world.wall_ahead_s

    def now_s(self) -> float:
        """See the port."""
        return self._world.now_s + self._offset_s
