"""State of a watcher: what it has saved, in a folder inside the trainer's directory, so that a restart goes on where it was.

    <scratch>/lock          held by the watcher that works; the kernel gives it back when the process dies
    <scratch>/state.json    a record with its own hash, replaced at once
    <scratch>/hold/         files of the checkpoint that is being saved

Losing it costs time, never a checkpoint: a snapshot says itself of which checkpoint it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.host.durable import write_durably
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SnapshotId
from bridgehead.vault.records import Damaged, decode, encode
from bridgehead.vault.scratch import claim
from bridgehead.vault.tracked import Tracked

_STATE: Final = "state.json"
MAX_REMEMBERED: Final = 10_000


class Done(msgspec.Struct, frozen=True):
    """A checkpoint that is in the vault: its name in the directory, its fingerprint, and the snapshot."""

    name: str
    fingerprint: str
    snapshot: SnapshotId


class WatchState(msgspec.Struct, frozen=True):
    """All that a watcher knows. ``saved_s``: when the trainer wrote the newest checkpoint that is durable; 0: none."""

    done: tuple[Done, ...] = ()
    tracked: Tracked | None = None
    saved_s: float = 0.0
    newest: SnapshotId | None = None


class WatchFolder:
    """The folder of one watcher, locked as long as it is open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: int | None = None

    def open(self) -> None:
        """Take it. Raises BridgeheadError: VAULT_BUSY when another watcher has it, BAD_USAGE when it cannot be made."""
        try:
            self._lock = claim(str(self.folder))
        except OSError as error:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="watch a trainer",
                subject=str(self.folder),
                happened=f"this folder cannot be made or used ({error.strerror})",
                remedy="Give --scratch: a folder of this user, on the same file system if possible, so that files can be held.",
            ) from error
        if self._lock is None:
            raise BridgeheadError(
                ErrorCode.VAULT_BUSY,
                tried="watch a trainer",
                subject=str(self.folder),
                happened="another watcher works for this vault and workload here",
                remedy="Let it work, or end it first; when its process has died, the place is free at once.",
            )
        shutil.rmtree(self.hold, ignore_errors=True)  # what a killed watcher left

    def close(self) -> None:
        """Give it back; the state stays."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def hold(self) -> Path:
        """Where files are held."""
        return self.folder / "hold"

    def read(self) -> WatchState:
        """The state; an empty one when there is none or it is damaged."""
        path = self.folder / _STATE
        try:
            return decode(path.read_bytes(), WatchState, key=str(path))
        except (OSError, Damaged):
            return WatchState()

    def write(self, state: WatchState) -> None:
        """Replace the state, durably. A state that cannot be written costs a restart some work, and no more."""
        bounded = msgspec.structs.replace(state, done=state.done[-MAX_REMEMBERED:])
        with contextlib.suppress(OSError):
            write_durably(str(self.folder / _STATE), encode(bounded))
