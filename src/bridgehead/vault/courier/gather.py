"""Gather: read a set from the drives that arrived; what is lost or damaged within the parity is made up for."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from bridgehead.kernel.errors import Conflict
from bridgehead.vault.courier.custody import signature_holds
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.erasure import Code, TooFewShares
from bridgehead.vault.courier.layout import (
    CHUNK_STRIPES,
    HASH_BYTES,
    MANIFEST_KEY,
    DriveLabel,
    Entry,
    Manifest,
    SetHead,
    hash_of_share,
    hashes_key,
    head_hash,
    part_key,
    read_part,
    root_of,
    share_key,
)
from bridgehead.vault.objects import parallel, refuse
from bridgehead.vault.records import Damaged, damaged, decode


class Gathered(msgspec.Struct, frozen=True):
    """A set as it arrived. ``drives``: those that are here, by number; ``missing``: numbers of those that are not."""

    head: SetHead
    manifest: Manifest
    drives: dict[int, Drive]
    entries: tuple[Entry, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the drives that are not here."""
        return tuple(number for number in range(1, self.head.drives + 1) if number not in self.drives)

    def label(self, number: int) -> DriveLabel:
        """The label of a drive."""
        return DriveLabel(self.head, number)


def labels_of(drives: Sequence[Drive]) -> dict[int, Drive]:
    """Drives of one set, by number.

    Raises:
        Conflict: a foreign drive, or the same one twice.
        Permanent: a drive of no set. Damaged: a label that cannot be read.
    """
    found: dict[int, Drive] = {}
    head: SetHead | None = None
    for drive in drives:
        label = drive.label()
        if label is None:
            raise refuse(
                "nothing was packed on it",
                tried="read a courier set",
                subject=f"drive {drive.name}",
                remedy="Is the right disk mounted there?",
            )
        if head is None:
            head, first = label.head, drive
        if label.head != head:
            happened = f"it belongs to set {label.head.id[:8]}, and {first.name} to set {head.id[:8]}"
            raise _conflict(drive, happened, "Give the drives of one set at a time.")
        if label.number in found:
            happened = f"it is drive {label.number} of the set, as is {found[label.number].name}"
            raise _conflict(drive, happened, "One is a copy of the other: give one of them.")
        found[label.number] = drive
    return found


def gather(drives: Sequence[Drive]) -> Gathered:
    """Open a set. A drive whose label cannot be read counts as lost, like one that is not here.

    Raises as ``labels_of``; Permanent: too few drives, or a set that was not finished; Damaged: manifest, list or hashes on all drives.
    """
    readable = [drive for drive in drives if not _unreadable(drive)]
    placed = labels_of(readable or drives)
    label = next((drive.label() for drive in placed.values()), None)
    if label is None:
        raise refuse("no drive was given", tried="read a courier set", subject="the drives", remedy="Name where they are mounted.")
    head = label.head
    if len(placed) < head.data:
        missing = [number for number in range(1, head.drives + 1) if number not in placed]
        raise refuse(
            f"{len(placed)} of its {head.drives} drives are here and {head.data} are needed; missing: drive "
            + ", ".join(str(number) for number in missing),
            tried="read a courier set",
            subject=f"set {head.id[:8]}",
            remedy="Give more of its drives; what is written on them is told by `bridgehead vault courier custody --show`.",
        )
    return Gathered(head, _manifest(head, placed), placed, _entries(head, placed))


