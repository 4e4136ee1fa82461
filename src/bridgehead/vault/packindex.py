"""PackIndex: which block lies in which pack. A cache: ``repair`` makes it anew from the packs.

It lies in ``index/``, one object for the packs of one save, so that several writers need not agree on anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, PackId
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.layout import INDEX_PREFIX
from bridgehead.vault.packs import Pack
from bridgehead.vault.records import Damaged, damaged

_LOOKS: Final = 5
"""A collection replaces the index once; more than a few in a row are not to be expected."""
_READERS: Final = 8
_PACKS: Final = msgspec.msgpack.Decoder(tuple[Pack, ...])


REPAIR: Final = "`bridgehead vault repair VAULT` makes the index anew from the packs"


class Place(msgspec.Struct, frozen=True):
    """Where a block lies."""

    pack: PackId
    offset_bytes: int
    size_bytes: int


class PackIndex:
    """What this process knows of a vault's index. Safe for threads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._places: dict[BlockId, tuple[Place, ...]] = {}
        self._packs: dict[PackId, Pack] = {}
        self._read: set[str] = set()
        self._lock = threading.Lock()
        self.damages: dict[str, str] = {}
        """Index objects that cannot be read: key and what is wrong. Blocks are missed for them, and none is taken for another."""

    def places(self, block: BlockId) -> tuple[Place, ...]:
        """Every place of the block that is known here, in no order that means anything."""
        with self._lock:
            return self._places.get(block, ())

    def pack(self, pack: PackId) -> Pack | None:
        """What lies in a pack, when that is known."""
        with self._lock:
            return self._packs.get(pack)

    def packs(self) -> tuple[Pack, ...]:
        """All that are known, also those that are not there any more."""
        with self._lock:
            return tuple(self._packs.values())

    def refresh(self) -> None:
        """Read what others have added since. One listing, and one read for each new object; again when one was replaced meanwhile."""
        for _ in range(_LOOKS):
            new = [key for key in self._blobs.list(INDEX_PREFIX) if key not in self._read]
            with ThreadPoolExecutor(_READERS, thread_name_prefix="index") as pool:
                whole = list(pool.map(self._take, new)) if len(new) > 1 else [self._take(key) for key in new]
            if all(whole):
                return

    def _take(self, key: str) -> bool:
        """False when it was put together with others in this moment: the next listing shows what replaced it."""
        try:
            packs = read_index(self._blobs, key)
        except NotFound:
            return False
        except Damaged as error:
            self.damages[key] = error.happened
            return True
        self._learn(packs)
        self._read.add(key)
        self.damages.pop(key, None)
        return True

    def drop(self, pack: PackId) -> None:
        """It is gone. The next look reads everything anew: it may come back, or its blocks lie elsewhere."""
        with self._lock:
            self._read.clear()
            known = self._packs.pop(pack, None)
            for entry in known.entries if known is not None else ():
                left = tuple(place for place in self._places.get(entry.block, ()) if place.pack != pack)
                if left:
                    self._places[entry.block] = left
                else:
                    self._places.pop(entry.block, None)

    def add(self, packs: Iterable[Pack]) -> int:
        """Write down where the blocks of these packs are, and read it back. Returns the bytes written, 0 when that was known.

        Raises Damaged when it reads back differently (V20, V21).
        """
        packs = tuple(packs)
        data = _encoded(packs)
        key = index_key(data)
        written = self._blobs.put_new(key, data)
        intact = self._blobs.get(key) == data
        if not intact and not written:
            self._blobs.delete(key)  # its name is the hash of these bytes, so what lay there was wrong
            written = self._blobs.put_new(key, data)
            intact = self._blobs.get(key) == data
        if not intact:
            self._blobs.delete(key)
            raise damaged(key, "the index reads back differently from what was written", remedy="Look at the store; do not use this vault.")
        self._learn(packs)
        self._read.add(key)
        return len(data) if written else 0

    def forget(self) -> None:
        """Know nothing: somebody has removed packs."""
        with self._lock:
            self._places, self._packs, self._read = {}, {}, set()
            self.damages = {}

    def _learn(self, packs: Iterable[Pack]) -> None:
        with self._lock:
            for pack in packs:
                if pack.id in self._packs:
                    continue
                self._packs[pack.id] = pack
                for entry in pack.entries:
                    place = Place(pack.id, entry.offset_bytes, entry.size_bytes)
                    self._places[entry.block] = (*self._places.get(entry.block, ()), place)


def index_key(data: bytes) -> str:
    """The key of an index object: the hash of its bytes."""
    return f"{INDEX_PREFIX}{block_hash(data)}"


def index_key_of(packs: Iterable[Pack]) -> str:
    """The key of the index object that speaks of just these packs."""
    return index_key(_encoded(packs))


def _encoded(packs: Iterable[Pack]) -> bytes:
    return msgspec.msgpack.encode(sorted(packs, key=lambda pack: pack.hash))


def read_index(blobs: Blobs, key: str) -> tuple[Pack, ...]:
    """The packs that an index object speaks of. Raises NotFound, Damaged."""
    data = blobs.get(key)
    if index_key(data) != key:
        raise damaged(key, "the index does not match its hash", remedy=f"{REPAIR}.")
    try:
        return _PACKS.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(key, f"the index cannot be read ({error})") from error
