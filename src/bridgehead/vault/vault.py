"""Vault: the checkpoints of training, at one site."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import BlockRef, Fence, FileEntry, Receipt, Snapshot, SnapshotInfo
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.ballots import cast
from bridgehead.vault.catalog import Catalog, Survey
from bridgehead.vault.collect import Collected, collect
from bridgehead.vault.crypt.signing import sign, signature_key
from bridgehead.vault.fences import Fences, counting
from bridgehead.vault.gate import WAIT_S
from bridgehead.vault.holds import forget_unless_held
from bridgehead.vault.layout import RESERVE_BYTES, RESERVE_KEY, VAULT_KEY, SnapshotName, receipt_key, snapshot_name
from bridgehead.vault.objects import PACK_BYTES, Objects, refuse
from bridgehead.vault.receipts import give_receipt, read_receipt, receipt_names
from bridgehead.vault.repair import Repaired, repair
from bridgehead.vault.replicate import Place
from bridgehead.vault.restore import Note, load, part, pieces, restore
from bridgehead.vault.save import SaveOrder, SaveResult, save
from bridgehead.vault.sharded_restore import restore_share
from bridgehead.vault.shards import Group, PartOrder, PartSaved, commit_parts, save_part, waiting_blocks
from bridgehead.vault.sharing import Shard, Share
from bridgehead.vault.snapshots import blocks_of
from bridgehead.vault.sources import Files, Source, sources_of
from bridgehead.vault.typed import Wanted, load_tensors
from bridgehead.vault.vaultfile import VaultFile, create, read
from bridgehead.vault.verify import VerifyReport, verify

if TYPE_CHECKING:
    from bridgehead.vault.crypt.credentials import Credentials
    from bridgehead.vault.crypt.keys import Founding
    from bridgehead.vault.crypt.ring import KeyRing
    from bridgehead.vault.crypt.signing import Signer
    from bridgehead.vault.encoding import Encoder


class Vault:
    """One vault. Made by ``Vault.init``, opened by ``Vault.open``; threads and processes may share it.

    Raises port errors. Damage is ``records.Damaged`` (a Permanent that names the object and what it hurts); bad arguments of ``save``
    are BridgeheadError (BAD_INPUT). What a method says is present was seen by this process once: nothing is ever removed.
    """

    def __init__(self, blobs: Blobs, file: VaultFile, *, ring: KeyRing | None = None, now_s: Callable[[], float] = time.time) -> None:
        self.file = file
        self.ring = ring
        self.signer: Signer | None = None
        """When it is set, each save is signed with it; see ``crypt.signing``."""
        self.saves_again = True
        """Whether the first save keeps plain bytes in memory for the next one: whoever saves once says no before it."""
        self._objects = _objects(blobs, file, ring)
        self._fences = Fences(self._objects)
        self._catalog = Catalog(self._objects, self._fences)
        self._now_s = now_s

    @cached_property
    def _encoder(self) -> Encoder | None:
        """Made by the first save: it brings numpy, which readers and plain vaults do without."""
        if not self.file.encodes:
            return None
        from bridgehead.vault.encoding import Encoder

        return Encoder(self._objects, self._catalog, keep=self.saves_again)

    @classmethod
    def init(
        cls,
        blobs: Blobs,
        *,
        codec: bool = False,
        pack_bytes: int = PACK_BYTES,
        key: Founding | None = None,
        replica_of: str = "",
        bound: bool = True,
        now_s: Callable[[], float] = time.time,
    ) -> Vault:
        """Make a vault in an empty store; with ``codec`` it encodes its blocks, with ``key`` it is sealed (``bound`` as the others of its
        family), with ``replica_of`` (the id of a vault) it is the replica of that one. What a slow line carries at once is one pack.

        Raises Conflict when there is one, Permanent when the store cannot hold one."""
        if key is None:
            return cls(blobs, create(blobs, now_s=now_s(), codec=codec, pack_bytes=pack_bytes, replica_of=replica_of), now_s=now_s)
        return cls(
            blobs,
            _create_sealed(blobs, key, codec=codec, pack_bytes=pack_bytes, replica_of=replica_of, bound=bound, now_s=now_s()),
            ring=key.ring,
            now_s=now_s,
        )

    @classmethod
    def open(cls, blobs: Blobs, *, key: Credentials | None = None, now_s: Callable[[], float] = time.time) -> Vault:
        """Open a vault; a sealed one with one of the keys that ``crypt.credentials`` gives.

        Raises NoVault (a NotFound), Damaged, Permanent when it needs a newer version, Transient; BridgeheadError: VAULT_LOCKED when no key
        fits, BAD_USAGE when there is a key and the vault is not sealed: whoever gives one does not want his data in clear.
        """
        file = read(blobs)
        return cls(blobs, file, ring=_unlocked(blobs, file, key), now_s=now_s)

    def save(
        self,
        files: str | os.PathLike[str] | Files | list[Source],
        *,
        workload: WorkloadId,
        step: int,
        epoch: Epoch,
        site: SiteId,
        context: Mapping[str, str] | None = None,
    ) -> SaveResult:
        """Commit a folder, chosen files (path → bytes, or the place of a file on disk), or sources by path, as the state after ``step``.

        On return it is durable. Blocks that the vault has are not written again; the same content at the same step and epoch is the same
        snapshot. A closed epoch is stored too, as evidence: ``SaveResult.counts`` is False then (J05).

        Raises:
            BridgeheadError: bad arguments, or a file changed while it was read (V11, V13); nothing was committed.
            Permanent: no space left; nothing was committed, and the next save goes on.
        """
        if self.ring is not None:
            self.ring.renew()
        order = SaveOrder(workload, step, epoch, site, self._now_s(), context or {})
        sources = files if isinstance(files, list) else sources_of(files)
        saved = save(self._objects, self._catalog, self._encoder, sources, order)
        self.sign(saved.snapshot.id)
        counts = counting(self._fences.newest(workload))(snapshot_name(saved.snapshot.id))
        return SaveResult(saved.snapshot, counts, saved.written_blocks, saved.written_bytes)

    def save_part(
        self,
        files: str | os.PathLike[str] | Files | list[Source],
        *,
        shard: Shard,
        workload: WorkloadId,
        step: int,
        epoch: Epoch,
        site: SiteId,
        share: Share = Share.DEALT,
        attempt: str = "",
        context: Mapping[str, str] | None = None,
        close: bool = True,
    ) -> PartSaved:
        """Store one shard's share of a snapshot; with ``close`` the last one of them commits it. See ``shards.save_part``."""
        if self.ring is not None:
            self.ring.renew()
        order = SaveOrder(workload, step, epoch, site, self._now_s(), context or {})
        sources = files if isinstance(files, list) else sources_of(files)
        saved = save_part(self._objects, self._catalog, self._encoder, sources, PartOrder(order, shard, share, attempt), close=close)
        if saved.snapshot is None:
            return saved
        self.sign(saved.snapshot.id)
        return msgspec.structs.replace(saved, counts=counting(self._fences.newest(workload))(snapshot_name(saved.snapshot.id)))

    def commit_parts(
        self, *, workload: WorkloadId, step: int, epoch: Epoch, shards: int, digests: Mapping[int, str] | None = None
    ) -> SaveResult:
        """Close the snapshot that the shards have stored. Raises Conflict when one is missing. See ``shards.commit_parts``."""
        group = Group(workload, step, epoch, shards)
        snapshot = commit_parts(self._objects, self._catalog, group, now_s=self._now_s(), digests=digests)
        self.sign(snapshot.id)
        return SaveResult(snapshot, counting(self._fences.newest(workload))(snapshot_name(snapshot.id)), 0, 0)

    def restore_share(self, snapshot: SnapshotId, *, to: str | os.PathLike[str], shard: Shard, note: Note = lambda _: None) -> bool:
        """Write one shard's share of a snapshot into the folder ``to``; True when all is there. See ``sharded_restore``."""
        return restore_share(self._objects, self._catalog.snapshot(snapshot), Path(to), shard=shard, note=note)

    def snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """The whole record. Raises NotFound, Damaged."""
        return self._catalog.snapshot(snapshot)

    def restore(
        self,
        snapshot: SnapshotId,
        *,
        to: str | os.PathLike[str],
        only: Collection[str] = (),
        note: Note = lambda _: None,
        sync: bool = True,
    ) -> Snapshot:
        """Write the files, or ``only`` those of these paths, into the folder ``to``, verified; it appears at once.

        See ``restore.restore`` for ``note``, ``sync`` and the errors. Raises NotFound for a path that the snapshot does not have.
        """
        found = self._catalog.snapshot(snapshot)
        restore(self._objects, part(found, only) if only else found, Path(to), note=note, sync=sync)
        return found

    def read(self, snapshot: Snapshot, file: FileEntry, *, offset_bytes: int = 0, size_bytes: int | None = None) -> Iterator[memoryview]:
        """A file of the snapshot, or a range of it, in verified pieces of at most a block. Raises Damaged at the first bad block."""
        return pieces(self._objects, snapshot, file, offset_bytes, file.size_bytes if size_bytes is None else offset_bytes + size_bytes)

    def load(self, snapshot: SnapshotId) -> dict[str, bytes]:
        """The files in memory, verified in the buffers that are returned. Raises NotFound, Damaged."""
        return load(self._objects, self._catalog.snapshot(snapshot))

    def load_tensors(self, snapshot: SnapshotId, template: Mapping[str, Wanted]) -> dict[str, bytearray]:
        """Tensors by name, verified, each of the dtype and shape that the template says; never cast (V06). See ``typed``."""
        return load_tensors(self._objects, self._catalog.snapshot(snapshot), template)

    def workloads(self) -> tuple[WorkloadId, ...]:
        """All that have snapshots or fences, sorted."""
        return self._catalog.workloads()

    def names(self, workload: WorkloadId) -> tuple[SnapshotName, ...]:
        """What the names of the committed records say, newest first. One listing; nothing is read."""
        return tuple(self._catalog.names(workload)[0])

    def newest(self, workload: WorkloadId) -> SnapshotInfo | None:
        """The newest usable snapshot: it counts, its record is intact, no file was cut off, every block is present with the right size.

        Contents are not read: that is for ``receipt``, ``verify``, ``load`` and ``restore``. Cheap enough to poll (V16, J11).
        """
        return self._catalog.newest(workload)

    def find(self, snapshot: SnapshotId) -> SnapshotInfo | None:
        """One snapshot with its standing, or None. Raises Damaged when its record is."""
        return self._catalog.find(snapshot)

    def list(self, workload: WorkloadId) -> tuple[SnapshotInfo, ...]:
        """The usable snapshots, newest first."""
        return self._catalog.survey(workload).usable

    def survey(self, workload: WorkloadId) -> Survey:
        """All snapshots; of those that are not usable, why (V16)."""
        return self._catalog.survey(workload)

    def fence(self, fence: Fence) -> Fence:
        """Open an epoch, create-only. A repeat by the same ``opened_by`` returns what was recorded. Raises Conflict."""
        return self._fences.open(fence)

    def fences(self, workload: WorkloadId) -> tuple[Fence, ...]:
        """All fences, oldest first. Raises Damaged."""
        return self._fences.all(workload)

    def cast(self, ballot: Ballot) -> tuple[Ballot, ...]:
        """Write a ballot create-only, then read all of its epoch; see ``ports.registers``. Raises Damaged."""
        return cast(self._objects, ballot)

    def newest_fence(self, workload: WorkloadId) -> Fence | None:
        """The fence in force. Raises Damaged rather than fall back on an older one."""
        return self._fences.newest(workload)

    def receipt(self, snapshot: SnapshotId, *, site: SiteId) -> Receipt:
        """Read every block back, verify, record. Raises NotFound, Damaged."""
        self._catalog.is_there(snapshot)  # what another process has forgotten is not remembered here either
        return give_receipt(self._objects, self._catalog.snapshot(snapshot), site=site, now_s=self._now_s())

    def receipt_names(self) -> tuple[tuple[SiteId, SnapshotId], ...]:
        """For which snapshots this vault has a receipt of which sites. One listing; nothing is read."""
        return receipt_names(self._objects)

    def read_receipt(self, snapshot: SnapshotId, *, site: SiteId) -> Receipt:
        """A receipt that was given. Raises NotFound, Damaged."""
        return read_receipt(self._objects, snapshot, site=site)

    def verify(self, *, read_data: bool = True) -> VerifyReport:
        """Read and hash everything in the vault (V22, V31). Without ``read_data``: all records, and that each block has the right size."""
        return verify(self._objects, read_data=read_data)

    def forget(self, snapshot: SnapshotId) -> None:
        """Remove a snapshot's record: it is no longer there; `collect` frees its space. Raises NotFound, Conflict when it is held."""
        forget_unless_held(self._objects, snapshot, now_s=self._now_s(), before=lambda: self._forget_what_speaks_of(snapshot))
        self._catalog.forget(snapshot)

    def _forget_what_speaks_of(self, snapshot: SnapshotId) -> None:
        """Before the record: the same content saved or copied anew is another record, and was not proved."""
        for site, receipted in receipt_names(self._objects):
            if receipted == snapshot:
                self._objects.blobs.delete(receipt_key(site, snapshot))
        self._objects.blobs.delete(signature_key(snapshot))

    def collect(self, *, dry_run: bool = False, evict: bool = False, wait_s: float = WAIT_S, source: Vault | None = None) -> Collected:
        """Free the space of what no snapshot needs. See ``collect.collect``.

        Args:
            source: of a replica, the vault that it is the replica of: what that one's snapshots need is kept, too.

        Raises Permanent for a replica without its source.
        """
        _check_source(self, source)

        def roots() -> Iterator[BlockRef]:
            yield from waiting_blocks(self._objects, now_s=self._now_s())
            if source is not None:
                yield from source.needed()

        return collect(self._objects, roots=roots, dry_run=dry_run, evict=evict, wait_s=wait_s)

    def needed(self) -> Iterator[BlockRef]:
        """All blocks that its snapshots need, as often as they do. Raises Damaged when a record cannot be read: then nobody can tell."""
        for workload in self.workloads():
            for name in self.names(workload):
                yield from blocks_of(self.snapshot(name.id))

    def repair(self) -> Repaired:
        """Make the index anew from the packs. See ``repair.repair``."""
        return repair(self._objects)

    def sign(self, snapshot: SnapshotId) -> bool:
        """Sign a committed snapshot with ``signer``; False when there is none, or it is signed. Raises NotFound, Damaged."""
        return self.signer is not None and sign(self._objects, snapshot, signer=self.signer, now_s=self._now_s())

    @property
    def place(self) -> Place:
        """The inside, for the other engines of this package."""
        return Place(self._objects, self._catalog, self.file.encodes, self.file.family, self.ring)


