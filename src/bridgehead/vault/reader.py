"""Reader: the plain bytes of a snapshot's blocks, encoded or not; chains are followed once, in order, with bounded memory (V30, V31)."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from bridgehead.host.pages import PAGE_BYTES, are_pages
from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.vault.memory import Budget, working_bytes
from bridgehead.vault.objects import WORKERS, Objects, parallel
from bridgehead.vault.snapshots import refs_of

T = TypeVar("T")
U = TypeVar("U")
Data = bytes | memoryview

UNDER_WAY: Final = 3
"""Memory for a block that is encoded or decoded, with its parts, in sizes of the block."""
DECODERS: Final = (os.cpu_count() or 1) + 1
"""Threads that decode: one more than there are processors, for the disk."""


SMALL_BYTES: Final = 1 << 20
"""So little is read by one thread: more would cost more than they bring."""


class Kept:
    """Plain bytes of blocks for the next save, up to a limit; threads may share it.

    What the last save kept stays until the next one has used it: a full store takes nothing new, except in place of what is two saves old.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._blocks: OrderedDict[BlockId, tuple[int, Data]] = OrderedDict()
        self._bytes = 0
        self._save = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Another save begins."""
        with self._lock:
            self._save += 1

    def recall(self, block: BlockId) -> Data | None:
        """The bytes, when they are still here."""
        with self._lock:
            found = self._blocks.get(block)
            return found[1] if found is not None else None

    def keep(self, block: BlockId, data: Data) -> None:
        """Remember them, if there is room: a copy of what somebody else may write to."""
        with self._lock:
            known = self._blocks.pop(block, None)
            if known is not None:
                self._blocks[block] = (self._save, known[1])
                return
            while self._bytes + len(data) > self._limit_bytes and self._blocks:
                oldest, (save, bytes_) = next(iter(self._blocks.items()))
                if save >= self._save - 1:
                    return
                del self._blocks[oldest]
                self._bytes -= len(bytes_)
            if self._bytes + len(data) <= self._limit_bytes:
                self._blocks[block] = (self._save, data if are_pages(data) else bytes(data))
                self._bytes += len(data)

    def drop(self, blocks: Iterable[BlockId]) -> None:
        """These have been used by the save that goes on."""
        with self._lock:
            for block in blocks:
                save, data = self._blocks.get(block, (self._save, b""))
                if save < self._save:
                    del self._blocks[block]
                    self._bytes -= len(data)


class Reader:
    """Reads blocks of one snapshot; threads may share it. ``kept``: what is known already, verified."""

    def __init__(self, objects: Objects, snapshot: Snapshot, *, kept: Kept | None = None, budget: Budget | None = None) -> None:
        self._objects = objects
        self._snapshot = snapshot
        self._refs = {ref.block: ref for ref in refs_of(snapshot)}
        self._kept = Kept(0) if kept is None else kept
        self._budget = budget

    def each(self, items: Sequence[T], use: Callable[[T, Data], None], *, ref_of: Callable[[T], BlockRef]) -> None:
        """Call ``use`` with every item and the plain, verified bytes of its block, from several threads, in an order that decodes no
        block twice and keeps no more than the memory budget allows. Raises Damaged, and what ``use`` raises."""
        budget = self._budget or Budget(working_bytes())
        wanted: dict[BlockId, list[T]] = {}
        for item in items:
            wanted.setdefault(ref_of(item).block, []).append(item)
        plain = [[ref_of(each[0])] for each in wanted.values() if not ref_of(each[0]).stored]
        encoded = self.related([ref_of(each[0]) for each in wanted.values() if ref_of(each[0]).stored])

        def use_all(ref: BlockRef, data: Data) -> None:
            for item in wanted[ref.block]:
                use(item, data)

        def one(related: Sequence[BlockRef]) -> None:
            with budget.hold(self.cost_bytes(related)):
                self._decode(related, use_all)

        small = sum(ref_of(item).size_bytes for item in items) < SMALL_BYTES
        parallel(one, encoded, workers=1 if small else DECODERS)
        parallel(one, plain, workers=1 if small else WORKERS)

    def many(self, refs: Sequence[BlockRef]) -> dict[BlockId, Data]:
        """The plain bytes of blocks that belong together. The caller holds a budget for them. Raises Damaged."""
        found: dict[BlockId, Data] = {}
        self._decode(refs, lambda ref, data: found.update({ref.block: data}))
        return found

    def read(self, ref: BlockRef) -> bytes:
        """The plain bytes, verified. Raises Damaged, naming the object, file and tensors."""
        return bytes(self.many([ref])[ref.block])

    def parallel(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """As ``objects.parallel``; with few workers when blocks have to be decoded, because each holds a chain."""
        return parallel(work, items, workers=DECODERS)

    def fetch(self, ref: BlockRef) -> bytes:
        """As ``read``, but bytes that are stored plainly are given as the store gives them: the caller verifies them where they land."""
        return self.read(ref) if ref.stored else self._objects.fetch_block(ref.block, owner=self._snapshot)

    def related(self, refs: Sequence[BlockRef]) -> list[list[BlockRef]]:
        """In groups that share no base, so that each is decoded by itself. Groups in the order of their first block."""
        parent = list(range(len(refs)))
        first: dict[BlockId, int] = {}
        for number, ref in enumerate(refs):
            for each in self._reached([ref]):
                one, other = _root(parent, number), _root(parent, first.setdefault(each.block, number))
                parent[max(one, other)] = min(one, other)
        groups: dict[int, list[BlockRef]] = {}
        for number, ref in enumerate(refs):
            groups.setdefault(_root(parent, number), []).append(ref)
        return list(groups.values())

    def cost_bytes(self, refs: Sequence[BlockRef]) -> int:
        """Memory that it takes to decode them: what is held, one block under way and its parts."""
        return self.held_bytes(refs) + UNDER_WAY * max((ref.size_bytes for ref in self._reached(refs)), default=0)

    def held_bytes(self, refs: Sequence[BlockRef]) -> int:
        """Most that is held while they are decoded: what the last two generations hold, without what is kept anyway."""
        sizes: Counter[int] = Counter()
        for ref in self._reached(refs):
            if self._kept.recall(ref.block) is None:
                sizes[ref.generation] += ref.size_bytes
        return max((sizes[age] + sizes[age + 1] for age in list(sizes)), default=0)

    def _reached(self, refs: Sequence[BlockRef]) -> list[BlockRef]:
        """These blocks and all bases that have to be decoded for them, bases first; younger generations last, so that what a
        generation holds can be let go before the next but one."""
        done: set[BlockId] = set()
        order: list[BlockRef] = []
        waiting = [(ref, False) for ref in reversed(refs)]
        while waiting:
            ref, complete = waiting.pop()
            if complete:
                order.append(ref)
            elif ref.block not in done:
                done.add(ref.block)
                waiting.append((ref, True))
                if self._kept.recall(ref.block) is None:
                    waiting += [(self._refs[base], False) for base in ref.bases if base not in done]
        return sorted(order, key=lambda ref: ref.generation)

    def _decode(self, refs: Sequence[BlockRef], use: Callable[[BlockRef, Data], object]) -> None:
        wanted = {ref.block for ref in refs}
        order = self._reached(refs)
        uses = Counter(base for ref in order for base in ref.bases)
        held: dict[BlockId, Data] = {}
        for ref in order:
            data = self._kept.recall(ref.block) or self._one(ref, held, verify=ref.block in wanted)
            for base in ref.bases:
                uses[base] -= 1
                if not uses[base]:
                    held.pop(base, None)
            if uses[ref.block]:
                held[ref.block] = data
            if ref.block in wanted:
                use(ref, data)

    def _one(self, ref: BlockRef, held: dict[BlockId, Data], *, verify: bool) -> Data:
        """What is only a base need not be verified: what is made of it is."""
        if not ref.stored:
            return self._objects.read_block(ref.block, ref.size_bytes, owner=self._snapshot)
        from bridgehead.vault.codec import BadFrame, decode  # brings numpy, which plain vaults do without

        # The hash of the plain bytes tells everything; those of object and bases only say, when it is needed, what is to blame.
        for read, base_of in (
            (self._objects.fetch_block, partial(self._base, held)),
            (partial(self._objects.read_block, size_bytes=ref.stored_bytes), lambda base: self.read(self._refs[base])),
        ):
            data, skew = read(ref.stored, owner=self._snapshot), ref.offset_bytes % PAGE_BYTES
            try:
                return decode(data, size_bytes=ref.size_bytes, block=ref.block, fetch=base_of, skew=skew, verify=verify)
            except (BadFrame, KeyError) as error:
                fault = str(error)
        raise self._objects.not_decodable(ref, fault, owner=self._snapshot)

    def _base(self, held: dict[BlockId, Data], base: BlockId) -> Data:
        """Held already, unless the record of another writer counts its generations in another way."""
        found = held.get(base)
        return self.read(self._refs[base]) if found is None else found


def _root(parent: list[int], number: int) -> int:
    """The smallest number of the group; the way to it becomes half as long."""
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number
