"""How much room a save has left: the work that no save of this kind can leave out, beside what the vault takes (issue 3).

Run: python bench/vault_floor.py [--write] [--runs 3] [--series FOLDER] [--apart 30] [--ranks 4] [--directory DIR]

The floor reads the files from memory, hashes them once, makes planes and compresses these, in one thread for each processor and in
buffers that are used again; it predicts nothing, stores nothing and waits for no disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from table import Table, machine, write_section
from vault import Bench
from vault_tools import Cost, folder_bytes, worker

from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.codec.forms import Form
from bridgehead.vault.codec.kernels import to_planes
from bridgehead.vault.codec.planes import pack

BLOCK_BYTES = 4 << 20
STAGES = ("read", "read, hash", "read, hash, planes", "read, hash, planes, compress")
MEMORY = ("512 MiB", "2 GiB")


def work(stage: str, block: memoryview, form: Form) -> None:
    if "hash" in stage:
        block_hash(block)
    if "planes" in stage:
        planes = to_planes(block, form)
        if "compress" in stage:
            for plane in planes:
                pack(plane)


def floor(stage: str, state: Path) -> Cost:
    """One pass over all files of ``state``."""
    files = sorted(state.rglob("*.safetensors"))
    turns = iter([(file, offset) for file in files for offset in range(0, file.stat().st_size, BLOCK_BYTES)])
    lock = threading.Lock()

    def take_turns() -> None:
        room = bytearray(BLOCK_BYTES)
        while True:
            with lock:
                turn = next(turns, None)
            if turn is None:
                return
            file, offset = turn
            with file.open("rb", buffering=0) as opened:
                opened.seek(offset)
                count = opened.readinto(room)
            work(stage, memoryview(room)[: count // 4 * 4], Form.BFLOAT16 if file.stem == "model" else Form.FLOAT32)

    threads = [threading.Thread(target=take_turns) for _ in range(os.cpu_count() or 1)]
    used, began = _cpu_s(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Cost(folder_bytes(state), time.perf_counter() - began, _cpu_s() - used, 0)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def saved(home: Path, base: Path, state: Path, memory: str) -> Cost:
    """A second save of one process, as in a trainer."""
    vault = home / "vault"
    line = worker(home, vault, "init", f"save:0:{base}", f"save:1:{state}", environment={"BRIDGEHEAD_MEMORY": memory})[-1]
    shutil.rmtree(vault)
    return Cost(int(line["raw_bytes"]), line["wall_s"], line["cpu_s"], int(line["rss_bytes"]))


def main() -> None:
    parser = argparse.ArgumentParser(description="What a save cannot leave out, and what it takes.")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--series", type=Path)
    parser.add_argument("--apart", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    options.distances = [options.apart]
    table = Table("what", "MB/s", "CPU s")
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        bench = Bench(options, Path(name))
        ranks = bench._ranks(bench.series() / "scratch")
        base, state = ranks / "base", ranks / str(options.apart)
        costs = {stage: [] for stage in STAGES} | {memory: [] for memory in MEMORY}
        floor(STAGES[0], state)  # the files come into memory
        for _ in range(options.runs):
            for stage in STAGES:
                costs[stage].append(floor(stage, state))
            for memory in MEMORY:
                costs[memory].append(saved(bench.home, base, state, memory))
        raw_mb = folder_bytes(state) / 1e6
    for what, found in costs.items():
        speeds = sorted(cost.mb_s for cost in found)
        label = f"save in the trainer, budget of {what}" if what in MEMORY else what
        cpu_s = statistics.median(cost.cpu_s for cost in found)
        table.add(label, f"{statistics.median(speeds):.0f} ({speeds[0]:.0f}–{speeds[-1]:.0f})", f"{cpu_s:.2f}")
    measured = f"{machine()} {raw_mb:.0f} MB, {options.apart} steps from the base; {options.runs} runs: median (least–most)."
    text = f"{measured}\n\n{table}\n\n{NOTE}\n"
    print(text)
    if options.write:
        write_section("floor of a save", "python bench/vault_floor.py --write", text)


NOTE = """The first four lines are what no save can leave out that makes as little of a state as the vault does: read from memory, one hash,
planes, compression of those that can be compressed; without prediction, without a store and without waiting for a disk. What a save takes
beyond it goes into the blocks before (fetched, decoded and hashed where they are not kept), their use as predictions, trials, fresh pages
of memory, copies and hashes of packs, and the disk."""

if __name__ == "__main__":
    main()
