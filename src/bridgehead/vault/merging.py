"""Merging: what several shards have stored, as the files of one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry
from bridgehead.vault.paths import path_fault, shown
from bridgehead.vault.save import StoredFiles
from bridgehead.vault.sources import bad_input


def merged(parts: Sequence[StoredFiles], *, subject: str) -> StoredFiles:
    """All files, sorted by path. What two parts have must be the same in both; the first one's word counts for times and names.

    Two parts may have stored one block in two ways, for instance as a difference to two older ones. A record knows one way for each block:
    that of the first part that has it. A part's chains stay within what it and parts before it have, so that there are no circles.

    Raises BridgeheadError (BAD_INPUT) when a path has two contents, or the paths cannot lie in one folder.
    """
    ways: dict[BlockId, BlockRef] = {}
    files: dict[str, tuple[int, FileEntry]] = {}
    for number, part in enumerate(parts):
        own = {ref.block: ref for ref in (*part.pinned, *_refs(part.files))}
        ways = own | ways
        for file in part.files:
            first = files.setdefault(file.path, (number, file))[1]
            if entry_content(first) != entry_content(file):
                raise bad_input(
                    f"{shown(file.path)} of {subject}",
                    "two shards saved it, with different content",
                    "Let one shard save it, or give it a name of its own for each shard.",
                )
    entries = [_placed(number, file, files, ways) for number, file in (files[path] for path in sorted(files))]
    if all(not entry.is_file for entry in entries):
        raise bad_input(subject, "there is no file to save", "An empty folder is no checkpoint.")
    fault = path_fault(files.keys(), folders=frozenset(entry.path for entry in entries if entry.kind is EntryKind.FOLDER))
    if fault:
        raise bad_input(subject, fault, "Rename the file.")
    return StoredFiles(
        files=tuple(entries),
        pinned=_pinned(entries, ways),
        incomplete=tuple(sorted({path for part in parts for path in part.incomplete})),
        written_blocks=sum(part.written_blocks for part in parts),
        written_bytes=sum(part.written_bytes for part in parts),
    )


def entry_content(file: FileEntry) -> object:
    """What two entries of one path must have in common: what a restore gives, however it is stored, without times."""
    blocks = [(ref.block, ref.offset_bytes, ref.size_bytes) for ref in file.blocks]
    return [file.kind or "", file.mode, file.size_bytes, file.target or "", blocks, list(file.holes or ())]


def stored_refs(refs: Iterable[BlockRef]) -> Iterator[BlockRef]:
    """Name and size of what lies in the store for these blocks, encoded or not."""
    for ref in refs:
        yield BlockRef(ref.stored, ref.offset_bytes, ref.stored_bytes) if ref.stored else ref


def _placed(number: int, file: FileEntry, files: dict[str, tuple[int, FileEntry]], ways: dict[BlockId, BlockRef]) -> FileEntry:
    blocks = tuple(msgspec.structs.replace(ways[ref.block], offset_bytes=ref.offset_bytes) for ref in file.blocks)
    kept = bool(file.same_as) and file.same_as in files and files[file.same_as][0] == number
    return msgspec.structs.replace(file, blocks=blocks, same_as=file.same_as if kept else msgspec.UNSET)


def _pinned(entries: Sequence[FileEntry], ways: dict[BlockId, BlockRef]) -> tuple[BlockRef, ...]:
    """What the files' blocks are encoded with, and that with what, less what a file holds."""
    held = {ref.block for ref in _refs(entries)}
    waiting = list(held)
    seen = set(held)
    while waiting:
        for base in ways[waiting.pop()].bases:
            if base not in seen:
                seen.add(base)
                waiting.append(base)
    return tuple(ways[block] for block in sorted(seen - held))


def _refs(files: Iterable[FileEntry]) -> Iterator[BlockRef]:
    for file in files:
        yield from file.blocks
