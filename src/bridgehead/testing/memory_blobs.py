"""MemoryBlobs: a blob store in memory, for tests that make thousands of vaults."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Final

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import BlobDigest

_SEGMENT: Final = re.compile(r"[A-Za-z0-9@._+-]+")


class MemoryBlobs:
    """See the port (ports.blobs.Blobs). Safe for threads; every call is atomic."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        self._check(key)
        with self._lock:
            return self._values.setdefault(key, value := bytes(data)) is value

    def get(self, key: str) -> bytes:
        """See the port."""
        self._check(key)
        try:
            return self._values[key]
        except KeyError:
            raise NotFound("no such key", tried="read a value", subject=key) from None

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        return self.get(key)[offset_bytes : offset_bytes + size_bytes]

    def digest(self, key: str) -> BlobDigest:
        """See the port."""
        value = self.get(key)
        return BlobDigest(block_hash(value), len(value))

    def size(self, key: str) -> int | None:
        """See the port."""
        self._check(key)
        value = self._values.get(key)
        return None if value is None else len(value)

    def list(self, prefix: str) -> Iterator[str]:
        """See the port."""
        with self._lock:
            return iter(sorted(key for key in self._values if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        """See the port."""
        self._check(key)
        with self._lock:
            self._values.pop(key, None)

    def _check(self, key: str) -> None:
        for segment in key.split("/"):
            if segment in (".", "..") or not _SEGMENT.fullmatch(segment):
                raise Permanent("not a valid key", tried="use a key", subject=repr(key), remedy="See the port for the alphabet of keys.")
