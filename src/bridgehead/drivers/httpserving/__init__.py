"""httpserving: health of inference backends, asked over HTTP."""

from bridgehead.drivers.httpserving.health import HttpServing, HttpServingOptions

__all__ = ["HttpServing", "HttpServingOptions"]
