"""How errors of the operating system become port errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bridgehead.kernel.errors import Permanent, Transient, Unknown

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_MAY_PASS: Final = frozenset(
    {
        errno.EIO,  # a path to the disk or the server may come back; the data are read again and hashed before they are trusted
        errno.ESTALE,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.ETIMEDOUT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENODEV,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
    }
)


@contextmanager
def translated(tried: str, subject: str) -> Iterator[None]:
    """Turn an OSError of the body into Permanent or Transient; the body has done nothing visible when it fails."""
    try:
        yield
    except OSError as error:
        raise port_error(error, tried=tried, subject=subject) from error


@contextmanager
def in_doubt(tried: str, subject: str) -> Iterator[None]:
    """Turn an OSError into Unknown: the value is visible, but it is not known whether it survives a power cut."""
    try:
        yield
    except OSError as error:
        raise Unknown(
            f"{_text(error)} after the value became visible", tried=tried, subject=subject, remedy="Read it back before going on."
        ) from error


def port_error(error: OSError, *, tried: str, subject: str) -> Permanent | Transient:
    """The port error for ``error`` when nothing was done."""
    if error.errno in _NO_SPACE:
        return Permanent(
            f"no space left ({_text(error)})", tried=tried, subject=subject, remedy="Free space or raise the quota; then repeat."
        )
    if error.errno in _MAY_PASS:
        return Transient(_text(error), tried=tried, subject=subject, remedy="Look at the disk or the mount if it stays.")
    if error.errno in (errno.EACCES, errno.EPERM):
        remedy = f"Give user {os.geteuid()} the rights there, or run as the user to whom it belongs."
        return Permanent(_text(error), tried=tried, subject=subject, remedy=remedy)
    return Permanent(_text(error), tried=tried, subject=subject, remedy="Look at the rights and the type of the directory.")


def _text(error: OSError) -> str:
    return f"{error.strerror or error} ({errno.errorcode.get(error.errno or 0, 'no code')})"
