"""Bubbles of drills on this machine: a folder each, and a network namespace where it is asked for."""

from bridgehead.drivers.bubble.local import LocalBubbles, LocalBubblesOptions

__all__ = ["LocalBubbles", "LocalBubblesOptions"]
