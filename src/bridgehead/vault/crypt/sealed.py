"""SealedBlobs: a store of which only who has the key can read names and values; all other code sees plain ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import BlobDigest, Blobs
from bridgehead.vault.crypt.names import STRANGE, SealedNames
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.sealing import BadSeal, Cipher

CLEAR: Final = ("data/", "keys/")
"""What is sealed by itself, or has to be read before there is a key."""
_CLEAR_KEY: Final = "vault.json"
_LENGTH: Final = struct.Struct("<Q")
_LEAST_BYTES: Final = 4096


class SealedBlobs:
    """A ``ports.blobs.Blobs`` over another. ``vault.json``, ``keys/`` and ``data/`` pass through untouched.

    A listed name that was not sealed with this key is reported with ``~`` before the segment in question. It can be deleted; to read it
    raises ``records.Damaged``, as does a value that was changed, or lies under another name than it was sealed for.
    """

    def __init__(self, blobs: Blobs, *, cipher: Cipher, names_key: bytes) -> None:
        self._blobs = blobs
        self._cipher = cipher
        self._names = SealedNames(names_key)

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        if _is_clear(key):
            return self._blobs.put_new(key, data)
        stored = self._names.seal(key)
        if STRANGE in key:
            raise Permanent("not a valid key", tried="store a value", subject=repr(key), remedy="This is a fault of the caller.")
        return self._blobs.put_new(stored, self._cipher.seal(_padded(data, self._cipher.overhead_bytes), label=key))

    def get(self, key: str) -> bytes:
        """See the port."""
        if _is_clear(key):
            return self._blobs.get(key)
        stored = self._names.seal(key)
        if STRANGE in key:
            raise damaged(key, "its name was not sealed with the key of this vault")
        try:
            return _unpadded(bytes(self._cipher.open(self._blobs.get(stored), label=key)))
        except BadSeal as error:
            raise damaged(key, f"the value does not carry the seal of this vault ({error})") from error

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port. Of what is sealed as a whole, the whole is read."""
        if _is_clear(key):
            return self._blobs.get_range(key, offset_bytes, size_bytes)
        return self.get(key)[offset_bytes : offset_bytes + size_bytes]

    def digest(self, key: str) -> BlobDigest:
        """See the port: of the plain value, so that a sealed one is read here."""
        if _is_clear(key):
            return self._blobs.digest(key)
        value = self.get(key)
        return BlobDigest(block_hash(value), len(value))

    def size(self, key: str) -> int | None:
        """See the port. Of a sealed value it costs reading it: its size in the store tells little. Of a damaged one, that size is given."""
        if _is_clear(key):
            return self._blobs.size(key)
        stored = self._blobs.size(self._names.seal(key))
        if stored is None:
            return None
        try:
            return len(self.get(key))
        except Damaged:
            return stored
        except NotFound:  # removed in this moment
            return None

    def list(self, prefix: str) -> Iterator[str]:
        """See the port: plain keys, sorted as such."""
        found = self._blobs.list(self._names.seal_prefix(prefix) if prefix and not _is_clear(prefix) else prefix)
        return iter(sorted(key if _is_clear(key) else self._names.open(key) for key in found))

    def stored_prefix(self, prefix: str) -> str:
        """What keys that begin with ``prefix``, which ends with a slash, begin with in the store itself."""
        return prefix if _is_clear(prefix) else self._names.seal_prefix(prefix)

    def delete(self, key: str) -> None:
        """See the port."""
        self._blobs.delete(key if _is_clear(key) else self._names.seal(key))


def _is_clear(key: str) -> bool:
    return key == _CLEAR_KEY or key.startswith(CLEAR)


def _padded(data: bytes | memoryview, overhead_bytes: int) -> bytes:
    """Length, data, zeros: sealed, it has 4 KiB, or at most an eighth more than it must (Padmé: Nikitin and others, 2019)."""
    size = _LENGTH.size + len(data)
    exponent = size.bit_length() - 1
    unit = 1 << max(exponent - exponent.bit_length(), 0)
    total = max(-(-size // unit) * unit, _LEAST_BYTES - overhead_bytes)
    return b"".join((_LENGTH.pack(len(data)), data, bytes(total - size)))


def _unpadded(data: bytes) -> bytes:
    (length,) = _LENGTH.unpack_from(data)
    return data[_LENGTH.size : _LENGTH.size + length]
