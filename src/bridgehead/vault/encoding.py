"""Encoding: the blocks of a save, encoded against the newest usable snapshot of the workload and against each other (design section 5).

Blocks that may predict each other (weights, copy and moments of the same elements) are a family: it is read, hashed, encoded and let go by
one thread, so that every byte is read once and memory does not grow with the size of a snapshot.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot, TensorEntry
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.codec import Base, Candidate, Codec, Hint, encode
from bridgehead.vault.memory import Budget, working_bytes
from bridgehead.vault.objects import Objects, Stored, parallel
from bridgehead.vault.pairing import Family, Guess, Slot, slot_of
from bridgehead.vault.reader import SMALL_BYTES, Kept, Reader
from bridgehead.vault.receipts import receipt_names
from bridgehead.vault.records import Damaged
from bridgehead.vault.snapshots import refs_of
from bridgehead.vault.writing import Writing

MAX_GENERATION: Final = 5
"""A block needs at most this many earlier saves; then it is encoded without any."""
MUST_SAVE: Final = 0.05
"""Share that an earlier block has to save, as the price of being needed."""
ALIGNED_ELEMENTS: Final = 1 << 20
"""A block of floats has at most so many: copy, master and moments then have the same places, and the blocks of one family, old and new,
fit into the memory of one thread."""
ENCODERS: Final = (os.cpu_count() or 1) + 1
"""Threads that encode: one more than there are processors, for the disk."""
KEPT_SHARE: Final = 0.4
"""Of the memory for blocks, what is kept as plain bytes for the next save."""


RECENT: Final = 4
"""So many of the newest snapshots may be encoded against: what lies further back saves little."""


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
        working = working_bytes()
        self._kept = Kept(int(working * KEPT_SHARE))
        self._budget = Budget(working - int(working * KEPT_SHARE))

    def store(self, workload: WorkloadId, pieces: Sequence[Piece], writing: Writing) -> tuple[list[Stored], tuple[BlockRef, ...]]:
        """Store all pieces. Returns them in order, and what the snapshot has to pin."""
        self._kept.begin()
        return _Save(self._objects, writing, self._reference(workload), self._kept, self._budget, pieces).run()

    def _reference(self, workload: WorkloadId) -> Snapshot | None:
        """What to encode against: the newest snapshot, or a recent one that another site is known to hold, so that a copy needs nothing but
        the difference. Without one the save is larger and nothing else, so that damage does not stop it."""
        try:
            recent = list(islice(self._catalog.usable(workload), RECENT))
            elsewhere = {
                snapshot for site, snapshot in receipt_names(self._objects) if any(snapshot == i.id and site != i.site for i in recent)
            }
            chosen = next((info for info in recent if info.id in elsewhere), recent[0] if recent else None)
            return self._catalog.snapshot(chosen.id) if chosen is not None else None
        except (Damaged, NotFound):
            return None


class _Held(NamedTuple):
    """A piece in memory."""

    block: BlockId
    data: bytes | memoryview


class _Save:
    def __init__(
        self, objects: Objects, writing: Writing, reference: Snapshot | None, kept: Kept, budget: Budget, pieces: Sequence[Piece]
    ) -> None:
        self._writing, self._kept, self._budget, self._pieces = writing, kept, budget, pieces
        self._reader = Reader(objects, reference, kept=kept) if reference is not None else None
        self._known = {ref.block: ref for ref in refs_of(reference)} if reference is not None else {}
        self._earlier = dict(_slots(reference)) if reference is not None else {}
        self._family = Family([piece.slot for piece in pieces])
        self._lock = threading.Lock()
        self._done: dict[BlockId, Future[Stored]] = {}
        self._blocks: dict[int, BlockId] = {}
        self._hints: dict[tuple[str, str, int], Hint] = {}

    def run(self) -> tuple[list[Stored], tuple[BlockRef, ...]]:
        small = sum(piece.size_bytes for piece in self._pieces) < SMALL_BYTES
        parallel(self._store_family, self._family.members(), workers=1 if small else ENCODERS)
        counted: set[BlockId] = set()
        result = []
        for index, piece in enumerate(self._pieces):
            block = self._blocks[index]
            found = self._done[block].result()
            written = 0 if block in counted else found.written_bytes
            counted.add(block)
            result.append(Stored(msgspec.structs.replace(found.ref, offset_bytes=piece.offset_bytes), written))
        return result, self._pinned()

    def _store_family(self, members: Sequence[int]) -> None:
        """One family: what predicts comes first."""
        earlier = self._earlier_of(members)
        size = sum(self._pieces[index].size_bytes for index in members if self._family.predicts(index) or len(members) == 1)
        cost = size + 3 * max(self._pieces[index].size_bytes for index in members)
        if earlier and self._reader is not None:
            cost += self._reader.cost_bytes(earlier)
        with self._budget.hold(cost):
            held: dict[int, _Held] = {}
            plain: dict[BlockId, bytes] | None = None
            for index in members:
                data = self._pieces[index].read()
                block = BlockId(block_hash(data))
                self._blocks[index] = block
                held[index] = _Held(block, data)
                mine, waiting = self._claim(block)
                if waiting is None:
                    if plain is None and block not in self._known:
                        plain = self._plain(earlier)
                    try:
                        mine.set_result(self._store(index, held, plain or {}))
                    except BaseException as error:
                        mine.set_exception(error)
                        raise
                else:
                    waiting.result()
                if not self._family.predicts(index):
                    del held[index]
            self._kept.drop(ref.block for ref in earlier)
            for block, data in held.values():
                self._kept.keep(block, data)

    def _claim(self, block: BlockId) -> tuple[Future[Stored], Future[Stored] | None]:
        """Equal blocks are stored once; the first one says how. The second waits for it; while it waits it has nothing unfinished, so that
        no two wait for each other."""
        with self._lock:
            found = self._done.get(block)
            if found is None:
                mine: Future[Stored] = Future()
                self._done[block] = mine
                return mine, None
            return found, found

    def _earlier_of(self, members: Sequence[int]) -> list[BlockRef]:
        """Blocks of the earlier snapshot that may predict one of these."""
        found: dict[BlockId, BlockRef] = {}
        for index in members:
            for guess in self._family.guesses(index):
                for at, earlier in guess.bases:
                    ref = self._earlier.get(self._pieces[at].slot) if earlier else None
                    if ref is not None and ref.generation < MAX_GENERATION:
                        found[ref.block] = ref
        return list(found.values())

    def _plain(self, earlier: Sequence[BlockRef]) -> dict[BlockId, bytes]:
        """Their bytes. What is damaged cannot be a base; the save itself does not need it."""
        assert self._reader is not None or not earlier
        if self._reader is None:
            return {}
        try:
            return self._reader.many(earlier)
        except Damaged:
            found: dict[BlockId, bytes] = {}
            for ref in earlier:
                try:
                    found[ref.block] = self._reader.read(ref)
                except Damaged:
                    continue
            return found

    def _store(self, index: int, held: Mapping[int, _Held], plain: Mapping[BlockId, bytes]) -> Stored:
        (block, data), piece = held[index], self._pieces[index]
        known = self._known.get(block)
        if known is not None and known.stored:
            return Stored(msgspec.structs.replace(known, offset_bytes=piece.offset_bytes), 0)
        ref = BlockRef(block, piece.offset_bytes, piece.size_bytes)
        if known is None:
            candidates, generations = self._candidates(index, held, plain)
            tensor = (piece.slot.path, piece.slot.tensor, len(candidates))
            alike = (piece.slot.path.rpartition("/")[2], *tensor[1:])  # the same tensor of another rank
            hint = self._hints.get(tensor) or self._hints.get(alike)
            encoded = encode(data, form=piece.slot.form, candidates=candidates, block=block, hint=hint)
            frame = encoded.frame
            if piece.slot.tensor and frame.codec in (Codec.PLANES, Codec.PREDICTED):
                found = Hint(frame.predictor, frame.parameters, encoded.share)
                self._hints.setdefault(tensor, found)
                self._hints.setdefault(alike, found)
            if encoded.frame.codec is not Codec.RAW and len(encoded.data) < len(data):
                name, bases = BlockId(block_hash(encoded.data)), tuple(dict.fromkeys(base.block for base in encoded.frame.bases))
                ref = msgspec.structs.replace(
                    ref,
                    stored=name,
                    stored_bytes=len(encoded.data),
                    bases=bases,
                    generation=max((generations[base] for base in bases), default=0),
                )
                return Stored(ref, len(encoded.data) if self._writing.store_block(name, encoded.data) else 0)
        return Stored(ref, len(data) if self._writing.store_block(block, data) else 0)

    def _candidates(
        self, index: int, held: Mapping[int, _Held], plain: Mapping[BlockId, bytes]
    ) -> tuple[list[Candidate], dict[BlockId, int]]:
        """Those whose bases are there and not too far back, with the generation that each base brings."""
        found: list[Candidate] = []
        generations: dict[BlockId, int] = {}
        for guess in self._family.guesses(index):
            bases = self._bases(index, guess, held, plain, generations)
            if bases is not None:
                early = any(earlier for _, earlier in guess.bases)
                found.append(Candidate(guess.predictor, bases, must_save=MUST_SAVE if early else 0.0))
        return found, generations

    def _bases(
        self, index: int, guess: Guess, held: Mapping[int, _Held], plain: Mapping[BlockId, bytes], generations: dict[BlockId, int]
    ) -> tuple[Base, ...] | None:
        bases: list[Base] = []
        ages: dict[BlockId, int] = {}
        for at, earlier in guess.bases:
            slot = self._pieces[at].slot
            if earlier:
                ref = self._earlier.get(slot)
                data: bytes | memoryview | None = plain.get(ref.block) if ref is not None else None
            elif at in held and at != index:
                ref, data = self._done[held[at].block].result().ref, held[at].data
            else:
                return None
            if ref is None or data is None or ref.block == held[index].block or ref.generation + earlier > MAX_GENERATION:
                return None
            ages[ref.block] = max(ages.get(ref.block, 0), ref.generation + earlier)
            bases.append(Base(ref.block, slot.form, data))
        for block, age in ages.items():
            generations[block] = max(generations.get(block, 0), age)
        return tuple(bases)

    def _pinned(self) -> tuple[BlockRef, ...]:
        done = {block: future.result() for block, future in self._done.items()}
        pinned: dict[BlockId, BlockRef] = {}
        waiting = [base for stored in done.values() for base in stored.ref.bases]
        while waiting:
            block = waiting.pop()
            if block not in done and block not in pinned:
                pinned[block] = msgspec.structs.replace(self._known[block], offset_bytes=0)
                waiting += pinned[block].bases
        return tuple(pinned[block] for block in sorted(pinned))


def aligned(path: str, tensors: Sequence[TensorEntry], places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pieces (offset, size), with those of floats divided so that 2-byte copies match 4-byte masters."""
    divided = []
    for slot, (offset, size) in zip(slots_of(path, tensors, places), places, strict=True):
        step = ALIGNED_ELEMENTS * slot.form.width if slot.form.computable else size
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
