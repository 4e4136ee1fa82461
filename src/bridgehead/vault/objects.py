"""Objects: the vault's blocks and records in one blob store. Only ever adds; a damaged block may be replaced by its right bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.layout import DATA_PREFIX, block_key, block_of_key
from bridgehead.vault.records import Damaged, damaged, decode, encode
from bridgehead.vault.snapshots import hurt

T = TypeVar("T")
U = TypeVar("U")

WORKERS: Final = 8
"""Threads per operation: they wait for disk syncs or round trips, hashing releases the interpreter lock."""


class Stored(msgspec.Struct, frozen=True):
    """A block that is durable; ``written_bytes`` is 0 when the vault had it."""

    ref: BlockRef
    written_bytes: int


class Objects:
    """One vault's objects, with what this process has learned about its blocks.

    ``known`` holds the blocks that this process has written, read and hashed, or seen with the right size; nothing is removed from a
    vault in this cut, so that the knowledge stays true. ``suspect`` holds those that were found damaged: they are written anew when
    their bytes come by.
    """

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self._known: dict[BlockId, int] = {}
        self._listed: set[BlockId] | None = None
        self._suspect: set[BlockId] = set()
        self._list_lock = threading.Lock()
        self._storing: set[BlockId] = set()
        self._stored = threading.Condition()

    def store_block(self, block: BlockId, data: bytes | memoryview) -> bool:
        """Durable on return. True when it had to be written, False when the vault had it (deduplication).

        Of two threads with the same block, the second waits and finds it there: over a slow line it would be sent twice otherwise.
        """
        with self._turn(block):
            return self._store(block, data)

    @contextmanager
    def _turn(self, block: BlockId) -> Iterator[None]:
        with self._stored:
            self._stored.wait_for(lambda: block not in self._storing)
            self._storing.add(block)
        try:
            yield
        finally:
            with self._stored:
                self._storing.discard(block)
                self._stored.notify_all()

    def _store(self, block: BlockId, data: bytes | memoryview) -> bool:
        size = len(data)
        suspect = block in self._suspect
        if self._known.get(block) == size and not suspect:
            return False
        key = block_key(block)
        written = self.blobs.put_new(key, data)
        if not written and (suspect or self.blobs.size(key) != size):
            # Its name is the hash of the bytes at hand, so what lies there is wrong: a torn write of a store that lost power (V20, V22).
            self.blobs.delete(key)
            written = self.blobs.put_new(key, data)
        self._suspect.discard(block)
        self._known[block] = size
        return written

    def read_block(self, block: BlockId, size_bytes: int, *, owner: Snapshot) -> bytes:
        """The block's bytes, verified. Raises Damaged, naming block, file and tensors (V22, V31)."""
        data = self.fetch_block(block, owner=owner)
        self.check_block(block, data, size_bytes, owner=owner)
        return data

    def prove_block(self, block: BlockId, size_bytes: int, *, owner: Snapshot) -> None:
        """Let the store read the block back and hash it. Raises Damaged, naming block, file and tensors."""
        try:
            digest = self.blobs.digest(block_key(block))
        except NotFound as error:
            raise self._found_damaged(block, "the block is missing", owner) from error
        self._check(block, digest.blake3, digest.size_bytes, size_bytes, owner)

    def fetch_block(self, block: BlockId, *, owner: Snapshot) -> bytes:
        """The bytes as the store gives them: the caller verifies them where they land (V30). Raises Damaged when missing."""
        try:
            return self.blobs.get(block_key(block))
        except NotFound as error:
            raise self._found_damaged(block, "the block is missing", owner) from error

    def check_block(self, block: BlockId, data: bytes | memoryview, size_bytes: int, *, owner: Snapshot) -> None:
        """Compare bytes with the block's name. Raises Damaged."""
        self._check(block, block_hash(data), len(data), size_bytes, owner)

    def _check(self, block: BlockId, found_hash: str, found_bytes: int, size_bytes: int, owner: Snapshot) -> None:
        if found_bytes != size_bytes:
            raise self._found_damaged(block, f"the block has {found_bytes} bytes instead of {size_bytes}", owner)
        if found_hash != block:
            raise self._found_damaged(block, "the block does not match its hash", owner)
        self._suspect.discard(block)
        self._known[block] = size_bytes

    def not_decodable(self, ref: BlockRef, why: str, *, owner: Snapshot) -> Damaged:
        """The error for an object that is what its name says and does not give the block that it should."""
        return self._found_damaged(ref.stored, f"the encoded block cannot be decoded: {why}", owner)

    def audit_block(self, block: BlockId) -> tuple[str, int]:
        """What is wrong with a listed block ("" when nothing is) and how many bytes were read."""
        try:
            data = self.blobs.get(block_key(block))
        except NotFound:
            fault, size = "the block is missing", 0
        else:
            fault, size = "" if block_hash(data) == block else "the block does not match its hash", len(data)
        if fault:
            self._suspect.add(block)
        return fault, size

    def lacking(self, refs: Iterable[BlockRef]) -> list[BlockRef]:
        """Those that are missing or have the wrong size. Asks the store only about blocks that this process does not know."""
        unknown = [ref for ref in refs if self._known.get(ref.block) != ref.size_bytes or ref.block in self._suspect]
        sizes = parallel(lambda ref: self.blobs.size(block_key(ref.block)), unknown)
        lacking = []
        for ref, size in zip(unknown, sizes, strict=True):
            if size == ref.size_bytes and ref.block not in self._suspect:
                self._known[ref.block] = ref.size_bytes
            else:
                lacking.append(ref)
        return lacking

    def absent(self, refs: Iterable[BlockRef]) -> list[BlockRef]:
        """Those that a replication has to send, each block once: missing or of the wrong size.

        The first call lists the store's blocks: one answer instead of a round trip per block, which over a network is what counts; only
        blocks that are listed and not known are asked for their size. A block that another process adds later is sent in vain once.
        """
        with self._list_lock:
            if self._listed is None:
                self._listed = {block for key in self.blobs.list(DATA_PREFIX) if (block := block_of_key(key)) is not None}
            listed = self._listed
        once = {ref.block: ref for ref in refs}
        missing = [ref for block, ref in once.items() if block not in self._known and block not in listed]
        unsent = {ref.block for ref in missing}
        return missing + self.lacking(ref for block, ref in once.items() if block not in unsent)

    def commit(self, key: str, record: bytes) -> bool:
        """Write a record create-only and read it back (V21). False when there is one already; its content is not compared."""
        if not self.blobs.put_new(key, record):
            return False
        if self.blobs.get(key) != record:
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
        return damaged(
            block_key(block),
            f"{happened}; it holds {hurt(owner, block)}",
            remedy="Replicate or save the snapshot again from a place that holds it intact, or use an older snapshot.",
        )


def parallel(work: Callable[[T], U], items: Sequence[T], *, workers: int = WORKERS) -> list[U]:
    """Results in order; the first error ends it, after the calls that already run."""
    if len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(workers, len(items)), thread_name_prefix="vault") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def refuse(happened: str, *, tried: str, subject: str, remedy: str) -> Permanent:
    """The error for a call that can never succeed."""
    return Permanent(happened, tried=tried, subject=subject, remedy=remedy)
