"""MeteredBlobs: a store whose traffic is counted, for progress, and held to a rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from bridgehead.ports.blobs import BlobDigest, Blobs

Moved = Callable[[int], None]
"""Told of bytes as they are done; called from several threads."""


class MeteredBlobs:
    """Passes every call on (see the port).

    Args:
        moved: told of the bytes of each value that was written, found written already, read, or hashed at the store.
        rate_bps: limit for writing, bits a second over the life of this object; None: none.
    """

    def __init__(self, blobs: Blobs, *, moved: Moved, rate_bps: float | None = None) -> None:
        self._blobs = blobs
        self._moved = moved
        self._rate_bps = rate_bps
        self._free_s = time.monotonic()
        self._lock = threading.Lock()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        self._wait(len(data))
        written = self._blobs.put_new(key, data)
        self._moved(len(data))
        return written

    def get(self, key: str) -> bytes:
        """See the port."""
        data = self._blobs.get(key)
        self._moved(len(data))
        return data

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        data = self._blobs.get_range(key, offset_bytes, size_bytes)
        self._moved(len(data))
        return data

    def digest(self, key: str) -> BlobDigest:
        """See the port."""
        found = self._blobs.digest(key)
        self._moved(found.size_bytes)
        return found

    def size(self, key: str) -> int | None:
        """See the port."""
        return self._blobs.size(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See the port."""
        return self._blobs.list(prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        self._blobs.delete(key)

    def _wait(self, size_bytes: int) -> None:
        """Until the line is free; then it is taken for as long as these bytes need at the rate. Idle time is not saved up."""
        if self._rate_bps is None:
            return
        with self._lock:
            begin_s = max(self._free_s, time.monotonic())
            self._free_s = begin_s + size_bytes * 8 / self._rate_bps
            wait_s = self._free_s - time.monotonic()
        time.sleep(max(0.0, wait_s))
