"""Snapshots, fences and receipts: what the vault says about training state (design sections 4.8 and 5; R4, R6)."""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.ids import BlockId, Epoch, SiteId, SnapshotId, WorkloadId


class TensorEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tensor inside a file: name, dtype as the format writes it, shape, byte range in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int


class BlockRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A piece of a file: the bytes [offset, offset + size) have this hash.

    Attributes:
        stored: hash of the object that holds it encoded; empty: the object holds the bytes themselves.
        stored_bytes: size of that object.
        bases: blocks whose bytes are needed to decode it; each is a piece of a file of the snapshot, or pinned by it.
        generation: how many earlier saves have to be decoded for it, at most.
    """

    block: BlockId
    offset_bytes: int
    size_bytes: int
    stored: BlockId = BlockId("")
    stored_bytes: int = 0
    bases: tuple[BlockId, ...] = ()
    generation: int = 0


class EntryKind(enum.StrEnum):
    """What an entry is on the disk that is no file."""

    LINK = "link"
    """A symbolic link, kept as a link."""
    FOLDER = "folder"
    """A folder of its own: it is empty, or its mode is not the one that a restore gives anyway."""


class Hole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bytes [offset, offset + size) of a file are zeros; no block holds them."""

    offset_bytes: int
    size_bytes: int


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a snapshot: POSIX path relative to the saved directory, mode bits, and the blocks that rebuild it.

    The fields from ``kind`` on are not set when they say nothing, so that a plain file has the record that it always had.

    Attributes:
        path: as ``vault.paths.recorded`` writes it: text; bytes that are not UTF-8 as NUL and two hex digits.
        blocks: together with ``holes`` they cover the file exactly; none for links and folders.
        kind: not set for a file.
        target: where a symbolic link leads, written like a path.
        same_as: path of the file of which this is another name (a hard link). Its blocks are the same and are given again.
        holes: ranges of zeros that no block holds, in order.
        mtime_ns: when it was changed last, in nanoseconds since 1970-01-01 UTC; not in the snapshot's id.
        unreached_bytes: bytes of storages that no tensor of the file reaches (V05); not in the snapshot's id.
    """

    path: str
    mode: int
    size_bytes: int
    blocks: tuple[BlockRef, ...]
    tensors: tuple[TensorEntry, ...] = ()
    kind: EntryKind | msgspec.UnsetType = msgspec.UNSET
    target: str | msgspec.UnsetType = msgspec.UNSET
    same_as: str | msgspec.UnsetType = msgspec.UNSET
    holes: tuple[Hole, ...] | msgspec.UnsetType = msgspec.UNSET
    mtime_ns: int | msgspec.UnsetType = msgspec.UNSET
    unreached_bytes: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_file(self) -> bool:
        """Whether it has content: neither a symbolic link nor a folder."""
        return self.kind is msgspec.UNSET


class FindingKind(enum.StrEnum):
    """What was noticed about the files of a snapshot when they were saved."""

    CUT_OFF = "cut-off"
    """Shorter than its own header says, or never written (V12)."""
    MISSING = "missing"
    """The checkpoint names it, or the names of its neighbours say that it must be there, and it is not (V07)."""
    EXTRA = "extra"
    """It looks like a part of the checkpoint, whose index does not name it (V07)."""
    STALE = "stale"
    """An index that tells something else than the files (V07)."""
    LEADS_OUT = "leads-out"
    """A symbolic link out of the saved folder: what it leads to is not in the snapshot."""
    UNREADABLE = "unreadable"
    """Its name says a format, and its bytes are not of it: kept as they are, and no reader of that format will take them (V08)."""


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of these: on which path, and in words what is wrong with it."""

    kind: FindingKind
    path: str
    happened: str

    @property
    def spoils(self) -> bool:
        """Whether a checkpoint with it is incomplete, and so never the newest usable one."""
        return self.kind in (FindingKind.CUT_OFF, FindingKind.MISSING)


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The small record whose existence is the only commit point of a save.

    Attributes:
        id: ``<workload>@<step>.<epoch>`` plus a short content hash.
        step: training step that the state is *after*; the next step to compute is ``step + 1``.
        epoch: the writer's epoch in which it was written; a fence decides whether it counts.
        raw_bytes: sum of file sizes.
        context: free text pairs (loss, git commit, seeds ...), for point-in-time recovery (R10).
        pinned: blocks of earlier snapshots that are needed to decode blocks of this one, all of them; not set when there are none.
        incomplete: paths of files that were evidently cut off or missing when they were saved: the snapshot is kept, but no default
            (V07, V12).
        findings: what was noticed about its files, each in words; not set when there is nothing.
    """

    id: SnapshotId
    workload: WorkloadId
    step: int
    epoch: Epoch
    site: SiteId
    created_s: float
    raw_bytes: int
    files: tuple[FileEntry, ...]
    context: dict[str, str] = {}
    incomplete: tuple[str, ...] = ()
    pinned: tuple[BlockRef, ...] | msgspec.UnsetType = msgspec.UNSET
    findings: tuple[Finding, ...] | msgspec.UnsetType = msgspec.UNSET


class SnapshotInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot without its file list, as ports hand it around. ``verified``: every block is present with the right hash."""

    id: SnapshotId
    workload: WorkloadId
    step: int
    epoch: Epoch
    site: SiteId
    created_s: float
    raw_bytes: int
    verified: bool
    counts: bool
    """False for a snapshot that a closed epoch wrote after its fence: kept, but never used (J05, J06)."""


class Fence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Opens ``epoch`` for ``holder`` and names exactly which snapshots of older epochs count (design rule 8).

    Anything that an older epoch writes later is kept but never counts.
    """

    workload: WorkloadId
    epoch: Epoch
    holder: SiteId
    counts: tuple[SnapshotId, ...]
    opened_by: str
    opened_s: float


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site's word that it holds every block of this snapshot, read back and verified (R6)."""

    snapshot: SnapshotId
    site: SiteId
    blocks: int
    raw_bytes: int
    verified_s: float


class TransferProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """State of a replication: ``done`` only when the target has committed the snapshot and read it back."""

    done: bool
    sent_bytes: int
    left_bytes: int
