"""Sharded restore: several ranks or nodes write one snapshot, each its share, into a folder that they share or one of their own.

The files of a share land directly in the target when that share is whole and verified. Until all shares are there, the target holds the
marker folder ``.bridgehead-restore``; the shard that finds all shares done removes it. So in a shared folder, no marker means that all is
there. In folders of their own nobody finds all shares done: the marker stays, and ``done-<shard>`` in it says that this share is whole.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from bridgehead.model.snapshot import EntryKind, FileEntry, Snapshot
from bridgehead.vault.landing import conflict, port_error, sync
from bridgehead.vault.objects import Objects
from bridgehead.vault.paths import on_disk
from bridgehead.vault.restore import Note, part, restore
from bridgehead.vault.sharing import Shard, deal

MARKER: Final = ".bridgehead-restore"
_OWNER_WRITES: Final = 0o300


def restore_share(objects: Objects, snapshot: Snapshot, to: Path, *, shard: Shard, note: Note = lambda _: None) -> bool:
    """Write one share into ``to``. True when all shares are there now. Repeated, it fetches only what is not there yet.

    Raises as ``restore.restore``; Conflict also when another snapshot, or as many shards of another number, are being restored to ``to``.
    """
    marker = to / MARKER / f"{snapshot.id}-{shard.count}"
    try:
        if to.is_dir() and any(to.iterdir()) and not (to / MARKER).is_dir():
            restore(objects, snapshot, to)  # all is there, or it is something else
            return True
        marker.mkdir(parents=True, exist_ok=True)
        if [one for one in os.listdir(to / MARKER) if one != marker.name]:
            raise conflict(to, "another snapshot, or another number of shards, is being restored to it", "Restore to another folder.")
        if not (marker / f"done-{shard.number}").exists():
            _land(objects, snapshot, to, marker, shard, note)
        if any(not (marker / f"done-{number}").exists() for number in range(1, shard.count + 1)):
            return False
        _set_modes(snapshot, to, restrictive=True)
        shutil.rmtree(to / MARKER, ignore_errors=True)  # another one may do the same
        sync(to)
        return True
    except OSError as error:
        raise port_error(error, to) from error


def _land(objects: Objects, snapshot: Snapshot, to: Path, marker: Path, shard: Shard, note: Note) -> None:
    mine = deal([file for file in snapshot.files if file.kind is not EntryKind.FOLDER], shard)
    scratch = marker / f"share-{shard.number}"
    shutil.rmtree(scratch, ignore_errors=True)  # moved in part, by one that was killed
    if mine:
        restore(objects, part(snapshot, [file.path for file in mine]), scratch, note=note)
    folders = set()
    for file in mine:
        path = to / on_disk(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(scratch / on_disk(file.path), path)
        folders.add(path.parent)
    _set_modes(snapshot, to, restrictive=False)
    for folder in folders:
        sync(folder)
    shutil.rmtree(scratch, ignore_errors=True)
    (marker / f"done-{shard.number}").touch()
    sync(marker)


def _set_modes(snapshot: Snapshot, to: Path, *, restrictive: bool) -> None:
    """Make the folders of the record. Modes that would keep other shards from writing into them come last, the deepest folder first."""
    folders: list[FileEntry] = [file for file in snapshot.files if file.kind is EntryKind.FOLDER]
    for folder in sorted(folders, key=lambda folder: folder.path, reverse=True):
        path = to / on_disk(folder.path)
        path.mkdir(parents=True, exist_ok=True)
        due = restrictive or folder.mode & _OWNER_WRITES == _OWNER_WRITES
        if due and stat.S_IMODE(path.stat().st_mode) != folder.mode:
            os.chmod(path, folder.mode)
