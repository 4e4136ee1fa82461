"""Snapshot records: checked at the edge, so that nobody behind it has to doubt a path, a size or an id."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, FindingKind, Hole, Snapshot, SnapshotInfo
from bridgehead.vault.layout import SnapshotName, content_digest
from bridgehead.vault.paths import path_fault, shown, text_fault
from bridgehead.vault.records import damaged, decode

_BLOCK_ID: Final = re.compile(r"[0-9a-f]{64}")
_NAMED_TENSORS: Final = 3
_NAMED_FILES: Final = 3
_MAX_TIME_NS: Final = 1 << 62


def decode_snapshot(data: bytes, name: SnapshotName) -> Snapshot:
    """Read the record of ``name``. Raises Damaged: torn, flipped, under the wrong name, or of a shape that would be unsafe to restore."""
    snapshot = decode(data, Snapshot, key=name.key)
    if snapshot.id != name.id or snapshot.id != _name_of(snapshot).id:
        raise damaged(name.key, f"the record speaks of {snapshot.id!r}, or its content has another digest")
    fault = _entries_fault(snapshot) or _chain_fault(snapshot)
    if fault:
        raise damaged(name.key, fault)
    return snapshot


def _chain_fault(snapshot: Snapshot) -> str:
    """Encoded blocks must lead to blocks that the record has, without a circle; each block is stored in one way only."""
    stored: dict[BlockId, BlockRef] = {}
    for ref in refs_of(snapshot):
        known = stored.setdefault(ref.block, ref)
        if (known.stored, known.size_bytes, known.bases) != (ref.stored, ref.size_bytes, ref.bases):
            return f"block {ref.block} is stored in two ways"
        if (ref.stored or ref.bases or ref.stored_bytes) and not (_BLOCK_ID.fullmatch(ref.stored) and ref.stored_bytes > 0):
            return f"what is said of the encoded block {ref.block} does not fit together"
    done: set[BlockId] = set()
    for first in stored:
        path, waiting = {first}, [(first, iter(stored[first].bases))]
        while waiting:
            block, bases = waiting[-1]
            base = next((base for base in bases if base not in done), None)
            if base is None:
                done.add(block)
                path.discard(block)
                waiting.pop()
            elif base in path or base not in stored:
                return f"block {block} is encoded with block {base}, which is not there or depends on it"
            else:
                path.add(base)
                waiting.append((base, iter(stored[base].bases)))
    return ""


def _name_of(snapshot: Snapshot) -> SnapshotName:
    digest = content_digest(snapshot.workload, snapshot.step, snapshot.epoch, snapshot.files)
    return SnapshotName(snapshot.workload, snapshot.epoch, snapshot.step, digest)


def _entries_fault(snapshot: Snapshot) -> str:
    """Why these entries cannot be restored into one folder without leaving it, or do not say what each file is; empty when they do."""
    folders = frozenset(file.path for file in snapshot.files if file.kind is EntryKind.FOLDER)
    fault = path_fault([file.path for file in snapshot.files], folders=folders)
    files = {file.path: file for file in snapshot.files}
    for file in snapshot.files:
        fault = fault or _numbers_fault(file) or (_file_fault(file) if file.is_file else _bare_fault(file)) or _same_fault(file, files)
    return fault


def _numbers_fault(file: FileEntry) -> str:
    if 0 <= file.mode <= 0o777 and abs(file.mtime_ns or 0) < _MAX_TIME_NS:
        return ""
    return f"{file.path!r} has mode {file.mode} or a time that no file has"


def _file_fault(file: FileEntry) -> str:
    at = 0
    for place in places_of(file):
        if place.offset_bytes != at or place.size_bytes <= 0:
            return f"the blocks of {file.path!r} do not cover it"
        at += place.size_bytes
    if at != file.size_bytes or file.target or not all(_BLOCK_ID.fullmatch(ref.block) for ref in file.blocks):
        return f"the blocks of {file.path!r} do not cover it"
    return "" if _ordered(file.blocks) and _ordered(file.holes or ()) else f"the blocks of {file.path!r} are not in order"


def _ordered(places: Sequence[BlockRef | Hole]) -> bool:
    return all(one.offset_bytes < other.offset_bytes for one, other in pairwise(places))


def _bare_fault(entry: FileEntry) -> str:
    """Of a link or a folder, which hold nothing."""
    if entry.blocks or entry.holes or entry.tensors or entry.size_bytes or entry.same_as:
        return f"{entry.path!r} has content and is a {entry.kind}"
    if (entry.kind is EntryKind.LINK) != bool(entry.target):
        return f"{entry.path!r} is a {entry.kind} and leads to {entry.target!r}"
    return text_fault(entry.target) if entry.target else ""


def _shared(file: FileEntry) -> tuple[object, ...]:
    """What all names of a file have in common."""
    return [ref.block for ref in file.blocks], file.holes, file.mode, file.mtime_ns


def _same_fault(file: FileEntry, files: dict[str, FileEntry]) -> str:
    if not file.same_as:
        return ""
    other = files.get(file.same_as)
    if other is None or other.same_as or not other.is_file:
        return f"{file.path!r} is to be the same as {file.same_as!r}, which is no file"
    if _shared(file) != _shared(other):
        return f"{file.path!r} is to be the same as {file.same_as!r} and is not"
    return ""


def places_of(file: FileEntry) -> list[BlockRef | Hole]:
    """Blocks and holes of a file: all of its bytes, in order."""
    places: list[BlockRef | Hole] = [*file.blocks, *(file.holes or ())]
    return sorted(places, key=lambda place: place.offset_bytes)


def blocks_of(snapshot: Snapshot) -> Iterator[BlockRef]:
    """Every object that is needed to restore, as often as it is used: name and size of what lies in the store, encoded or not."""
    for ref in refs_of(snapshot):
        yield BlockRef(ref.stored, ref.offset_bytes, ref.stored_bytes) if ref.stored else ref


def refs_of(snapshot: Snapshot) -> Iterator[BlockRef]:
    """Every piece of every file, then what is pinned."""
    for file in snapshot.files:
        yield from file.blocks
    if snapshot.pinned:
        yield from snapshot.pinned


def info_of(snapshot: Snapshot, *, verified: bool, counts: bool) -> SnapshotInfo:
    """The snapshot without its files."""
    return SnapshotInfo(
        id=snapshot.id,
        workload=snapshot.workload,
        step=snapshot.step,
        epoch=snapshot.epoch,
        site=snapshot.site,
        created_s=snapshot.created_s,
        raw_bytes=snapshot.raw_bytes,
        verified=verified,
        counts=counts,
    )


def spoiled(snapshot: Snapshot) -> str:
    """Why its files, as they were saved, are no whole checkpoint; empty when nothing is known against them (V07, V12)."""
    missing = [finding.path for finding in snapshot.findings or () if finding.kind is FindingKind.MISSING]
    cut_off = [path for path in snapshot.incomplete if path not in missing]
    parts = [
        f"files were {what} when they were saved: {', '.join(map(shown, paths[:_NAMED_FILES]))}"
        + (f" and {len(paths) - _NAMED_FILES} more" if len(paths) > _NAMED_FILES else "")
        for what, paths in (("cut off", cut_off), ("missing", missing))
        if paths
    ]
    return "; ".join(parts)


def hurt(snapshot: Snapshot, block: BlockId) -> str:
    """What of ``snapshot`` is lost with ``block``, in words: files and tensors (V22)."""
    places = []
    for file in snapshot.files:
        for ref in file.blocks:
            if block not in (ref.block, ref.stored):
                continue
            names = tensors_in(file, ref)
            text = f"bytes {ref.offset_bytes}-{ref.offset_bytes + ref.size_bytes} of {shown(file.path)}"
            if names:
                more = f" and {len(names) - _NAMED_TENSORS} more" if len(names) > _NAMED_TENSORS else ""
                text += f" (tensor {', '.join(names[:_NAMED_TENSORS])}{more})"
            places.append(text)
    return f"{'; '.join(places[:3])} in {snapshot.id}" if places else f"a part of {snapshot.id}"


def tensors_in(file: FileEntry, ref: BlockRef) -> list[str]:
    """Names of the tensors that have bytes in this block."""
    end = ref.offset_bytes + ref.size_bytes
    return [
        tensor.name
        for tensor in file.tensors
        if tensor.size_bytes and tensor.offset_bytes < end and tensor.offset_bytes + tensor.size_bytes > ref.offset_bytes
    ]
