"""Netboot: nodes that build themselves from files that this serves, switched on through Redfish."""

from bridgehead.drivers.netboot.folder import NetbootFolder
from bridgehead.drivers.netboot.machines import NetbootMachines, NetbootOptions
from bridgehead.drivers.netboot.server import NetbootServer

__all__ = ["NetbootFolder", "NetbootMachines", "NetbootOptions", "NetbootServer"]
