"""Objects: the blocks and records of one vault, as they lie in its blob store, and what this process has learned about them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, PackId
from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.doubts import forget, noted
from bridgehead.vault.layout import pack_key
from bridgehead.vault.packindex import REPAIR, PackIndex, Place
from bridgehead.vault.packs import Pack
from bridgehead.vault.records import Damaged, damaged, decode, encode
from bridgehead.vault.sealing import BadSeal, Cipher, Plain
from bridgehead.vault.snapshots import blocks_of, hurt

T = TypeVar("T")
U = TypeVar("U")

WORKERS: Final = 8
"""Threads per operation: they wait for disk syncs or round trips, hashing releases the interpreter lock."""
DOUBT_S: Final = 30.0
"""So often, at most, what was found damaged is looked at again by somebody who only polls."""
NOT_INDEXED: Final = "the block is missing: no index speaks of it"
_UNINDEXED: Final = "no index speaks of it: try `bridgehead vault repair`, then `replicate --heal` from another vault"
PACK_BYTES: Final = 32 << 20
"""A pack is closed when it has so many bytes. A writer holds up to three, within its memory budget."""


class Stored(msgspec.Struct, frozen=True):
    """A block that is stored when its writing is flushed; ``written_bytes`` is 0 when the vault had it."""

    ref: BlockRef
    written_bytes: int


class Objects:
    """One vault's objects. Safe for threads; blocks are added by ``writing.Writing``.

    ``present`` are packs that this process has written, or seen with the right size. ``suspect`` blocks were found damaged in every place:
    they are written anew when their bytes come by.
    """

    def __init__(self, blobs: Blobs, *, cipher: Cipher | None = None, pack_bytes: int = PACK_BYTES) -> None:
        self.blobs = blobs
        self.cipher: Cipher = Plain() if cipher is None else cipher
        self.pack_bytes = pack_bytes
        self.index = PackIndex(blobs)
        self._present: set[PackId] = set()
        self._bad_packs: set[PackId] = set()
        self._noted: frozenset[PackId] = frozenset()
        self._suspect: set[BlockId] = set()
        self._doubted_s = time.monotonic()
        self._collections: frozenset[str] | None = frozenset()
        self.news = 0
        """How often what was known has become worthless: who remembers something else of this vault looks here."""
        self.unended: set[str] = set()
        """Sessions of this process that are over and could not be removed: others take it for a writer until they are."""
        self._busy: set[PackId] = set()
        self._freed = threading.Condition()

    def holds(self, block: BlockId, size_bytes: int) -> bool:
        """Whether a block is there, as far as this process knows; it asks the store about packs that it does not know."""
        return block not in self._suspect and any(
            place.size_bytes == size_bytes and self.has_pack(place.pack) for place in self.index.places(block)
        )

    def has_pack(self, pack: PackId) -> bool:
        """Present with the right size, and not found damaged."""
        if pack in self._bad_packs:
            return False
        if pack not in self._present:
            known, news = self.index.pack(pack), self.news
            if known is None:
                return False
            size_bytes = self.blobs.size(pack_key(pack))
            if size_bytes is None:
                self._gone(pack)
            if size_bytes != known.size_bytes:
                return False
            if news == self.news:
                self._present.add(pack)
        return True

    def suspect_pack(self, pack: PackId) -> None:
        """It was found damaged: what is read from it is doubted, and it is written anew when its bytes come by."""
        self._bad_packs.add(pack)

    def heed_doubts(self) -> None:
        """Take packs that a verification found damaged for missing, before anything is written: see ``doubts``."""
        self._noted = noted(self.blobs)
        self._bad_packs |= self._noted

    def _is_sound(self, pack: PackId) -> None:
        self._bad_packs.discard(pack)
        if pack in self._noted:
            self._noted -= {pack}
            forget(self.blobs, pack)

    def adopt_pack(self, pack: Pack) -> bool:
        """Whether a pack that the index here does not know is there, whole: sent by somebody who was stopped before he noted it."""
        if pack.id in self._bad_packs or self.blobs.size(pack_key(pack.id)) != pack.size_bytes:
            return False
        self._present.add(pack.id)
        return True

    def put_pack(self, pack: Pack, data: bytes | bytearray | memoryview) -> bool:
        """Durable on return; False when it was there. Of two threads with the same pack, the second waits: a slow line carries it once."""
        with self._turn(pack.id):
            if self.has_pack(pack.id):
                return False
            key = pack_key(pack.id)
            written = self.blobs.put_new(key, memoryview(data))
            if not written and (pack.id in self._bad_packs or self.blobs.size(key) != pack.size_bytes):
                # Its name is the hash of these bytes, so what lies there is wrong: a torn write of a store that lost power (V20, V22).
                self.blobs.delete(key)
                written = self.blobs.put_new(key, memoryview(data))
            if self.blobs.size(key) != pack.size_bytes:
                self.blobs.delete(key)
                raise damaged(key, "the pack has another size than what was written", remedy="Look at the store; do not use this vault.")
            self._is_sound(pack.id)
            self._present.add(pack.id)
            self.trust(pack)
            return written

    def trust(self, pack: Pack) -> None:
        """Its blocks are intact: they were just written."""
        self._suspect.difference_update(entry.block for entry in pack.entries)

    @contextmanager
    def _turn(self, pack: PackId) -> Iterator[None]:
        with self._freed:
            self._freed.wait_for(lambda: pack not in self._busy)
            self._busy.add(pack)
        try:
            yield
        finally:
            with self._freed:
                self._busy.discard(pack)
                self._freed.notify_all()

    def seen_collections(self, marks: frozenset[str] | None) -> None:
        """These collections have removed something: when one is news (and for None), what this process knows is worth nothing."""
        if marks is None or marks != self._collections:
            self._collections = marks
            self.news += 1
            self._present.clear()
            self._bad_packs.clear()
            self._suspect.clear()
            self.index.forget()

    def read_block(self, block: BlockId, size_bytes: int, *, owner: Snapshot) -> bytes:
        """The block's bytes, verified, from the first place that gives them right. Raises Damaged, naming file and tensors (V22, V31)."""
        fault = NOT_INDEXED
        for _ in range(2):  # a collection may have moved it since the index was read
            moved = False
            for place in self._places(block):
                if place.size_bytes != size_bytes:
                    fault = f"the block has {place.size_bytes} bytes instead of {size_bytes}"
                    continue
                found = self._read(block, place)
                if isinstance(found, bytes):
                    self._suspect.discard(block)
                    return found
                fault, moved = found.happened, moved or isinstance(found, NotFound)
            if not moved:
                break
            self.index.refresh()
        raise self._found_damaged(block, fault, owner)

    def fetch_block(self, block: BlockId, *, owner: Snapshot) -> bytes:
        """As ``read_block``; but when there is one place only, its bytes as they are: the caller verifies them where they land (V30)."""
        places = self._places(block)
        if len(places) != 1:
            return self.read_block(block, places[0].size_bytes if places else 0, owner=owner)
        try:
            return self._segment(block, places[0])
        except NotFound:
            return self.read_block(block, places[0].size_bytes, owner=owner)
        except Damaged as error:
            raise self._found_damaged(block, error.happened, owner) from error

    def _gone(self, pack: PackId) -> None:
        """Removed, or moved into another pack by a collection, which the index tells."""
        self._present.discard(pack)
        self.index.drop(pack)

    def _places(self, block: BlockId) -> tuple[Place, ...]:
        """Those in packs that are not known to be bad come first."""
        found = self.index.places(block)
        if not found:
            self.index.refresh()
            found = self.index.places(block)
        return tuple(sorted(found, key=lambda place: place.pack in self._bad_packs))

    def _read(self, block: BlockId, place: Place) -> bytes | Permanent | NotFound:
        try:
            data = self._segment(block, place)
        except (Damaged, NotFound) as error:
            return error
        if block_hash(data) == block:
            return data
        self._bad_packs.add(place.pack)
        return damaged(pack_key(place.pack), "the block does not match its hash")

    def _segment(self, block: BlockId, place: Place) -> bytes:
        wanted = place.size_bytes + self.cipher.overhead_bytes
        try:
            sealed = self.blobs.get_range(pack_key(place.pack), place.offset_bytes, wanted)
        except NotFound:
            self._gone(place.pack)
            raise NotFound(f"pack {place.pack} is missing", tried="read a block", subject=block) from None
        if len(sealed) == wanted:
            try:
                return bytes(self.cipher.open(sealed, label=block))
            except BadSeal:
                happened = "the block is not what was sealed"
        else:
            happened = "the pack was cut off"
        self._bad_packs.add(place.pack)
        raise damaged(pack_key(place.pack), happened)

    def check_block(self, block: BlockId, data: bytes | memoryview, size_bytes: int, *, owner: Snapshot) -> None:
        """Compare bytes with the block's name. Raises Damaged."""
        if len(data) != size_bytes:
            raise self._found_damaged(block, f"the block has {len(data)} bytes instead of {size_bytes}", owner)
        if block_hash(data) != block:
            self._bad_packs.update(place.pack for place in self.index.places(block))
            raise self._found_damaged(block, "the block does not match its hash", owner)
        self._suspect.discard(block)

    def prove(self, snapshot: Snapshot) -> list[BlockRef]:
        """Let the store read back and hash the packs of a snapshot; nothing travels while they are intact. Returns its blocks, each once.

        Of a pack that is not intact, the blocks that this snapshot needs are read one by one.

        Raises:
            Damaged: a block is missing or damaged in every place, after all were looked at.
        """
        refs = list({ref.block: ref for ref in blocks_of(snapshot)}.values())
        homes = {ref.block: [place for place in self._places(ref.block) if place.size_bytes == ref.size_bytes] for ref in refs}
        packs = sorted({places[0].pack for places in homes.values() if places})
        whole = {pack for pack, intact in zip(packs, parallel(self._proved, packs), strict=True) if intact}
        doubtful = [ref for ref in refs if not homes[ref.block] or homes[ref.block][0].pack not in whole]
        faults = [fault for fault in parallel(lambda ref: self._fault(ref, snapshot), doubtful) if fault is not None]
        if faults:
            raise faults[0]
        return refs

    def _proved(self, pack: PackId) -> bool:
        known = self.index.pack(pack)
        try:
            found = self.blobs.digest(pack_key(pack))
        except NotFound:
            self._gone(pack)
            return False
        if known is None or (found.blake3, found.size_bytes) != (pack, known.size_bytes):
            self._bad_packs.add(pack)
            return False
        self._present.add(pack)
        self._is_sound(pack)
        self.trust(known)
        return True

    def _fault(self, ref: BlockRef, owner: Snapshot) -> Damaged | None:
        try:
            self.read_block(ref.block, ref.size_bytes, owner=owner)
        except Damaged as fault:
            return fault
        return None

    def not_decodable(self, ref: BlockRef, why: str, *, owner: Snapshot) -> Damaged:
        """The error for an object that is what its name says and does not give the block that it should."""
        return self._found_damaged(ref.stored, f"the encoded block cannot be decoded: {why}", owner)

    def lacking(self, refs: Iterable[BlockRef], *, doubting: bool = False) -> list[BlockRef]:
        """Those that are missing or have the wrong size. Asks the store only about packs that this process does not know.

        Args:
            doubting: have what was found damaged before proved once more: somebody may have healed it.
        """
        refs = list(refs)
        if any(not self.index.places(ref.block) for ref in refs):
            self.index.refresh()
        self._look_for(refs)
        if doubting:
            doubted = {p.pack for ref in refs if not self.holds(ref.block, ref.size_bytes) for p in self.index.places(ref.block)}
            parallel(self._proved, sorted(doubted))
        elif any(ref.block in self._suspect for ref in refs) and time.monotonic() - self._doubted_s > DOUBT_S:
            self._doubted_s = time.monotonic()
            return self.lacking(refs, doubting=True)
        lacking = [ref for ref in refs if not self.holds(ref.block, ref.size_bytes)]
        if not any(not self.index.places(ref.block) for ref in lacking):
            return lacking
        self.index.refresh()  # their packs are gone: a collection may have moved them
        self._look_for(lacking)
        return [ref for ref in lacking if not self.holds(ref.block, ref.size_bytes)]

    def why_lacking(self, lacking: Sequence[BlockRef]) -> str:
        """In words, of what ``lacking`` gave; with what to do when it may lie in packs of which no index speaks."""
        is_are = f"{len(lacking)} block{' is' if len(lacking) == 1 else 's are'} missing, torn or damaged"
        first = f", first {lacking[0].block}" if lacking else ""
        unindexed = any(not self.index.places(ref.block) for ref in lacking)
        return f"{is_are}{first}" + (f"; {_UNINDEXED}" if unindexed else "")

    def _look_for(self, refs: Sequence[BlockRef]) -> None:
        homes = {place.pack for ref in refs for place in self.index.places(ref.block)}
        parallel(self.has_pack, sorted(homes - self._present))

    def commit(self, key: str, record: bytes) -> bool:
        """Write a record create-only and read it back (V21). False when there is one already; its content is not compared."""
        if not self.blobs.put_new(key, record):
            return False
        if self.blobs.get(key) != record:
            self.blobs.delete(key)  # our own: it would stand in the way for ever
            raise damaged(
                key, "the record reads back differently from what was written", remedy="Look at the store; do not use this vault."
            )
        return True

    def add(self, key: str, value: object) -> bool:
        """``commit`` of a value."""
        return self.commit(key, encode(value))

    def record(self, key: str, as_type: type[T]) -> T:
        """Read a record. Raises NotFound, Damaged."""
        return decode(self.blobs.get(key), as_type, key=key)

    def _found_damaged(self, block: BlockId, happened: str, owner: Snapshot) -> Damaged:
        self._suspect.add(block)
        other = "replicate or save the snapshot again from a place that holds it intact, or use an older snapshot."
        return damaged(
            f"block {block}",
            f"{happened}; it holds {hurt(owner, block)}",
            remedy=f"{REPAIR}; if that does not find it, {other}" if happened == NOT_INDEXED else other.capitalize(),
        )


def parallel(work: Callable[[T], U], items: Sequence[T], *, workers: int = WORKERS) -> list[U]:
    """Results in order; an error ends it, after the calls that already run. One task for each worker, not for each item: a folder may
    hold a hundred thousand files."""
    if len(items) <= 1:
        return [work(item) for item in items]
    results: dict[int, U] = {}
    turns = itertools.count()
    failed = threading.Event()

    def take_turns() -> None:
        while not failed.is_set() and (turn := next(turns)) < len(items):
            try:
                results[turn] = work(items[turn])
            except BaseException:
                failed.set()
                raise

    with ThreadPoolExecutor(min(workers, len(items)), thread_name_prefix="vault") as pool:
        futures = [pool.submit(take_turns) for _ in range(min(workers, len(items)))]
    for future in futures:
        future.result()
    return [results[turn] for turn in range(len(items))]


def refuse(happened: str, *, tried: str, subject: str, remedy: str) -> Permanent:
    """The error for a call that can never succeed."""
    return Permanent(happened, tried=tried, subject=subject, remedy=remedy)
