"""Replicate: missing packs, then the index, then the record; in slices, resumable anywhere because what is there is never sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.hashing import block_hash
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.crypt.signing import copy_signature
from bridgehead.vault.layout import pack_key, snapshot_name
from bridgehead.vault.memory import PROCESS_BYTES, Budget, memory_bytes
from bridgehead.vault.objects import WORKERS, Objects, parallel, refuse
from bridgehead.vault.packs import Pack
from bridgehead.vault.records import damaged
from bridgehead.vault.sessions import open_session
from bridgehead.vault.snapshots import blocks_of, decode_snapshot, refs_of
from bridgehead.vault.vaultfile import BOUND, CODEC

if TYPE_CHECKING:
    from bridgehead.vault.crypt.ring import KeyRing


class Place(msgspec.Struct, frozen=True):
    """One vault, seen from inside. ``family``: vaults of one family can read each other's packs."""

    objects: Objects
    catalog: Catalog
    encodes: bool = False
    family: str = ""
    ring: KeyRing | None = None


class Pace(msgspec.Struct, frozen=True):
    """How long a slice may take, by which clock, and who counts the bytes (also those of a slice that ends with an error)."""

    budget_s: float
    monotonic_s: Callable[[], float]
    written: Callable[[int], None]


def replicate(snapshot: Snapshot, *, source: Place, target: Place, pace: Pace) -> int:
    """Copy for about ``budget_s`` (at least one pack), and commit when nothing is missing.

    Returns:
        Bytes of packs that are still missing at the target. 0 means that the record is committed there and read back.

    Raises:
        Permanent: the target cannot hold encoded blocks, or cannot read the source's packs.
        Damaged: a block at the source (with file and tensors), or the record at the target.
        Conflict: this replication was set aside by a collection at the target; again, it goes on.
    """
    _check(snapshot, source, target)
    with open_session(target.objects, f"replicate {snapshot.id}") as session:
        target.objects.index.refresh()
        missing = missing_packs(snapshot, source.objects, target.objects)
        unsent = _send(snapshot, missing, source.objects, target.objects, pace)
        if unsent:
            return sum(pack.size_bytes for pack in unsent)
        if not target.catalog.is_there(snapshot.id):
            name = snapshot_name(snapshot.id)
            record = source.objects.blobs.get(name.key)
            decode_snapshot(record, name)
            pace.written(copy_signature(source.objects, target.objects, snapshot.id))
            if session.commit(name.key, record):
                pace.written(len(record))
                target.catalog.remember(snapshot)
        target.catalog.snapshot(snapshot.id)  # also one that was there already must be intact
    return 0


def check_families(source: Place, target: Place, *, subject: str) -> None:
    """Raises Permanent when the target could not read what is copied as it is."""
    if source.family != target.family:
        raise refuse(
            "the two vaults are of different families: what is sealed with the key of one cannot be read with that of the other",
            tried="replicate",
            subject=subject,
            remedy="Make the target's vault with `bridgehead vault init TARGET --like SOURCE`.",
        )
    if source.objects.cipher.binds_tables != target.objects.cipher.binds_tables:
        raise refuse(
            f"only one of the two vaults was made with {BOUND}: the tables in the packs of one do not open in the other",
            tried="replicate",
            subject=subject,
            remedy="Make the target's vault with `bridgehead vault init TARGET --like SOURCE`.",
        )


def _check(snapshot: Snapshot, source: Place, target: Place) -> None:
    check_families(source, target, subject=snapshot.id)
    if source.ring is not None and target.ring is not None:
        from bridgehead.vault.crypt.keys import share  # brings cryptography and age, which plain vaults do without

        share(source.ring, target.ring, target.objects.blobs)
    if not target.encodes and any(ref.stored for ref in refs_of(snapshot)):
        raise refuse(
            "its blocks are encoded, and the target's vault was made without encoding",
            tried="replicate a snapshot",
            subject=snapshot.id,
            remedy=f"Make the target's vault with the feature {CODEC}.",
        )


def missing_packs(snapshot: Snapshot, source: Objects, target: Objects) -> list[Pack]:
    """The packs of the source that bring the target what it lacks of a snapshot, the smallest set that is easily found.

    Raises Damaged for a block that the source does not have.
    """
    packs: dict[str, Pack] = {}
    wanted = target.lacking({ref.block: ref for ref in blocks_of(snapshot)}.values())
    source.lacking(wanted)  # brings the index up to date where a collection has moved something
    for ref in wanted:
        places = source.index.places(ref.block)
        if any(place.pack in packs for place in places):
            continue
        pack = next((found for place in places if source.has_pack(place.pack) and (found := source.index.pack(place.pack))), None)
        if pack is None:
            source.read_block(ref.block, ref.size_bytes, owner=snapshot)  # raises, naming what it holds
            raise damaged(f"block {ref.block}", "its pack is damaged")
        packs[pack.id] = pack
    return [packs[pack] for pack in sorted(packs)]


def _send(snapshot: Snapshot, missing: list[Pack], source: Objects, target: Objects, pace: Pace) -> list[Pack]:
    """Several workers take the next pack until the time is up; the first sends at least one, so that every call gets ahead."""
    waiting = iter(missing)
    lock = threading.Lock()
    largest_bytes = max((pack.size_bytes for pack in missing), default=0)
    room = _room(memory_bytes())
    deadline_s = pace.monotonic_s() + pace.budget_s
    sent: set[str] = set()

    def work(worker: int) -> None:
        taken = 0
        while True:
            with room.hold(largest_bytes):
                if (worker or taken) and pace.monotonic_s() >= deadline_s:
                    break
                with lock:
                    pack = next(waiting, None)
                if pack is None:
                    break
                if not target.adopt_pack(pack) and target.put_pack(pack, _whole(pack, snapshot, source)):
                    pace.written(pack.size_bytes)
            with lock:
                sent.add(pack.id)
            taken += 1

    workers = max(1, min(WORKERS, len(missing), memory_bytes() // 6 // max(1, largest_bytes)))
    parallel(work, range(workers))  # when it breaks off, what arrived is adopted by the next slice
    if sent:
        pace.written(target.index.add(pack for pack in missing if pack.id in sent))
    return [pack for pack in missing if pack.id not in sent]


@cache
def _room(total_bytes: int) -> Budget:
    """For the packs that all replications of this process have under way together, however many streams there are: half of what
    the budget leaves, because a pack is there twice while it is received."""
    return Budget((total_bytes - PROCESS_BYTES) // 2)


def _whole(pack: Pack, snapshot: Snapshot, source: Objects) -> bytes:
    """The pack's bytes, verified. Raises Damaged, naming what of the snapshot is hurt."""
    try:
        data = source.blobs.get(pack_key(pack.id))
    except NotFound:
        source.lacking(blocks_of(snapshot))
        raise Transient(
            "a collection at the source has moved it", tried="replicate a snapshot", subject=pack_key(pack.id), remedy="Do it again."
        ) from None
    if block_hash(data) == pack.id:
        return data
    source.suspect_pack(pack.id)
    for ref in blocks_of(snapshot):
        if any(place.pack == pack.id for place in source.index.places(ref.block)):
            source.read_block(ref.block, ref.size_bytes, owner=snapshot)  # raises for the one that is hurt
    raise damaged(
        pack_key(pack.id),
        "the pack is damaged, in a place that this snapshot does not use",
        remedy="`bridgehead vault repair` puts its intact blocks into a new pack.",
    )
