"""Healing: small records that are damaged in one vault, and intact in another one that has them (V22)."""

from __future__ import annotations

from typing import Final

from bridgehead.kernel.errors import NotFound
from bridgehead.vault.crypt.signing import SIGNATURES_PREFIX
from bridgehead.vault.layout import RECEIPTS_PREFIX, SNAPSHOTS_PREFIX
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged
from bridgehead.vault.verify import read_object

_HEALED: Final = (SNAPSHOTS_PREFIX, RECEIPTS_PREFIX, SIGNATURES_PREFIX)
"""Not fences: which of two that differ is right, a copy cannot tell."""


def heal_records(source: Objects, target: Objects) -> list[str]:
    """Put the source's records in the place of those that are damaged at the target. Returns their keys.

    What is damaged in both stays as it is, as evidence. Raises port errors.
    """
    healed = []
    for prefix in _HEALED:  # a signature is compared with its snapshot's record, which comes before it
        for key in list(target.blobs.list(prefix)):
            if not _is_damaged(target, key):
                continue
            try:
                read_object(source, key)
                data = source.blobs.get(key)
            except (Damaged, NotFound):
                continue
            target.blobs.delete(key)
            target.commit(key, data)
            healed.append(key)
    return healed


def _is_damaged(objects: Objects, key: str) -> bool:
    try:
        read_object(objects, key)
    except Damaged:
        return True
    except NotFound:  # removed since it was listed
        return False
    return False
