"""haproxy: steered and read back through its runtime socket."""

from bridgehead.drivers.haproxy.options import HaproxyOptions, HaproxyService
from bridgehead.drivers.haproxy.process import find_haproxy, haproxy_command
from bridgehead.drivers.haproxy.traffic import HaproxyTraffic

__all__ = ["HaproxyOptions", "HaproxyService", "HaproxyTraffic", "find_haproxy", "haproxy_command"]
