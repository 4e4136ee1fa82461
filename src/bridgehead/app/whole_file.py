"""Whole files: a reader sees the old file or the whole new one, and nothing of somebody else's is overwritten."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

_OF_THE_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})


def refuse_other(path: Path, *, what: str, begins: tuple[bytes, ...]) -> None:
    """Before work begins: what is at ``path`` already must be of the kind that will be written, or nothing, or empty.

    Args:
        what: the kind, such as "facts file".
        begins: how files of that kind begin.

    Raises BAD_INPUT: it is another file (a capture, an estate), or no ordinary file at all, or its folder takes no file.
    """
    folder = Path(os.path.realpath(path)).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(path, what, f"folder {folder} cannot be written to" if folder.exists() else f"there is no folder {folder}")
    try:
        refuse_odd(path, what=what)
        with path.open("rb") as stream:
            head = stream.read(max(map(len, begins)))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(path, what, error.strerror or str(error)) from error
    if head and not head.startswith(begins):
        raise _refused(path, what, f"another file is there, which is no {what}; it is left as it is")


def refuse_odd(path: Path, *, what: str) -> None:
    """Raises BAD_INPUT for a folder, a pipe or a device: a file that is replaced as a whole would take its place."""
    if path.exists() and not path.is_file():
        raise _refused(path, what, "it is a folder" if path.is_dir() else "it is no ordinary file")


@contextmanager
def whole_file(path: Path, *, what: str) -> Iterator[BinaryIO]:
    """Write a file; where it is a link, what the link points to. Raises BAD_INPUT when it cannot be written; then the old one stays."""
    real = Path(os.path.realpath(path))
    temporary = real.with_name(f".{real.name}.{os.getpid()}.new")
    try:
        try:
            stream = temporary.open("wb")
        except OSError as error:
            raise _refused(path, what, error.strerror or str(error)) from error
        try:
            with stream:
                yield stream
        except OSError as error:
            if error.errno in _OF_THE_DISK and error.filename is None:  # of this stream: nothing else is written meanwhile
                raise _refused(path, what, error.strerror or str(error)) from error
            raise
        temporary.replace(real)
    finally:
        temporary.unlink(missing_ok=True)


def _refused(path: Path, what: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried=f"write the {what}",
        subject=str(path),
        happened=happened,
        remedy="Choose a place that can be written to.",
    )
