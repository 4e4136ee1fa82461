"""Receipts: a site's word that it holds every block of a snapshot, read back and hashed (R6, V15)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.ids import SiteId, SnapshotId
from bridgehead.model.snapshot import Receipt, Snapshot
from bridgehead.vault.layout import RECEIPTS_PREFIX, SnapshotName, is_name, receipt_key, snapshot_name
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged, damaged, encode


def give_receipt(objects: Objects, snapshot: Snapshot, *, site: SiteId, now_s: float) -> Receipt:
    """Read back, then record. When an intact receipt is there already, that one is returned: its time is the older one."""
    refs = objects.prove(snapshot)
    key = receipt_key(site, snapshot.id)
    receipt = Receipt(snapshot=snapshot.id, site=site, blocks=len(refs), raw_bytes=snapshot.raw_bytes, verified_s=now_s)
    if objects.add(key, receipt):
        return receipt
    try:
        recorded = objects.record(key, Receipt)
        if (recorded.snapshot, recorded.site) == (snapshot.id, site):
            return recorded
    except (Damaged, NotFound):
        pass
    # A receipt can be given anew at any time; a torn one must not stop a move.
    objects.blobs.delete(key)
    objects.commit(key, encode(receipt))
    return receipt


def receipt_names(objects: Objects) -> tuple[tuple[SiteId, SnapshotId], ...]:
    """Site and snapshot of every receipt in this vault. One listing."""
    keys = [key.split("/") for key in objects.blobs.list(RECEIPTS_PREFIX)]
    return tuple((SiteId(parts[1]), SnapshotId(parts[2].removesuffix(".json"))) for parts in keys if len(parts) == 3 and is_name(parts[1]))


class LostRecord(msgspec.Struct, frozen=True):
    """A snapshot's record that is not there, and a site that has said that it was."""

    name: SnapshotName
    site: SiteId

    @property
    def happened(self) -> str:
        """In words."""
        return f"the record is missing, and there is a receipt of {self.site} for it"


def lost_records(objects: Objects) -> list[LostRecord]:
    """Receipts of snapshots whose record is not there, one a snapshot. ``forget`` removes receipts first, so that somebody else has removed
    the record."""
    found: dict[SnapshotName, SiteId] = {}
    for site, snapshot in receipt_names(objects):
        try:
            found.setdefault(snapshot_name(snapshot), site)
        except Permanent:
            continue  # no name of a snapshot: it is damaged itself
    return [LostRecord(name, site) for name, site in found.items() if objects.blobs.size(name.key) is None]


def read_receipt(objects: Objects, snapshot: SnapshotId, *, site: SiteId) -> Receipt:
    """Raises NotFound, Damaged."""
    key = receipt_key(site, snapshot)
    receipt = objects.record(key, Receipt)
    if (receipt.snapshot, receipt.site) != (snapshot, site):
        raise damaged(key, f"the record is the receipt of {receipt.site} for {receipt.snapshot}")
    return receipt