def _objects(blobs: Blobs, file: VaultFile, ring: KeyRing | None) -> Objects:
    if ring is None:
        return Objects(blobs, pack_bytes=file.pack_bytes)
    from bridgehead.vault.crypt.keys import sealed  # brings cryptography and age, which plain vaults do without

    store, cipher = sealed(blobs, ring, binds_tables=file.bound)
    return Objects(store, cipher=cipher, pack_bytes=file.pack_bytes)


def _unlocked(blobs: Blobs, file: VaultFile, key: Credentials | None) -> KeyRing | None:
    if file.sealed:
        from bridgehead.vault.crypt.credentials import Credentials
        from bridgehead.vault.crypt.keys import unlock

        return unlock(blobs, family=file.family, credentials=key or Credentials())
    if key:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="open a vault with a key",
            subject=VAULT_KEY,
            happened=f"it is not encrypted, and you gave {key.words}: what is saved in it could be read by everybody",
            remedy="Use an encrypted vault, or call it without a key: unset BRIDGEHEAD_PASSPHRASE and BRIDGEHEAD_KEY_FILE.",
        )
    return None


def _check_source(vault: Vault, source: Vault | None) -> None:
    """A replica must not lose what its source relies on: receipts say that it is here (R4)."""
    wanted, given = vault.file.replica_of, source.file.id if source is not None else ""
    if wanted == given:
        return
    if not wanted:
        happened, remedy = "it is no replica, and a source was given", "Leave the source out."
    else:
        happened = f"it is the replica of vault {wanted}, " + (
            f"and the source that was given is vault {given}" if given else "which may still need it"
        )
        remedy = "Give the vault that it is the replica of (`bridgehead vault collect REPLICA --source SOURCE`)."
    raise refuse(happened, tried="collect", subject=f"vault {vault.file.id}", remedy=remedy)


def _create_sealed(blobs: Blobs, key: Founding, *, codec: bool, pack_bytes: int, replica_of: str, bound: bool, now_s: float) -> VaultFile:
    from bridgehead.vault.crypt.keys import found_family, sealed

    def before() -> None:
        if blobs.size(VAULT_KEY) is None:  # else it is refused, and gets no recipients of ours
            found_family(blobs, key.ring, key.recipients)

    family = key.ring.family
    file = create(blobs, now_s=now_s, codec=codec, pack_bytes=pack_bytes, family=family, replica_of=replica_of, bound=bound, before=before)
    sealed(blobs, key.ring, binds_tables=file.bound)[0].put_new(RESERVE_KEY, bytes(RESERVE_BYTES))
    return file
