"""Parts of bench/vault.py: one large file against many small ones within the memory budget, and replication over a line."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from table import Table
from vault_tools import folder_bytes, worker

if TYPE_CHECKING:
    from vault import Bench

MADE = """
import json, struct, sys
import numpy as np
path, megabytes, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(seed)
part = (random.standard_normal(1 << 20) * 0.02).astype(np.float32)
count = megabytes * 1000000 // 4
header = json.dumps({f"layers.{seed}.weight": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header)
    while count:
        size = min(count, len(part))
        file.write((part[:size] * np.float32(1 + random.random())).tobytes())
        count -= size
"""
BUDGET_BYTES = 512 << 20
LINE_BPS = 100e6
EVERY_S = 10.0


def measure_large(bench: Bench) -> str:
    """Save and restore in fresh processes, every file of weights that compress as weights do."""
    total_mb = bench.options.large_mb
    counts = (1, total_mb // 10)
    found: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for turn in range(bench.options.runs):
        for count in counts if turn % 2 == 0 else counts[::-1]:
            folder, vault, out = bench.home / "large", bench.home / "large-vault", bench.home / "large-out"
            folder.mkdir()
            for number in range(count):
                subprocess.run(
                    [sys.executable, "-c", MADE, str(folder / f"{number}.safetensors"), str(total_mb // count), str(number)], check=True
                )
            os.sync()  # what was made goes to the disk before the clock runs, for one file as for many
            found[count, "save"] += worker(bench.home, vault, "init", f"save:0:{folder}")
            os.sync()
            raw = found[count, "save"][-1]["raw_bytes"]
            found[count, "restore"] += [{**line, "raw_bytes": raw} for line in worker(bench.home, vault, f"restore:0:{out}")]
            for used in (folder, vault, out):
                shutil.rmtree(used)
    speeds = {of: statistics.median(line["raw_bytes"] / line["wall_s"] / 1e6 for line in lines) for of, lines in found.items()}
    peaks = {of: max(line["rss_bytes"] for line in lines) / 2**20 for of, lines in found.items()}
    table = Table("files", "raw MB", "save MB/s", "restore MB/s", "peak MiB, save", "peak MiB, restore")
    for count in counts:
        raw = found[count, "save"][0]["raw_bytes"]
        table.add(str(count), f"{raw / 1e6:.0f}", f"{speeds[count, 'save']:.0f}", f"{speeds[count, 'restore']:.0f}",
                  f"{peaks[count, 'save']:.0f}", f"{peaks[count, 'restore']:.0f}")  # fmt: skip
        for kind in ("save", "restore"):
            label = f"{count} file{'s' if count > 1 else ''} of {total_mb // count} MB"
            peak = peaks[count, kind]
            bench.promise(peak <= BUDGET_BYTES / 2**20, f"{kind} of {label}: peak {peak:.0f} MiB, at most 512")
    for kind in ("save", "restore"):
        ratio = speeds[1, kind] / speeds[counts[1], kind]
        bench.promise(ratio >= 0.95, f"{kind}: one large file at {ratio:.2f} of the speed of many small ones, not slower (0.95 for noise)")
    return str(table)


def measure_lines(bench: Bench, states: Path) -> str:
    """Bytes on the wire, use of a slow line, and the lag of a replica behind a trainer that saves every ten seconds."""
    text = json.loads(subprocess.run(
        [sys.executable, str(Path(__file__)), str(states), str(bench.home), *map(str, bench.options.distances[:3])],
        check=True, capture_output=True, text=True, env=os.environ).stdout)  # fmt: skip
    table = Table("what", "value", "wanted")
    table.add("wire bytes of all deltas / stored bytes", f"{text['wire']:.4f}", "at most 1.02")
    table.add("use of a line of 100 Mbit/s while sending", f"{text['use']:.1%}", "at least 90 %")
    for apart, lag in zip(bench.options.distances, text["lags_s"], strict=False):
        table.add(f"lag behind a save every {EVERY_S:.0f} s, {apart} steps from the base, line of 1 Gbit/s", f"{lag:.2f} s", "under 5 s")
    bench.promise(text["wire"] <= 1.02, f"replication: wire bytes {text['wire']:.4f} of the stored delta, at most 1.02")
    bench.promise(text["use"] >= 0.9, f"replication: {text['use']:.1%} of a line of 100 Mbit/s, at least 90 %")
    bench.promise(max(text["lags_s"]) < 5, f"replication: lag up to {max(text['lags_s']):.2f} s at a save every 10 s, under 5 s")
    return str(table)


def replicate(states: Path, home: Path, distances: list[int]) -> dict[str, Any]:
    from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
    from bridgehead.drivers.httpblobs.server import BlobServer
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
    from bridgehead.model.stamp import Stamp
    from bridgehead.testing.servers import relay
    from bridgehead.vault import SiteVaults, Vault

    near, far, workload = SiteId("near"), SiteId("far"), WorkloadId("bench")
    stamp = Stamp(run=RunId("bench"), step=StepId("copy"), attempt=1, epoch=Epoch(1))
    wire: list[int] = []
    stored: list[int] = []
    uses: list[float] = []
    lags_s: list[float] = []
    for rate_bps in (LINE_BPS, 10 * LINE_BPS):
        folder = Path(tempfile.mkdtemp(dir=home))
        source = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "near"))), codec=True, pack_bytes=4 << 20)
        Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "far"))), codec=True)
        with BlobServer(LocalBlobs(LocalBlobsOptions(str(folder / "far")))) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            with relay(server.server_port, folder=folder, rate_bps=rate_bps) as (port, _, status):
                sites = SiteVaults({near: source, far: Vault.open(HttpBlobs(HttpBlobsOptions(f"http://127.0.0.1:{port}")))})
                before = 0
                for number, name in enumerate(["base", *map(str, distances)]):
                    due_s = time.monotonic()
                    saved = source.save(states / name, workload=workload, step=number, epoch=Epoch(0), site=near)
                    began_s = time.monotonic()
                    while not sites.replicate(saved.id, source=near, target=far, budget_s=60, stamp=stamp).done:
                        pass
                    ended_s = time.monotonic()
                    time.sleep(0.3)
                    carried = json.loads(status.read_text())["to_bytes"]
                    if number:
                        wire.append(carried - before)
                        stored.append(saved.written_bytes)
                    before, sent = carried, carried - before
                    if rate_bps == LINE_BPS:
                        uses.append(sent * 8 / (ended_s - began_s) / rate_bps)
                    else:
                        if number:
                            lags_s.append(ended_s - due_s)
                        time.sleep(max(0.0, EVERY_S - (time.monotonic() - due_s)) if number < len(distances) else 0.0)
            server.shutdown()
            thread.join()
        shutil.rmtree(folder)
    return {"wire": sum(wire) / sum(stored), "use": statistics.median(uses), "lags_s": lags_s, "folder": folder_bytes(home)}


if __name__ == "__main__":
    print(json.dumps(replicate(Path(sys.argv[1]), Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])))
