"""Encoding: the blocks of a save, encoded against the newest usable snapshot of the workload and against each other (design section 5)."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot, TensorEntry
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.codec import Base, Candidate, Codec, encode
from bridgehead.vault.cut import MAX_BLOCK_BYTES
from bridgehead.vault.objects import Objects, Stored, parallel
from bridgehead.vault.pairing import Family, Guess, Slot, in_order, slot_of
from bridgehead.vault.reader import Kept, Reader
from bridgehead.vault.records import Damaged
from bridgehead.vault.snapshots import refs_of
from bridgehead.vault.writing import Writing

MAX_GENERATION: Final = 5
"""A block needs at most this many earlier saves; then it is encoded without any."""
MUST_SAVE: Final = 0.05
"""Share that an earlier block has to save, as the price of being needed."""
ALIGNED_BYTES: Final = MAX_BLOCK_BYTES // 2
"""A block of a 2-byte float has at most as many elements as one of a 4-byte float, so that copy and master have the same places."""
KEPT_BYTES: Final = 128 << 20
"""Plain bytes that a writer keeps for its next save."""


class Piece(msgspec.Struct, frozen=True):
    """One block to be: where it is, what it holds, how to read it."""

    slot: Slot
    offset_bytes: int
    size_bytes: int
    read: Callable[[], bytes | memoryview]


class Encoder:
    """Encodes saves of one vault; keeps plain bytes from one save to the next."""

    def __init__(self, objects: Objects, catalog: Catalog) -> None:
        self._objects = objects
        self._catalog = catalog
        self._kept = Kept(KEPT_BYTES)
        self._turns = threading.Semaphore(os.cpu_count() or 1)

    def store(self, workload: WorkloadId, pieces: Sequence[Piece], writing: Writing) -> tuple[list[Stored], tuple[BlockRef, ...]]:
        """Store all pieces. Returns them in order, and what the snapshot has to pin."""
        return _Save(self._objects, writing, self._reference(workload), self._kept, self._turns, pieces).run()

    def _reference(self, workload: WorkloadId) -> Snapshot | None:
        """What to encode against. Without one the save is larger and nothing else, so that damage does not stop it."""
        try:
            newest = self._catalog.newest(workload)
            return self._catalog.snapshot(newest.id) if newest is not None else None
        except (Damaged, NotFound):
            return None


class _Save:
    def __init__(
        self,
        objects: Objects,
        writing: Writing,
        reference: Snapshot | None,
        kept: Kept,
        turns: threading.Semaphore,
        pieces: Sequence[Piece],
    ) -> None:
        self._writing, self._kept, self._turns, self._pieces = writing, kept, turns, pieces
        self._reader = Reader(objects, reference, kept=kept) if reference is not None else None
        self._known = {ref.block: ref for ref in refs_of(reference)} if reference is not None else {}
        self._earlier = dict(_slots(reference)) if reference is not None else {}
        self._family = Family([piece.slot for piece in pieces])
        self._blocks: list[BlockId] = []
        self._done: dict[BlockId, Stored] = {}

    def run(self) -> tuple[list[Stored], tuple[BlockRef, ...]]:
        self._blocks = parallel(lambda piece: BlockId(block_hash(piece.read())), self._pieces)
        for group in in_order([piece.slot for piece in self._pieces]):
            # Equal blocks are stored once; the first one says how.
            first = {self._blocks[index]: index for index in reversed(group) if self._blocks[index] not in self._done}
            stored = parallel(self._store, list(first.values()))
            self._done.update(zip(first, stored, strict=True))
        result = []
        for block, piece in zip(self._blocks, self._pieces, strict=True):
            found = self._done[block]
            ref = msgspec.structs.replace(found.ref, offset_bytes=piece.offset_bytes)
            result.append(Stored(ref, found.written_bytes))
            self._done[block] = Stored(ref, 0)  # counted once
        return result, self._pinned()

    def _store(self, index: int) -> Stored:
        block, piece = self._blocks[index], self._pieces[index]
        known = self._known.get(block)
        data = piece.read()
        if known is not None and known.stored:
            self._kept.keep(block, data)
            return Stored(msgspec.structs.replace(known, offset_bytes=piece.offset_bytes), 0)
        plain = BlockRef(block, piece.offset_bytes, piece.size_bytes)
        if known is None:
            with self._turns:
                candidates, generations = self._candidates(index)
                encoded = encode(data, form=piece.slot.form, candidates=candidates, block=block)
            self._kept.keep(block, data)
            if encoded.frame.codec is not Codec.RAW and len(encoded.data) < len(data):
                name, bases = BlockId(block_hash(encoded.data)), tuple(dict.fromkeys(base.block for base in encoded.frame.bases))
                ref = msgspec.structs.replace(
                    plain,
                    stored=name,
                    stored_bytes=len(encoded.data),
                    bases=bases,
                    generation=max((generations[base] for base in bases), default=0),
                )
                return Stored(ref, len(encoded.data) if self._writing.store_block(name, encoded.data) else 0)
        return Stored(plain, len(data) if self._writing.store_block(block, data) else 0)

    def _candidates(self, index: int) -> tuple[list[Candidate], dict[BlockId, int]]:
        """Those whose bases are there and not too far back, with the generation that each base brings."""
        found: list[Candidate] = []
        generations: dict[BlockId, int] = {}
        for guess in self._family.guesses(index):
            bases = self._bases(index, guess, generations)
            if bases is not None:
                early = any(earlier for _, earlier in guess.bases)
                found.append(Candidate(guess.predictor, bases, must_save=MUST_SAVE if early else 0.0))
        return found, generations

    def _bases(self, index: int, guess: Guess, generations: dict[BlockId, int]) -> tuple[Base, ...] | None:
        refs: list[tuple[int, BlockRef, bool]] = []
        for at, earlier in guess.bases:
            slot = self._pieces[at].slot
            if earlier:
                ref = self._earlier.get(slot)
            else:
                done = self._done.get(self._blocks[at])
                ref = done.ref if done is not None else None
            if ref is None or ref.block == self._blocks[index] or ref.generation + earlier > MAX_GENERATION:
                return None
            refs.append((at, ref, earlier))
        bases = []
        for at, ref, earlier in refs:
            try:
                data = self._kept.recall(ref.block) or (self._reader.read(ref) if earlier and self._reader else self._pieces[at].read())
            except Damaged:
                return None  # it cannot be a base; the save itself does not need it
            generations[ref.block] = max(generations.get(ref.block, 0), ref.generation + earlier)
            bases.append(Base(ref.block, self._pieces[at].slot.form, data))
        return tuple(bases)

    def _pinned(self) -> tuple[BlockRef, ...]:
        pinned: dict[BlockId, BlockRef] = {}
        waiting = [base for stored in self._done.values() for base in stored.ref.bases]
        while waiting:
            block = waiting.pop()
            if block not in self._done and block not in pinned:
                pinned[block] = msgspec.structs.replace(self._known[block], offset_bytes=0)
                waiting += pinned[block].bases
        return tuple(pinned[block] for block in sorted(pinned))


def aligned(path: str, tensors: Sequence[TensorEntry], places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces (offset, size), with those of 2-byte floats divided so that they match those of 4-byte floats."""
    divided = []
    for slot, (offset, size) in zip(slots_of(path, tensors, places), places, strict=True):
        step = ALIGNED_BYTES if slot.form.computable and slot.form.width == 2 else size
        divided += [(at, min(step, offset + size - at)) for at in range(offset, offset + size, step)]
    return divided


def slots_of(path: str, tensors: Sequence[TensorEntry], places: Sequence[tuple[int, int]]) -> list[Slot]:
    """Slots of the pieces (offset, size) of one file, in order. ``tensors`` by offset; where they overlap, the first ones count."""
    flat: list[TensorEntry] = []
    for tensor in tensors:
        if tensor.size_bytes and (not flat or tensor.offset_bytes >= flat[-1].offset_bytes + flat[-1].size_bytes):
            flat.append(tensor)
    begins = [tensor.offset_bytes for tensor in flat]
    slots = []
    for offset, size in places:
        first = max(bisect_right(begins, offset) - 1, 0)
        inside = [t for t in flat[first : bisect_right(begins, offset + size - 1)] if t.offset_bytes + t.size_bytes > offset]
        slots.append(slot_of(path, inside, offset, size))
    return slots


def _slots(snapshot: Snapshot) -> list[tuple[Slot, BlockRef]]:
    def of(file: FileEntry) -> list[tuple[Slot, BlockRef]]:
        slots = slots_of(file.path, file.tensors, [(ref.offset_bytes, ref.size_bytes) for ref in file.blocks])
        return list(zip(slots, file.blocks, strict=True))

    return [pair for file in snapshot.files for pair in of(file)]
