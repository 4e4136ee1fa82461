"""huggingface: a callback for the Trainer of transformers that saves each of its checkpoints into a vault. Needs transformers."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import torch.distributed as dist
from transformers.trainer_callback import TrainerCallback, TrainerControl, TrainerState
from transformers.training_args import TrainingArguments

from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.training.resume import restore_newest
from bridgehead.vault import SaveResult, Vault

PREFIX = "checkpoint-"
"""How the Trainer names the folders of its checkpoints."""


class VaultCallback(TrainerCallback):
    """Saves ``checkpoint-N`` as the snapshot of step N as soon as the Trainer has written it; training waits for it.

    Of several processes, the first saves, when all have written; they must see one output folder. When the epoch is closed by a fence,
    training is told to stop. What ``Vault.save`` raises ends the training.

    Attributes:
        result: the newest snapshot and whether it counts.
    """

    def __init__(self, vault: Vault, *, workload: WorkloadId | str, epoch: Epoch | int = 0, site: SiteId | str = "") -> None:
        self.result: SaveResult | None = None
        self._vault = vault
        self._workload, self._epoch = WorkloadId(workload), Epoch(epoch)
        self._site = SiteId(site or socket.gethostname())

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Called by the Trainer after each of its saves."""
        if dist.is_available() and dist.is_initialized():
            dist.barrier()
        if not state.is_world_process_zero:
            return
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        self.result = self._vault.save(
            Path(args.output_dir) / f"{PREFIX}{state.global_step}",
            workload=self._workload,
            step=state.global_step,
            epoch=self._epoch,
            site=self._site,
            context={"loss": str(losses[-1])} if losses else {},
        )
        if not self.result.counts:
            control.should_training_stop = True


def resume(vault: Vault, *, workload: WorkloadId | str, output_dir: str | os.PathLike[str]) -> str | None:
    """For ``trainer.train(resume_from_checkpoint=...)``: the newest snapshot, restored into ``output_dir``; None when there is none.

    Call it in one process. Raises as ``resume.restore_newest``.
    """
    found = restore_newest(vault, workload=workload, to=output_dir, prefix=PREFIX)
    return None if found is None else str(found)
