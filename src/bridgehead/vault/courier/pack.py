"""Pack: write the raw objects of a vault onto a set of drives. Killed anywhere, it goes on from the last chunk that is on all drives."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.courier.custody import Signer
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.erasure import Code
from bridgehead.vault.courier.layout import (
    FORMAT,
    HASH_BYTES,
    MANIFEST_KEY,
    SET_KEY,
    SHARE_BYTES,
    DriveLabel,
    Entry,
    Manifest,
    SetHead,
    hashes_key,
    head_hash,
    list_parts,
    order_of,
    part_key,
    ranges,
    read_part,
    root_of,
    share_key,
    travels,
)
from bridgehead.vault.layout import DATA_PREFIX, pack_of_key
from bridgehead.vault.objects import parallel, refuse
from bridgehead.vault.records import damaged, encode
from bridgehead.vault.vaultfile import VaultFile


class Packing(msgspec.Struct, frozen=True):
    """A set that is begun: its drives by number, and its objects."""

    head: SetHead
    drives: tuple[Drive, ...]
    entries: tuple[Entry, ...]
    resumed: bool


def begin(
    source: Blobs,
    file: VaultFile,
    drives: Sequence[Drive],
    *,
    parity: int,
    present: Collection[str],
    now_s: float,
    share_bytes: int = SHARE_BYTES,
) -> Packing:
    """Make a set of all that ``present`` (keys at the target) lacks, or go on with the one that these drives are of.

    Raises:
        Conflict: a drive belongs to another set, two are the same one, or the set was begun with other numbers of drives.
        Permanent: nothing to pack; too few drives; port errors.
    """
    labels = [drive.label() for drive in drives]
    known = next((label for label in labels if label is not None), None)
    if known is not None:
        placed = _placed(drives, labels, known.head, parity=parity, vault=file.id)
        _label(known.head, placed, _first_parts(placed, known.head))
        return Packing(known.head, placed, _entries(placed, known.head), resumed=True)
    if len(drives) <= parity:
        raise refuse(
            f"{len(drives)} drives with a parity of {parity} leave none for the data",
            tried="pack a courier set",
            subject=", ".join(drive.name for drive in drives),
            remedy="Give more drives, or a smaller --parity.",
        )
    entries = list_objects(source, present)
    if not entries:
        raise refuse("the target lacks nothing", tried="pack a courier set", subject=f"vault {file.id[:8]}", remedy="No courier is needed.")
    parts = list_parts(entries)
    data = len(drives) - parity
    head = SetHead(
        format=FORMAT,
        id=secrets.token_hex(16),
        vault=file.id,
        family=file.family,
        features=file.features,
        created_s=now_s,
        data=data,
        parity=parity,
        stripe_bytes=data * share_bytes,
        objects=len(entries),
        total_bytes=sum(entry.size_bytes for entry in entries),
        parts=tuple(block_hash(part) for part in parts),
    )
    _label(head, tuple(drives), parts)
    return Packing(head, tuple(drives), tuple(entries), resumed=False)


def list_objects(source: Blobs, present: Collection[str] = ()) -> list[Entry]:
    """What travels, in order. Records are listed before packs, so that whatever they need is in the second listing."""
    records = [key for key in source.list("") if travels(key) and not key.startswith(DATA_PREFIX)]
    packs = [key for key in source.list(DATA_PREFIX) if pack_of_key(key) is not None]
    keys = sorted((key for key in [*records, *packs] if key not in present), key=order_of)
    return [entry for entry in parallel(lambda key: _entry(source, key), keys) if entry is not None]


def write(packing: Packing, source: Blobs, *, signer: Signer, moved: Callable[[int], None]) -> Manifest:
    """Write all shares and seal the set; what is on all drives is not written again.

    Raises Damaged for an object that is not what its name says, NotFound for one that was collected since the set was begun, Permanent with
    "no space", each naming the drive or the object.
    """
    head, drives = packing.head, packing.drives
    stream = _Stream(source, packing.entries)
    code = Code(data=head.data, parity=head.parity)
    chunks = []
    with ThreadPoolExecutor(1, thread_name_prefix="courier") as ahead:
        for chunk in range(head.chunks):
            stripes = head.stripes_of(chunk)
            done = _done(drives, chunk, len(stripes) * head.drives * HASH_BYTES)
            if done is None:
                done = _write_chunk(head, drives, stripes, lambda stripe: _stripe(head, stream, code, stripe), ahead, moved)
                for drive in drives:
                    drive.put(hashes_key(chunk), done)
            else:
                moved(sum(head.stripe_size(stripe) for stripe in stripes))
            chunks.append(block_hash(done))
    unsigned = Manifest(head_hash(head), tuple(chunks), root_of(chunks), signer.public_key, "")
    manifest = msgspec.structs.replace(unsigned, signature=signer.sign(unsigned.statement).hex())
    for drive in drives:
        with drive.named():
            drive.blobs.put_new(MANIFEST_KEY, encode(manifest))
    return manifest


def _write_chunk(
    head: SetHead,
    drives: Sequence[Drive],
    stripes: range,
    shares_of: Callable[[int], list[bytes]],
    ahead: ThreadPoolExecutor,
    moved: Callable[[int], None],
) -> bytes:
    hashes = []
    coming: Future[list[bytes]] = ahead.submit(shares_of, stripes[0])
    for stripe in stripes:
        shares = coming.result()
        if stripe + 1 in stripes:
            coming = ahead.submit(shares_of, stripe + 1)  # read and encoded while this one is written
        key = share_key(stripe)
        parallel(partial(_put_share, key), list(zip(drives, shares, strict=True)))
        hashes += [bytes.fromhex(block_hash(share)) for share in shares]
        moved(head.stripe_size(stripe))
    return b"".join(hashes)


def _put_share(key: str, share: tuple[Drive, bytes]) -> None:
    drive, data = share
    drive.put(key, data)


def _stripe(head: SetHead, stream: _Stream, code: Code, stripe: int) -> list[bytes]:
    return code.encode(stream.read(stripe * head.stripe_bytes, head.stripe_size(stripe)))


def _done(drives: Sequence[Drive], chunk: int, size_bytes: int) -> bytes | None:
    """The hashes of a chunk when all drives have them alike: they are written when the shares are on all drives."""
    found = {drive.get(hashes_key(chunk)) for drive in drives}
    only = found.pop()
    return only if not found and only is not None and len(only) == size_bytes else None


class _Stream:
    """The objects one after the other; each is read whole and verified. Ranges are asked for in order."""

    def __init__(self, source: Blobs, entries: Sequence[Entry]) -> None:
        self._source = source
        self._ranges = list(ranges(entries))
        self._next = 0
        self._held: tuple[int, bytes] = (0, b"")

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        parts = []
        end = offset_bytes + size_bytes
        while offset_bytes < end:
            at, data = self._held
            if not at <= offset_bytes < at + len(data):
                self._held = self._read_object(offset_bytes)
                continue
            piece = data[offset_bytes - at : end - at]
            parts.append(piece)
            offset_bytes += len(piece)
        return b"".join(parts)

    def _read_object(self, offset_bytes: int) -> tuple[int, bytes]:
        entry, at = self._ranges[self._next]
        while at + entry.size_bytes <= offset_bytes:  # at the begin of a set that goes on: objects that are packed already
            self._next += 1
            entry, at = self._ranges[self._next]
        try:
            data = self._source.get(entry.key)
        except NotFound as error:
            raise NotFound(
                "it was in the vault when the set was begun, and was collected since",
                tried="pack a courier set",
                subject=entry.key,
                remedy="Empty the drives and begin a new set.",
            ) from error
        if block_hash(data) != entry.blake3:
            raise damaged(entry.key, "it does not match its hash", remedy="Heal the vault first; then give the same command again.")
        return at, data


def _entry(source: Blobs, key: str) -> Entry | None:
    """None: collected or released since it was listed."""
    pack = pack_of_key(key)
    try:
        if pack is not None:  # its name is its hash; that it is true is seen when it is read
            size_bytes = source.size(key)
            return Entry(key, size_bytes, pack) if size_bytes else None
        digest = source.digest(key)
    except NotFound:
        return None
    return Entry(key, digest.size_bytes, digest.blake3)


def _label(head: SetHead, drives: Sequence[Drive], parts: Sequence[bytes]) -> None:
    """The list on all drives, then the labels: a drive with a label has all that the set is."""
    for part in parts:
        for drive in drives:
            drive.put(part_key(block_hash(part)), part)
    for number, drive in enumerate(drives, 1):
        with drive.named():
            drive.blobs.put_new(SET_KEY, encode(DriveLabel(head, number)))
        if drive.label() != DriveLabel(head, number):
            raise _conflict(drive, "another process makes it part of another set just now", "Let one of them do it.")


def _placed(drives: Sequence[Drive], labels: Sequence[DriveLabel | None], head: SetHead, *, parity: int, vault: str) -> tuple[Drive, ...]:
    """The drives in the order of their numbers; those without a label, of a start that was killed, take the numbers that are free."""
    by_number: dict[int, Drive] = {}
    for drive, label in zip(drives, labels, strict=True):
        if label is None:
            continue
        if label.head != head or head.vault != vault:
            other = label.head
            raise _conflict(drive, f"it belongs to set {other.id[:8]} of vault {other.vault[:8]}", "Empty it, or name another drive.")
        if label.number in by_number:
            raise _conflict(drive, f"it is drive {label.number}, as is {by_number[label.number].name}", "One is a copy: take it away.")
        by_number[label.number] = drive
    if len(drives) != head.drives or parity != head.parity:
        happened = f"set {head.id[:8]} was begun with {head.drives} drives and a parity of {head.parity}"
        raise _conflict(drives[0], happened, "Give the same drives and --parity again; or empty them and begin anew.")
    free = [number for number in range(1, head.drives + 1) if number not in by_number]
    by_number |= dict(zip(free, [drive for drive, label in zip(drives, labels, strict=True) if label is None], strict=True))
    return tuple(by_number[number] for number in sorted(by_number))


def _first_parts(drives: Sequence[Drive], head: SetHead) -> list[bytes]:
    parts = []
    for name in head.parts:
        part = next((data for drive in drives if (data := drive.find(part_key(name), name)) is not None), None)
        if part is None:
            on = ", ".join(drive.name for drive in drives)
            subject = f"{part_key(name)} of set {head.id[:8]} on drive {on}"
            raise damaged(subject, "the list of objects is damaged on all drives", remedy="Empty the drives and begin a new set.")
        parts.append(part)
    return parts


def _entries(drives: Sequence[Drive], head: SetHead) -> tuple[Entry, ...]:
    return tuple(entry for part in _first_parts(drives, head) for entry in read_part(part))


def _conflict(drive: Drive, happened: str, remedy: str) -> Conflict:
    return Conflict(happened, tried="pack a courier set", subject=f"drive {drive.name}", remedy=remedy)
