"""How much room a save has left: the work that no save of this kind can leave out, beside what the vault and borg take (issue 3).

Run: python bench/vault_floor.py [--write] [--runs 3] [--series FOLDER] [--apart 30] [--ranks 4] [--directory DIR]

The floor reads the files from memory, hashes them once, makes planes and compresses these, in one thread for each processor and in
buffers that are used again; it predicts nothing, stores nothing and waits for no disk. A command has to start, too, and to decode the
state before, which a trainer's process partly keeps.
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
from vault_tools import BRIDGEHEAD, Borg, Bridgehead, Cost, Tool, folder_bytes, run, worker

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.codec.forms import Form
from bridgehead.vault.codec.kernels import to_planes
from bridgehead.vault.codec.planes import pack
from bridgehead.vault.reader import Reader

BLOCK_BYTES = 4 << 20
STAGES = ("read", "read, hash", "read, hash, planes", "read, hash, planes, compress")
MEMORY = ("512 MiB", "2 GiB")
START, DECODE = "start of a command", "the state before: read, decode, hash"


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


def decoded(base: Path, folder: Path) -> Cost:
    """All blocks of a state that is stored without prediction, and nothing done with them."""
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))), codec=True)
    vault.saves_again = False
    saved = vault.save(str(base), workload=WorkloadId("bench"), step=0, epoch=Epoch(0), site=SiteId("a")).snapshot
    blocks = [ref for file in saved.files for ref in file.blocks]
    for _ in range(2):  # the packs come into memory first
        used, began = _cpu_s(), time.perf_counter()
        Reader(vault.place.objects, saved).each(blocks, lambda ref, data: None, ref_of=lambda ref: ref)
        cost = Cost(saved.raw_bytes, time.perf_counter() - began, _cpu_s() - used, 0)
    shutil.rmtree(folder)
    return cost


def by_command(tool: Tool, repository: Path, base: Path, state: Path) -> Cost:
    """A second save into a repository that holds the state before."""
    tool.make(repository)
    tool.save(repository, base, "base")
    cost = tool.save(repository, state, state.name)
    tool.drop(repository)
    return cost


def started(tool: Bridgehead, folder: Path, raw_bytes: int) -> Cost:
    """A command on an empty vault."""
    tool.make(folder)
    cost = run(*BRIDGEHEAD, "list", folder, at=tool.home, raw_bytes=raw_bytes, environment=tool.environment)
    tool.drop(folder)
    return cost


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
        ranks = bench.ranks_of(bench.series() / "scratch")
        base, state = ranks / "base", ranks / str(options.apart)
        ours, borg = Bridgehead(bench.home), Borg(bench.home)
        costs: dict[str, list[Cost]] = {what: [] for what in (*STAGES, DECODE, START, *MEMORY, ours.name, borg.name)}
        floor(STAGES[0], state)  # the files come into memory
        for _ in range(options.runs):
            for stage in STAGES:
                costs[stage].append(floor(stage, state))
            for memory in MEMORY:
                costs[memory].append(saved(bench.home, base, state, memory))
            costs[DECODE].append(decoded(base, bench.home / "vault"))
            costs[START].append(started(ours, bench.home / "vault", folder_bytes(state)))
            for tool in (ours, borg):
                costs[tool.name].append(by_command(tool, bench.home / "vault", base, state))
        raw_mb = folder_bytes(state) / 1e6
    cpu_s = {what: statistics.median(cost.cpu_s for cost in found) for what, found in costs.items()}
    mb_s = {what: statistics.median(cost.mb_s for cost in found) for what, found in costs.items()}
    labels = {memory: f"save in the trainer, budget of {memory}" for memory in MEMORY}
    labels |= {tool.name: f"save by {tool.name}, a command" for tool in (ours, borg)}
    for what, found in costs.items():
        speeds = sorted(cost.mb_s for cost in found)
        table.add(labels.get(what, what), f"{mb_s[what]:.0f} ({speeds[0]:.0f}–{speeds[-1]:.0f})", f"{cpu_s[what]:.2f}")
    measured = f"{machine()} {raw_mb:.0f} MB, {options.apart} steps from the base; {options.runs} runs: median (least–most)."
    cores, wanted_s = os.cpu_count() or 1, raw_mb / mb_s[borg.name] / 3
    floor_s, start_s = cpu_s[STAGES[-1]] / cores, raw_mb / mb_s[START]
    decode_s = cpu_s[DECODE] / cores
    sums = (
        f"A third of borg's time is {wanted_s:.2f} s. Of it the floor takes {floor_s:.2f} s when {cores} processors do nothing else, a"
        f" command's start {start_s:.2f} s, and the state before, which a command has to decode, {decode_s:.2f} s: together"
        f" {floor_s + start_s + decode_s:.2f} s for a command, before anything is predicted, packed, hashed as stored or written."
    )
    text = f"{measured}\n\n{table}\n\n{sums}\n\n{NOTE}\n"
    print(text)
    if options.write:
        write_section("floor of a save", "python bench/vault_floor.py --write", text)


NOTE = """The first four lines are what no save can leave out that makes as little of a state as the vault does: read from memory, one hash,
planes, compression of those that can be compressed; without prediction, without a store and without waiting for a disk. What a save takes
beyond it goes into the blocks before (fetched, decoded and hashed where they are not kept), their use as predictions, trials, fresh pages
of memory, copies and hashes of packs, and the disk."""

if __name__ == "__main__":
    main()
