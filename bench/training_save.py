"""How long a training script stands still for an asynchronous save, beside a synchronous one, of a state of 200 MB.

The training library (numpy state) always; PyTorch DCP where torch is installed. Every save has new content: nothing is deduplicated.
The median of five saves each, after one that fills the buffers. Beside it: a synced plain copy to the same disk, the floor of any save.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from table import Table, machine, write_section

from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.training import Session, SessionOptions, create_vault

ARRAYS, ARRAY_BYTES, SAVES = 20, 10_000_000, 5


def state(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {f"layer{number}": np.frombuffer(rng.bytes(ARRAY_BYTES), dtype=np.float32) for number in range(ARRAYS)}


def library(folder: Path) -> tuple[float, float]:
    """Seconds that the script stands still: asynchronous, and until the snapshot is committed."""
    blocked, whole = [], []
    with Session(create_vault(folder / "vault"), SessionOptions(workload=WorkloadId("w"), site=SiteId("here"))) as session:
        for step in range(1, SAVES + 2):
            now = {"weights": state(step)}
            began_s = time.perf_counter()
            session.save(step, now)
            blocked.append(time.perf_counter() - began_s)
            session._saver.wait()  # what a synchronous save would have waited for
            whole.append(time.perf_counter() - began_s)
    return statistics.median(blocked[1:]), statistics.median(whole[1:])


def dcp(folder: Path) -> tuple[float, float]:
    """The same for ``dcp.async_save`` with a stager that keeps its buffers, and ``dcp.save``."""
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    from bridgehead.training.torch_dcp import VaultWriter

    vault = create_vault(folder / "vault")
    stager = DefaultStager(StagingOptions(False, False, False, False))  # without an accelerator it can do nothing of these
    tensors = {name: torch.from_numpy(array.copy()) for name, array in state(0).items()}
    blocked, whole = [], []
    for step in range(1, SAVES + 2):
        _train(tensors, state(step))
        began_s = time.perf_counter()
        future = dcp.async_save(tensors, storage_writer=VaultWriter(vault, workload="async", step=step), async_stager=stager, no_dist=True)
        blocked.append(time.perf_counter() - began_s)
        future.result()
        _train(tensors, state(1000 + step))
        began_s = time.perf_counter()
        dcp.save(tensors, storage_writer=VaultWriter(vault, workload="sync", step=step), no_dist=True)
        whole.append(time.perf_counter() - began_s)
    stager.close()
    return statistics.median(blocked[1:]), statistics.median(whole[1:])


def _train(tensors: dict[str, Any], values: dict[str, np.ndarray]) -> None:
    """New values in the tensors that are there, as an optimizer does it."""
    for name, tensor in tensors.items():
        tensor.numpy()[:] = values[name]


def floor(folder: Path) -> float:
    """Seconds to write the same bytes into one file and sync it."""
    taken = []
    for step in range(1, SAVES + 1):
        arrays = state(step).values()
        with open(folder / f"plain-{step}", "wb") as out:
            began_s = time.perf_counter()
            for array in arrays:
                out.write(array)
            out.flush()
            os.fsync(out.fileno())
            taken.append(time.perf_counter() - began_s)
    return statistics.median(taken)


def main() -> None:
    cases = {"bridgehead.training, numpy": library}
    if importlib.util.find_spec("torch"):
        cases["torch DCP, async_save and save"] = dcp
    else:
        print("torch is not installed: DCP is NOT measured", file=sys.stderr)
    table = Table("What", "Script stands still (ms)", "Synchronous save (ms)", "Share", "Synced plain copy (ms)")
    root = Path(tempfile.mkdtemp(prefix="bench-training-"))
    try:
        for name, measure in cases.items():
            folder = root / name.split()[0]
            folder.mkdir()
            blocked_s, whole_s = measure(folder)
            plain_s = floor(folder)
            shutil.rmtree(folder)
            table.add(name, f"{blocked_s * 1e3:.0f}", f"{whole_s * 1e3:.0f}", f"{blocked_s / whole_s:.1%}", f"{plain_s * 1e3:.0f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    text = f"State of 200 MB, new at each save, medians of {SAVES}. {machine()}\n\n{table}"
    if importlib.util.find_spec("torch") is None:
        text += "\n\nDCP was not measured: torch was not installed."
    write_section("blocking time of a save", "python bench/training_save.py", text)
    print(text)


if __name__ == "__main__":
    main()
