"""Ingest: whole checkpoints of a folder into the vault, and one back out of it.

A checkpoint is held by hard links while it is read, so that the trainer may rotate it away meanwhile (V13); one that is changed meanwhile
is not committed, and older snapshots stay as they are (V11).
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.training.completeness import Checkpoint, MarkKind, Signature, signature_of
from bridgehead.training.options import SessionOptions
from bridgehead.vault import SaveResult, Vault

log = logging.getLogger("bridgehead.training")
NAME, FORM = "checkpoint", "checkpoint-form"
"""Keys of a snapshot's context: the name of the checkpoint in its folder, and whether it is a file or a folder."""


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
        shutil.rmtree(hold, ignore_errors=True)
        try:
            for name, *_ in checkpoint.signature:
                target = hold / name
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(checkpoint.path if checkpoint.path.is_file() else checkpoint.path / name, target)
            if signature_of(hold) != checkpoint.signature:
                raise _gone(checkpoint, "it changed after it had looked whole")
            return self._vault.save(
                hold,
                workload=self._options.workload,
                step=checkpoint.step,
                epoch=epoch,
                site=self._options.site,
                context={NAME: checkpoint.path.name, FORM: "folder" if checkpoint.path.is_dir() else "file"},
            )
        except OSError as error:
            raise _gone(checkpoint, str(error)) from error
        finally:
            shutil.rmtree(hold, ignore_errors=True)


def place(vault: Vault, snapshot: SnapshotId, directory: Path, *, mark: MarkKind) -> Path:
    """Put the checkpoint of ``snapshot`` back into ``directory`` under its old name, and the mark beside it. Returns its path.

    Raises port errors of ``Vault.restore``: Conflict when something else has that name.
    """
    record = vault.snapshot(snapshot)
    target = directory / record.context.get(NAME, f"step-{record.step}")
    directory.mkdir(parents=True, exist_ok=True)
    if record.context.get(FORM) == "file":
        folder = directory / f".{target.name}.placing"
        shutil.rmtree(folder, ignore_errors=True)
        vault.restore(snapshot, to=folder)
        (folder / record.files[0].path).replace(target)
        folder.rmdir()
    else:
        vault.restore(snapshot, to=target)
    if mark.beside:
        temporary = directory / f".{mark.beside}.placing"
        temporary.write_text(target.name, encoding="utf-8")
        temporary.replace(directory / mark.beside)
    return target


def _gone(checkpoint: Checkpoint, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="save a checkpoint",
        subject=str(checkpoint.path),
        happened=happened,
        remedy="The next whole one will be saved; older snapshots are untouched.",
    )
