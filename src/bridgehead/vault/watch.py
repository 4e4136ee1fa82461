"""Watch: whole checkpoints of a trainer's directory go into the vault, each once, the newest first (R6; V11, V12, V13).

A look costs a listing, and the sizes and times of the files of the newest checkpoints. Nothing is asked of the trainer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault.checkpoints import Checkpoint
from bridgehead.vault.completeness import Watcher
from bridgehead.vault.held import held
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.marks import MarkKind
from bridgehead.vault.paths import on_disk
from bridgehead.vault.save import SaveResult
from bridgehead.vault.sources import MemorySource, Source
from bridgehead.vault.tracked import Memory, Tracked, TrackedFile, stamp_of
from bridgehead.vault.vault import Vault
from bridgehead.vault.watch_state import Done, WatchFolder, WatchState

NAME: Final = "checkpoint"
FORM: Final = "checkpoint-form"
FINGERPRINT: Final = "checkpoint-fingerprint"
"""Keys of a snapshot's context: the checkpoint's name in its directory, whether it is a file or a folder, and what tells it apart."""


class Extra(msgspec.Struct, frozen=True):
    """What is saved with a checkpoint: text pairs, and files under paths that are reserved for it (R10)."""

    context: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}


class WatchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch, and as what it is saved.

    Attributes:
        pattern: matches the whole name of a checkpoint; its first group is the step. None: the usual names.
        stable_s: how long nothing may have changed, at least.
    """

    directory: Path
    workload: WorkloadId
    site: SiteId
    epoch: Epoch
    pattern: re.Pattern[str] | None = None
    mark: MarkKind = MarkKind()
    stable_s: float = 2.0


class Ingested(msgspec.Struct, frozen=True):
    """A checkpoint that is durable. ``unread_bytes``: of files that were not read, because the snapshot before has them."""

    name: str
    result: SaveResult
    changed_s: float
    unread_bytes: int


class Look(msgspec.Struct, frozen=True):
    """What one look came to.

    Attributes:
        saved: those that became durable now.
        incomplete: those that are not whole, with what lacks.
        failed: those that could not be saved, with the error; they are tried again.
        matching: how many names look like checkpoints, or match the pattern.
    """

    saved: tuple[Ingested, ...]
    incomplete: Mapping[str, tuple[str, ...]]
    failed: Mapping[str, BridgeheadError]
    matching: int = 0


