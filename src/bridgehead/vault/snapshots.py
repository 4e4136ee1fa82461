"""Snapshot records: checked at the edge, so that nobody behind it has to doubt a path, a size or an id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot, SnapshotInfo
from bridgehead.vault.layout import SnapshotName, content_digest
from bridgehead.vault.records import damaged, decode

_BLOCK_ID: Final = re.compile(r"[0-9a-f]{64}")
MAX_PATH_BYTES: Final = 4096
_NAMED_TENSORS: Final = 3


def decode_snapshot(data: bytes, name: SnapshotName) -> Snapshot:
    """Read the record of ``name``. Raises Damaged: torn, flipped, under the wrong name, or of a shape that would be unsafe to restore."""
    snapshot = decode(data, Snapshot, key=name.key)
    if snapshot.id != name.id or snapshot.id != _name_of(snapshot).id:
        raise damaged(name.key, f"the record speaks of {snapshot.id!r}, or its content has another digest")
    fault = path_fault([file.path for file in snapshot.files])
    for file in snapshot.files:
        fault = fault or _file_fault(file)
    fault = fault or _chain_fault(snapshot)
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


def path_fault(paths: list[str]) -> str:
    """Why these paths cannot be the files of one folder; empty when they can."""
    for path in paths:
        if not path or "\0" in path or any(segment in ("", ".", "..") for segment in path.split("/")):
            return f"{path!r} is not a relative path inside the folder"
        if len(path.encode()) > MAX_PATH_BYTES:
            return f"{path[:80]!r}... is longer than {MAX_PATH_BYTES} bytes"
    for earlier, later in pairwise(sorted(path.split("/") for path in paths)):
        if later[: len(earlier)] == earlier:
            return f"{'/'.join(earlier)!r} is there twice, or both as a file and as a folder"
    return ""


def _file_fault(file: FileEntry) -> str:
    at = 0
    for ref in file.blocks:
        if ref.offset_bytes != at or ref.size_bytes <= 0 or not _BLOCK_ID.fullmatch(ref.block):
            return f"the blocks of {file.path!r} do not cover it"
        at += ref.size_bytes
    return "" if at == file.size_bytes else f"the blocks of {file.path!r} do not cover it"


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


def hurt(snapshot: Snapshot, block: BlockId) -> str:
    """What of ``snapshot`` is lost with ``block``, in words: files and tensors (V22)."""
    places = []
    for file in snapshot.files:
        for ref in file.blocks:
            if block not in (ref.block, ref.stored):
                continue
            names = tensors_in(file, ref)
            text = f"bytes {ref.offset_bytes}-{ref.offset_bytes + ref.size_bytes} of {file.path}"
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
