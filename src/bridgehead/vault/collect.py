"""Collect: remove what no snapshot needs. Never by a clock, never while anybody could come to need it (V17, V18, V19; design section 5).

Order, so that a kill at any point leaves a valid vault that the next collection finishes: the gate is closed; writers end, or are set
aside; every record is read; that something will be removed is noted; packs that hold nothing needed go first, because that needs no
space; blocks that are needed move out of packs that hold little else; one index takes the place of all; the gate is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.ids import BlockId, PackId, WorkloadId
from bridgehead.model.snapshot import BlockRef
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.gate import WAIT_S, about_to_be_committed, alone, note_removal
from bridgehead.vault.layout import (
    DATA_PREFIX,
    INDEX_PREFIX,
    SNAPSHOTS_PREFIX,
    pack_key,
    pack_of_key,
    receipt_key,
    snapshot_name_of_key,
)
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.packindex import index_key_of
from bridgehead.vault.packs import Entry, OpenPack, Pack, holds, read_table
from bridgehead.vault.receipts import lost_records
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.snapshots import blocks_of, decode_snapshot

REPACK_BELOW: Final = 0.5
"""A pack with a smaller share of needed bytes is put together with others."""
RETAINED: Final = "retained"
"""A store that keeps an object under retention says so with this word (ports.blobs)."""
TRIED: Final = "collect what no snapshot needs"


class Collected(msgspec.Struct, frozen=True):
    """What a collection did, or with ``dry_run`` would do.

    Attributes:
        freed_bytes: of packs that were removed, less those that were written.
        kept_bytes: of the packs that remain.
        unreadable: packs that nobody can say the content of: they are left alone.
        retained: packs that their store does not give up yet (object lock).
        set_aside: writers that may not commit any more, in words.
    """

    dry_run: bool
    removed_packs: int
    repacked_packs: int
    freed_bytes: int
    kept_packs: int
    kept_bytes: int
    unreadable: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


class _Rest(msgspec.Struct, frozen=True):
    """A pack that holds little that is needed, and what that is."""

    pack: Pack
    entries: tuple[Entry, ...]


class _Plan(msgspec.Struct, frozen=True):
    keep: tuple[Pack, ...]
    remove: tuple[Pack, ...]
    repack: tuple[_Rest, ...]
    unreadable: tuple[str, ...]


Roots = Callable[[], Iterable[BlockRef]]
"""Blocks that are needed besides those of snapshots, such as those of shards that wait for the others."""


def collect(objects: Objects, *, roots: Roots, dry_run: bool = False, evict: bool = False, wait_s: float = WAIT_S) -> Collected:
    """Remove packs without needed blocks, and put small rests together.

    Args:
        evict: set writers aside that do not end within ``wait_s``: they are refused at their commit, and have to save again.

    Raises:
        Conflict: somebody is writing and does not end, or is collecting; he is named, and nothing was removed.
        Damaged: a snapshot record cannot be read, so that nobody knows what it needs; nothing was removed.
    """
    if dry_run:
        return _report(_plan(objects, _needed(objects, roots)), dry_run=True)
    with alone(objects, TRIED, evict=evict, wait_s=wait_s) as set_aside:
        plan = _plan(objects, _needed(objects, lambda: (*roots(), *about_to_be_committed(objects))))
        needs_work = plan.remove or plan.repack or _index_is_scattered(objects)
        plan, new, retained = _carry_out(objects, plan) if needs_work else (plan, [], [])
    return _report(plan, dry_run=False, new=new, retained=retained, set_aside=set_aside)


def needed_blocks(objects: Objects) -> dict[BlockId, BlockRef]:
    """What the snapshots of all workloads need. Raises Damaged for the first record that cannot be read."""
    needed: dict[BlockId, BlockRef] = {}
    for lost in lost_records(objects):
        receipt = receipt_key(lost.site, lost.name.id)
        raise damaged(
            lost.name.key,
            lost.happened,
            remedy=f"Replicate it back from {lost.site}. If it is to be gone, delete {receipt} from the vault.",
        )
    for key in objects.blobs.list(SNAPSHOTS_PREFIX):
        folder = WorkloadId(key.split("/")[1])
        name = snapshot_name_of_key(folder, key)
        if name is None:
            raise damaged(key, "the name is not that of a snapshot record", remedy="Find out what it is, and move it out of the vault.")
        try:
            record = objects.blobs.get(key)
        except NotFound:
            continue  # forgotten since it was listed
        needed.update({ref.block: ref for ref in blocks_of(decode_snapshot(record, name))})
    return needed


def _needed(objects: Objects, roots: Roots) -> dict[BlockId, BlockRef]:
    return needed_blocks(objects) | {ref.block: ref for ref in roots()}


def _plan(objects: Objects, needed: Mapping[BlockId, BlockRef]) -> _Plan:
    objects.index.refresh()
    packs, unreadable = _listed(objects)
    live = {pack.id: sum(entry.size_bytes for entry in pack.entries if entry.block in needed) for pack in packs}
    unsound = _unsound(objects, packs, needed)
    homes: set[BlockId] = set()
    keep, remove, repack = [], [], []
    for pack in sorted(packs, key=lambda pack: (pack.id in unsound, -live[pack.id], pack.id)):
        # A block that lies in several packs is needed once; but only an intact copy makes the others superfluous.
        mine = [entry for entry in pack.entries if entry.block in needed and entry.block not in homes]
        if pack.id not in unsound:
            homes.update(entry.block for entry in mine)
        if not mine:
            remove.append(pack)
        elif sum(entry.size_bytes for entry in mine) < REPACK_BELOW * pack.size_bytes and len(mine) < len(pack.entries):
            repack.append(_Rest(pack, tuple(mine)))
        else:
            keep.append(pack)
    return _Plan(tuple(keep), tuple(remove), tuple(repack), tuple(unreadable))


def _unsound(objects: Objects, packs: Sequence[Pack], needed: Mapping[BlockId, BlockRef]) -> set[PackId]:
    """Of the packs that share needed blocks with others, those that the store does not read back whole."""
    times = Counter(entry.block for pack in packs for entry in pack.entries if entry.block in needed)
    shared = [pack for pack in packs if any(times[entry.block] > 1 for entry in pack.entries)]

    def whole(pack: Pack) -> bool:
        try:
            found = objects.blobs.digest(pack_key(pack.id))
        except NotFound:
            return False
        return (found.blake3, found.size_bytes) == (pack.id, pack.size_bytes)

    return {pack.id for pack, sound in zip(shared, parallel(whole, shared), strict=True) if not sound}


def _listed(objects: Objects) -> tuple[list[Pack], list[str]]:
    """Every pack in the store with what lies in it, and the keys of those of which nobody can say it."""
    ids = [pack for key in objects.blobs.list(DATA_PREFIX) if (pack := pack_of_key(key)) is not None]

    def known(index: int) -> Pack | None:
        pack = ids[index]
        found = objects.index.pack(pack)
        if found is not None:
            return found
        key = pack_key(pack)
        size_bytes = objects.blobs.size(key) or 0
        try:
            return read_table(pack, size_bytes, lambda offset, size: objects.blobs.get_range(key, offset, size), objects.cipher)
        except Damaged:
            return None

    found = parallel(known, range(len(ids)))
    return [pack for pack in found if pack is not None], [pack_key(ids[at]) for at, pack in enumerate(found) if pack is None]


def _index_is_scattered(objects: Objects) -> bool:
    return sum(1 for _ in objects.blobs.list(INDEX_PREFIX)) > 1


def _carry_out(objects: Objects, plan: _Plan) -> tuple[_Plan, list[Pack], list[str]]:
    """Returns the plan as it was done (nothing moves out of damaged packs), the new packs, and the keys that the store did not give up."""
    blobs = objects.blobs
    note_removal(objects)
    retained = [key for pack in plan.remove if not _removed(blobs, key := pack_key(pack.id))]
    new, hurt = moved(objects, ((rest.pack.id, entry) for rest in plan.repack for entry in rest.entries))
    left = tuple(rest.pack for rest in plan.repack if rest.pack.id in hurt)
    repack = tuple(rest for rest in plan.repack if rest.pack.id not in hurt)
    plan = msgspec.structs.replace(plan, keep=(*plan.keep, *left), repack=repack)
    old = list(blobs.list(INDEX_PREFIX))
    objects.index.add((*plan.keep, *new))
    kept = index_key_of((*plan.keep, *new))
    for key in old:
        if key != kept:
            blobs.delete(key)
    written = {pack.id for pack in new}
    retained += [key for rest in plan.repack if rest.pack.id not in written and not _removed(blobs, key := pack_key(rest.pack.id))]
    return plan, new, retained


def _removed(blobs: Blobs, key: str) -> bool:
    """False for an object that its store keeps for a time that is not over (V26)."""
    try:
        blobs.delete(key)
    except Permanent as error:
        if RETAINED not in error.happened:
            raise
        return False
    return True


def moved(objects: Objects, places: Iterable[tuple[PackId, Entry]]) -> tuple[list[Pack], frozenset[PackId]]:
    """Blocks from where they lie, put into new packs; and the packs in which one of them is damaged, which must stay: a new pack is named
    for its bytes, and would vouch for the damage."""
    new: list[Pack] = []
    hurt: set[PackId] = set()
    filling = OpenPack()
    for pack, entry in places:
        wanted = entry.size_bytes + objects.cipher.overhead_bytes
        data = objects.blobs.get_range(pack_key(pack), entry.offset_bytes, wanted)
        if not holds(data, msgspec.structs.replace(entry, offset_bytes=0), objects.cipher):
            hurt.add(pack)
            continue
        filling.add(entry.block, entry.size_bytes, (data,))
        if filling.size_bytes >= objects.pack_bytes:
            new.append(_closed(objects, filling))
            filling = OpenPack()
    if filling.size_bytes:
        new.append(_closed(objects, filling))
    return new, frozenset(hurt)


def _closed(objects: Objects, filling: OpenPack) -> Pack:
    pack, data = filling.close(objects.cipher)
    objects.put_pack(pack, data)
    return pack


def _report(
    plan: _Plan, *, dry_run: bool, new: Sequence[Pack] = (), retained: Sequence[str] = (), set_aside: Sequence[str] = ()
) -> Collected:
    gone_bytes = sum(pack.size_bytes for pack in (*plan.remove, *(rest.pack for rest in plan.repack)) if pack_key(pack.id) not in retained)
    new_bytes = sum(pack.size_bytes for pack in new)
    return Collected(
        dry_run=dry_run,
        removed_packs=sum(1 for pack in plan.remove if pack_key(pack.id) not in retained),
        repacked_packs=len(plan.repack),
        freed_bytes=gone_bytes - new_bytes,
        kept_packs=len(plan.keep) + len(new),
        kept_bytes=sum(pack.size_bytes for pack in plan.keep) + new_bytes,
        unreadable=plan.unreadable,
        retained=tuple(retained),
        set_aside=tuple(set_aside),
    )
