"""Save: blocks first, each durable; then one small record, create-only: the only commit point (design section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, Hole, Snapshot
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.cut import Piece, divide, without_zeros
from bridgehead.vault.findings import findings_of, incomplete
from bridgehead.vault.formats import OPAQUE, Contents, examine
from bridgehead.vault.layout import MAX_EPOCH, MAX_STEP, SnapshotName, content_digest
from bridgehead.vault.objects import Objects, Stored, parallel
from bridgehead.vault.paths import path_fault
from bridgehead.vault.records import damaged, encode
from bridgehead.vault.sources import Source, bad_input
from bridgehead.vault.tracked import UnreadSource
from bridgehead.vault.writing import Writing, open_writing

MAX_CONTEXT_BYTES: Final = 1 << 20


if TYPE_CHECKING:  # encoding brings numpy, which plain vaults do without
    from bridgehead.vault.encoding import Encoder
    from bridgehead.vault.encoding import Piece as EncodedPiece


class SaveResult(msgspec.Struct, frozen=True):
    """A committed snapshot.

    Attributes:
        snapshot: the record; of an identical save at the same step and epoch, the one that was there first.
        counts: whether it counted at the moment of its commit. False tells a trainer that its epoch is closed (J05): stop.
        written_bytes: bytes of blocks, as stored, that had to be written; the rest was in the vault.
    """

    snapshot: Snapshot
    counts: bool
    written_blocks: int
    written_bytes: int

    @property
    def raw_bytes(self) -> int:
        """Sum of the file sizes."""
        return self.snapshot.raw_bytes

    @property
    def stored_bytes(self) -> int:
        """Size of the objects that hold the blocks of its files, each once; what it shares with other snapshots is in it."""
        objects = {ref.stored or ref.block: ref.stored_bytes or ref.size_bytes for file in self.snapshot.files for ref in file.blocks}
        return sum(objects.values())

    @property
    def id(self) -> SnapshotId:
        """Id of the snapshot."""
        return self.snapshot.id


class SaveOrder(msgspec.Struct, frozen=True):
    """What a snapshot is to say of itself."""

    workload: WorkloadId
    step: int
    epoch: Epoch
    site: SiteId
    created_s: float
    context: Mapping[str, str]


@dataclass(frozen=True)
class _Plan:
    """``first``: the plan of the file of which this one is another name; its blocks are used. ``unread``: the file is in the vault."""

    source: Source
    contents: Contents
    pieces: list[Piece]
    holes: tuple[Hole, ...] = ()
    first: _Plan | None = None
    unread: UnreadSource | None = None


class Saved(NamedTuple):
    """The committed record, and what had to be written for it."""

    snapshot: Snapshot
    written_blocks: int
    written_bytes: int


class StoredFiles(NamedTuple):
    """Files whose blocks are stored in a writing that is still open."""

    files: tuple[FileEntry, ...]
    pinned: tuple[BlockRef, ...]
    incomplete: tuple[str, ...]
    written_blocks: int
    written_bytes: int


def save(objects: Objects, catalog: Catalog, encoder: Encoder | None, sources: list[Source], order: SaveOrder) -> Saved:
    """Store and commit. Without ``encoder`` the blocks are stored as they are.

    Raises BridgeheadError for bad input or files that change meanwhile, and port errors; then nothing was committed.
    """
    check(sources, order)
    with open_writing(objects, f"save step {order.step} of {order.workload}") as writing:
        stored = store_files(writing, encoder, sources, order.workload)
        snapshot = commit(writing, catalog, stored, order)
    return Saved(snapshot, stored.written_blocks, stored.written_bytes)


def store_files(writing: Writing, encoder: Encoder | None, sources: list[Source], workload: WorkloadId) -> StoredFiles:
    """Store the blocks of files. On return they are durable, and nothing is committed.

    Raises BridgeheadError for files that change meanwhile, and port errors.
    """
    plans = _plans(sources, writing, align=encoder is not None)
    pinned: tuple[BlockRef, ...] = ()
    if encoder is None:
        stored = parallel(lambda item: _store(writing, *item), [(plan.source, piece) for plan in plans for piece in plan.pieces])
    else:
        stored, pinned = encoder.store(workload, [piece for plan in plans for piece in _pieces(plan)], writing)
    for source in sources:
        source.check_unchanged()
    writing.flush()
    written = [one.written_bytes for one in stored if one.written_bytes]
    return StoredFiles(
        files=_entries(plans, stored),
        pinned=_pinned(pinned, plans, stored),
        incomplete=tuple(plan.source.path for plan in plans if plan.contents.cut_off_at is not None),
        written_blocks=len(written),
        written_bytes=sum(written),
    )


def commit(writing: Writing, catalog: Catalog, stored: StoredFiles, order: SaveOrder) -> Snapshot:
    """Commit files whose blocks are stored, as one snapshot. Of the same content at the same step and epoch, the one that was first."""
    digest = content_digest(order.workload, order.step, order.epoch, stored.files)
    name = SnapshotName(order.workload, order.epoch, order.step, digest)
    snapshot = Snapshot(
        id=name.id,
        workload=order.workload,
        step=order.step,
        epoch=order.epoch,
        site=order.site,
        created_s=order.created_s,
        raw_bytes=sum(file.size_bytes for file in stored.files),
        files=stored.files,
        context=dict(order.context),
        pinned=stored.pinned or msgspec.UNSET,
    )
    findings = findings_of(stored.files, stored.incomplete, catalog.contents(snapshot))
    snapshot = msgspec.structs.replace(snapshot, findings=findings or msgspec.UNSET, incomplete=incomplete(findings))
    if not writing.commit(name.key, encode(snapshot)):
        _check_whole(writing, catalog.snapshot(name.id))
        return catalog.snapshot(name.id)
    catalog.remember(snapshot)
    return snapshot


def _check_whole(writing: Writing, snapshot: Snapshot) -> None:
    """Raises Damaged when the record that is there already rests on blocks that are not, encoded in another way than those just stored."""
    lacking = writing.lacking(snapshot)
    if lacking:
        raise damaged(
            f"block {lacking[0].block}",
            f"{snapshot.id} was saved before, and {len(lacking)} of its blocks are missing or damaged",
            remedy=f"`bridgehead vault forget VAULT {snapshot.id}`, then save again: all that is needed is at hand.",
        )


def _pieces(plan: _Plan) -> list[EncodedPiece]:
    from bridgehead.vault.encoding import Piece as EncodedPiece
    from bridgehead.vault.encoding import slots_of

    slots = slots_of(plan.source.path, plan.contents.tensors, [(piece.offset_bytes, piece.size_bytes) for piece in plan.pieces])
    return [
        EncodedPiece(slot, piece.offset_bytes, piece.size_bytes, partial(plan.source.read, piece.offset_bytes, piece.size_bytes))
        for slot, piece in zip(slots, plan.pieces, strict=True)
    ]


def check(sources: list[Source], order: SaveOrder) -> None:
    """Raises BridgeheadError (BAD_INPUT) for what can be no snapshot."""
    subject = f"step {order.step} of {order.workload}"
    if not (0 <= order.step <= MAX_STEP and 0 <= order.epoch <= MAX_EPOCH):
        raise bad_input(
            subject,
            f"step must be from 0 to {MAX_STEP} and epoch from 0 to {MAX_EPOCH}, not {order.step} and {order.epoch}",
            "Correct them.",
        )
    if all(source.kind is not None for source in sources):
        raise bad_input(subject, "there is no file to save", "Links are not followed: name the files themselves.")
    folders = frozenset(source.path for source in sources if source.kind is EntryKind.FOLDER)
    fault = path_fault([source.path for source in sources], folders=folders)
    if fault:
        raise bad_input(subject, fault, "Rename the file.")
    if sum(len(key) + len(value) for key, value in order.context.items()) > MAX_CONTEXT_BYTES:
        raise bad_input(subject, f"the context has more than {MAX_CONTEXT_BYTES} characters", "Put it into a file of the checkpoint.")


def _plans(sources: list[Source], writing: Writing, *, align: bool) -> list[_Plan]:
    unread = [one for one in sources if isinstance(one, UnreadSource) and all(writing.holds(*need) for need in one.needs)]
    plans = {one.path: _Plan(one, Contents(tensors=one.entry.tensors), [], unread=one) for one in unread}
    own = [source for source in sources if not source.same_as and source.path not in plans]
    plans |= {plan.source.path: plan for plan in parallel(partial(_plan, align=align), own)}
    for source in sources:
        if source.same_as and source.path not in plans:  # of another save's part it is read for itself: equal blocks are stored once anyway
            first = plans.get(source.same_as)
            plans[source.path] = _Plan(source, first.contents, [], first=first) if first is not None else _plan(source, align=align)
    return [plans[source.path] for source in sources]


def _plan(source: Source, *, align: bool) -> _Plan:
    if source.kind is not None:
        return _Plan(source, OPAQUE, [])
    contents = examine(source.path, source.size_bytes, lambda offset, size: bytes(source.read(offset, size)))
    pieces = divide(source, contents)
    if align:
        from bridgehead.vault.encoding import aligned

        places = aligned(source.path, contents.tensors, [(piece.offset_bytes, piece.size_bytes) for piece in pieces])
        pieces = [Piece(offset, size) for offset, size in places]
    pieces, holes = without_zeros(source, pieces)
    return _Plan(source, contents, pieces, holes)


def _store(writing: Writing, source: Source, piece: Piece) -> Stored:
    data = source.read(piece.offset_bytes, piece.size_bytes)
    block = BlockId(block_hash(data))
    written = writing.store_block(block, (data,))
    return Stored(BlockRef(block, piece.offset_bytes, piece.size_bytes), len(data) if written else 0)


def _pinned(pinned: tuple[BlockRef, ...], plans: list[_Plan], stored: list[Stored]) -> tuple[BlockRef, ...]:
    """With what unread files rest on, unless a file of the snapshot holds it."""
    unread = [plan.unread for plan in plans if plan.unread is not None]
    bases = {ref.block: ref for one in unread for ref in one.bases} | {ref.block: ref for ref in pinned}
    held = {one.ref.block for one in stored} | {ref.block for one in unread for ref in one.entry.blocks}
    return tuple(bases[block] for block in sorted(bases.keys() - held))


def _entries(plans: list[_Plan], stored: list[Stored]) -> tuple[FileEntry, ...]:
    refs = iter(stored)
    blocks = {plan.source.path: tuple(next(refs).ref for _ in plan.pieces) for plan in plans}
    return tuple(_entry(plan, plan.first or plan, blocks[(plan.first or plan).source.path]) for plan in plans)


def _entry(plan: _Plan, content: _Plan, blocks: tuple[BlockRef, ...]) -> FileEntry:
    source = plan.source
    if content.unread is not None:
        return msgspec.structs.replace(content.unread.entry, path=source.path, same_as=source.same_as or msgspec.UNSET)
    return FileEntry(
        path=source.path,
        mode=content.source.mode,
        size_bytes=source.size_bytes,
        blocks=blocks,
        tensors=content.contents.tensors,
        kind=msgspec.UNSET if source.kind is None else source.kind,
        target=source.target or msgspec.UNSET,
        same_as=source.same_as or msgspec.UNSET,
        holes=content.holes or msgspec.UNSET,
        mtime_ns=msgspec.UNSET if content.source.mtime_ns is None else content.source.mtime_ns,
        unreached_bytes=content.contents.unreached_bytes or msgspec.UNSET,
    )
