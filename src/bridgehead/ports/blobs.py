"""Blobs: named immutable byte strings in one store (localfs, S3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec


class BlobDigest(msgspec.Struct, frozen=True):
    """BLAKE3 of a value (64 hex digits) and its size."""

    blake3: str
    size_bytes: int


class Blobs(Protocol):
    """Keys are relative POSIX paths of ``[A-Za-z0-9@._+-]`` segments; a value is never changed once written.
    Safe to call from several threads.

    Besides the five port errors a store raises Permanent with "no space" in its text for ENOSPC and EDQUOT; nothing half-written
    is ever visible under its key.
    """

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """Write durably and create-only. True when written, False when the key exists already (its content is not compared)."""
        ...

    def get(self, key: str) -> bytes:
        """The whole value. Raises NotFound, Transient."""
        ...

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """The bytes [offset, offset + size) of the value; fewer, or none, where it ends earlier. Raises NotFound, Transient."""
        ...

    def digest(self, key: str) -> BlobDigest:
        """Hash of the value as it is read back *at the store* now, so that proving it costs no transfer. Raises NotFound, Transient."""
        ...

    def size(self, key: str) -> int | None:
        """Size in bytes, None when the key does not exist."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Keys under ``prefix`` (a folder, with trailing slash or empty), sorted."""
        ...

    def delete(self, key: str) -> None:
        """Remove; no effect when absent. Raises Permanent with "retained" in its text while the store keeps it (object lock)."""
        ...
