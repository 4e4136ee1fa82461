"""traefik: the embedded proxy, steered through its file provider and read back through its admin interface."""

from bridgehead.drivers.traefik.options import TraefikBackend, TraefikOptions, TraefikService
from bridgehead.drivers.traefik.process import find_traefik, traefik_command
from bridgehead.drivers.traefik.traffic import TraefikTraffic

__all__ = ["TraefikBackend", "TraefikOptions", "TraefikService", "TraefikTraffic", "find_traefik", "traefik_command"]
