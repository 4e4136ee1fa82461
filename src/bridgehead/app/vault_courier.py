"""Courier: pack drives, take them over, receive them; what is on them and who had them (M9.3)."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.app.vaults import check_folder, headless, missing, open_vault, space_named, store_of, usage
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound, PortError
from bridgehead.kernel.ids import Person, SiteId
from bridgehead.ports.blobs import Blobs
from bridgehead.vault import Vault
from bridgehead.vault.courier.custody import Chain, CustodyEntry, Signer, Step, read_chain, sign
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.gather import Gathered, gather, labels_of
from bridgehead.vault.courier.layout import DriveLabel, head_hash, is_snapshot, travels
from bridgehead.vault.courier.pack import Packing, begin, write
from bridgehead.vault.courier.receive import NotReceived, check_target, receive
from bridgehead.vault.records import Damaged, decode, encode
from bridgehead.vault.sessions import open_session
from bridgehead.vault.vaultfile import NoVault, VaultFile, read

FOLDER: Final = "bridgehead-courier"
"""Below the folder where a drive is mounted: what else lies there is nobody's business."""

Moved = Callable[[int], None]


class Want(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a target has, for whoever packs for it: names of raw objects, and nothing of their content."""

    vault: str
    family: str
    present: tuple[str, ...]


class Packed(msgspec.Struct, frozen=True):
    """A set that is ready to travel. ``root``: say it to the receiver by another path; ``receive --expect`` compares it."""

    set: str
    root: str
    key_id: str
    drives: tuple[str, ...]
    parity: int
    objects: int
    total_bytes: int
    resumed: bool
    sealed: bool


class Arrival(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The receipt that the drives carry back: signed over its canonical encoding without the signature."""

    set: str
    root: str
    target: str
    objects: int
    total_bytes: int
    by: Person
    at_s: float
    public_key: str
    signature: str = ""


class Arrived(msgspec.Struct, frozen=True):
    """What a set came to at its target.

    Attributes:
        missing: numbers of drives that were not given, and were made up for.
        lost_shares: by drive number, shares that were missing or damaged, and were made up for where ``failed`` does not say otherwise.
        custody: breaks in the chains, each naming drive and entry.
        receipts: of snapshots, given at the target; none when it could not be opened without its key.
        keyless: the target is encrypted and no key was given: everything was verified but the snapshots' own records.
        drives: where each drive that was given is mounted, by number.
    """

    set: str
    root: str
    written: int
    written_bytes: int
    present: int
    missing: tuple[int, ...]
    lost_shares: dict[int, int]
    failed: tuple[NotReceived, ...]
    held_back: int
    custody: tuple[str, ...]
    receipts: int
    keyless: bool
    drives: dict[int, str] = {}

    @property
    def whole(self) -> bool:
        """All is there, and nobody broke the chain."""
        return not self.failed and not self.held_back and not self.custody


def drive_of(folder: str, *, make: bool = False) -> Drive:
    """The drive that is mounted at ``folder``. Raises VAULT_NOT_FOUND when that is no folder, or nothing was packed on it."""
    if not Path(folder).is_dir():
        raise missing("use a courier drive", subject=folder, happened="there is no such folder", remedy="Is the drive mounted there?")
    below = Path(folder) / FOLDER
    if not make and not below.is_dir():
        raise missing(
            "use a courier drive", subject=folder, happened="nothing was packed on it", remedy="Is the right drive mounted there?"
        )
    below.mkdir(exist_ok=True)
    return Drive(folder, LocalBlobs(LocalBlobsOptions(str(below))))


def want(place: str) -> bytes:
    """The file for ``pack --lacking``. Needs no key. Raises VAULT_NOT_FOUND."""
    store, file = _raw(place)
    present = tuple(key for key in store.list("") if travels(key))
    return encode(Want(file.id, file.family, present))


def read_want(path: Path) -> Want:
    """Raises BAD_USAGE for a file that is none."""
    try:
        return decode(path.read_bytes(), Want, key=str(path))
    except Damaged as error:
        remedy = "Make it anew by `bridgehead vault courier want TARGET --to FILE`."
        raise usage("read what the target has", subject=str(path), happened=error.happened, remedy=remedy) from error


def start(place: str, to: Sequence[str], *, parity: int, lacking: Path | None, now_s: float) -> Packing:
    """Begin a set, or go on with the one that these drives are of. Raises BAD_USAGE, VAULT_NOT_FOUND, VAULT_FULL."""
    if not to or parity < 0:
        raise usage(
            "pack a courier set", subject="--to", happened="no drives, or a parity below 0", remedy="Name where drives are mounted."
        )
    store, file = _raw(place)
    known = read_want(lacking) if lacking is not None else None
    if known is not None and known.family != file.family:
        remedy = "Make the target's vault with `bridgehead vault init TARGET --like VAULT`."
        raise usage("pack a courier set", subject=str(lacking), happened="the target's vault has another key than this one", remedy=remedy)
    drives = [drive_of(folder, make=True) for folder in to]
    with space_named(), _drives_named(), _vault_named(place):
        packing = begin(store, file, drives, parity=parity, present=frozenset(known.present if known else ()), now_s=now_s)
    if not packing.resumed:
        _check_space(packing)
    return packing


def finish(place: str, packing: Packing, *, signer: Signer, by: Person, now_s: float, moved: Moved) -> Packed:
    """Write what is not on the drives yet, seal the set, and sign the packing on each drive. Raises VAULT_FULL, VAULT_DAMAGED."""
    store, file = _raw(place)
    with space_named(), _drives_named(), _vault_named(place):
        manifest = write(packing, store, signer=signer, moved=moved)
        for number, drive in enumerate(packing.drives, 1):
            label = DriveLabel(packing.head, number)
            if not read_chain(drive, label).links:
                sign(drive, label, Step.PACKED, by=by, note=f"root {manifest.root}", signer=signer, now_s=now_s)
    head = packing.head
    return Packed(
        set=head.id,
        root=manifest.root,
        key_id=signer.public_key[:16],
        drives=tuple(drive.name for drive in packing.drives),
        parity=head.parity,
        objects=head.objects,
        total_bytes=head.total_bytes,
        resumed=packing.resumed,
        sealed=file.sealed,
    )


def open_set(folders: Sequence[str], *, expect: str | None) -> Gathered:
    """The set that arrived. Raises BAD_USAGE for foreign, doubled or too few drives, VAULT_DAMAGED when ``expect`` is not its root."""
    with _drives_named():
        found = gather([drive_of(folder) for folder in folders])
    if expect is not None and found.manifest.root != expect:
        raise BridgeheadError(
            ErrorCode.VAULT_DAMAGED,
            tried="receive a courier set",
            subject=f"set {found.head.id[:8]}",
            happened=f"its root is {found.manifest.root}, not {expect}: it is not what was sent, or the number was taken down wrongly",
            remedy="Ask the sender for the root that `pack` printed. Nothing was received.",
        )
    return found


def bring(place: str, found: Gathered, *, signer: Signer, by: Person, site: SiteId | None, now_s: float, moved: Moved) -> Arrived:
    """Receive a set into the vault at ``place``, prove it, sign for it on the drives, and give receipts where the vault can be opened."""
    store, file = _raw(place)
    with _vault_named(place):
        check_target(found, file)
    vault = _opened(place)
    custody = tuple(fault for number, drive in sorted(found.drives.items()) for fault in read_chain(drive, found.label(number)).faults)
    with space_named(), _vault_named(place), _session(vault, found) as check:
        received = receive(found, store, before_snapshots=check, moved=moved)
    given = 0
    if not received.failed:
        for number, drive in sorted(found.drives.items()):
            _sign_arrival(drive, found, number, target=file, by=by, signer=signer, now_s=now_s)
        with _vault_named(place):
            given = _receipts(place, found, site) if vault is not None else 0
    return Arrived(
        set=found.head.id,
        root=found.manifest.root,
        written=received.written,
        written_bytes=received.written_bytes,
        present=received.present,
        missing=found.missing,
        lost_shares=received.lost_shares,
        failed=received.failed,
        held_back=received.held_back,
        custody=custody,
        receipts=given,
        keyless=vault is None,
        drives={number: drive.name for number, drive in sorted(found.drives.items())},
    )


def take_over(folders: Sequence[str], *, by: Person, note: str, signer: Signer, now_s: float) -> tuple[CustodyEntry, ...]:
    """Sign a hand-over on each drive; they may be of several sets. Raises VAULT_NOT_FOUND, VAULT_DAMAGED, PORT_CONFLICT."""
    return tuple(sign(drive, label, Step.HANDED_OVER, by=by, note=note, signer=signer, now_s=now_s) for drive, label in _labelled(folders))


def chains(folders: Sequence[str]) -> tuple[tuple[DriveLabel, Chain], ...]:
    """Who had each drive, verified."""
    return tuple((label, read_chain(drive, label)) for drive, label in _labelled(folders))


def _labelled(folders: Sequence[str]) -> list[tuple[Drive, DriveLabel]]:
    if not folders:
        raise usage("use courier drives", subject="DRIVE", happened="none was named", remedy="Name where drives are mounted.")
    found = []
    for folder in folders:
        drive = drive_of(folder)
        with _drives_named():
            label = next(iter(labels_of([drive]).values())).label()
        assert label is not None
        found.append((drive, label))
    return found


def _raw(place: str) -> tuple[Blobs, VaultFile]:
    check_folder(place)
    store = store_of(place)
    try:
        return store, read(store)
    except (NoVault, Damaged) as error:
        headless(place, store, error)
        raise missing("open a vault", subject=place, happened="there is no vault in it", remedy="Check the path.") from error


def _opened(place: str) -> Vault | None:
    """None: it is encrypted and no key was given."""
    try:
        return open_vault(place)
    except BridgeheadError as error:
        if error.code is ErrorCode.VAULT_LOCKED:
            return None
        raise


@contextmanager
def _session(vault: Vault | None, found: Gathered) -> Iterator[Callable[[], None]]:
    """While it is open, nothing is collected at the target; what it gives raises Conflict when that happened all the same (V17)."""
    if vault is None:  # who has no key cannot note a session; what was removed meanwhile is found when all is read back
        yield lambda: None
        return
    objects = vault.place.objects
    with open_session(objects, f"receive courier set {found.head.id[:8]}") as session:

        def check() -> None:
            key = f"state/courier/{secrets.token_hex(8)}"
            session.commit(key, b"")
            objects.blobs.delete(key)

        yield check


def _receipts(place: str, found: Gathered, site: SiteId | None) -> int:
    vault = open_vault(place)  # anew: the index has grown
    named = site or SiteId(f"vault-{vault.file.id[:8]}")
    arrived = {entry.key for entry in found.entries if is_snapshot(entry.key)}
    given = 0
    for workload in vault.workloads():
        for info in vault.list(workload):
            if vault.file.sealed or any(info.id.rpartition("-")[2] in key for key in arrived):
                vault.receipt(info.id, site=named)
                given += 1
    return given


def _sign_arrival(drive: Drive, found: Gathered, number: int, *, target: VaultFile, by: Person, signer: Signer, now_s: float) -> None:
    label = found.label(number)
    key = f"arrival/{target.id}.json"
    if drive.get(key) is not None:
        return
    head = found.head
    bare = Arrival(head_hash(head), found.manifest.root, target.id, head.objects, head.total_bytes, by, now_s, signer.public_key)
    with space_named(), drive.named():
        sign(drive, label, Step.RECEIVED, by=by, note=f"into vault {target.id}", signer=signer, now_s=now_s)
        drive.blobs.put_new(key, encode(msgspec.structs.replace(bare, signature=signer.sign(encode(bare)).hex())))


def _check_space(packing: Packing) -> None:
    share_bytes = packing.head.stripes * -(-packing.head.stripe_bytes // packing.head.data)
    needed = min(share_bytes, -(-packing.head.total_bytes // packing.head.data) + packing.head.stripes)
    for drive in packing.drives:
        free_bytes = shutil.disk_usage(drive.name).free
        if free_bytes < needed:
            raise BridgeheadError(
                ErrorCode.VAULT_FULL,
                tried="pack a courier set",
                subject=f"drive {drive.name}",
                happened=f"it has {free_bytes} bytes free, and {needed} are needed",
                remedy=f"Give more or larger drives; remove {FOLDER} from those that you tried first.",
            )


@contextmanager
def _vault_named(place: str) -> Iterator[None]:
    """Of what is damaged or missing, say in which vault; what lies on a drive, or in a set, says so itself."""
    try:
        yield
    except PortError as error:
        if any(words in error.subject for words in ("drive ", " of set ", f" in {place}")) or not isinstance(error, Damaged | NotFound):
            raise
        raise type(error)(error.happened, tried=error.tried, subject=f"{error.subject} in {place}", remedy=error.remedy) from error


@contextmanager
def _drives_named() -> Iterator[None]:
    """Conflicts of drives are the user's to solve: foreign, doubled, of another set."""
    try:
        yield
    except Conflict as error:
        raise usage(error.tried, subject=error.subject, happened=error.happened, remedy=error.remedy) from error
