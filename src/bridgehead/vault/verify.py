"""Verify: read everything and name what is damaged and what is hurt by it (V22, V31)."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, PackId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Receipt, Snapshot
from bridgehead.vault.crypt.signing import check as check_signature
from bridgehead.vault.doubts import note
from bridgehead.vault.drills import read_drill
from bridgehead.vault.fences import read_fence
from bridgehead.vault.holds import read_hold
from bridgehead.vault.layout import (
    DATA_PREFIX,
    INDEX_PREFIX,
    VAULT_KEY,
    epoch_of_fence_key,
    pack_key,
    pack_of_key,
    receipt_key,
    snapshot_name_of_key,
)
from bridgehead.vault.memory import memory_bytes
from bridgehead.vault.objects import WORKERS, Objects, parallel
from bridgehead.vault.packindex import read_index
from bridgehead.vault.packs import Entry, holds, read_table
from bridgehead.vault.paths import shown
from bridgehead.vault.receipts import lost_records
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.snapshots import blocks_of, decode_snapshot, hurt, tensors_in
from bridgehead.vault.vaultfile import VaultFile

_NAMED: Final = 10
_SAID: Final = 20
"""So many parts that a damage hurts are named one by one."""


class ObjectKind(enum.StrEnum):
    """The classes of objects in a vault."""

    VAULT = "vault"
    PACK = "pack"
    INDEX = "index"
    SNAPSHOT = "snapshot"
    RECEIPT = "receipt"
    FENCE = "fence"
    HOLD = "hold"
    DRILL = "drill"
    KEY = "key"
    SIGNATURE = "signature"
    STATE = "state"
    UNKNOWN = "unknown"


class Damage(msgspec.Struct, frozen=True):
    """One bad object: which, what is wrong with it, and what it hurts (empty when no snapshot uses it)."""

    kind: ObjectKind
    key: str
    happened: str
    hurts: tuple[str, ...] = ()


class VerifyReport(msgspec.Struct, frozen=True):
    """What was read and what was found.

    Attributes:
        blocks: distinct blocks that the index knows.
        unused_bytes: in blocks that belong to no snapshot, such as those of a save that was killed; `collect` frees them.
    """

    packs: int
    blocks: int
    snapshots: int
    read_bytes: int
    unused_bytes: int
    damages: tuple[Damage, ...]

    @property
    def intact(self) -> bool:
        """No damage."""
        return not self.damages


def verify(objects: Objects, *, read_data: bool = True) -> VerifyReport:
    """Read every object of the vault; of packs only table and size when not ``read_data``. Damaged packs are noted, see ``doubts``.

    Raises port errors when the store cannot be read: that is not the same as damage.
    """
    damages: list[Damage] = []
    snapshots: list[Snapshot] = []
    packs: list[PackId] = []
    if objects.blobs.size(VAULT_KEY) is None:
        damages.append(Damage(ObjectKind.VAULT, VAULT_KEY, "it is missing"))
    for key in objects.blobs.list(""):
        pack = pack_of_key(key)
        if pack is not None:
            packs.append(pack)
            continue
        try:
            found = read_object(objects, key)
        except (Damaged, NotFound) as error:
            damages.append(Damage(kind_of(key), key, error.happened))
            continue
        if isinstance(found, Snapshot):
            snapshots.append(found)
    named = {snapshot.id for snapshot in snapshots} | {damage.key for damage in damages}
    for record in lost_records(objects):
        if record.name.key not in named:
            damages.append(Damage(ObjectKind.SNAPSHOT, record.name.key, record.happened, (record.name.id,)))
    objects.index.refresh()
    audits = audit_packs(objects, packs, read_data=read_data)
    bad = [audit.pack for audit in audits if audit.fault]
    note(objects.blobs, damaged=bad, intact=[audit.pack for audit in audits if read_data and not audit.fault], present=packs)
    intact: set[BlockId] = set()
    blocks: dict[BlockId, int] = {}
    for audit in audits:
        blocks.update({entry.block: entry.size_bytes for entry in audit.entries})
        intact.update(entry.block for entry in audit.entries if entry.block not in audit.bad)
    needs = _needs(snapshots)
    for audit in audits:
        if audit.fault:
            hurt_here = {block for block in audit.bad if block not in intact}
            damages.append(Damage(ObjectKind.PACK, pack_key(audit.pack), audit.fault, _hurts(needs, hurt_here)))
    told = {block for audit in audits for block in audit.bad}
    lost = sorted(block for block in needs if block not in intact and block not in told)
    homes = {block: {place.pack for place in objects.index.places(block)} for block in lost}
    for pack in sorted({pack for found in homes.values() for pack in found}):
        damages.append(Damage(ObjectKind.PACK, pack_key(pack), "the pack is missing", _hurts(needs, {b for b in lost if pack in homes[b]})))
    nowhere = {block for block in lost if not homes[block]}
    if nowhere:
        happened = f"{_blocks(len(nowhere))} in no pack, first {min(nowhere)}"
        damages.append(Damage(ObjectKind.PACK, DATA_PREFIX, happened, _hurts(needs, nowhere)))
    unknown = {block for block in needs if block in intact and not objects.index.places(block)}
    if unknown:
        happened = f"{_blocks(len(unknown))} in packs that no index speaks of, first {min(unknown)}"
        damages.append(Damage(ObjectKind.INDEX, INDEX_PREFIX, happened, _hurts(needs, unknown)))
    return VerifyReport(
        packs=len(packs),
        blocks=len(blocks),
        snapshots=len(snapshots),
        read_bytes=sum(audit.read_bytes for audit in audits),
        unused_bytes=sum(size for block, size in blocks.items() if block not in needs),
        damages=tuple(damages),
    )


class PackAudit(msgspec.Struct, frozen=True):
    """What was found of one pack: what is wrong with it ("" when nothing is), its blocks, and those of them that are not intact."""

    pack: PackId
    fault: str
    entries: tuple[Entry, ...]
    bad: frozenset[BlockId]
    read_bytes: int


def audit_packs(objects: Objects, packs: Sequence[PackId], *, read_data: bool) -> list[PackAudit]:
    """``audit_pack`` of all, in order; as many at once as the memory budget allows."""
    workers = max(1, min(WORKERS, memory_bytes() // 8 // objects.pack_bytes)) if read_data else WORKERS
    return parallel(partial(audit_pack, objects, read_data=read_data), packs, workers=workers)


def audit_pack(objects: Objects, pack: PackId, *, read_data: bool) -> PackAudit:
    """Compare a listed pack with its name, and each of its blocks with its own. Raises port errors."""
    key = pack_key(pack)
    known = objects.index.pack(pack)
    try:
        if not read_data:
            return _audit_size(objects, pack, objects.blobs.size(key) or 0)
        data = objects.blobs.get(key)
    except NotFound:  # listed, and collected since
        return PackAudit(pack, "", (), frozenset(), 0)
    whole = block_hash(data) == pack
    if not whole:
        objects.suspect_pack(pack)
    if known is None:
        try:
            known = read_table(pack, len(data), lambda offset, size: data[offset : offset + size], objects.cipher)
        except Damaged as error:
            fault = error.happened if whole else "the pack does not match its hash, and nothing says what lies in it"
            return PackAudit(pack, fault, (), frozenset(), len(data))
    bad = frozenset(entry.block for entry in known.entries if not holds(memoryview(data), entry, objects.cipher))
    if whole and not bad:
        return PackAudit(pack, "", known.entries, bad, len(data))
    objects.suspect_pack(pack)
    fault = "" if whole else "the pack does not match its hash; "
    return PackAudit(pack, f"{fault}{len(bad)} of its {len(known.entries)} blocks are damaged", known.entries, bad, len(data))


def _audit_size(objects: Objects, pack: PackId, size_bytes: int) -> PackAudit:
    key, known = pack_key(pack), objects.index.pack(pack)
    if known is not None and known.size_bytes == size_bytes:
        return PackAudit(pack, "", known.entries, frozenset(), 0)
    if known is not None:
        fault = f"the pack has {size_bytes} bytes instead of {known.size_bytes}"
        return PackAudit(pack, fault, known.entries, frozenset(entry.block for entry in known.entries), 0)
    try:
        found = read_table(pack, size_bytes, lambda offset, size: objects.blobs.get_range(key, offset, size), objects.cipher)
    except Damaged as error:
        return PackAudit(pack, error.happened, (), frozenset(), 0)
    return PackAudit(pack, "", found.entries, frozenset(), 0)


def _blocks(count: int) -> str:
    return "1 block is" if count == 1 else f"{count} blocks are"


def _needs(snapshots: list[Snapshot]) -> dict[BlockId, list[Snapshot]]:
    needs: dict[BlockId, list[Snapshot]] = {}
    for snapshot in snapshots:
        for block in {ref.block for ref in blocks_of(snapshot)}:
            needs.setdefault(block, []).append(snapshot)
    return needs


def _hurts(needs: Mapping[BlockId, list[Snapshot]], blocks: Collection[BlockId]) -> tuple[str, ...]:
    of: dict[SnapshotId, tuple[Snapshot, set[BlockId]]] = {}
    for block in sorted(blocks):
        for snapshot in needs.get(block, ()):
            of.setdefault(snapshot.id, (snapshot, set()))[1].add(block)
    found = [text for snapshot, bad in of.values() for text in _parts(snapshot, bad)]
    more = [f"{len(found) - _SAID} more parts of these and other snapshots"] if len(found) > _SAID else []
    return (*found[:_SAID], *more)


def _parts(snapshot: Snapshot, bad: Collection[BlockId]) -> list[str]:
    """A text for each file, whatever the number of its blocks."""
    if len(bad) == 1:
        return [hurt(snapshot, block) for block in bad]
    texts, told = [], set()
    for file in snapshot.files:
        refs = [ref for ref in file.blocks if ref.block in bad or ref.stored in bad]
        told |= {block for ref in refs for block in (ref.block, ref.stored)}
        if len(refs) == 1:
            texts.append(hurt(snapshot, refs[0].stored or refs[0].block))
        elif refs:
            size_bytes = sum(ref.size_bytes for ref in refs)
            names = list(dict.fromkeys(name for ref in refs for name in tensors_in(file, ref)))
            tensors = f" (tensor {', '.join(names[:_NAMED])}{' and others' if len(names) > _NAMED else ''})" if names else ""
            texts.append(f"{len(refs)} of {len(file.blocks)} blocks, {size_bytes} bytes, of {shown(file.path)}{tensors} in {snapshot.id}")
    return texts + ([f"a part of {snapshot.id}"] if not told.issuperset(bad) else [])


def kind_of(key: str) -> ObjectKind:
    """The class of an object by its key."""
    match key.split("/"):
        case ["vault.json"]:
            return ObjectKind.VAULT
        case ["data", _, _]:
            return ObjectKind.PACK
        case ["index", _]:
            return ObjectKind.INDEX
        case ["snapshots", _, _]:
            return ObjectKind.SNAPSHOT
        case ["receipts", _, _]:
            return ObjectKind.RECEIPT
        case ["fences", _, _]:
            return ObjectKind.FENCE
        case ["holds", _, _]:
            return ObjectKind.HOLD
        case ["drills", _, _]:
            return ObjectKind.DRILL
        case ["keys", _, _]:
            return ObjectKind.KEY
        case ["signatures", "snapshots", _, _]:
            return ObjectKind.SIGNATURE
        case ["state", *_]:
            return ObjectKind.STATE
        case _:
            return ObjectKind.UNKNOWN


def read_object(objects: Objects, key: str) -> object:
    """Read anything but a pack, and see that it is what its key says. Raises NotFound, Damaged."""
    kind = kind_of(key)
    folder = WorkloadId(key.split("/")[1]) if "/" in key else WorkloadId("")
    match kind:
        case ObjectKind.VAULT:
            return objects.record(VAULT_KEY, VaultFile)
        case ObjectKind.SNAPSHOT if (name := snapshot_name_of_key(folder, key)) is not None:
            return decode_snapshot(objects.blobs.get(key), name)
        case ObjectKind.FENCE if (epoch := epoch_of_fence_key(folder, key)) is not None:
            return read_fence(objects, folder, epoch)
        case ObjectKind.RECEIPT:
            receipt = objects.record(key, Receipt)
            if receipt_key(receipt.site, receipt.snapshot) != key:
                raise damaged(key, f"the record is the receipt of {receipt.site} for {receipt.snapshot}")
            return receipt
        case ObjectKind.HOLD:
            return read_hold(objects, key)
        case ObjectKind.DRILL:
            return read_drill(objects, key)
        case ObjectKind.INDEX:
            return read_index(objects.blobs, key)
        case ObjectKind.KEY:
            from bridgehead.vault.crypt.keys import check  # brings cryptography and age, which plain vaults do without

            check(objects.blobs, key)
            return None
        case ObjectKind.SIGNATURE:
            check_signature(objects, key)
            return None
        case ObjectKind.STATE:
            return None
        case _:
            raise damaged(key, "the name is not that of an object of a vault")
