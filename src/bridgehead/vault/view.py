"""View: a vault that reads another store and writes into a scratch store: whatever is done in it, the other store stays as it was (R13).

Fences, receipts and snapshots that are written through a view exist in the view alone: it has a namespace of fences of its own.

    @own/<key>      a value that was written through the view
    @gone/<key>     a value of the other store that was deleted in the view

A view shows the snapshots that were there when it was made: what arrives later is not what a loss at that moment would have left.
It can be told to be slow, or to read some bytes wrong: planned faults of a drill. It notes each of them when it strikes.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import WorkloadId
from bridgehead.ports.blobkeys import checked_key, checked_prefix
from bridgehead.ports.blobs import BlobDigest, Blobs
from bridgehead.vault.crypt.sealed import SealedBlobs
from bridgehead.vault.layout import pack_key, snapshots_prefix
from bridgehead.vault.packindex import PackIndex
from bridgehead.vault.snapshots import blocks_of
from bridgehead.vault.vault import Vault

VIEW_FILE: Final = "view.json"
"""Makes a folder a view: whoever opens a vault in that folder opens the view."""
SCRATCH: Final = "scratch"
_OWN, _GONE, HITS = "@own/", "@gone/", "@hits/"


class WrongByte(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The byte at ``offset_bytes`` of a value reads with its lowest bit flipped."""

    key: str
    offset_bytes: int
    name: str


class KnownKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of the keys of the other store that begin with ``prefix``, these are shown."""

    prefix: str
    keys: frozenset[str]


class ViewFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``view.json``: what the view looks at, and its planned faults.

    Attributes:
        base: driver and options of the other store, as estates have them, with absolute paths.
        rate_bps: bits per second at which the other store is read; 0 for as fast as it goes.
        known: what is shown of places to which something may be added meanwhile.
    """

    base: dict[str, Any]
    rate_bps: float = 0.0
    wrong: tuple[WrongByte, ...] = ()
    known: tuple[KnownKeys, ...] = ()


class ViewBlobs:
    """Implements ``ports.blobs.Blobs``. It has no way to write to ``base``.

    Args:
        scratch: takes what is written; the view's own, and empty in the beginning.
        sleep: waits for seconds, for a slow line.
    """

    def __init__(self, base: Blobs, scratch: Blobs, file: ViewFile, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._base, self._scratch, self._file, self._sleep = base, scratch, file, sleep
        self._wrong = {key: [one for one in file.wrong if one.key == key] for key in {one.key for one in file.wrong}}
        self._noted: set[str] = set()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        checked_key(key)
        if not self._is_gone(key) and not self._is_later(key) and self._base.size(key) is not None:
            return False
        return self._scratch.put_new(_OWN + key, data)

    def get(self, key: str) -> bytes:
        """See the port."""
        own = self._own(key)
        return own if own is not None else self._read(key, 0, lambda: self._base.get(key))

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        if self._scratch.size(_OWN + checked_key(key)) is not None:
            return self._scratch.get_range(_OWN + key, offset_bytes, size_bytes)
        return self._read(key, offset_bytes, lambda: self._base.get_range(key, offset_bytes, size_bytes))

    def digest(self, key: str) -> BlobDigest:
        """See the port. A value with a planned fault is read, so that its hash is that of what readers see."""
        if self._scratch.size(_OWN + checked_key(key)) is not None:
            return self._scratch.digest(_OWN + key)
        if key in self._wrong:
            data = self.get(key)
            return BlobDigest(block_hash(data), len(data))
        self._refuse_gone(key)
        found = self._base.digest(key)
        self._wait(found.size_bytes)
        return found

    def size(self, key: str) -> int | None:
        """See the port."""
        own = self._scratch.size(_OWN + checked_key(key))
        if own is not None:
            return own
        return None if self._is_gone(key) or self._is_later(key) else self._base.size(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See the port."""
        checked_prefix(prefix)
        own = [key.removeprefix(_OWN) for key in self._scratch.list(_OWN + prefix)]
        gone = {key.removeprefix(_GONE) for key in self._scratch.list(_GONE + prefix)}
        base = [key for key in self._base.list(prefix) if key not in gone and not self._is_later(key)]
        before = ""
        for key in heapq.merge(own, base):
            if key != before:
                yield key
            before = key

    def delete(self, key: str) -> None:
        """See the port."""
        checked_key(key)
        if not self._is_later(key) and self._base.size(key) is not None:
            self._scratch.put_new(_GONE + key, b"")
        self._scratch.delete(_OWN + key)

    def _own(self, key: str) -> bytes | None:
        try:
            return self._scratch.get(_OWN + checked_key(key))
        except NotFound:
            return None

    def _is_gone(self, key: str) -> bool:
        return self._scratch.size(_GONE + key) is not None

    def _is_later(self, key: str) -> bool:
        return any(key.startswith(known.prefix) and key not in known.keys for known in self._file.known)

    def _refuse_gone(self, key: str) -> None:
        if self._is_gone(key) or self._is_later(key):
            raise NotFound("no such key", tried="read a value", subject=f"{key} in a view")

    def _read(self, key: str, offset_bytes: int, read: Callable[[], bytes]) -> bytes:
        self._refuse_gone(key)
        data = read()
        self._wait(len(data))
        for wrong in self._wrong.get(key, ()):
            at = wrong.offset_bytes - offset_bytes
            if 0 <= at < len(data):
                changed = bytearray(data)
                changed[at] ^= 1
                data = bytes(changed)
                self._note(wrong.name)
        return data

    def _wait(self, size_bytes: int) -> None:
        if self._file.rate_bps:
            self._note("slow-line")
            self._sleep(size_bytes * 8 / self._file.rate_bps)

    def _note(self, name: str) -> None:
        if name not in self._noted:
            self._scratch.put_new(HITS + name.replace(":", "@"), b"")
            self._noted.add(name)


def hits_in(scratch: Blobs) -> frozenset[str]:
    """Names of the planned faults of a view that struck, in whatever process."""
    return frozenset(key.removeprefix(HITS).replace("@", ":") for key in scratch.list(HITS))


def known_snapshots(vault: Vault, blobs: Blobs, workload: WorkloadId) -> KnownKeys:
    """The records of snapshots that are there now, as the store ``blobs`` of the vault names them."""
    seen, prefix = vault.place.objects.blobs, snapshots_prefix(workload)
    stored = seen.stored_prefix(prefix) if isinstance(seen, SealedBlobs) else prefix
    return KnownKeys(stored, frozenset(blobs.list(stored)))


def wrong_bytes(vault: Vault, workload: WorkloadId, *, name: str) -> tuple[WrongByte, ...]:
    """A block that only the newest usable snapshot of ``workload`` needs, in each of its places; () when there is none of that kind.

    So a drill can tell whether damage of the newest is noticed, and the one before it is used.
    """
    usable = vault.list(workload)
    if not usable:
        return ()
    older = {ref.block for info in usable[1:] for ref in blocks_of(vault.snapshot(info.id))}
    index = PackIndex(vault.place.objects.blobs)
    index.refresh()
    for ref in blocks_of(vault.snapshot(usable[0].id)):
        if ref.block not in older:
            return tuple(WrongByte(pack_key(place.pack), place.offset_bytes, name) for place in index.places(ref.block))
    return ()
