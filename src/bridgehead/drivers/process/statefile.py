"""State that several controllers share through a directory: typed JSON files, a lock for each job, the newest epoch of each run."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from bridgehead.host import durable
from bridgehead.kernel.errors import Conflict, Permanent, Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId
from bridgehead.model.stamp import Stamp

T = TypeVar("T")

LOCK_WAIT_S = 2.0
LOCK_POLL_S = 0.005
DRIVER_FOLDER = ".driver"
"""Holds what belongs to the directory as a whole; no job name begins with a dot."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9@_+-][A-Za-z0-9@._+-]{0,199}")


class _Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    site: SiteId


class _Epochs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    newest: dict[RunId, Epoch]


def read_struct(path: str, kind: type[T]) -> T | None:
    """The value in ``path``, None when there is no such file. Raises OSError, msgspec.MsgspecError for a damaged file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(data, type=kind)


def write_struct(path: str, value: msgspec.Struct) -> None:
    """Replace the file durably by ``value``. Raises OSError; the old content is then still there."""
    durable.write_durably(path, msgspec.json.encode(value))


@contextmanager
def errors_as_transient(tried: str, subject: str) -> Iterator[None]:
    """What the file system refuses is "cannot see it" or "was not done", never an answer (design rule 7)."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise Transient(f"a state file is damaged: {error}", tried=tried, subject=subject, remedy="Look at the files there") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        happened = f"no space: {error}" if full else f"the system refused: {error}"
        remedy = (
            "Free space on that disk"
            if full
            else "Check that the state directory is there, and that its files and processes may be used by this user"
        )
        raise Transient(happened, tried=tried, subject=subject, remedy=remedy) from error


class StateDirectory:
    """The directory of one driver at one site: a folder for each job, and what belongs to all.

    It remembers whose it is, so that an empty mount point or another site's directory is never taken for "nothing was ever started here".

    Raises (constructor):
        Transient: the directory cannot be made or read.
        Permanent: it belongs to another site.
    """

    def __init__(self, site: SiteId, directory: str) -> None:
        self.site = site
        self.path = os.path.realpath(directory)
        self._own = f"{self.path}/{DRIVER_FOLDER}"
        with errors_as_transient("open the state directory", self.path):
            owner = read_struct(f"{self._own}/site.json", _Owner)  # needs no space: a full disk hinders nobody from looking
            if owner is None:
                os.makedirs(self._own, exist_ok=True)
                durable.create_durably(f"{self._own}/site.json", msgspec.json.encode(_Owner(site=site)))
                owner = read_struct(f"{self._own}/site.json", _Owner)
        if owner is None or owner.site != site:
            raise Permanent(
                f"it belongs to site {owner.site if owner else '(none)'}",
                tried=f"open the state directory of site {site}",
                subject=self.path,
                remedy="Give each site a directory of its own",
            )

    def require_present(self) -> None:
        """Raise FileNotFoundError when the directory has vanished or something else is mounted in its place."""
        os.stat(f"{self._own}/site.json")

    def folder(self, job: JobName, *, tried: str) -> str:
        """The folder of ``job``. Raises Permanent for a name that is no plain file name."""
        if not _PLAIN_NAME.fullmatch(job):
            raise Permanent(
                "the name is no plain file name",
                tried=tried,
                subject=f"job {job!r} at site {self.site}",
                remedy="Use up to 200 letters, digits and the signs @ . _ + -, and no dot at the beginning",
            )
        return f"{self.path}/{job}"

    @contextmanager
    def locked(self, folder: str, *, tried: str) -> Iterator[int]:
        """Hold the lock of a job's folder, which is made if missing. Yields the locked descriptor: a child that inherits it keeps the lock.

        Raises Transient after two seconds of waiting for somebody else.
        """
        self.require_present()
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            if not lock_within(descriptor, LOCK_WAIT_S):
                raise Transient("another controller is busy with it", tried=tried, subject=folder, retry_after_s=0.2)
            yield descriptor
        finally:
            os.close(descriptor)  # and no unlock: that would also take the lock from a child that inherited it

    def check_epoch(self, stamp: Stamp, *, tried: str) -> None:
        """Remember the newest epoch of the stamp's run, durably, before its effect (J13).

        Raises Conflict when a newer epoch of the run was seen, also by another controller and before a restart.
        """
        with self.locked(self._own, tried=tried):
            path = f"{self._own}/epochs.json"
            newest = (read_struct(path, _Epochs) or _Epochs(newest={})).newest
            seen = newest.get(stamp.run)
            if seen is not None and stamp.epoch < seen:
                raise Conflict(
                    f"epoch {stamp.epoch} is older than epoch {seen}, which was already seen",
                    tried=tried,
                    subject=f"run {stamp.run} at site {self.site}",
                    remedy="Another process drives the run now: stop this one",
                )
            if seen is None or stamp.epoch > seen:
                write_struct(path, _Epochs(newest={**newest, stamp.run: stamp.epoch}))


def lock_within(descriptor: int, wait_s: float) -> bool:
    """Take the exclusive lock of an open file, waiting at most ``wait_s``; False when somebody else kept it. Raises OSError."""
    limit_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= limit_s:
                return False
            time.sleep(LOCK_POLL_S)
        else:
            return True