class Watch:
    """One directory and one workload. Not for threads; ``folder`` must be open."""

    def __init__(self, vault: Vault, order: WatchOrder, folder: WatchFolder, *, extra: Callable[[], Extra] = Extra) -> None:
        self._vault, self._order, self._folder, self._extra = vault, order, folder, extra
        self._watcher = Watcher(order.directory, pattern=order.pattern, mark=order.mark, stable_s=order.stable_s)
        self.state = folder.read()
        self._done = {one.name: one for one in self.state.done}

    def look(self, *, now_s: float, stop: Callable[[], bool] = lambda: False) -> Look:
        """Look once, and save what is whole and new, the newest first. ``stop`` is asked before each save.

        Raises BridgeheadError (VAULT_FENCED) when the epoch is closed, and errors of reading the vault.
        """
        saved: list[Ingested] = []
        failed: dict[str, BridgeheadError] = {}
        for checkpoint in reversed(self._watcher.complete(now_s=now_s)):
            name = checkpoint.path.name
            done = self._done.get(name)
            if done is not None and done.fingerprint == checkpoint.fingerprint:
                self._watcher.rest(checkpoint)
                continue
            if stop():
                break
            try:
                if not self._adopted(checkpoint):
                    saved.append(self._save(checkpoint))
            except BridgeheadError as error:
                if not isinstance(error, PortError) and error.code is not ErrorCode.BAD_INPUT:
                    raise
                failed[name] = error
                continue
            self._watcher.rest(checkpoint)
        incomplete = {path.name: lacking for path, lacking in self._watcher.incomplete.items()}
        return Look(tuple(saved), incomplete, failed, self._watcher.matching)

    def _save(self, checkpoint: Checkpoint) -> Ingested:
        order, memory = self._order, self._memory()
        form = "file" if checkpoint.is_file else "folder"
        with held(checkpoint, self._folder.hold, known=memory.known) as sources:
            extra = self._extra()  # may take its time: the files are held
            more: list[Source] = [MemorySource(path, data) for path, data in extra.files.items()]
            result = self._vault.save(
                sorted([*sources, *more], key=lambda source: source.path),
                workload=order.workload,
                step=checkpoint.step,
                epoch=order.epoch,
                site=order.site,
                context={**extra.context, NAME: checkpoint.path.name, FORM: form, FINGERPRINT: checkpoint.fingerprint},
            )
        self._remember(checkpoint, result.snapshot, self._track(checkpoint, sources, result.snapshot))
        if not result.counts:
            raise BridgeheadError(
                ErrorCode.VAULT_FENCED,
                tried="save a checkpoint that counts",
                subject=result.id,
                happened=f"epoch {order.epoch} is not in force; it was kept as evidence and will never be the newest",
                remedy="Another writer has taken over. `bridgehead vault status` shows the epoch and its holder.",
            )
        return Ingested(checkpoint.path.name, result, checkpoint.changed_s, memory.unread_bytes)

    def _adopted(self, checkpoint: Checkpoint) -> bool:
        """A watcher that was killed may have saved it already, without noting so: then it is noted now, and not saved again."""
        order = self._order
        for name in self._vault.names(order.workload):
            if (name.step, name.epoch) == (checkpoint.step, order.epoch):
                info = self._vault.find(name.id)
                snapshot = self._vault.snapshot(name.id) if info is not None and info.verified and info.counts else None
                if snapshot is not None and snapshot.context.get(FINGERPRINT) == checkpoint.fingerprint:
                    self._remember(checkpoint, snapshot, None)
                    return True
        return False

    def _memory(self) -> Memory:
        """What need not be read: files of the last save, when that is the newest snapshot (what encoding rests on) and whole."""
        tracked = self.state.tracked
        newest = self._vault.newest(self._order.workload) if tracked is not None and tracked.files else None
        if tracked is None or newest is None or newest.id != tracked.snapshot:
            return Memory(None, None)
        return Memory(tracked, self._vault.snapshot(newest.id))

    def _track(self, checkpoint: Checkpoint, sources: list[Source], snapshot: Snapshot) -> Tracked:
        """Stamps as they are now: a hard link that came and went has changed the inode's time of change."""
        files = []
        entries = {file.path for file in snapshot.files}
        is_file = checkpoint.is_file
        for source in sources:
            place = checkpoint.path if is_file else checkpoint.path / on_disk(source.path)
            stamp = stamp_of(place) if source.kind is None and source.path in entries else None
            if stamp is not None and (stamp.size_bytes, stamp.modified_ns) == (source.size_bytes, source.mtime_ns):
                files.append(TrackedFile(stamp, source.path))
        return Tracked(snapshot.id, tuple(files))

    def _remember(self, checkpoint: Checkpoint, snapshot: Snapshot, tracked: Tracked | None) -> None:
        name = checkpoint.path.name
        self._done.pop(name, None)
        self._done[name] = Done(name, checkpoint.fingerprint, snapshot.id)
        before = self.state.newest
        # Two may be written within one tick of the clock: then the step decides.
        newest_step = snapshot_name(before).step if before is not None else -1
        newer = (checkpoint.changed_s, checkpoint.step) >= (self.state.saved_s, newest_step) and not snapshot.incomplete
        self.state = WatchState(
            done=tuple(self._done.values()),
            tracked=tracked if newer and tracked is not None else self.state.tracked,
            saved_s=checkpoint.changed_s if newer else self.state.saved_s,
            newest=snapshot.id if newer else self.state.newest,
        )
        self._folder.write(self.state)
