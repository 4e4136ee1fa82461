"""Restore: files bit for bit, each block hashed in the buffer that is used (V30, V31), visible all at once or not at all.

What a restore that was broken off has written stays in a scratch folder beside the target; the next one reads and hashes it there, and
fetches only what is not right yet (V24, V28).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from bridgehead.host.durable import sync_folder
from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import BlockId
from bridgehead.model.snapshot import FileEntry, Hole, Snapshot
from bridgehead.vault.compare import same_tree
from bridgehead.vault.cut import MAX_BLOCK_BYTES
from bridgehead.vault.landing import Landing, conflict, port_error
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.paths import shown
from bridgehead.vault.reader import Reader
from bridgehead.vault.scratch import claim, release
from bridgehead.vault.snapshots import places_of

Note = Callable[[str], None]
"""Takes a sentence about what could not be kept, or where something was left."""


def load(objects: Objects, snapshot: Snapshot) -> dict[str, bytes]:
    """The files in memory; links and folders are not among them. Raises Damaged."""
    reader = Reader(objects, snapshot)
    files = [file for file in snapshot.files if file.is_file]
    fetched: dict[BlockId, bytes | memoryview] = {}
    reader.each([ref for file in files for ref in file.blocks], lambda ref, data: fetched.update({ref.block: data}), ref_of=lambda ref: ref)
    loaded = {
        file.path: b"".join([bytes(place.size_bytes) if isinstance(place, Hole) else fetched[place.block] for place in places_of(file)])
        for file in files
    }
    # Hashed after landing in the buffer that the caller gets, not before.
    places = [(memoryview(loaded[file.path]), ref) for file in files for ref in file.blocks]
    parallel(
        lambda place: objects.check_block(
            place[1].block,
            place[0][place[1].offset_bytes : place[1].offset_bytes + place[1].size_bytes],
            place[1].size_bytes,
            owner=snapshot,
        ),
        places,
    )
    return loaded


def restore(objects: Objects, snapshot: Snapshot, to: Path, *, note: Note = lambda _: None, sync: bool = True) -> None:
    """Write the files into the folder ``to``, which appears at once when all is verified and on disk.

    A folder that already holds exactly these files is left as it is. When it fails, what is written stays beside ``to`` for the next try.

    Args:
        sync: False does not wait for the disk, as other restore tools do not: a power cut soon after may then leave files that are not
            whole, which ``restore`` to the same place says (it compares contents).
        note: told in words what the file system cannot keep (hard links, holes), and where an unfinished restore lies.

    Raises:
        Conflict: ``to`` holds something else, or another process is restoring to it.
        Damaged: a block is missing or damaged; nothing appears.
        Permanent: no space left, or no right to write; nothing appears.
    """
    if _occupied(to):
        if not same_tree(snapshot, to):
            raise conflict(to, "it is there and holds something else", "Restore to a folder that does not exist yet.")
        return
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        scratch = to.parent / f".{to.name}.restoring"
        lock = _claim(scratch, to)
        landing = Landing(objects, snapshot, scratch / "files", to=to, note=note, sync=sync)
        try:
            landing.write()
            mode = stat.S_IMODE(to.stat().st_mode) if to.is_dir() else None  # an empty folder keeps its mode
            if mode is not None:
                os.chmod(scratch / "files", mode | 0o700)
            os.rename(scratch / "files", to)
            if mode is not None:
                os.chmod(to, mode)
            if sync:
                sync_folder(str(to.parent))
        except BaseException:
            if landing.landed:
                note(f"what was restored until then is kept in {scratch}; the same command goes on from there")
                os.close(lock)
            else:
                release(str(scratch), lock)
            raise
        release(str(scratch), lock)
    except OSError as error:
        raise port_error(error, to) from error


def part(snapshot: Snapshot, paths: Collection[str]) -> Snapshot:
    """The snapshot as if it had only the files of these paths. Raises NotFound for one that it does not have."""
    have = {file.path: file for file in snapshot.files}
    for path in paths:
        if path not in have:
            raise NotFound(
                f"there is no file {path!r}", tried="restore a file", subject=snapshot.id, remedy="`bridgehead vault show` lists its files."
            )
    chosen = (file for file in snapshot.files if file.path in paths)
    files = (file if file.same_as in paths else msgspec.structs.replace(file, same_as=msgspec.UNSET) for file in chosen)
    return msgspec.structs.replace(snapshot, files=tuple(files))


def pieces(
    objects: Objects, snapshot: Snapshot, file: FileEntry, begin: int, end: int, *, reader: Reader | None = None
) -> Iterator[memoryview]:
    """The bytes [begin, end) of a file in pieces of at most a block, each verified before it is handed out. Raises Damaged.

    ``reader``: one of this snapshot that is there already.
    """
    if not file.is_file:
        raise NotFound(
            f"it is a {file.kind}{f' to {shown(file.target)!r}' if file.target else ''} and has no content",
            tried="read a file",
            subject=f"{shown(file.path)} of {snapshot.id}",
            remedy="Read the file that it leads to." if file.target else "Restore it to a folder.",
        )
    reader = reader or Reader(objects, snapshot)
    for place in places_of(file):
        first, last = max(begin, place.offset_bytes), min(end, place.offset_bytes + place.size_bytes)
        if first >= last:
            continue
        if isinstance(place, Hole):
            for at in range(first, last, MAX_BLOCK_BYTES):
                yield memoryview(bytes(min(MAX_BLOCK_BYTES, last - at)))
        else:
            yield memoryview(reader.read(place))[first - place.offset_bytes : last - place.offset_bytes]


def _claim(scratch: Path, to: Path) -> int:
    """The lock on the scratch folder. One that somebody else could write into is not used: what is in it would be trusted."""
    lock = None
    if _is_own(scratch):
        scratch.mkdir(mode=0o700, exist_ok=True)  # what cannot be made is another thing than what somebody else has
        lock = claim(str(scratch))
        if lock is None:
            raise conflict(to, "another process is restoring to it", "Wait for it.")
    if lock is None or not _is_own(scratch):
        raise conflict(to, f"{scratch} is not a private folder of this user", "Remove it, or restore to another place.")
    return lock


def _is_own(scratch: Path) -> bool:
    try:
        found = os.lstat(scratch)
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _occupied(to: Path) -> bool:
    return os.path.lexists(to) and not (to.is_dir() and not to.is_symlink() and not any(to.iterdir()))
