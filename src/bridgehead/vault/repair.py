"""Repair: make the index anew from the packs, and save what is intact in packs that are damaged (V20, V22)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.collect import moved, needed_blocks
from bridgehead.vault.doubts import note
from bridgehead.vault.gate import alone, note_removal
from bridgehead.vault.layout import DATA_PREFIX, INDEX_PREFIX, pack_key, pack_of_key
from bridgehead.vault.objects import Objects
from bridgehead.vault.packindex import index_key_of
from bridgehead.vault.packs import Pack, read_table
from bridgehead.vault.records import Damaged
from bridgehead.vault.verify import PackAudit, audit_packs


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did.

    Attributes:
        saved_blocks: intact blocks of damaged packs that were put into a new one.
        lost_blocks: blocks that are damaged in every place, or needed and in none.
        removed: damaged packs that were removed, because all that is intact in them lies elsewhere now.
        unreadable: packs that nobody can say the content of: they are left alone.
    """

    indexed_packs: int
    saved_blocks: int
    lost_blocks: int
    removed: tuple[str, ...]
    unreadable: tuple[str, ...]


def repair(objects: Objects) -> Repaired:
    """Read every pack, and write what is true of them. Twice does what once does.

    What is lost for good is not conjured up: `replicate --heal` brings it from a vault that has it. Raises port errors; a kill at any
    point leaves a valid vault.
    """
    with alone(objects, "repair the vault"):
        ids = [pack for key in objects.blobs.list(DATA_PREFIX) if (pack := pack_of_key(key)) is not None]
        objects.index.refresh()
        audits = audit_packs(objects, ids, read_data=True)
        whole = [audit for audit in audits if not audit.fault and audit.entries]
        intact = {entry.block for audit in whole for entry in audit.entries}
        once = [audit.pack for audit in audits if audit.fault and audit.entries]
        again = audit_packs(objects, once, read_data=True)  # one bad read is no reason to remove a pack
        whole += [audit for audit in again if not audit.fault]
        intact |= {entry.block for audit in again if not audit.fault for entry in audit.entries}
        damaged = [audit for audit in again if audit.fault and audit.entries]
        new, saved = _save_intact(objects, damaged, intact)
        packs = [_pack(objects, audit) for audit in whole] + new
        note_removal(objects)
        old = list(objects.blobs.list(INDEX_PREFIX))
        objects.index.add(packs)
        kept = index_key_of(packs)
        for key in old:
            if key != kept:
                objects.blobs.delete(key)
        written = {pack.id for pack in new}  # where only what lies between the blocks was damaged, the new pack has the old one's name
        for audit in damaged:
            if audit.pack not in written:
                objects.blobs.delete(pack_key(audit.pack))
        lost = {block for audit in damaged for block in audit.bad} | _needed(objects)
        lost -= intact | saved
        left = [audit.pack for audit in audits if audit.fault and not audit.entries]
        sound = [pack.id for pack in packs]
        note(objects.blobs, damaged=left, intact=sound, present=[*left, *sound])
    return Repaired(
        indexed_packs=len(packs),
        saved_blocks=len(saved),
        lost_blocks=len(lost),
        removed=tuple(pack_key(audit.pack) for audit in damaged),
        unreadable=tuple(pack_key(audit.pack) for audit in audits if audit.fault and not audit.entries),
    )


def _needed(objects: Objects) -> set[BlockId]:
    """What snapshots need, as far as their records can be read: verify names those that cannot."""
    try:
        return set(needed_blocks(objects))
    except Damaged:
        return set()


def _save_intact(objects: Objects, damaged: list[PackAudit], intact: set[BlockId]) -> tuple[list[Pack], set[BlockId]]:
    """Put the intact blocks of damaged packs into new ones, except those that lie in an intact pack."""
    places = {
        entry.block: (audit.pack, entry)
        for audit in damaged
        for entry in audit.entries
        if entry.block not in audit.bad and entry.block not in intact
    }
    new, hurt = moved(objects, places.values())
    if hurt:
        raise Transient(
            "it was read twice, and not alike",
            tried="save what is intact in a damaged pack",
            subject=", ".join(pack_key(pack) for pack in sorted(hurt)),
            remedy="Look at the disk, and repair again. Nothing was removed.",
        )
    return new, set(places)


def _pack(objects: Objects, audit: PackAudit) -> Pack:
    key = pack_key(audit.pack)
    size_bytes = objects.blobs.size(key) or 0
    return read_table(audit.pack, size_bytes, lambda offset, size: objects.blobs.get_range(key, offset, size), objects.cipher)
