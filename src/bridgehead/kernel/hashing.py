"""Hashes. BLAKE3 for bulk data (blocks), SHA-256 for the evidence chain, where auditors expect a standard hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from blake3 import blake3

from bridgehead.kernel.encoding import canonical

ZERO_HASH = "0" * 64
"""The predecessor of the first entry of a chain."""


def block_hash(data: bytes | memoryview, *, key: bytes | None = None) -> str:
    """BLAKE3 of ``data`` as 64 hex digits; keyed when ``key`` (32 bytes) is given."""
    hasher = blake3(key=key) if key is not None else blake3()
    return hasher.update(data).hexdigest()


def stream_hash(parts: Iterable[bytes | memoryview]) -> tuple[str, int]:
    """BLAKE3 of the parts one after the other as 64 hex digits, and how many bytes they were."""
    hasher, size_bytes = blake3(), 0
    for part in parts:
        hasher.update(part)
        size_bytes += len(part)
    return hasher.hexdigest(), size_bytes


def document_hash(value: object) -> str:
    """SHA-256 of the canonical encoding of ``value``, 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def chain_hash(previous: str, payload: bytes) -> str:
    """SHA-256 over the previous hash (as text) and the payload: one link of the ledger's chain."""
    return hashlib.sha256(previous.encode("ascii") + b"\n" + payload).hexdigest()
