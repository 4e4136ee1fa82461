"""Replicate: missing blocks, then the record; in slices, resumable anywhere because what is there is never sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec

from bridgehead.model.snapshot import BlockRef, Snapshot
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.objects import WORKERS, Objects, parallel, refuse
from bridgehead.vault.snapshots import blocks_of, decode_snapshot, refs_of
from bridgehead.vault.vaultfile import CODEC


class Place(msgspec.Struct, frozen=True):
    """One vault, seen from inside."""

    objects: Objects
    catalog: Catalog
    encodes: bool = False


class Pace(msgspec.Struct, frozen=True):
    """How long a slice may take, by which clock, and who counts the bytes (also those of a slice that ends with an error)."""

    budget_s: float
    monotonic_s: Callable[[], float]
    written: Callable[[int], None]


def replicate(snapshot: Snapshot, *, source: Place, target: Place, pace: Pace) -> int:
    """Copy for about ``budget_s`` (at least one block), and commit when nothing is missing.

    Returns:
        Bytes that are still missing at the target. 0 means that the record is committed there and read back.

    Raises:
        Permanent: the target cannot hold encoded blocks.
        Damaged: a block at the source (with file and tensors), or the record at the target.
    """
    if not target.encodes and any(ref.stored for ref in refs_of(snapshot)):
        raise refuse(
            "its blocks are encoded, and the target's vault was made without encoding",
            tried="replicate a snapshot",
            subject=snapshot.id,
            remedy=f"Make the target's vault with the feature {CODEC}.",
        )
    missing = target.objects.absent(blocks_of(snapshot))
    unsent = _send(snapshot, missing, source.objects, target.objects, pace)
    if unsent:
        return sum(ref.size_bytes for ref in unsent)
    if target.catalog.remembered(snapshot.id) is None:
        _commit(snapshot, source, target, pace)
    return 0


def _commit(snapshot: Snapshot, source: Place, target: Place, pace: Pace) -> None:
    name = snapshot_name(snapshot.id)
    record = source.objects.blobs.get(name.key)
    decode_snapshot(record, name)
    if target.objects.commit(name.key, record):
        pace.written(len(record))
        target.catalog.remember(snapshot)
    else:
        target.catalog.snapshot(snapshot.id)  # there already: it must be intact


def _send(snapshot: Snapshot, missing: list[BlockRef], source: Objects, target: Objects, pace: Pace) -> list[BlockRef]:
    """Several workers take the next block until the time is up; the first sends at least one, so that every call gets ahead."""
    waiting = iter(missing)
    lock = threading.Lock()
    deadline_s = pace.monotonic_s() + pace.budget_s

    def work(worker: int) -> int:
        taken = 0
        while (worker == 0 and taken == 0) or pace.monotonic_s() < deadline_s:
            with lock:
                ref = next(waiting, None)
            if ref is None:
                break
            data = source.read_block(ref.block, ref.size_bytes, owner=snapshot)
            if target.store_block(ref.block, data):
                pace.written(ref.size_bytes)
            taken += 1
        return taken

    return missing[sum(parallel(work, range(min(WORKERS, len(missing))))) :]
