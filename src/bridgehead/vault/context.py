"""Context: what belonged to a snapshot beside its files, so that one point in time brings back all: code, data, dependencies (R10).

Small things are pairs in the snapshot's ``context`` (``git.commit``, ``job.id``); everything, with the large things, lies in files under
the reserved path ``.bridgehead/`` of the snapshot itself: it is stored, encrypted, replicated and removed with it, and hashed by its id.

    .bridgehead/context.json    the record below
    .bridgehead/code.diff       what the working tree had that the commit has not (git's own form, binary)
    .bridgehead/config          the file of seeds and hyperparameters, as it was
    .bridgehead/environment.txt the packages of the interpreter, one a line
    .bridgehead/data.json       each file of the data with size and BLAKE3
    .bridgehead/locks/...       lock files; .bridgehead/dvc/... what DVC keeps of data
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.hashing import block_hash
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault.records import Damaged, damaged

RESERVED: Final = ".bridgehead/"
RECORD_PATH: Final = f"{RESERVED}context.json"
DIFF_PATH: Final = f"{RESERVED}code.diff"
CONFIG_PATH: Final = f"{RESERVED}config"
ENVIRONMENT_PATH: Final = f"{RESERVED}environment.txt"
DATA_PATH: Final = f"{RESERVED}data.json"
LOCKS: Final = f"{RESERVED}locks/"
DVC: Final = f"{RESERVED}dvc/"
FORMAT: Final = 1
_MAX_PAIR: Final = 200
_MAX_PAIRS: Final = 500


class Kept(msgspec.Struct, frozen=True):
    """A file that is kept with the snapshot: where it was (relative to what was captured), and as which file it lies in the snapshot."""

    name: str
    path: str
    blake3: str
    size_bytes: int


class Code(msgspec.Struct, frozen=True):
    """A git working tree.

    Attributes:
        tree: git's name of the whole tree as it was, commit and diff together: what a checkout is compared with.
        remote: where the commit came from, without user and password; empty when there is no remote.
        place: where the working tree was.
        dirty: whether it had something that the commit has not.
        diff_blake3: of the diff that was made, kept or not; empty when there was none to make.
        left_out: untracked files that are in neither, with the reason.
    """

    commit: str
    branch: str
    tree: str
    remote: str
    place: str
    dirty: bool
    diff_blake3: str
    diff_kept: bool
    left_out: tuple[str, ...] = ()


class DataFile(msgspec.Struct, frozen=True):
    """One file of the data."""

    path: str
    size_bytes: int
    blake3: str


class Data(msgspec.Struct, frozen=True):
    """The manifest of a folder of data, by path."""

    place: str
    files: tuple[DataFile, ...]


class DataSummary(msgspec.Struct, frozen=True):
    """A manifest in short."""

    place: str
    files: int
    size_bytes: int
    manifest_blake3: str


class Container(msgspec.Struct, frozen=True):
    """The container that the capture ran in, as far as it shows from inside. Empty texts: it does not show."""

    runtime: str
    image: str
    digest: str
    id: str


class Job(msgspec.Struct, frozen=True):
    """The job of a scheduler."""

    scheduler: str
    id: str
    name: str = ""


class PointInTime(msgspec.Struct, frozen=True):
    """``context.json``. None or empty: there was none, or it was not asked for. No time is in it: the same state is the same file."""

    format: int
    captured: str
    code: Code | None = None
    container: Container | None = None
    job: Job | None = None
    locks: tuple[Kept, ...] = ()
    dvc: tuple[Kept, ...] = ()
    environment: Kept | None = None
    config: Kept | None = None
    data: DataSummary | None = None
    notes: tuple[str, ...] = ()


def kept(name: str, path: str, content: bytes) -> Kept:
    """The entry of a file that is kept."""
    return Kept(name, path, block_hash(content), len(content))


def encode_context(point: PointInTime) -> bytes:
    """The file."""
    return canonical(point) + b"\n"


def decode_context(data: bytes) -> PointInTime:
    """Read it. Raises Damaged when it is of a form that this version does not know."""
    try:
        point = msgspec.json.decode(data, type=PointInTime)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unreadable(str(error)) from error
    if point.format != FORMAT:
        raise unreadable(f"it has format {point.format}")
    return point


def unreadable(why: str) -> Damaged:
    """The error for a context that cannot be read."""
    return damaged(RECORD_PATH, f"the saved context cannot be read ({why})", remedy="Use the version of Bridgehead that wrote it.")


def pairs(point: PointInTime) -> dict[str, str]:
    """The small things, for the snapshot's ``context``."""
    found: dict[str, str] = {}
    if point.code is not None:
        code = point.code
        found |= {"git.commit": code.commit, "git.dirty": "yes" if code.dirty else "no", "git.tree": code.tree}
        found |= {"git.branch": code.branch, "git.remote": code.remote, "git.diff": code.diff_blake3}
    if point.container is not None:
        box = point.container
        found |= {"container.image": box.image, "container.digest": box.digest, "container.id": box.id}
    if point.job is not None:
        found |= {"job.scheduler": point.job.scheduler, "job.id": point.job.id}
    found |= {f"lock.{one.name}": one.blake3 for one in point.locks}
    if point.environment is not None:
        found["environment"] = point.environment.blake3
    if point.config is not None:
        found["config"] = point.config.blake3
    if point.data is not None:
        found |= {
            "data.manifest": point.data.manifest_blake3,
            "data.files": str(point.data.files),
            "data.bytes": str(point.data.size_bytes),
        }
    return {key: value for key, value in found.items() if value}


def flattened(config: object) -> dict[str, str]:
    """Seeds and hyperparameters as pairs: ``config.optimizer.lr`` = ``0.001``. What is too long or too much stays in the file alone."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, object]] = [("config", config)]
    while waiting and len(found) < _MAX_PAIRS:
        name, value = waiting.pop(0)
        match value:
            case dict():
                waiting += [(f"{name}.{key}", item) for key, item in value.items()]
            case list() | tuple():
                waiting += [(f"{name}.{number}", item) for number, item in enumerate(value)]
            case _:
                text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                if len(name) <= _MAX_PAIR and len(text) <= _MAX_PAIR:
                    found[name] = text
    return found


def own_paths(snapshot: Snapshot) -> list[str]:
    """The paths of the checkpoint itself, without what is kept with it."""
    return [file.path for file in snapshot.files if not file.path.startswith(RESERVED)]
