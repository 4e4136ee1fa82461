"""Figures: what a move or a recovery in the lab really cost, from what trainers and clients noted, never from what a run says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from bridgehead.app.demo.commands import QUIET
from bridgehead.app.demo.trainer import LossLine
from bridgehead.app.lab import jobs
from bridgehead.kernel.ids import SiteId
from bridgehead.testing.lab.record import LabFolder
from bridgehead.training import create_vault


class TrainingFigures(msgspec.Struct, frozen=True):
    """How a training came over.

    Attributes:
        last_step: that the source completed.
        resumed_step: the first one at the target.
        lost_steps: steps of the source that had to be computed again.
        lost_compute_s: from the last step that counts to the first one that nobody computed before (rule 11).
        lost_gpu_s: the same of all ranks.
        compared: steps whose losses were held against a training that was never moved.
        different: of those, the ones that are not the same to the last bit.
    """

    last_step: int
    resumed_step: int
    lost_steps: int
    lost_compute_s: float
    lost_gpu_s: float
    compared: int
    different: int


def read_losses(path: Path | str) -> list[LossLine]:
    """What a trainer logged, in order; a line that was torn by its death is left out."""
    found = []
    try:
        lines = Path(path).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=LossLine))
        except msgspec.MsgspecError:
            continue
    return found


def training_figures(folder: LabFolder, source: SiteId, target: SiteId, *, unmoved: dict[int, float]) -> TrainingFigures:
    """From the loss logs of both sites. ``unmoved``: the losses of the same training that was never moved."""
    before = read_losses(jobs.losses_of(folder, jobs.trainer_name(source)))
    after = read_losses(jobs.losses_of(folder, jobs.trainer_name(target)))
    first, last = after[0], before[-1]
    counted = next(line for line in before if line.step == first.step - 1)
    new = next(line for line in after if line.step > last.step)
    lost_s = new.at_s - counted.at_s
    seen = [*(line for line in before if line.step < first.step), *after]
    held = [(line.loss, unmoved[line.step]) for line in seen if line.step in unmoved]
    return TrainingFigures(
        last_step=last.step,
        resumed_step=first.step,
        lost_steps=last.step - counted.step,
        lost_compute_s=lost_s,
        lost_gpu_s=lost_s * jobs.RANKS,
        compared=len(held),
        different=sum(1 for one, other in held if one != other),
    )


def unmoved_losses(scratch: Path, *, until: int, script: Path | None = None, python: str = sys.executable) -> dict[int, float]:
    """Train the same without a lab, a scheduler and a move, up to step ``until``; the loss of each step.

    ``script``: as for ``jobs.trainer``. Raises CalledProcessError.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    create_vault(scratch / "vault")
    env = {"BRIDGEHEAD_VAULT": str(scratch / "vault"), "BRIDGEHEAD_WORKLOAD": jobs.TRAINING, "BRIDGEHEAD_SITE": "nowhere"}
    command = [
        *jobs.program(script, python=python),
        *("--seed", str(jobs.SEED)),
        *("--until", str(until)),
        *("--pace", "0"),
        *("--losses", str(scratch / "losses.jsonl")),
    ]
    subprocess.run(command, check=True, env={**os.environ, **QUIET, **env}, stdout=subprocess.DEVNULL)
    return {line.step: line.loss for line in read_losses(scratch / "losses.jsonl")}
