"""Held: the files of a checkpoint, kept while they are read, so that a trainer that rotates them away does not break the save (V13).

By reflink where the file system can (then they are also safe from being rewritten), else by hard link, else not at all: then a file that
goes away or changes ends the save cleanly.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.vault.checkpoints import Checkpoint, signature_of
from bridgehead.vault.paths import on_disk
from bridgehead.vault.sources import DiskSource, Range, Source, bad_input, sources_of

FICLONE: Final = 0x40049409
"""The request number of Linux: the new file shares the other one's blocks, copy on write."""
_NO_REFLINK: Final = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES})
_NO_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS})


class Hold(enum.StrEnum):
    """How a file is held."""

    REFLINK = "reflink"
    HARD_LINK = "hard link"
    NONE = "not at all"


class PassedSource:
    """A source that passes on what another one says of a file; the classes below change how it is read."""

    def __init__(self, source: DiskSource) -> None:
        self.path, self.mode, self.size_bytes = source.path, source.mode, source.size_bytes
        self.kind, self.target, self.same_as, self.mtime_ns = source.kind, source.target, source.same_as, source.mtime_ns
        self.inner = source

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """See Source."""
        return self.inner.read(offset, size)

    def data_ranges(self) -> list[Range]:
        """See Source."""
        return self.inner.data_ranges()

    def check_unchanged(self) -> None:
        """See Source."""
        self.inner.check_unchanged()


class HeldSource(PassedSource):
    """A file that is read where it is held: the original may go away."""

    def __init__(self, source: DiskSource, place: Path) -> None:
        super().__init__(source)
        self.inner = DiskSource(source.path, str(place), follow=False)


@contextmanager
def held(checkpoint: Checkpoint, folder: Path, *, known: Callable[[DiskSource, Path], Source | None]) -> Iterator[list[Source]]:
    """The sources of a checkpoint, held in ``folder``, a new folder in the same file system, which is removed at the end.

    Args:
        known: gives another source for a file, and the place where it lies, that need not be read; None for all others.

    Raises BridgeheadError (BAD_INPUT) when the checkpoint is not any more what it was when it was looked at.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield _held(checkpoint, folder, known)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _held(checkpoint: Checkpoint, folder: Path, known: Callable[[DiskSource, Path], Source | None]) -> list[Source]:
    is_file = checkpoint.is_file
    found = sources_of({checkpoint.path.name: checkpoint.path} if is_file else checkpoint.path)
    by = Hold.REFLINK
    sources: list[Source] = []
    for number, source in enumerate(found):
        if isinstance(source, DiskSource):
            place = checkpoint.path if is_file else checkpoint.path / on_disk(source.path)
            other = known(source, place)
            if other is None:
                target = folder / str(number)
                by = _hold_one(checkpoint, source, place, target, at_most=by)
                other = source if by is Hold.NONE else HeldSource(source, target)
            sources.append(other)
        else:
            sources.append(source)
    if signature_of(checkpoint.path) != checkpoint.signature and not _only_rotated(checkpoint, sources):
        raise gone(checkpoint, "it changed after it had looked whole")
    return sources


def _only_rotated(checkpoint: Checkpoint, sources: Sequence[Source]) -> bool:
    """The trainer has begun to remove it, and everything that it was is held or known already."""
    now = set(signature_of(checkpoint.path))
    have = {(source.path, source.size_bytes, source.mtime_ns) for source in sources if isinstance(source, PassedSource)}
    lost = [line for line in checkpoint.signature if line not in now]
    return now <= set(checkpoint.signature) and all((name, size, changed_ns) in have for name, size, changed_ns, _ in lost)


def _hold_one(checkpoint: Checkpoint, source: DiskSource, place: Path, target: Path, *, at_most: Hold) -> Hold:
    """Hold a file by the strongest way that has worked so far for this checkpoint."""
    if at_most is Hold.NONE:
        return Hold.NONE
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if at_most is Hold.REFLINK and _reflinked(place, target):
            return Hold.REFLINK
        os.link(place, target, follow_symlinks=False)
        found = target.lstat()
    except OSError as error:
        if error.errno in _NO_LINK:
            return Hold.NONE
        raise gone(checkpoint, f"{place.name}: {error.strerror or error}") from error
    if (found.st_size, found.st_mtime_ns) != (source.size_bytes, source.mtime_ns):
        raise gone(checkpoint, f"{place.name} changed after it had looked whole")
    return Hold.HARD_LINK


def _reflinked(source: Path, target: Path) -> bool:
    with contextlib.ExitStack() as opened:
        reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, reading)
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, writing)
        try:
            fcntl.ioctl(writing, FICLONE, reading)
        except OSError as error:
            os.unlink(target)
            if error.errno in _NO_REFLINK:
                return False
            raise
    return True


def gone(checkpoint: Checkpoint, happened: str) -> BridgeheadError:
    """The error for a checkpoint that is not any more what it was."""
    return bad_input(str(checkpoint.path), happened, "The next whole one will be saved; older snapshots are untouched.")
