"""Tracked files: what has not changed since the last save is not read again; its blocks are those of the earlier snapshot (R12).

Unchanged means: same device, inode, size, time of modification and time of change of the inode. A file that was only rewritten, however
equal its header is, has other times and is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bridgehead.kernel.ids import SnapshotId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot
from bridgehead.vault.held import PassedSource
from bridgehead.vault.snapshots import refs_of
from bridgehead.vault.sources import DiskSource, Source


class FileStamp(msgspec.Struct, frozen=True):
    """What tells that a file is untouched."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


def stamp_of(path: Path) -> FileStamp | None:
    """The stamp of a file now; None when it is not there or no file."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return FileStamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class TrackedFile(msgspec.Struct, frozen=True):
    """The file with this stamp was saved as ``path`` of the snapshot that is remembered with it."""

    stamp: FileStamp
    path: str


class Tracked(msgspec.Struct, frozen=True):
    """What the last save of a watcher held."""

    snapshot: SnapshotId
    files: tuple[TrackedFile, ...] = ()


class UnreadSource(PassedSource):
    """A file that need not be read, because an earlier snapshot has it. It can be read all the same, when the vault lacks a block of it.

    Attributes:
        entry: the file as the earlier snapshot has it, under its present path, mode and time.
        needs: what the vault must hold to bring it back: names and sizes as stored, of encoded blocks and of their bases too.
        bases: what the new snapshot has to pin for it.
    """

    def __init__(self, source: DiskSource, place: Path, entry: FileEntry, origin: Snapshot) -> None:
        super().__init__(source)
        self._place = place
        self.entry = msgspec.structs.replace(
            entry,
            path=source.path,
            mode=source.mode,
            same_as=source.same_as or msgspec.UNSET,
            mtime_ns=msgspec.UNSET if source.mtime_ns is None or entry.mtime_ns is msgspec.UNSET else source.mtime_ns,
        )
        refs = tuple(_resting_on(entry.blocks, origin))
        own = {ref.block for ref in entry.blocks}
        self.bases = tuple(msgspec.structs.replace(ref, offset_bytes=0) for ref in refs if ref.block not in own)
        self.needs = tuple((ref.stored, ref.stored_bytes) if ref.stored else (ref.block, ref.size_bytes) for ref in refs)

    def check_unchanged(self) -> None:
        """See Source. A file that is removed by now is no harm: the vault has it."""
        if stamp_of(self._place) is not None:
            super().check_unchanged()


def _resting_on(blocks: Iterable[BlockRef], origin: Snapshot) -> Iterator[BlockRef]:
    """These blocks and, of the encoded ones, all that they rest on, each once."""
    waiting = list(blocks)
    known = {ref.block: ref for ref in refs_of(origin)} if any(ref.bases for ref in waiting) else {}
    seen = set()
    while waiting:
        ref = waiting.pop()
        if ref.block not in seen:
            seen.add(ref.block)
            yield ref
            waiting += [known[base] for base in ref.bases]


class Memory:
    """Tells of each file of a checkpoint whether the last snapshot has it."""

    def __init__(self, tracked: Tracked | None, origin: Snapshot | None) -> None:
        """``origin``: the snapshot of ``tracked``; None when it is not to be relied on, so that everything is read."""
        self._origin = origin
        usable = tracked is not None and origin is not None
        self._paths = {file.stamp: file.path for file in tracked.files} if usable and tracked is not None else {}
        self._entries = {file.path: file for file in origin.files} if origin is not None else {}
        self.unread_bytes = 0

    def known(self, source: DiskSource, place: Path) -> Source | None:
        """A source that need not be read, or None."""
        stamp = stamp_of(place)
        path = self._paths.get(stamp) if stamp is not None else None
        entry = self._entries.get(path) if path is not None else None
        if entry is None or self._origin is None or entry.size_bytes != source.size_bytes:
            return None
        self.unread_bytes += entry.size_bytes
        return UnreadSource(source, place, entry, self._origin)
