"""Reader: the plain bytes of a snapshot's blocks, encoded or not; chains are followed with bounded memory (V30, V31)."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.vault.objects import WORKERS, Objects, parallel
from bridgehead.vault.snapshots import refs_of

T = TypeVar("T")
U = TypeVar("U")

KEPT_BYTES: Final = 192 << 20
"""Plain bytes of bases that are kept for the blocks that need them next."""


class Kept:
    """Plain bytes of blocks, the last used ones up to a limit; threads may share it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._blocks: OrderedDict[BlockId, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def recall(self, block: BlockId) -> bytes | None:
        """The bytes, when they are still here."""
        with self._lock:
            found = self._blocks.get(block)
            if found is not None:
                self._blocks.move_to_end(block)
            return found

    def keep(self, block: BlockId, data: bytes | memoryview) -> None:
        """Remember a copy."""
        with self._lock:
            if block not in self._blocks:
                self._blocks[block] = bytes(data)
                self._bytes += len(data)
            while self._bytes > self._limit_bytes:
                self._bytes -= len(self._blocks.popitem(last=False)[1])


class Reader:
    """Reads blocks of one snapshot; threads may share it. ``kept``: what is known already, verified."""

    def __init__(self, objects: Objects, snapshot: Snapshot, *, kept: Kept | None = None) -> None:
        self._objects = objects
        self._snapshot = snapshot
        self._refs = {ref.block: ref for ref in refs_of(snapshot)}
        self._kept = Kept(KEPT_BYTES) if kept is None else kept
        self._needed = {base for ref in self._refs.values() for base in ref.bases}

    def parallel(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """As ``objects.parallel``; with as many workers as processors when blocks have to be decoded, because each holds a chain."""
        if not any(ref.stored for ref in self._refs.values()):
            return parallel(work, items)
        return parallel(work, items, workers=min(WORKERS, os.cpu_count() or 1))

    def read(self, ref: BlockRef) -> bytes:
        """The plain bytes, verified. Raises Damaged, naming the object, file and tensors."""
        return self._plain(ref, {}) if ref.stored else self._objects.read_block(ref.block, ref.size_bytes, owner=self._snapshot)

    def fetch(self, ref: BlockRef) -> bytes:
        """As ``read``, but bytes that are stored plainly are given as the store gives them: the caller verifies them where they land."""
        return self._plain(ref, {}) if ref.stored else self._objects.fetch_block(ref.block, owner=self._snapshot)

    def _plain(self, ref: BlockRef, held: dict[BlockId, bytes]) -> bytes:
        """``held``: what this call has decoded already, so that no block of a chain is decoded twice for one block."""
        found = held.get(ref.block) or self._kept.recall(ref.block)
        if found is not None:
            return found
        if ref.stored:
            from bridgehead.vault.codec import BadFrame, decode  # brings numpy, which plain vaults do without

            data = self._objects.read_block(ref.stored, ref.stored_bytes, owner=self._snapshot)
            try:
                found = decode(data, size_bytes=ref.size_bytes, block=ref.block, fetch=lambda base: self._plain(self._refs[base], held))
            except (BadFrame, KeyError) as error:
                raise self._objects.not_decodable(ref, str(error), owner=self._snapshot) from error
        else:
            found = self._objects.read_block(ref.block, ref.size_bytes, owner=self._snapshot)
        if ref.block in self._needed:
            held[ref.block] = found
            self._kept.keep(ref.block, found)
        return found
