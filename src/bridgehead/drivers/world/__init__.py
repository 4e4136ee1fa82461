"""The simulated world (``bridgehead.simulate``) behind the same ports as the real one. Everything happens in virtual time."""

from bridgehead.drivers.world.calls import Calls
from bridgehead.drivers.world.clock import WorldClock
from bridgehead.drivers.world.connect import connect
from bridgehead.drivers.world.journal import WorldJournal, WorldSigner

__all__ = ["Calls", "WorldClock", "WorldJournal", "WorldSigner", "connect"]
