"""LocalBubbles: a bubble is a folder, with everything of it inside, and perhaps a network namespace (ports.bubbles.Bubbles; R13)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.bubble import namespaces
from bridgehead.host.durable import create_durably
from bridgehead.kernel.errors import Conflict, Transient
from bridgehead.model.bubble import Bubble, BubbleId
from bridgehead.model.stamp import Stamp

OPENED: Final = "opened.json"
_HITS: Final = ("vault", "scratch", "@hits")


class LocalBubblesOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The folder that holds all bubbles, one folder each."""

    directory: str


class _Opened(msgspec.Struct, frozen=True):
    """What a bubble was opened with: enough to remove it whatever has happened."""

    bubble: Bubble
    stamp: Stamp


class LocalBubbles:
    """See the port.

    A bubble's folder holds ``vault`` (a view, made by whoever begins the drill), ``jobs`` and ``control`` (of its scheduler and its
    trainers). Closing removes the namespace, the view and what its jobs left; the empty folder goes when its owner forgets it.
    """

    def __init__(self, options: LocalBubblesOptions) -> None:
        self._root = Path(options.directory)

    def open(self, bubble: Bubble, *, stamp: Stamp) -> None:
        """See the port."""
        folder = self._root / bubble.id
        with _transient("open a bubble", bubble.id):
            opened = _read(folder / OPENED)
            if opened is not None and opened.stamp.run == stamp.run and opened.stamp.epoch > stamp.epoch:
                raise Conflict(
                    f"driver {opened.stamp.epoch} has taken over", tried="open a bubble", subject=bubble.id, remedy="End this process."
                )
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written before the namespace is made: a process that dies in between leaves a name by which it is found.
            create_durably(str(folder / OPENED), msgspec.json.encode(_Opened(bubble, stamp)))
            if bubble.network:
                namespaces.make(bubble.network)

    def hits(self, bubble: BubbleId) -> frozenset[str]:
        """See the port."""
        with _transient("look at a bubble", bubble):
            folder = self._root.joinpath(bubble, *_HITS)
            return frozenset(name.replace("@", ":") for name in os.listdir(folder)) if folder.is_dir() else frozenset()

    def close(self, bubble: BubbleId, *, stamp: Stamp) -> tuple[str, ...]:
        """See the port. Processes that still live in the bubble's network namespace are named as left over."""
        folder = self._root / bubble
        with _transient("close a bubble", bubble):
            opened = _read(folder / OPENED)
            if opened is not None and opened.bubble.network:
                left = namespaces.processes_in(opened.bubble.network)
                if left:
                    return tuple(f"process {pid} in network namespace {opened.bubble.network}" for pid in left)
                namespaces.remove(opened.bubble.network)
            for path in _contents(folder):
                shutil.rmtree(path, ignore_errors=True)
            (folder / OPENED).unlink(missing_ok=True)
            return tuple(map(str, _contents(folder)))


def _contents(folder: Path) -> list[Path]:
    """The view, and the folders of jobs; not what the scheduler and the control keep of themselves, which may still be asked."""
    found = [folder / "vault"] if (folder / "vault").exists() else []
    for name in ("jobs", "control"):
        if (folder / name).is_dir():
            found += [path for path in (folder / name).iterdir() if path.is_dir() and path.name[0] != "."]
    return found


class _transient:
    """A folder that cannot be seen or written now may be seen later."""

    def __init__(self, tried: str, subject: str) -> None:
        self._tried, self._subject = tried, subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise Transient(
                error.strerror or str(error), tried=self._tried, subject=f"bubble {self._subject}", retry_after_s=0.5
            ) from error


def _read(path: Path) -> _Opened | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Opened)
    except FileNotFoundError:
        return None
