"""httpblobs: a blob store reached over HTTP, and the server that offers one."""

from bridgehead.drivers.httpblobs.client import HttpBlobs, HttpBlobsOptions

__all__ = ["HttpBlobs", "HttpBlobsOptions"]
