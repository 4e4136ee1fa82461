"""Capture files: every file below the paths that a user gives, with the host whose output it is. Links are not followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bridgehead.app.archives import Entry, entries, is_packed
from bridgehead.discovery.captures import RECORD_NAME, Owner, Witness, may_name, owner_of, read_name, read_record, same_host, siblings
from bridgehead.discovery.parsing import MAX_CAPTURE_BYTES, Capture
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.fact import Skipped

_RECORD_BYTES = 64 << 10
_SUFFIXES = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zip")


class CaptureFile(NamedTuple):
    """A file on disk: the names of the folders from the given path down to it, the name of the given path, and its size.

    ``owners``: what collectors' records say of the folders in which it lies.
    """

    path: Path
    folders: tuple[str, ...]
    given: str
    size_bytes: int
    owners: tuple[tuple[tuple[str, ...], Owner], ...] = ()


def capture_files(paths: Sequence[Path], *, tools: frozenset[str] = frozenset()) -> tuple[list[CaptureFile], list[Skipped]]:
    """All files, each once, however often it is given, and what is passed over. ``tools``: names that are no hosts.

    Raises BAD_INPUT for a path that does not exist or that cannot be opened.
    """
    done: set[str] = set()
    skipped: list[Skipped] = []
    all_files: list[CaptureFile] = []
    for given in paths:
        files: list[CaptureFile] = []
        for found in _files(given):
            if isinstance(found, Skipped):
                skipped.append(found)
            elif (real := os.path.realpath(found.path)) not in done:
                done.add(real)
                files.append(found)
        owners = siblings(((file.folders, file.path.name) for file in files), tools=tools) | _owners(files)
        for file in files:
            above = [file.folders[:depth] for depth in range(len(file.folders) + 1)]
            said = tuple((folders, owners[folders]) for folders in above if folders in owners)
            all_files.append(file._replace(owners=said))
    return all_files, skipped


def _files(given: Path) -> Iterator[CaptureFile | Skipped]:
    try:
        # The path that was given may be a link: somebody named it.
        mode = given.stat().st_mode
        name = given.name or given.resolve().name
        if stat.S_ISDIR(mode):
            yield from _below(given, (), name)
        elif stat.S_ISREG(mode):
            yield CaptureFile(given, (), _stem(name) if is_packed(given) else "", given.stat().st_size)
        else:
            yield Skipped(_shown(given), 1, "it is no ordinary file")
    except OSError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read the captured output",
            subject=str(given),
            happened=error.strerror or str(error),
            remedy="Check the path and its rights.",
        ) from error


def _below(folder: Path, folders: tuple[str, ...], given: str) -> Iterator[CaptureFile | Skipped]:
    with os.scandir(folder) as scan:
        found = sorted(scan, key=lambda one: one.name)
    for one in found:
        path = folder / one.name
        if one.is_symlink():
            yield Skipped(_shown(path), 1, "it is a link, and links are not followed")
        elif one.is_dir(follow_symlinks=False):
            try:
                yield from _below(path, (*folders, one.name), given)
            except OSError as error:
                yield Skipped(_shown(path), 1, f"the folder cannot be read: {error.strerror}")
        elif one.is_file(follow_symlinks=False):
            yield CaptureFile(path, folders, given, one.stat(follow_symlinks=False).st_size)
        else:
            yield Skipped(_shown(path), 1, "it is no ordinary file")


def _owners(files: Sequence[CaptureFile]) -> dict[tuple[str, ...], Owner]:
    """What the collector's records, and names that hosts printed, say of the folders in which they lie."""
    owners: dict[tuple[str, ...], Owner] = {}
    for file in files:
        if not _tells(file.path.name):
            continue
        try:
            with file.path.open("rb") as stream:
                _note(owners, file.folders, file.path.name, stream.read(_RECORD_BYTES))
        except OSError:
            continue  # reading it as a capture says so
    return owners


def _inner_owners(file: CaptureFile) -> dict[tuple[str, ...], Owner]:
    """The same, of records inside an archive."""
    owners: dict[tuple[str, ...], Owner] = {}
    for entry in entries(file.path, wanted=lambda path: _tells(path.rpartition("/")[2])):
        if entry.data:
            _note(owners, _inner_folders(file, entry.path), entry.path.rpartition("/")[2], entry.data)
    return owners


def _tells(name: str) -> bool:
    return name == RECORD_NAME or may_name(name)


def _note(owners: dict[tuple[str, ...], Owner], folders: tuple[str, ...], name: str, data: bytes) -> None:
    """A record is surer than a name; of two names none is believed."""
    owner = read_record(data) if name == RECORD_NAME else read_name(data)
    before = owners.get(folders)
    if owner is None or (before is not None and before.witness is Witness.RECORD and owner.witness is not Witness.RECORD):
        return
    contrary = before is not None and before.witness is owner.witness is Witness.ITSELF and not same_host(before.host, owner.host)
    owners[folders] = Owner("", None, Witness.ITSELF) if contrary else owner


def captures_of(file: CaptureFile, *, tools: frozenset[str], host: str) -> Iterator[Capture | Skipped]:
    """The captures of a file: one, or those of an archive; one in memory at a time.

    Args:
        tools: names that are no hosts.
        host: whose output it is where neither a folder nor a record says.
    """
    shown = _shown(file.path)
    try:
        packed = is_packed(file.path)
        owners = dict(file.owners) | (_inner_owners(file) if packed else {})
        found = entries(file.path) if packed else iter([_read(file.path)])
    except OSError as error:
        yield Skipped(shown, 1, f"it cannot be read: {error.strerror}")
        return
    for entry in found:
        name = f"{shown}!{_printable(entry.path)}" if entry.path else shown
        if entry.reason:
            yield Skipped(name, 1, entry.reason)
            continue
        folders = _inner_folders(file, entry.path) if packed else file.folders
        owner = owner_of(folders, given=file.given, owners=owners, tools=tools)
        if owner.witness is Witness.ITSELF and may_name(name.rpartition("/")[2]) and read_name(entry.data) is not None:
            yield Skipped(
                name, 1, f"it says that its folder is of the host {owner.host}" if owner.host else "another file says another host"
            )
            continue
        at_s = entry.at_s if owner.at_s is None else owner.at_s
        yield Capture(name, entry.data, owner.host or host, at_s)


def _read(path: Path) -> Entry:
    with path.open("rb") as stream:
        data = stream.read(MAX_CAPTURE_BYTES + 1)
        at_s = os.fstat(stream.fileno()).st_mtime or None
    if len(data) > MAX_CAPTURE_BYTES:
        return Entry("", b"", at_s, f"it is larger than {MAX_CAPTURE_BYTES >> 20} MiB")
    return Entry("", data, at_s)


def _inner_folders(file: CaptureFile, inside: str) -> tuple[str, ...]:
    """Folders of an entry of an archive. An archive that lies in a folder counts as a level by its own name."""
    names = [name for name in inside.split("/")[:-1] if name not in ("", ".")]
    own = [_stem(file.path.name)] if inside and file.given != _stem(file.path.name) else []
    return (*file.folders, *own, *names)


def _stem(name: str) -> str:
    for suffix in (*_SUFFIXES, ".tar"):
        name = name.removesuffix(suffix)
    return name


def _shown(path: Path) -> str:
    return _printable(os.path.normpath(path))


def _printable(name: str) -> str:
    """Bytes of a name that are not UTF-8, as ``\\xff``."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
