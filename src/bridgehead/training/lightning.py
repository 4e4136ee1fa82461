"""lightning: a CheckpointIO for Lightning that saves each checkpoint into a vault, too. Needs lightning."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Final

from lightning.pytorch.plugins.io import TorchCheckpointIO

from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.training.resume import restore_newest
from bridgehead.vault import SaveResult, Vault

FILE: Final = "lightning.ckpt"
"""Name of the checkpoint in its snapshot: the same for ``last.ckpt`` and any other name, so that they are one snapshot."""


class VaultCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint as Lightning does, then saves the file as the snapshot of its global step; training waits for it.

    ``Trainer(plugins=[VaultCheckpointIO(vault, workload="train")])``. Lightning calls it in one process. Strategies that write sharded
    folders go round it: use ``torch_dcp``, the watcher or ``bridgehead vault save --shard`` for those. What ``Vault.save`` raises ends the
    training.

    Attributes:
        result: the newest snapshot and whether it counts.
    """

    def __init__(self, vault: Vault, *, workload: WorkloadId | str, epoch: Epoch | int = 0, site: SiteId | str = "") -> None:
        super().__init__()
        self.result: SaveResult | None = None
        self._vault = vault
        self._workload, self._epoch = WorkloadId(workload), Epoch(epoch)
        self._site = SiteId(site or socket.gethostname())

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any | None = None) -> None:
        """See CheckpointIO."""
        super().save_checkpoint(checkpoint, path, storage_options)
        self.result = self._vault.save(
            {FILE: Path(path)}, workload=self._workload, step=int(checkpoint["global_step"]), epoch=self._epoch, site=self._site
        )


def resume(vault: Vault, *, workload: WorkloadId | str, to: str | os.PathLike[str]) -> str | None:
    """For ``trainer.fit(ckpt_path=...)``: the newest snapshot, restored below ``to``; None when there is none.

    Call it in one process. Raises as ``resume.restore_newest``.
    """
    found = restore_newest(vault, workload=workload, to=to, prefix="step-")
    return None if found is None else str(found / FILE)
