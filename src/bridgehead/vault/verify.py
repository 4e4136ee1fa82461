"""Verify: read everything and name what is damaged and what is hurt by it (V22, V31)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import partial

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import BlockId, WorkloadId
from bridgehead.model.snapshot import Receipt, Snapshot
from bridgehead.vault.fences import read_fence
from bridgehead.vault.layout import VAULT_KEY, block_key, block_of_key, epoch_of_fence_key, receipt_key, snapshot_name_of_key
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.snapshots import blocks_of, decode_snapshot, hurt
from bridgehead.vault.vaultfile import VaultFile


class ObjectKind(enum.StrEnum):
    """The classes of objects in a vault."""

    VAULT = "vault"
    BLOCK = "block"
    SNAPSHOT = "snapshot"
    RECEIPT = "receipt"
    FENCE = "fence"
    STATE = "state"
    UNKNOWN = "unknown"


class Damage(msgspec.Struct, frozen=True):
    """One bad object: which, what is wrong with it, and what it hurts (empty when no snapshot uses it)."""

    kind: ObjectKind
    key: str
    happened: str
    hurts: tuple[str, ...] = ()


class VerifyReport(msgspec.Struct, frozen=True):
    """What was read and what was found. ``unused_blocks`` belong to no snapshot, such as those of a save that was killed."""

    blocks: int
    snapshots: int
    read_bytes: int
    unused_blocks: int
    damages: tuple[Damage, ...]

    @property
    def intact(self) -> bool:
        """No damage."""
        return not self.damages


def verify(objects: Objects, *, read_data: bool = True) -> VerifyReport:
    """Read every object of the vault; of blocks only the size when not ``read_data``.

    Raises port errors when the store cannot be read: that is not the same as damage.
    """
    keys = list(objects.blobs.list(""))
    damages: list[Damage] = []
    snapshots: list[Snapshot] = []
    blocks: dict[BlockId, str] = {}
    for key in keys:
        block = block_of_key(key)
        if block is not None:
            blocks[block] = ""
            continue
        try:
            found = _read(objects, key)
        except (Damaged, NotFound) as error:
            damages.append(Damage(kind_of(key), key, error.happened))
            continue
        if isinstance(found, Snapshot):
            snapshots.append(found)
    sizes = {ref.block: ref.size_bytes for snapshot in snapshots for ref in blocks_of(snapshot)}
    audit = objects.audit_block if read_data else partial(_audit_size, objects, sizes)
    read = parallel(audit, list(blocks))
    for block, (fault, _) in zip(list(blocks), read, strict=True):
        blocks[block] = fault
    used = set(sizes)
    for block in sorted(used | set(blocks)):
        fault = blocks.get(block, "the block is missing")
        if fault:
            hurts = tuple(hurt(snapshot, block) for snapshot in snapshots if any(ref.block == block for ref in blocks_of(snapshot)))
            damages.append(Damage(ObjectKind.BLOCK, block_key(block), fault, hurts))
    return VerifyReport(
        blocks=len(blocks),
        snapshots=len(snapshots),
        read_bytes=sum(size for _, size in read),
        unused_blocks=len(set(blocks) - used),
        damages=tuple(damages),
    )


def _audit_size(objects: Objects, sizes: Mapping[BlockId, int], block: BlockId) -> tuple[str, int]:
    found = objects.blobs.size(block_key(block))
    if found is None:
        return "the block is missing", 0
    expected = sizes.get(block, found)
    return "" if found == expected else f"the block has {found} bytes instead of {expected}", 0


def kind_of(key: str) -> ObjectKind:
    """The class of an object by its key."""
    match key.split("/"):
        case ["vault.json"]:
            return ObjectKind.VAULT
        case ["data", _, _]:
            return ObjectKind.BLOCK
        case ["snapshots", _, _]:
            return ObjectKind.SNAPSHOT
        case ["receipts", _, _]:
            return ObjectKind.RECEIPT
        case ["fences", _, _]:
            return ObjectKind.FENCE
        case ["state", *_]:
            return ObjectKind.STATE
        case _:
            return ObjectKind.UNKNOWN


def _read(objects: Objects, key: str) -> object:
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
        case ObjectKind.STATE:
            return None
        case _:
            raise damaged(key, f"the name is not that of a {kind.value} object of a vault")
