"""Contents: the files and tensors of a snapshot, with hashes, and some of its tensors as a safetensors file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from blake3 import blake3

from bridgehead.app.vaults import missing, space_named, usage
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import BlockId, Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.phrase import near_word
from bridgehead.model.snapshot import FileEntry, Finding, Snapshot, SnapshotInfo, TensorEntry
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.access import predicted_s, speed_bytes_per_s
from bridgehead.vault.cut import MAX_BLOCK_BYTES
from bridgehead.vault.landing import needed_bytes
from bridgehead.vault.objects import parallel
from bridgehead.vault.paths import on_disk
from bridgehead.vault.snapshots import blocks_of, places_of

TENSOR_FILE: Final = "tensors.safetensors"
_PART: Final = ".tensors.safetensors.part"


class ShownFile(msgspec.Struct, frozen=True):
    """A file of a snapshot, or a symbolic link or a folder.

    Attributes:
        path: as ``vault.paths`` writes it.
        mode: permission bits.
        kind: ``file``, ``link`` or ``folder``.
        target: where a link leads.
        same_as: of a hard link, the path that holds the content.
        hole_bytes: how much of it is zeros that take no space, neither in the vault nor when it is restored.
        unreached_bytes: how much of its storages no tensor reaches (V05).
    """

    path: str
    mode: int
    size_bytes: int
    blocks: int
    kind: str = "file"
    target: str | None = None
    same_as: str | None = None
    hole_bytes: int = 0
    unreached_bytes: int = 0


class ShownTensor(msgspec.Struct, frozen=True):
    """A tensor. ``hash``: BLAKE3 of its bytes; None when it was not asked for, or its bytes are damaged."""

    file: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    hash: str | None


class Shown(msgspec.Struct, frozen=True):
    """All about a snapshot.

    Attributes:
        stored_bytes: what its blocks take in the vault, each once, shared with other snapshots or not.
        restored_bytes: the space that a restore takes; hard links and holes take none (V10).
        earlier_saves: how many earlier saves have to be decoded for a restore, at most.
        restore_s: how long a restore is predicted to take, by the last ones from this vault; None before the first one.
        findings: what was noticed about its files when they were saved (V07, V12).
        lacking: what is missing of its blocks, in words; empty when nothing is.
    """

    id: SnapshotId
    workload: WorkloadId
    step: int
    epoch: Epoch
    site: SiteId
    created_s: float
    counts: bool
    verified: bool
    raw_bytes: int
    stored_bytes: int
    restored_bytes: int
    earlier_saves: int
    restore_s: float | None
    context: dict[str, str]
    incomplete: tuple[str, ...]
    findings: tuple[Finding, ...]
    files: tuple[ShownFile, ...]
    tensors: tuple[ShownTensor, ...]
    damage: tuple[str, ...]
    lacking: str = ""


def stored_bytes(snapshots: Sequence[Snapshot]) -> int:
    """Bytes that the blocks of these snapshots take, each block once."""
    return sum({ref.block: ref.size_bytes for snapshot in snapshots for ref in blocks_of(snapshot)}.values())


def show(vault: Vault, snapshot: Snapshot, *, hashes: bool) -> Shown:
    """Describe a snapshot. Hashes of tensors that are not one block of their own cost reading them."""
    info = vault.find(snapshot.id)
    assert info is not None
    found = parallel(partial(_hash_file, vault, snapshot), snapshot.files) if hashes else [({}, [])] * len(snapshot.files)
    tensors = [
        ShownTensor(file.path, tensor.name, tensor.dtype, tensor.shape, tensor.size_bytes, by_place.get(_place(tensor)))
        for file, (by_place, _) in zip(snapshot.files, found, strict=True)
        for tensor in file.tensors
    ]
    restore_s = predicted_s(info.raw_bytes, speed_bytes_per_s(vault.place.objects))
    lacking = vault.place.objects.lacking(blocks_of(snapshot))
    shown = _shown(info, snapshot, tuple(tensors), tuple(fault for _, faults in found for fault in faults), restore_s)
    return msgspec.structs.replace(shown, lacking=vault.place.objects.why_lacking(lacking) if lacking else "")


def _shown(
    info: SnapshotInfo, snapshot: Snapshot, tensors: tuple[ShownTensor, ...], damage: tuple[str, ...], restore_s: float | None
) -> Shown:
    return Shown(
        id=info.id,
        workload=info.workload,
        step=info.step,
        epoch=info.epoch,
        site=info.site,
        created_s=info.created_s,
        counts=info.counts,
        verified=info.verified,
        raw_bytes=info.raw_bytes,
        stored_bytes=stored_bytes([snapshot]),
        restored_bytes=needed_bytes(snapshot),
        earlier_saves=max((ref.generation for file in snapshot.files for ref in file.blocks), default=0),
        restore_s=restore_s,
        context=snapshot.context,
        incomplete=snapshot.incomplete,
        findings=snapshot.findings or (),
        files=tuple(_file(file) for file in snapshot.files),
        tensors=tensors,
        damage=damage,
    )


def _file(file: FileEntry) -> ShownFile:
    return ShownFile(
        path=file.path,
        mode=file.mode,
        size_bytes=file.size_bytes,
        blocks=len(file.blocks),
        kind=file.kind.value if file.kind else "file",
        target=file.target or None,
        same_as=file.same_as or None,
        hole_bytes=sum(hole.size_bytes for hole in file.holes or ()),
        unreached_bytes=file.unreached_bytes or 0,
    )


Place = tuple[int, int]
"""Offset and size in a file."""


def _place(tensor: TensorEntry) -> Place:
    return tensor.offset_bytes, tensor.size_bytes


def _hash_file(vault: Vault, snapshot: Snapshot, file: FileEntry) -> tuple[dict[Place, str], list[str]]:
    """Hashes of the tensors of a file by their place, and what was found damaged. Reads only blocks that hold a part of a tensor."""
    blocks: dict[Place, BlockId] = {(ref.offset_bytes, ref.size_bytes): ref.block for ref in file.blocks}
    places = sorted({_place(tensor) for tensor in file.tensors})
    hashes: dict[Place, str] = {place: blocks[place] for place in places if place in blocks}
    hashes |= {place: blake3().hexdigest() for place in places if place[1] == 0}
    waiting = [place for place in places if place not in hashes]
    waiting.reverse()
    active: dict[Place, blake3] = {}
    faults: list[str] = []
    for at, end in _stretches(file):
        while waiting and waiting[-1][0] < end:
            active[waiting.pop()] = blake3()
        if not active:
            continue
        try:
            (block,) = vault.read(snapshot, file, offset_bytes=at, size_bytes=end - at)
        except Damaged as damage:
            faults.append(f"{damage.subject}: {damage.happened}")
            active.clear()
            continue
        for place, hasher in list(active.items()):
            first, last = max(place[0], at), min(sum(place), end)
            hasher.update(block[first - at : last - at])
            if last == sum(place):
                hashes[place] = active.pop(place).hexdigest()
    return hashes, faults


def _stretches(file: FileEntry) -> Iterator[tuple[int, int]]:
    """Begin and end of each block, and of holes in parts of at most the size of a block."""
    for place in places_of(file):
        end = place.offset_bytes + place.size_bytes
        for at in range(place.offset_bytes, end, MAX_BLOCK_BYTES):
            yield at, min(end, at + MAX_BLOCK_BYTES)


def pick_file(snapshot: Snapshot, path: str) -> FileEntry:
    """A file by its path, as the shell gives it. Raises VAULT_NOT_FOUND."""
    return pick_files(snapshot, [path])[0]


def pick_files(snapshot: Snapshot, paths: Iterable[str]) -> list[FileEntry]:
    """Files by their paths, as the shell gives them or as the record does. Raises VAULT_NOT_FOUND for the first that is not there."""
    known = {file.path: file for file in snapshot.files}
    known |= {on_disk(file.path): file for file in snapshot.files}
    found = []
    for path in paths:
        if path not in known:
            subject, remedy = f"{path!r} of {snapshot.id}", _hint(path, [file.path for file in snapshot.files])
            raise missing("find a file", subject=subject, happened="the snapshot has no such file", remedy=remedy)
        found.append(known[path])
    return found


Picked = list[tuple[FileEntry, TensorEntry]]


def pick_tensors(snapshot: Snapshot, names: Sequence[str], *, files: Sequence[str]) -> Picked:
    """Tensors by name, from all files or from some. Raises VAULT_NOT_FOUND, BAD_USAGE when several files have one of that name."""
    chosen = [pick_file(snapshot, path) for path in files] or list(snapshot.files)
    every = [(file, tensor) for file in chosen for tensor in file.tensors]
    picked: Picked = []
    for name in dict.fromkeys(names):
        found = [(file, tensor) for file, tensor in every if tensor.name == name]
        subject = f"tensor {name!r} of {snapshot.id}"
        if not found:
            remedy = _hint(name, [tensor.name for _, tensor in every]) if every else "No tensors are known of these files."
            raise missing("find a tensor", subject=subject, happened="there is no tensor of this name", remedy=remedy)
        if len(found) > 1:
            places = ", ".join(file.path for file, _ in found)
            raise usage("find a tensor", subject=subject, happened=f"several files have it: {places}", remedy="Name one with --file.")
        picked += found
    return sorted(picked, key=lambda pair: (pair[0].path, pair[1].offset_bytes, pair[1].size_bytes, pair[1].name))


def tensor_file(vault: Vault, snapshot: Snapshot, picked: Picked) -> Iterator[bytes | memoryview]:
    """A safetensors file that holds just these tensors, bit for bit, piece by piece."""
    header: dict[str, object] = {"__metadata__": {"snapshot": snapshot.id}}
    at = 0
    for _, tensor in picked:
        header[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, at + tensor.size_bytes]}
        at += tensor.size_bytes
    encoded = msgspec.json.encode(header)
    encoded += b" " * (-len(encoded) % 8)  # the data begins aligned, as the reference writer has it
    yield len(encoded).to_bytes(8, "little") + encoded
    for file, tensor in picked:
        yield from vault.read(snapshot, file, offset_bytes=tensor.offset_bytes, size_bytes=tensor.size_bytes)


def write_tensors(pieces: Iterator[bytes | memoryview], *, to: Path) -> None:
    """Write a tensor file into the folder ``to``; it appears when it is whole and on disk.

    Raises BAD_USAGE when the folder holds something else, VAULT_DAMAGED, VAULT_FULL.
    """
    target, part = to / TENSOR_FILE, to / _PART
    if os.path.lexists(to) and (not to.is_dir() or not set(os.listdir(to)) <= {_PART}):
        if to.is_dir() and set(os.listdir(to)) <= {_PART, TENSOR_FILE} and _same(target, pieces):
            return
        remedy = "Restore to a folder that does not exist yet."
        raise usage("restore tensors", subject=str(to), happened="it is there and holds something else", remedy=remedy)
    with space_named(), _as_permanent(to):
        to.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as out:
                for piece in pieces:
                    out.write(piece)
                out.flush()
                os.fsync(out.fileno())
            os.rename(part, target)
        finally:
            part.unlink(missing_ok=True)  # of a full disk, too


def _same(path: Path, pieces: Iterator[bytes | memoryview]) -> bool:
    with open(path, "rb") as file:
        return all(file.read(len(piece)) == piece for piece in pieces) and not file.read(1)


@contextmanager
def _as_permanent(to: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        no_space = error.errno in (errno.ENOSPC, errno.EDQUOT)
        happened = f"no space left ({error.strerror})" if no_space else error.strerror or str(error)
        raise Permanent(happened, tried="restore tensors", subject=str(to), remedy="Check the path and the rights.") from error


def _hint(word: str, known: list[str]) -> str:
    near = near_word(word, known)
    return f"Did you mean {near!r}?" if near else "`bridgehead vault show` lists the files and tensors of a snapshot."
