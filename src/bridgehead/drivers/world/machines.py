"""Machines of a simulated world."""

from __future__ import annotations

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.machines import MachineState


class WorldMachines:
    """Implements ``ports.machines.Machines``."""

    def __init__(self, site: SiteId, calls: Calls) -> None:
        self._site, self._calls = site, calls

    def rebuild(self, node: NodeId, *, build: str, attempt: int, stamp: Stamp) -> None:
        """See the port."""
        room = self._calls.world.rooms[self._site]

        def effect() -> None:
            room.rebuild(node, build=build, attempt=attempt, stamp=stamp)

        self._calls.write("machines.rebuild", self._site, effect, stamp=stamp, place=f"machine/{node}@{self._site}")

    def observe(self, node: NodeId) -> MachineState:
        """See the port."""
        return self._calls.read("machines.observe", self._site, lambda: self._calls.world.rooms[self._site].observe(node))
