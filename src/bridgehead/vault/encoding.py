"""Encoding: the blocks of a save, encoded against the newest usable snapshot of the workload and against each other (design section 5).

Blocks that may predict each other (weights, copy and moments of the same elements) are a family: it is read, hashed, encoded and let go by
one thread, so that every byte is read once and memory does not grow with the size of a snapshot.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash, stream_hash
from bridgehead.kernel.ids import BlockId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot, TensorEntry
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.codec import Base, Candidate, Codec, Encoded, Form, Hint, Predictor, encode, encode_alike
from bridgehead.vault.memory import Budget, working_bytes
from bridgehead.vault.objects import Objects, Stored, parallel
from bridgehead.vault.pairing import Family, Guess, Slot, slot_of
from bridgehead.vault.reader import SMALL_BYTES, UNDER_WAY, Kept, Reader
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
FAMILY_BYTES: Final = ALIGNED_ELEMENTS * (12 + 14 + 4 * UNDER_WAY)
"""What a thread holds for a usual family, at most: master and moments, the earlier ones with the copy, and one block under way."""
KEPT_SHARE: Final = 0.4
"""Of the memory for blocks, what is at least kept as plain bytes for the next save, and more where the threads leave more."""
SEARCHED_EVERY: Final = 8
"""Of so many blocks of a kind one is searched for what predicts it best, the others are encoded as one like them was."""
CERTAINLY: Final = 3
"""After so many blocks of a kind that nothing predicts, others of that kind are encoded without a search. One alone may be the only one
that is new; a block that is found predicted ends it."""


RECENT: Final = 4
"""So many of the newest snapshots may be encoded against: what lies further back saves little."""


class Piece(msgspec.Struct, frozen=True):
    """One block to be: where it is, what it holds, how to read it."""

    slot: Slot
    offset_bytes: int
    size_bytes: int
    read: Callable[[], bytes | memoryview]


class Encoder:
    """Encodes saves of one vault. With ``keep`` it keeps plain bytes from one save to the next."""

    def __init__(self, objects: Objects, catalog: Catalog, *, keep: bool) -> None:
        self._objects = objects
        self._catalog = catalog
        working = working_bytes()
        kept = max(int(working * KEPT_SHARE), working - ENCODERS * FAMILY_BYTES) if keep else 0
        self._kept = Kept(kept)
        self._budget = Budget(working - kept)

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


class _Earlier:
    """Blocks of the earlier snapshot that may predict those of one family. They are decoded when they are needed, many together: only what
    is kept from the save before is there at no cost.

    Attributes:
        blocks: all of them.
        plain: the bytes of those that were loaded.
    """

    def __init__(self, reader: Reader | None, refs: Sequence[BlockRef]) -> None:
        assert reader is not None or not refs
        self._reader = reader
        self._refs = {ref.block: ref for ref in refs}
        self.blocks = frozenset(self._refs)
        self.plain: dict[BlockId, bytes | memoryview] = {}
        self._tried: set[BlockId] = set()

    def held_bytes(self) -> int:
        """Memory that they take when all are loaded."""
        return self._reader.held_bytes(list(self._refs.values())) if self._reader is not None else 0

    def load(self, blocks: Iterable[BlockId]) -> None:
        """Have their bytes in ``plain``. What is damaged cannot be a base; the save itself does not need it."""
        refs = [self._refs[block] for block in dict.fromkeys(blocks) if block not in self._tried]
        if self._reader is None or not refs:
            return
        self._tried.update(ref.block for ref in refs)
        try:
            self.plain |= self._reader.many(refs)
        except Damaged:
            for ref in refs:
                with contextlib.suppress(Damaged):
                    self.plain[ref.block] = self._reader.read(ref)


_Kind = tuple[Form, tuple[Predictor, ...]]
"""Blocks that are of one form, and that the same might predict."""


def _likes(slot: Slot) -> tuple[tuple[str, str], ...]:
    """Names of the blocks that are like this one, the nearest first: of the same tensor, and of the same tensor of another rank."""
    return ((slot.path, slot.tensor), (slot.path.rpartition("/")[2], slot.tensor)) if slot.tensor else ()


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
        self._hints: dict[tuple[str, str], Hint] = {}
        self._kinds = [self._kind(index) for index in range(len(pieces))]
        counts: dict[_Kind, Iterator[int]] = defaultdict(itertools.count)
        self._numbers = [next(counts[kind]) for kind in self._kinds]
        self._unpredicted: Counter[_Kind] = Counter()

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
        earlier = _Earlier(self._reader, self._earlier_of(members))
        size = sum(self._pieces[index].size_bytes for index in members if self._family.predicts(index) or len(members) == 1)
        size += UNDER_WAY * max(self._pieces[index].size_bytes for index in members)
        with self._budget.hold(size + earlier.held_bytes()):
            held: dict[int, _Held] = {}
            foreseen = False
            for index in members:
                data = self._pieces[index].read()
                block = BlockId(block_hash(data))
                self._blocks[index] = block
                held[index] = _Held(block, data)
                mine, waiting = self._claim(block)
                if waiting is None:
                    try:
                        if not foreseen and block not in self._known:
                            earlier.load(chain.from_iterable(self._foreseen(each) for each in members))
                            foreseen = True
                        mine.set_result(self._store(index, held, earlier))
                    except BaseException as error:
                        mine.set_exception(error)
                        raise
                else:
                    waiting.result()
                if not self._family.predicts(index):
                    del held[index]
            self._kept.drop(earlier.blocks)
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
        found = {ref.block: ref for index in members for guess in self._family.guesses(index) for ref in self._earlier_bases(guess)}
        return list(found.values())

    def _earlier_bases(self, guess: Guess) -> Iterator[BlockRef]:
        for at, earlier in guess.bases:
            ref = self._earlier.get(self._pieces[at].slot) if earlier else None
            if ref is not None and ref.generation < MAX_GENERATION:
                yield ref

    def _foreseen(self, index: int) -> Iterator[BlockId]:
        """What this block will be tried with: all that may predict it, or what did for the block before of the same tensor."""
        hint = self._hint(index)
        for guess in self._family.guesses(index):
            if hint is None or hint.predictor is guess.predictor:
                yield from (ref.block for ref in self._earlier_bases(guess))

    def _kind(self, index: int) -> _Kind:
        return self._pieces[index].slot.form, tuple(guess.predictor for guess in self._family.guesses(index))

    def _hint(self, index: int) -> Hint | None:
        """What was found for a block like this one; None when it is to be searched."""
        if self._numbers[index] % SEARCHED_EVERY == SEARCHED_EVERY - 1:
            return None
        hint = next((self._hints[name] for name in _likes(self._pieces[index].slot) if name in self._hints), None)
        if hint is not None and hint.predictor is None:
            kind = self._kinds[index]
            return hint if self._unpredicted[kind] >= CERTAINLY or not kind[1] else None
        return hint

    def _store(self, index: int, held: Mapping[int, _Held], earlier: _Earlier) -> Stored:
        (block, data), piece = held[index], self._pieces[index]
        known = self._known.get(block)
        if known is not None and known.stored:
            return Stored(msgspec.structs.replace(known, offset_bytes=piece.offset_bytes), 0)
        ref = BlockRef(block, piece.offset_bytes, piece.size_bytes)
        if known is None:
            encoded, generations = self._encoded(index, held, earlier)
            if encoded.frame.codec is not Codec.RAW and encoded.size_bytes < len(data):
                name = BlockId(stream_hash(encoded.parts)[0])
                bases = tuple(dict.fromkeys(base.block for base in encoded.frame.bases))
                ref = msgspec.structs.replace(
                    ref,
                    stored=name,
                    stored_bytes=encoded.size_bytes,
                    bases=bases,
                    generation=max((generations[base] for base in bases), default=0),
                )
                return Stored(ref, encoded.size_bytes if self._writing.store_block(name, encoded.parts) else 0)
        return Stored(ref, len(data) if self._writing.store_block(block, (data,)) else 0)

    def _encoded(self, index: int, held: Mapping[int, _Held], earlier: _Earlier) -> tuple[Encoded, dict[BlockId, int]]:
        """The block encoded, with the generation that each base brings: as the block before of the same tensor where that does as well."""
        (block, data), slot = held[index], self._pieces[index].slot
        hint = self._hint(index)
        if hint is not None:
            candidates, generations = self._candidates(index, held, earlier, hint.predictor)
            alike = encode_alike(data, form=slot.form, hint=hint, candidates=candidates, block=block)
            if alike is not None:
                return alike, generations
        earlier.load(ref.block for ref in self._earlier_of([index]))
        candidates, generations = self._candidates(index, held, earlier)
        encoded = encode(data, form=slot.form, candidates=candidates, block=block)
        self._remember(index, encoded)
        return encoded, generations

    def _remember(self, index: int, encoded: Encoded) -> None:
        frame, kind = encoded.frame, self._kinds[index]
        self._unpredicted[kind] = self._unpredicted[kind] + 1 if frame.predictor is None else 0
        if frame.codec not in (Codec.PLANES, Codec.PREDICTED):
            return
        for name in _likes(self._pieces[index].slot):
            if frame.predictor is not None or name not in self._hints:
                self._hints[name] = Hint(frame.predictor, frame.parameters, encoded.share)

    def _candidates(
        self, index: int, held: Mapping[int, _Held], earlier: _Earlier, only: Predictor | None = None
    ) -> tuple[list[Candidate], dict[BlockId, int]]:
        """Those whose bases are loaded and not too far back, with the generation that each base brings. ``only``: of this predictor."""
        found: list[Candidate] = []
        generations: dict[BlockId, int] = {}
        for guess in self._family.guesses(index):
            if only is not None and guess.predictor is not only:
                continue
            bases = self._bases(index, guess, held, earlier, generations)
            if bases is not None:
                early = any(is_earlier for _, is_earlier in guess.bases)
                found.append(Candidate(guess.predictor, bases, must_save=MUST_SAVE if early else 0.0))
        return found, generations

    def _bases(
        self, index: int, guess: Guess, held: Mapping[int, _Held], earlier: _Earlier, generations: dict[BlockId, int]
    ) -> tuple[Base, ...] | None:
        bases: list[Base] = []
        ages: dict[BlockId, int] = {}
        for at, is_earlier in guess.bases:
            slot = self._pieces[at].slot
            if is_earlier:
                ref = self._earlier.get(slot)
                data: bytes | memoryview | None = earlier.plain.get(ref.block) if ref is not None else None
            elif at in held and at != index:
                ref, data = self._done[held[at].block].result().ref, held[at].data
            else:
                return None
            if ref is None or data is None or ref.block == held[index].block or ref.generation + is_earlier > MAX_GENERATION:
                return None
            ages[ref.block] = max(ages.get(ref.block, 0), ref.generation + is_earlier)
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
