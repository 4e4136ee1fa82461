"""Times of the vault's first cut on this disk: what a cut-over waits for, on snapshots of a small model with Adam's moments.

Run: python bench/vault_first_cut.py [--size-mb 10] [--blocks 30] [--rounds 15] [--directory DIR]. Prints median and worst in
milliseconds, of warm processes, with data that never deduplicates.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.vault import SiteVaults, Vault

T = TypeVar("T")
A, B, WORKLOAD = SiteId("a"), SiteId("b"), WorkloadId("bench")
STAMP = Stamp(run=RunId("bench"), step=StepId("copy"), attempt=1, epoch=Epoch(1))


def state(generator: np.random.Generator, size_bytes: int, blocks: int) -> bytes:
    length = size_bytes // blocks // 4
    return to_safetensors({f"layer.{index}": generator.standard_normal(length, dtype=np.float32) for index in range(blocks)})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size-mb", type=float, default=10.0)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    times: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        result = work()
        times[name].append((time.perf_counter() - began) * 1e3)
        return result

    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        vaults = {site: Vault.init(LocalBlobs(LocalBlobsOptions(f"{folder}/{site}"))) for site in (A, B)}
        sites = SiteVaults(vaults)
        generator = np.random.default_rng(7)

        def one_round(step: int) -> None:
            data = {"model.safetensors": state(generator, int(options.size_mb * 1e6), options.blocks)}
            saved = timed("save", lambda: vaults[A].save(data, workload=WORKLOAD, step=step, epoch=Epoch(0), site=A))
            timed("replicate", lambda: sites.replicate(saved.id, source=A, target=B, budget_s=10.0, stamp=STAMP))
            timed("receipt", lambda: sites.receipt(saved.id, site=B, stamp=STAMP))
            timed("load", lambda: vaults[B].load(saved.id))
            timed("newest", lambda: vaults[B].newest(WORKLOAD))
            timed("restore", lambda: vaults[B].restore(saved.id, to=Path(folder) / f"restored-{step}"))

        for step in range(options.rounds):
            one_round(step)
        fresh = Vault.open(LocalBlobs(LocalBlobsOptions(f"{folder}/{B}")))
        timed("newest, fresh process", lambda: fresh.newest(WORKLOAD))
    print(f"{options.size_mb:g} MB in {options.blocks} tensors, {options.rounds} rounds")
    for name, samples in times.items():
        print(f"{name:24s} median {statistics.median(samples):7.2f} ms   worst {max(samples):7.2f} ms")


if __name__ == "__main__":
    main()
