"""Discovery and assessment of a large estate: captured output of N hosts with 8 GPUs each (issue 4, "Must show").

Run: python bench/discovery.py [--write] [--nodes 1250 12500] [--directory DIR]

The captures are made by bridgehead.testing.captures: texts as long as those of the real tools, 230 kB a host. Each verb runs as a user runs
it, as a process of its own; the memory is that of all its processes together, shared pages counted once, sampled ten times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from table import Table, machine, write_section

from bridgehead.testing.captures import GPUS, Cluster, write

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
SMALL = 1250
DISCOVER_LIMIT_S, ASSESS_LIMIT_S, MEMORY_LIMIT = 10.0, 10.0, 4 << 30
LINEAR = 1.3
"""Time of the processor for each host may be so much larger in the largest estate than in the smallest."""
SAMPLE_S = 0.1


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    memory_bytes: int
    code: int


def run(*arguments: str | Path) -> Cost:
    """Run the program and watch its memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, start_new_session=True)
    highest = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            highest[0] = max(highest[0], memory_of(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    wall_s = time.monotonic() - began_s
    ended.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, highest[0], code)


def memory_of(session: int) -> int:
    """Memory of all processes of a session, in bytes; what they share is counted once."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getsid(int(entry.name)) == session:
                rollup = (entry / "smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue  # it has ended
    return total


def measure(nodes: int, directory: Path) -> dict[str, Cost | int]:
    captures, estate, facts = directory / f"captures-{nodes}", directory / f"estate-{nodes}.yaml", directory / f"facts-{nodes}.jsonl"
    size = (
        write(captures, Cluster(nodes))
        if not captures.exists()
        else sum(path.stat().st_size for path in captures.rglob("*") if path.is_file())
    )
    for path in captures.rglob("*"):  # from memory, not from the disk: the disk is not ours to measure
        if path.is_file():
            path.read_bytes()
    estate.unlink(missing_ok=True)
    found = run("discover", captures, "-o", estate, "--facts", facts)
    if found.code != 0:
        raise SystemExit(f"discover ended with {found.code}")
    with facts.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - (64 << 20)))
        summary = json.loads(stream.read().splitlines()[-1])["summary"]
    judged = run("assess", estate, "--json")
    if judged.code not in (0, 1, 3):
        raise SystemExit(f"assess ended with {judged.code}")
    facts.unlink()
    return {"bytes": size, "facts": summary["facts"], "skipped": len(summary["skipped"]), "discover": found, "assess": judged}


def main() -> int:
    options = argparse.ArgumentParser(description="Measure discovery and assessment of large estates.")
    options.add_argument("--nodes", type=int, nargs="+", default=[SMALL, 10 * SMALL])
    options.add_argument("--directory", type=Path, default=None, help="where captures are made, and kept")
    options.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    given = options.parse_args()
    home = given.directory or Path(tempfile.mkdtemp(prefix="bench-discovery-"))
    table = Table("hosts", "GPUs", "captures", "facts", "discover", "facts a second", "memory", "assess", "memory")
    promises: list[tuple[bool, str]] = []
    by_nodes: dict[int, float] = {}
    try:
        for nodes in sorted(given.nodes):
            got = measure(nodes, home)
            found, judged, facts = got["discover"], got["assess"], got["facts"]
            assert isinstance(found, Cost)
            assert isinstance(judged, Cost)
            assert isinstance(facts, int)
            by_nodes[nodes] = found.cpu_s / nodes
            table.add(
                f"{nodes:,}", f"{nodes * GPUS:,}", f"{int(got['bytes']) / 1e6:,.0f} MB", f"{facts:,}",
                f"{found.wall_s:.1f} s ({found.cpu_s:.1f} s of the processor)", f"{facts / found.wall_s:,.0f}",
                f"{found.memory_bytes / 2**20:,.0f} MiB", f"{judged.wall_s:.1f} s", f"{judged.memory_bytes / 2**20:,.0f} MiB",
            )  # fmt: skip
            print(table, flush=True)
            if nodes == SMALL:
                promises.append((found.wall_s <= DISCOVER_LIMIT_S, f"{SMALL:,} hosts are discovered in {DISCOVER_LIMIT_S:.0f} s"))
                promises.append((judged.wall_s <= ASSESS_LIMIT_S, f"{SMALL:,} hosts are assessed in {ASSESS_LIMIT_S:.0f} s"))
            promises.append((found.memory_bytes < MEMORY_LIMIT, f"discovery of {nodes:,} hosts takes less than 4 GiB"))
        if len(by_nodes) > 1:
            first, last = by_nodes[min(by_nodes)], by_nodes[max(by_nodes)]
            promises.append((last <= LINEAR * first, f"work grows with the hosts: {last / first:.2f} times as much for each"))
    finally:
        if given.directory is None:
            shutil.rmtree(home)
    lines = [f"- {'holds' if holds else 'DOES NOT HOLD'}: {text}" for holds, text in promises]
    text = "\n\n".join([machine(), str(table), "\n".join(lines)])
    print(text)
    if given.write:
        write_section("discovery", "python bench/discovery.py --write", text)
    return 0 if all(holds for holds, _ in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
