"""Save: blocks first, each durable; then one small record, create-only: the only commit point (design section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId, Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot
from bridgehead.vault.catalog import Catalog
from bridgehead.vault.cut import Piece, cut
from bridgehead.vault.formats import Contents, examine
from bridgehead.vault.layout import MAX_EPOCH, MAX_STEP, SnapshotName, content_digest
from bridgehead.vault.objects import Objects, Stored, parallel
from bridgehead.vault.records import encode
from bridgehead.vault.snapshots import path_fault
from bridgehead.vault.sources import Source, bad_input

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
    source: Source
    contents: Contents
    pieces: list[Piece]


class Saved(NamedTuple):
    """The committed record, and what had to be written for it."""

    snapshot: Snapshot
    written_blocks: int
    written_bytes: int


def save(objects: Objects, catalog: Catalog, encoder: Encoder | None, sources: list[Source], order: SaveOrder) -> Saved:
    """Store and commit. Without ``encoder`` the blocks are stored as they are.

    Raises BridgeheadError for bad input or files that change meanwhile, and port errors; then nothing was committed.
    """
    _check(sources, order)
    plans = [_plan(source, align=encoder is not None) for source in sources]
    pinned: tuple[BlockRef, ...] = ()
    if encoder is None:
        stored = parallel(lambda item: _store(objects, *item), [(plan.source, piece) for plan in plans for piece in plan.pieces])
    else:
        stored, pinned = encoder.store(order.workload, [piece for plan in plans for piece in _pieces(plan)])
    for source in sources:
        source.check_unchanged()
    refs = iter(stored)
    files = tuple(_entry(plan, [next(refs).ref for _ in plan.pieces]) for plan in plans)
    digest = content_digest(order.workload, order.step, order.epoch, files)
    name = SnapshotName(order.workload, order.epoch, order.step, digest)
    snapshot = Snapshot(
        id=name.id,
        workload=order.workload,
        step=order.step,
        epoch=order.epoch,
        site=order.site,
        created_s=order.created_s,
        raw_bytes=sum(file.size_bytes for file in files),
        files=files,
        context=dict(order.context),
        pinned=pinned or msgspec.UNSET,
        incomplete=tuple(plan.source.path for plan in plans if plan.contents.cut_off_at is not None),
    )
    if objects.commit(name.key, encode(snapshot)):
        catalog.remember(snapshot)
    else:
        snapshot = catalog.snapshot(name.id)
    written = [one.written_bytes for one in stored if one.written_bytes]
    return Saved(snapshot, len(written), sum(written))


def _pieces(plan: _Plan) -> list[EncodedPiece]:
    from bridgehead.vault.encoding import Piece as EncodedPiece
    from bridgehead.vault.encoding import slots_of

    slots = slots_of(plan.source.path, plan.contents.tensors, [(piece.offset_bytes, piece.size_bytes) for piece in plan.pieces])
    return [
        EncodedPiece(slot, piece.offset_bytes, piece.size_bytes, partial(plan.source.read, piece.offset_bytes, piece.size_bytes))
        for slot, piece in zip(slots, plan.pieces, strict=True)
    ]


def _check(sources: list[Source], order: SaveOrder) -> None:
    subject = f"step {order.step} of {order.workload}"
    if not (0 <= order.step <= MAX_STEP and 0 <= order.epoch <= MAX_EPOCH):
        raise bad_input(
            subject,
            f"step must be from 0 to {MAX_STEP} and epoch from 0 to {MAX_EPOCH}, not {order.step} and {order.epoch}",
            "Correct them.",
        )
    if not sources:
        raise bad_input(subject, "there is no file to save", "An empty folder is no checkpoint.")
    fault = path_fault([source.path for source in sources])
    if fault:
        raise bad_input(subject, fault, "Rename the file.")
    if sum(len(key) + len(value) for key, value in order.context.items()) > MAX_CONTEXT_BYTES:
        raise bad_input(subject, f"the context has more than {MAX_CONTEXT_BYTES} characters", "Put it into a file of the checkpoint.")


def _plan(source: Source, *, align: bool) -> _Plan:
    contents = examine(source.path, source.size_bytes, lambda offset, size: bytes(source.read(offset, size)))
    pieces = cut(source.size_bytes, contents)
    if align:
        from bridgehead.vault.encoding import aligned

        places = aligned(source.path, contents.tensors, [(piece.offset_bytes, piece.size_bytes) for piece in pieces])
        pieces = [Piece(offset, size) for offset, size in places]
    return _Plan(source, contents, pieces)


def _store(objects: Objects, source: Source, piece: Piece) -> Stored:
    data = source.read(piece.offset_bytes, piece.size_bytes)
    block = BlockId(block_hash(data))
    written = objects.store_block(block, data)
    return Stored(BlockRef(block, piece.offset_bytes, piece.size_bytes), len(data) if written else 0)


def _entry(plan: _Plan, refs: list[BlockRef]) -> FileEntry:
    return FileEntry(plan.source.path, plan.source.mode, plan.source.size_bytes, tuple(refs), plan.contents.tensors)
