"""Vaults: what VAULT on the command line stands for, and making, opening, filling and emptying one."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.app.metered_blobs import MeteredBlobs, Moved
from bridgehead.app.secrets import vault_credentials
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Snapshot
from bridgehead.ports.blobs import Blobs
from bridgehead.vault import Damaged, SaveResult, Vault, VerifyReport
from bridgehead.vault.access import Reading, note_restore
from bridgehead.vault.layout import DATA_PREFIX, KEYS_PREFIX, RECEIPTS_PREFIX, SNAPSHOTS_PREFIX, VAULT_KEY, is_name
from bridgehead.vault.objects import PACK_BYTES, Objects
from bridgehead.vault.packindex import REPAIR
from bridgehead.vault.records import damaged
from bridgehead.vault.repair import Repaired
from bridgehead.vault.restore import Note
from bridgehead.vault.sources import Files, Source, bad_input, sources_of
from bridgehead.vault.vaultfile import NoVault, is_headless, remake
from bridgehead.vault.vaultfile import read as read_file
from bridgehead.vault.verify import verify as verify_objects

if TYPE_CHECKING:
    from bridgehead.vault.crypt.keys import Founding

_PLACES: Final = "Name a directory, s3://BUCKET/PREFIX, or http://HOST:PORT of a blob server."
_LEFT_BY_A_KILLED_INIT: Final = frozenset({"state", "keys", "~scratch"})


def usage(tried: str, *, subject: str, happened: str, remedy: str) -> BridgeheadError:
    """The error for a command that cannot be carried out as it was given."""
    return BridgeheadError(ErrorCode.BAD_USAGE, tried=tried, subject=subject, happened=happened, remedy=remedy)


def missing(tried: str, *, subject: str, happened: str, remedy: str) -> BridgeheadError:
    """The error for a vault, snapshot, file or tensor that does not exist."""
    return BridgeheadError(ErrorCode.VAULT_NOT_FOUND, tried=tried, subject=subject, happened=happened, remedy=remedy)


def folder_of(place: str) -> Path | None:
    """The directory that VAULT names; None for an address of a bucket or a blob server. Raises BAD_USAGE for any other address."""
    if place.startswith(("http://", "s3://")):
        return None
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", place)
    if scheme is not None:
        raise usage("use a vault", subject=place, happened=f"there is no kind of vault behind {scheme[1]}:", remedy=_PLACES)
    if not place:
        raise usage("use a vault", subject="''", happened="its name is empty", remedy=_PLACES)
    return Path(place)


def store_of(place: str, *, moved: Moved | None = None, rate_bps: float | None = None) -> Blobs:
    """The blob store that VAULT names, counted and held to a rate if asked for. Touches nothing yet.

    Raises BAD_USAGE for a bad address, and for a bucket without credentials.
    """
    folder = folder_of(place)
    blobs: Blobs
    if place.startswith("s3://"):
        from bridgehead.drivers.s3 import S3Blobs, S3BlobsOptions
        from bridgehead.drivers.s3.options import without_keys

        try:
            blobs = S3Blobs(S3BlobsOptions(place))
        except (ValueError, Permanent) as error:
            happened, remedy = (error.happened, error.remedy) if isinstance(error, Permanent) else (f"not an address ({error})", _PLACES)
            shown = error.subject if isinstance(error, Permanent) else without_keys(place)
            raise usage("use a vault", subject=shown, happened=happened, remedy=remedy) from None
    elif folder is None:
        from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions

        try:
            blobs = HttpBlobs(HttpBlobsOptions(place))
        except (ValueError, Permanent) as error:
            raise usage("use a vault", subject=place, happened=f"not an address ({error})", remedy="Write http://HOST:PORT.") from error
    else:
        from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions

        blobs = LocalBlobs(LocalBlobsOptions(str(folder)))
        if (folder / "view.json").is_file():
            from bridgehead.training.opening import blobs_in

            blobs = blobs_in(folder)
    return blobs if moved is None and rate_bps is None else MeteredBlobs(blobs, moved=moved or (lambda _: None), rate_bps=rate_bps)


def open_vault(place: str, *, moved: Moved | None = None, rate_bps: float | None = None) -> Vault:
    """Open a vault; it is never made on the fly (J01).

    Raises:
        BridgeheadError: BAD_USAGE for a place of a kind that is not known; VAULT_NOT_FOUND; VAULT_DAMAGED; VAULT_LOCKED; port errors.
    """
    check_folder(place)
    store = store_of(place, moved=moved, rate_bps=rate_bps)
    try:
        return Vault.open(store, key=vault_credentials())
    except (NoVault, Damaged) as error:
        headless(place, store, error)
        raise missing("open a vault", subject=place, happened="there is no vault in it", remedy=_look_or_make(place)) from error


def check_folder(place: str) -> None:
    """Raises VAULT_NOT_FOUND when VAULT names a directory that is not there; BAD_USAGE for a place of a kind that is not known."""
    folder = folder_of(place)
    if folder is not None and not folder.is_dir():
        raise missing("open a vault", subject=place, happened="there is no such directory", remedy=_look_or_make(place))


def _look_or_make(place: str) -> str:
    look = "Check the address." if folder_of(place) is None else "Check the path, and whether its disk is mounted."
    return f"{look} `bridgehead vault init {shlex.quote(place)}` makes a new vault."


def headless(place: str, store: Blobs, error: BridgeheadError) -> None:
    """Raises VAULT_DAMAGED when ``vault.json`` is damaged, or is missing and the place holds a vault all the same; says what to do."""
    if isinstance(error, Damaged) or is_headless(store):
        raise damaged(
            f"{error.subject if isinstance(error, Damaged) else VAULT_KEY} in {place}",
            error.happened if isinstance(error, Damaged) else "it is missing, and there are objects of a vault",
            remedy=f"`bridgehead vault repair {shlex.quote(place)}` makes it anew; of an encrypted vault with --like and its replica.",
        ) from error


def repair(place: str, *, like: str | None, moved: Moved) -> tuple[Repaired, bool]:
    """Make the index anew, and before it ``vault.json`` where that is lost: then True."""
    check_folder(place)
    store = store_of(place)
    try:
        read_file(store)
        remade = False
    except (NoVault, Damaged) as error:
        remade = isinstance(error, Damaged) or is_headless(store)
    if remade:
        remake(store, like=open_vault(like).file if like is not None else None, now_s=time.time())
    return open_vault(place, moved=moved).repair(), remade


def init_vault(
    place: str, *, like: Vault | None = None, key: Founding | None = None, pack_bytes: int = PACK_BYTES, replica: bool = False
) -> tuple[Vault, bool]:
    """Make a vault; False: it was there already, and was left as it is. Raises BAD_USAGE when the directory holds something else.

    With ``like`` it has the features of another one, and with ``replica`` is the replica of that; ``key`` makes it an encrypted one.
    """
    folder = folder_of(place)
    store = store_of(place)
    if folder is not None and os.path.lexists(folder) and not folder.is_dir():
        raise usage("make a vault", subject=place, happened="it is not a directory", remedy="Name an empty directory, or a new one.")
    with space_named():
        try:
            return Vault.open(store, key=vault_credentials()), False
        except (NoVault, Damaged) as error:
            headless(place, store, error)
        except BridgeheadError:
            if folder is None or os.path.lexists(folder):
                raise
        if folder is not None and folder.is_dir() and not set(os.listdir(folder)) <= _LEFT_BY_A_KILLED_INIT:
            raise usage(
                "make a vault",
                subject=place,
                happened="the directory is not empty, and what is in it is no vault",
                remedy="Name an empty directory, or one that does not exist yet.",
            )
        if like is None:
            return Vault.init(store, codec=True, key=key, pack_bytes=pack_bytes), True
        replica_of = like.file.id if replica else ""
        made = like.file
        return Vault.init(store, codec=made.encodes, pack_bytes=made.pack_bytes, key=key, replica_of=replica_of, bound=made.bound), True


class Saved(msgspec.Struct, frozen=True):
    """What a save came to. ``created``: False when exactly this was there. ``others``: other content of the same step and epoch, kept."""

    result: SaveResult
    created: bool
    others: tuple[SnapshotId, ...]


def gather(paths: Sequence[Path], *, place: str) -> tuple[Files | str, list[Source]]:
    """What a save of ``paths`` holds: of one folder, what is in it; of several paths, each under its own name.

    Raises BAD_INPUT for what cannot be read or saved whole, BAD_USAGE when two have one name or the vault would be saved into itself.
    """
    vault = folder_of(place)
    for path in paths:
        if not os.path.lexists(path) and os.access(path.parent, os.X_OK):
            raise bad_input(str(path), "there is no such file or folder", "Check the path.")
        if vault is not None and vault.resolve().is_relative_to(path.resolve()):
            raise usage(
                "save a snapshot", subject=str(path), happened="the vault itself lies in it", remedy="Save a folder beside the vault."
            )
    if len(paths) == 1 and os.path.isdir(paths[0]):  # False, not an error, for what may not be looked at
        return str(paths[0]), sources_of(str(paths[0]))
    chosen: dict[str, Path] = {}
    for path in paths:
        name = os.path.basename(os.path.abspath(path))
        if name in chosen:
            remedy = "Save the folder that both are in."
            raise usage("save a snapshot", subject=str(path), happened=f"two files would be called {name!r}", remedy=remedy)
        chosen[name] = path
    return chosen, sources_of(chosen)


def save(
    vault: Vault,
    files: Files | str | list[Source],
    *,
    workload: WorkloadId,
    step: int,
    epoch: Epoch,
    site: SiteId,
    context: Mapping[str, str],
) -> Saved:
    """Save what ``gather`` found. The same content again changes nothing; other content at the same step and epoch is kept beside it."""
    with space_named():
        before = {name.id for name in vault.names(workload) if (name.step, name.epoch) == (step, epoch)}
        result = vault.save(files, workload=workload, step=step, epoch=epoch, site=site, context=context)
    return Saved(result, result.id not in before, tuple(sorted(before - {result.id})))


def writing_epoch(vault: Vault, workload: WorkloadId) -> Epoch:
    """The epoch of a save that names none. Raises BAD_USAGE when a fence is in force: who writes then is not to be guessed (J05)."""
    fence = vault.newest_fence(workload)
    if fence is None:
        return Epoch(0)
    raise usage(
        "save a snapshot",
        subject=workload,
        happened=f"epoch {fence.epoch} is in force and belongs to {fence.holder}; only what is saved in it counts",
        remedy=f"If this is {fence.holder}, give --epoch {fence.epoch}. A writer of an older epoch must stop.",
    )


def checked_name(text: str, *, option: str) -> str:
    """A name of a workload or site. Raises BAD_USAGE."""
    if is_name(text):
        return text
    remedy = "Names consist of A-Z a-z 0-9 . _ + - and begin with a letter, a digit or _."
    raise usage("use a name", subject=f"{option} {text!r}", happened="not a name", remedy=remedy)


def restore(vault: Vault, snapshot: Snapshot, *, to: Path, files: Sequence[str], note: Note, sync: bool = True) -> None:
    """Restore all files, or some that it has; ``note`` is told what was not kept; ``sync``: wait for the disk. Raises BAD_USAGE when ``to``
    holds something else, VAULT_DAMAGED, VAULT_FULL."""
    began_s, fresh = time.monotonic(), not os.path.lexists(to)
    with refusing_occupied(to), space_named():
        vault.restore(snapshot.id, to=to, only=files, note=note, sync=sync)
    if fresh:  # else it was there already, and nothing was read from the vault
        read_bytes = sum(file.size_bytes for file in snapshot.files if not files or file.path in files)
        note_restore(vault.place.objects, snapshot.id, Reading(time.time(), read_bytes, time.monotonic() - began_s))


@contextmanager
def refusing_occupied(to: Path) -> Iterator[None]:
    """Turn a conflict about a folder that holds something else into BAD_USAGE."""
    try:
        yield
    except BridgeheadError as error:
        if error.code is ErrorCode.PORT_CONFLICT and os.path.lexists(to):
            raise usage(error.tried, subject=error.subject, happened=error.happened, remedy=error.remedy) from error
        raise


@contextmanager
def space_named() -> Iterator[None]:
    """Turn "no space" into VAULT_FULL."""
    try:
        yield
    except Permanent as error:
        if error.code is ErrorCode.PORT_PERMANENT and "no space" in error.happened:
            raise BridgeheadError(
                ErrorCode.VAULT_FULL,
                tried=error.tried,
                subject=error.subject,
                happened=error.happened,
                remedy="Free space or raise the quota, and give the same command again: what was written is used.",
            ) from error
        raise


@contextmanager
def damage_named(place: str) -> Iterator[None]:
    """Say of damage in which vault it is, and of a block how it is healed."""
    try:
        yield
    except Damaged as damage:
        if damage.subject.endswith(f" in {place}"):
            raise
        heal = f"`bridgehead vault replicate OTHER {place} --heal` brings it from a vault that holds it whole; or use an older snapshot."
        healable = damage.subject.startswith(("block ", DATA_PREFIX, SNAPSHOTS_PREFIX, RECEIPTS_PREFIX))
        remedy = heal if healable and REPAIR not in damage.remedy else damage.remedy.replace("VAULT", place)
        raise BridgeheadError(
            damage.code, tried=damage.tried, subject=f"{damage.subject} in {place}", happened=damage.happened, remedy=remedy
        ) from damage


def verify(place: str, *, read_data: bool, moved: Moved) -> VerifyReport:
    """Check a vault, also one whose ``vault.json`` is damaged. Raises as ``open_vault``."""
    try:
        vault = open_vault(place, moved=moved)
    except Damaged:
        store = store_of(place, moved=moved)
        if any(store.list(KEYS_PREFIX)):
            raise  # encrypted: without vault.json nobody knows which keys are its own
        return verify_objects(Objects(store), read_data=read_data)
    return vault.verify(read_data=read_data)