class Stripes:
    """Reads stripes of a set; counts what had to be made up for. Safe for one reader at a time."""

    def __init__(self, gathered: Gathered) -> None:
        self._set = gathered
        self._code = Code(data=gathered.head.data, parity=gathered.head.parity)
        self._hashes: tuple[int, bytes] = (-1, b"")
        self._lock = threading.Lock()
        self.lost_shares: dict[int, int] = {}
        """By number of the drive: shares on drives that are here, and missing or damaged."""

    def read(self, stripe: int) -> bytes:
        """The bytes of a stripe, every share of them verified. Raises Damaged when too few shares are intact."""
        head = self._set.head
        hashes = self._chunk(stripe)
        first = [number for number in range(head.data) if number + 1 in self._set.drives]
        rest = [number for number in range(head.data, head.drives) if number + 1 in self._set.drives]
        shares: dict[int, bytes] = {}
        for numbers in (first, rest):
            wanted = numbers if len(shares) < head.data else []
            found = parallel(lambda number: self._share(stripe, number, hashes), wanted)
            shares |= {number: data for number, data in zip(wanted, found, strict=True) if data is not None}
        try:
            return self._code.decode(shares, head.stripe_size(stripe))
        except TooFewShares:
            raise damaged(
                f"{share_key(stripe)} of set {head.id[:8]}",
                f"of its {head.drives} shares {len(shares)} are intact, and {head.data} are needed",
                remedy="Give more drives of the set; or bring the rest by `bridgehead vault replicate`.",
            ) from None

    def _share(self, stripe: int, number: int, hashes: bytes) -> bytes | None:
        wanted = hash_of_share(hashes, self._set.head, stripe, number)
        data = self._set.drives[number + 1].find(share_key(stripe), wanted)
        if data is None:
            with self._lock:
                self.lost_shares[number + 1] = self.lost_shares.get(number + 1, 0) + 1
        return data

    def _chunk(self, stripe: int) -> bytes:
        head = self._set.head
        chunk = stripe // CHUNK_STRIPES
        if chunk != self._hashes[0]:
            name = self._set.manifest.chunks[chunk]
            found = _anywhere(head, self._set.drives, hashes_key(chunk), name)
            if len(found) != len(head.stripes_of(chunk)) * head.drives * HASH_BYTES:
                raise damaged(f"{hashes_key(chunk)} of set {head.id[:8]}", "it does not hold the hashes of its stripes")
            self._hashes = (chunk, found)
        return self._hashes[1]


def _manifest(head: SetHead, drives: dict[int, Drive]) -> Manifest:
    """The seal of the set. Two that hold and differ cannot be: the first drive's key would have sealed twice."""
    absent = 0
    for drive in drives.values():
        data = drive.get(MANIFEST_KEY)
        absent += data is None
        try:
            manifest = decode(data or b"", Manifest, key=MANIFEST_KEY)
        except Damaged:
            continue
        if _is_sound(manifest, head) and signature_holds(manifest.public_key, manifest.statement, manifest.signature):
            return manifest
    if absent == len(drives):
        raise refuse(
            "it has no manifest: packing was not finished",
            tried="read a courier set",
            subject=f"set {head.id[:8]}",
            remedy="Give `bridgehead vault courier pack` again where it was packed; it goes on.",
        )
    raise damaged(
        _on_all(head, drives, MANIFEST_KEY),
        "the manifest is damaged, or was changed, on every drive that is here",
        remedy="Give more drives of the set.",
    )


def _entries(head: SetHead, drives: dict[int, Drive]) -> tuple[Entry, ...]:
    return tuple(entry for part in head.parts for entry in read_part(_anywhere(head, drives, part_key(part), part)))


def _is_sound(manifest: Manifest, head: SetHead) -> bool:
    try:
        return manifest.head == head_hash(head) and len(manifest.chunks) == head.chunks and root_of(manifest.chunks) == manifest.root
    except ValueError:  # hashes that are none
        return False


def _on_all(head: SetHead, drives: dict[int, Drive], key: str) -> str:
    return f"{key} of set {head.id[:8]} on drive {', '.join(drive.name for drive in drives.values())}"


def _anywhere(head: SetHead, drives: dict[int, Drive], key: str, name: str) -> bytes:
    for drive in drives.values():
        data = drive.find(key, name)
        if data is not None:
            return data
    happened = "it is missing or damaged on every drive that is here"
    raise damaged(_on_all(head, drives, key), happened, remedy="Give more drives of the set.")


def _unreadable(drive: Drive) -> bool:
    try:
        drive.label()
    except Damaged:
        return True
    return False


def _conflict(drive: Drive, happened: str, remedy: str) -> Conflict:
    return Conflict(happened, tried="read a courier set", subject=f"drive {drive.name}", remedy=remedy)
