"""The machine itself: clock and process identity."""

from bridgehead.drivers.system.clock import SystemClock
from bridgehead.host.identity import is_alive, this_driver

__all__ = ["SystemClock", "is_alive", "this_driver"]
