"""Sealing: what the vault needs from a cipher. ``crypt`` has the real one; ``Plain`` is for vaults that are not encrypted."""

from __future__ import annotations

from typing import Protocol

Parts = tuple[bytes | memoryview, ...]
"""Bytes that belong one after the other."""


class BadSeal(Exception):
    """The data was not sealed with this key under this label, or it was changed since."""


class Cipher(Protocol):
    """Authenticated encryption with one key. Safe for threads.

    ``label`` is not stored: it binds data to the place that it was made for, so that one sealed piece cannot be put in place of another.
    """

    overhead_bytes: int
    """So many bytes longer than the data is what ``seal`` gives."""
    binds_tables: bool
    """Whether the table of a pack is sealed for the blocks before it; not in vaults that were made before there was that."""

    def seal(self, data: bytes | memoryview, *, label: str) -> bytes:
        """Encrypt and authenticate."""
        ...

    def seal_parts(self, parts: Parts, *, label: str) -> Parts:
        """The same for data in parts, without putting anything together that need not be."""
        ...

    def open(self, data: bytes | memoryview, *, label: str) -> bytes | memoryview:
        """The data. Raises BadSeal."""
        ...


class Plain:
    """Leaves everything as it is: the hashes of blocks and packs find damage, and nothing is secret."""

    overhead_bytes = 0
    binds_tables = False

    def seal(self, data: bytes | memoryview, *, label: str) -> bytes:
        """A copy, or the bytes themselves."""
        return bytes(data)

    def seal_parts(self, parts: Parts, *, label: str) -> Parts:
        """The parts themselves."""
        return parts

    def open(self, data: bytes | memoryview, *, label: str) -> bytes | memoryview:
        """The data itself."""
        return data
