"""Ingest: whole checkpoints of a folder into the vault, and one back out of it.

A checkpoint is held while it is read, so that the trainer may rotate it away meanwhile (V13); one that is changed meanwhile
is not committed, and older snapshots stay as they are (V11).
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.training.options import SessionOptions
from bridgehead.vault import SaveResult, Vault
from bridgehead.vault.checkpoints import Checkpoint, Signature, signature_of
from bridgehead.vault.context import own_paths
from bridgehead.vault.held import gone, held
from bridgehead.vault.marks import MarkKind
from bridgehead.vault.watch import FORM, NAME

log = logging.getLogger("bridgehead.training")


class Ingest:
    """Saves each whole checkpoint once.

    Attributes:
        saved: the newest snapshot that this process committed or found, None before.
        step: its step.
    """

    def __init__(self, vault: Vault, options: SessionOptions, directory: Path) -> None:
        self._vault = vault
        self._options = options
        self._directory = directory
        self._done: dict[Path, Signature] = {}
        self._said: set[str] = set()
        newest = vault.newest(options.workload)
        self.saved: SnapshotId | None = newest.id if newest is not None else None
        self.step = newest.step if newest is not None else 0
        self._known_step, self._known_s = (newest.step, newest.created_s) if newest is not None else (-1, 0.0)

    def adopt(self, path: Path, *, step: int) -> None:
        """The checkpoint at ``path`` came out of the vault: it need not be saved again."""
        self._done[path] = signature_of(path)
        self.step = step

    def is_new(self, checkpoint: Checkpoint) -> bool:
        """Neither saved by this process, nor older than what the vault held at its start."""
        if self._done.get(checkpoint.path) == checkpoint.signature:
            return False
        return checkpoint.step > self._known_step or checkpoint.changed_s > self._known_s

    def save(self, checkpoint: Checkpoint, *, epoch: Epoch) -> bool:
        """True when the checkpoint is committed. False, with one line in the log, when it could not be: it is tried again."""
        try:
            result = self._save(checkpoint, epoch)
        except BridgeheadError as error:
            if str(error) not in self._said:
                log.warning("%s is not saved: %s", checkpoint.path.name, error)
                self._said.add(str(error))
            return False
        if not result.counts:
            log.error("epoch %d is closed: %s is kept but does not count", epoch, result.id)
        self._done[checkpoint.path] = checkpoint.signature
        self.saved, self.step = result.id, checkpoint.step
        return True

    def _save(self, checkpoint: Checkpoint, epoch: Epoch) -> SaveResult:
        hold = self._directory.with_name(f".{self._directory.name}.hold-{os.getpid()}")
        try:
            with held(checkpoint, hold, known=lambda source, place: None) as sources:
                return self._vault.save(
                    sources,
                    workload=self._options.workload,
                    step=checkpoint.step,
                    epoch=epoch,
                    site=self._options.site,
                    context={NAME: checkpoint.path.name, FORM: "file" if checkpoint.is_file else "folder"},
                )
        except OSError as error:
            raise gone(checkpoint, str(error)) from error


def place(vault: Vault, snapshot: SnapshotId, directory: Path, *, mark: MarkKind) -> Path:
    """Put the checkpoint of ``snapshot`` back into ``directory`` under its old name, and the mark beside it. Returns its path.

    Raises port errors of ``Vault.restore``: Conflict when something else has that name.
    """
    record = vault.snapshot(snapshot)
    paths = own_paths(record)
    target = directory / record.context.get(NAME, f"step-{record.step}")
    directory.mkdir(parents=True, exist_ok=True)
    if record.context.get(FORM) == "file":
        folder = directory / f".{target.name}.placing"
        shutil.rmtree(folder, ignore_errors=True)
        (name,) = paths
        vault.restore(snapshot, to=folder, only=paths)
        (folder / name).replace(target)
        folder.rmdir()
    else:
        vault.restore(snapshot, to=target, only=paths if len(paths) < len(record.files) else ())
    if mark.beside:
        temporary = directory / f".{mark.beside}.placing"
        temporary.write_text(target.name, encoding="utf-8")
        temporary.replace(directory / mark.beside)
    return target
