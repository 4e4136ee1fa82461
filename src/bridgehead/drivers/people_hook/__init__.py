"""The people driver by web hook: an HTTP server that takes answers."""

from bridgehead.drivers.people_hook.server import AnswerServer

__all__ = ["AnswerServer"]
