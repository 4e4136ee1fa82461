"""Receive: bring the objects of a set into a vault, verified, without keys. Killed anywhere, it goes on with what is not there yet.

Packs, index and records come first and are read back at the store; only then the snapshot records, so that none names what is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.courier.gather import Gathered, Stripes
from bridgehead.vault.courier.layout import Entry, is_snapshot, ranges, travels
from bridgehead.vault.layout import pack_of_key
from bridgehead.vault.objects import parallel, refuse
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.vaultfile import BOUND, VaultFile


class NotReceived(msgspec.Struct, frozen=True):
    """An object that did not arrive, and why."""

    key: str
    reason: str


class Received(msgspec.Struct, frozen=True):
    """What a set came to at the target.

    Attributes:
        written: objects that were written now; ``written_bytes`` theirs.
        present: objects that were there already.
        failed: objects that could not be brought, or that the target holds with other content.
        held_back: snapshot records that were not written, because something failed and nobody without keys can say what they need.
        lost_shares: by drive number, shares that were made up for from parity.
        snapshots: keys of the snapshot records of the set that are in the target now.
    """

    written: int
    written_bytes: int
    present: int
    failed: tuple[NotReceived, ...]
    held_back: int
    lost_shares: dict[int, int]
    snapshots: tuple[str, ...]


def check_target(gathered: Gathered, file: VaultFile) -> None:
    """Raises Permanent when the target cannot hold what the set brings."""
    head = gathered.head
    lacking = sorted(set(head.features) - set(file.features))
    other_kind = (BOUND in head.features) != file.bound
    if head.family == file.family and not lacking and not other_kind:
        return
    happened = "its objects are sealed with another key than those of this vault"
    if head.family == file.family:
        happened = f"it needs the feature {', '.join(lacking)}, which this vault was made without"
        if not lacking:
            happened = f"the tables of its packs are not bound to them, and this vault was made with {BOUND}"
    raise refuse(
        happened,
        tried="receive a courier set",
        subject=f"set {head.id[:8]} of vault {head.vault[:8]}",
        remedy="Make the target's vault like the source (`bridgehead vault init TARGET --like SOURCE`), and receive into that.",
    )


def receive(gathered: Gathered, target: Blobs, *, before_snapshots: Callable[[], None], moved: Callable[[int], None]) -> Received:
    """Write what the target lacks.

    Args:
        before_snapshots: called when all else is there and proved; raises when the target was collected meanwhile.
        moved: bytes of the set that are done.

    Raises port errors of the target; what is damaged on too many drives is told in the result.
    """
    _check_list(gathered)
    return _Receiving(gathered, target, moved).run(before_snapshots)


class _Receiving:
    def __init__(self, gathered: Gathered, target: Blobs, moved: Callable[[int], None]) -> None:
        self._set = gathered
        self._target = target
        self._moved = moved
        self._stripes = Stripes(gathered)
        self._stripe: tuple[int, bytes] = (-1, b"")
        self._failed: list[NotReceived] = []
        self._written: list[Entry] = []
        self._present = 0

    def run(self, before_snapshots: Callable[[], None]) -> Received:
        there = frozenset(self._target.list(""))
        placed = list(ranges(self._set.entries))
        first = [one for one in placed if not is_snapshot(one[0].key)]
        snapshots = [one for one in placed if is_snapshot(one[0].key)]
        self._bring(first, there)
        self._prove([entry for entry, _ in first])
        held_back = len(snapshots)
        if not self._failed:
            before_snapshots()
            self._bring(snapshots, there)
            self._prove([entry for entry, _ in snapshots])
            held_back = 0
        failed = {one.key for one in self._failed}
        return Received(
            written=len(self._written),
            written_bytes=sum(entry.size_bytes for entry in self._written),
            present=self._present,
            failed=tuple(self._failed),
            held_back=held_back,
            lost_shares=dict(self._stripes.lost_shares),
            snapshots=() if held_back else tuple(entry.key for entry, _ in snapshots if entry.key not in failed),
        )

    def _bring(self, placed: Iterable[tuple[Entry, int]], there: frozenset[str]) -> None:
        for entry, at in placed:
            if entry.key in there and self._target.size(entry.key) == entry.size_bytes:
                self._present += 1
                self._moved(entry.size_bytes)
                continue
            try:
                data = self._read(at, entry.size_bytes)
            except Damaged as fault:
                self._failed.append(NotReceived(entry.key, f"{fault.subject}: {fault.happened}"))
                continue
            if block_hash(data) != entry.blake3:
                self._failed.append(NotReceived(entry.key, "it was put together from intact shares and does not match its hash"))
                continue
            if not self._target.put_new(entry.key, data) and pack_of_key(entry.key) is not None:
                # Its name is the hash of these bytes, so what lies there is a torn write (V20).
                self._target.delete(entry.key)
                self._target.put_new(entry.key, data)
            self._written.append(entry)
            self._moved(entry.size_bytes)

    def _prove(self, entries: Sequence[Entry]) -> None:
        """The store reads back and hashes every object of the set, those that were there too."""
        told = {one.key for one in self._failed}
        entries = [entry for entry in entries if entry.key not in told]
        for entry, fault in zip(entries, parallel(self._fault, entries), strict=True):
            if fault:
                self._failed.append(NotReceived(entry.key, fault))

    def _fault(self, entry: Entry) -> str:
        try:
            found = self._target.digest(entry.key)
        except NotFound:
            return "it was removed at the target meanwhile"
        if found.blake3 == entry.blake3:
            return ""
        if pack_of_key(entry.key) is None:
            return "the target holds other content under this name, which was left as it is"
        self._target.delete(entry.key)
        return "it was damaged at the target and was removed there; receive again to bring it"

    def _read(self, offset_bytes: int, size_bytes: int) -> bytes:
        parts = []
        end = offset_bytes + size_bytes
        step = self._set.head.stripe_bytes
        while offset_bytes < end:
            number = offset_bytes // step
            if number != self._stripe[0]:
                self._stripe = (number, self._stripes.read(number))
            piece = self._stripe[1][offset_bytes - number * step : end - number * step]
            parts.append(piece)
            offset_bytes += len(piece)
        return b"".join(parts)


def _check_list(gathered: Gathered) -> None:
    """A set may bring what travels, and packs under their own names only. Raises Damaged."""
    for entry in gathered.entries:
        pack = pack_of_key(entry.key)
        if not travels(entry.key) or (pack is not None and pack != entry.blake3):
            subject = f"{entry.key} of set {gathered.head.id[:8]}"
            raise damaged(subject, "the list of the set names it, and no set may bring this", remedy="Do not use this set.")
