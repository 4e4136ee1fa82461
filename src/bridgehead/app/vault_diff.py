"""Difference of two snapshots, tensor by tensor. Decided by block hashes; bytes are read only where a block holds more than the tensor."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from bridgehead.kernel.ids import BlockId, SnapshotId
from bridgehead.model.snapshot import EntryKind, FileEntry, Hole, Snapshot, TensorEntry
from bridgehead.vault import Vault
from bridgehead.vault.cut import MAX_BLOCK_BYTES
from bridgehead.vault.paths import shown
from bridgehead.vault.snapshots import places_of


class Change(enum.StrEnum):
    """How something fared between two snapshots."""

    SAME = "same"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class Difference(msgspec.Struct, frozen=True):
    """One tensor, or one file.

    Attributes:
        before: dtype and shape of a tensor, mode of a file; None when it was added. ``after`` likewise.
        size_bytes: the larger of both.
        changed_bytes: those that lie in blocks that differ; more than really changed when only a part of a block did.
    """

    name: str
    change: Change
    size_bytes: int
    changed_bytes: int
    before: str | None
    after: str | None


class Comparison(msgspec.Struct, frozen=True):
    """Two snapshots compared. ``changed_share``: of the tensors' bytes when there are tensors, else of the files'."""

    before: SnapshotId
    after: SnapshotId
    same: bool
    changed_share: float
    tensors: tuple[Difference, ...]
    files: tuple[Difference, ...]


_ZEROS: Final = BlockId("")


class _Part(NamedTuple):
    """A tensor, or a whole file, as a range of a file."""

    snapshot: Snapshot
    file: FileEntry
    begin: int
    end: int
    kind: str


class _Piece(NamedTuple):
    """A range of a part, counted from its begin, and where its bytes are: in a block, from ``inside`` on. ``whole``: all of the block.
    A hole has the block "", whatever it is compared with is read."""

    begin: int
    end: int
    block: BlockId
    inside: int
    whole: bool


def compare(vault: Vault, before: Snapshot, after: Snapshot) -> Comparison:
    """Compare all tensors by name, and all files by path. Raises VAULT_DAMAGED when bytes that must be read are damaged."""
    tensors = _compare(vault, *_tensor_parts(before, after))
    files = _compare(vault, _file_parts(before), _file_parts(after))
    judged = tensors or files
    total = sum(one.size_bytes for one in judged)
    return Comparison(
        before=before.id,
        after=after.id,
        same=all(one.change is Change.SAME for one in (*tensors, *files)),
        changed_share=sum(one.changed_bytes for one in judged) / total if total else 0.0,
        tensors=tensors,
        files=files,
    )


def _file_parts(snapshot: Snapshot) -> dict[str, _Part]:
    return {file.path: _Part(snapshot, file, 0, file.size_bytes, _kind(file)) for file in snapshot.files}


def _kind(file: FileEntry) -> str:
    if file.kind is EntryKind.LINK:
        return f"link to {shown(file.target or '')}"
    return f"{'folder, ' if file.kind else ''}mode {file.mode:o}"


def _tensor_parts(before: Snapshot, after: Snapshot) -> tuple[dict[str, _Part], dict[str, _Part]]:
    """By name, so that a tensor is found again in another file; by file and name for names that several files have."""
    counts = [Counter(tensor.name for file in snapshot.files for tensor in file.tensors) for snapshot in (before, after)]
    ambiguous = {name for count in counts for name, times in count.items() if times > 1}

    def parts(snapshot: Snapshot) -> dict[str, _Part]:
        return {
            f"{file.path}: {tensor.name}" if tensor.name in ambiguous else tensor.name: _tensor_part(snapshot, file, tensor)
            for file in snapshot.files
            for tensor in file.tensors
        }

    return parts(before), parts(after)


def _tensor_part(snapshot: Snapshot, file: FileEntry, tensor: TensorEntry) -> _Part:
    end = tensor.offset_bytes + tensor.size_bytes
    return _Part(snapshot, file, tensor.offset_bytes, end, f"{tensor.dtype} {list(tensor.shape)}")


def _compare(vault: Vault, before: dict[str, _Part], after: dict[str, _Part]) -> tuple[Difference, ...]:
    return tuple(_difference(vault, name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys()))


def _difference(vault: Vault, name: str, before: _Part | None, after: _Part | None) -> Difference:
    if before is None or after is None:
        part = before or after
        assert part is not None
        size = part.end - part.begin
        change = Change.ADDED if before is None else Change.REMOVED
        return Difference(name, change, size, size, before and before.kind, after and after.kind)
    sizes = before.end - before.begin, after.end - after.begin
    changed_bytes = _changed_bytes(vault, before, after) + max(sizes) - min(sizes)
    change = Change.SAME if changed_bytes == 0 and before.kind == after.kind else Change.CHANGED
    return Difference(name, change, max(sizes), changed_bytes, before.kind, after.kind)


def _changed_bytes(vault: Vault, before: _Part, after: _Part) -> int:
    """Over the common length: the sizes of pieces that differ. The cuts of both are laid over each other."""
    changed = 0
    for one, other in _overlay(list(_pieces(before)), list(_pieces(after))):
        if (one.block, one.inside) == (other.block, other.inside) or one.block == other.block == _ZEROS:
            continue
        if (one.whole and other.whole) or _bytes(vault, before, one) != _bytes(vault, after, other):
            changed += one.end - one.begin
    return changed


def _pieces(part: _Part) -> Iterator[_Piece]:
    for place in places_of(part.file):
        first, last = max(part.begin, place.offset_bytes), min(part.end, place.offset_bytes + place.size_bytes)
        if first >= last:
            continue
        if isinstance(place, Hole):
            for at in range(first, last, MAX_BLOCK_BYTES):
                yield _Piece(at - part.begin, min(last, at + MAX_BLOCK_BYTES) - part.begin, _ZEROS, 0, False)
        else:
            yield _Piece(first - part.begin, last - part.begin, place.block, first - place.offset_bytes, last - first == place.size_bytes)


def _overlay(before: list[_Piece], after: list[_Piece]) -> Iterator[tuple[_Piece, _Piece]]:
    left, right = iter(before), iter(after)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        end = min(one.end, other.end)
        yield _until(one, end), _until(other, end)
        one = next(left, None) if one.end == end else _from(one, end)
        other = next(right, None) if other.end == end else _from(other, end)


def _until(piece: _Piece, end: int) -> _Piece:
    return piece._replace(end=end, whole=piece.whole and piece.end == end)


def _from(piece: _Piece, begin: int) -> _Piece:
    return piece._replace(begin=begin, inside=piece.inside + begin - piece.begin, whole=False)


def _bytes(vault: Vault, part: _Part, piece: _Piece) -> bytes:
    pieces = vault.read(part.snapshot, part.file, offset_bytes=part.begin + piece.begin, size_bytes=piece.end - piece.begin)
    return b"".join(pieces)
