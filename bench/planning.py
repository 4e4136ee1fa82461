"""Planning of generated estates, beside a greedy plan and beside naive stop-and-move (issue 5, "Must show").

Run: python bench/planning.py [--write] [--gpus 1000 10000 100000] [--seed 1] [--directory DIR]

``plan make`` runs as a user runs it, as a process of its own, with the time limits of the issue. Greedy is bench/greedy.py on the same grid
and rules: every day the largest workloads that fit go over and as many racks as may leave do. Stop-and-move halts everything, carries all
racks as quickly as crews, vehicles and the dock allow, and starts again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from greedy import Baseline, greedy, stop_and_move
from table import Table, machine, write_section

from bridgehead.app.planning import read_both

PROGRAM = Path(sysconfig.get_path("scripts")) / "bridgehead"
LIMITS_S = {10_000: 60.0, 100_000: 600.0}
GAP = 0.02


class Made(NamedTuple):
    wall_s: float
    levels: dict[str, tuple[float, float]]
    gap: float
    lost_gpu_hours: float


def make(folder: Path, *, limit_s: float, seed: int) -> Made:
    began = time.monotonic()
    done = subprocess.run(
        [PROGRAM, "plan", "make", folder / "estate.yaml", folder / "policy.yaml", "-o", folder / "plan.yaml", "--json", f"--seed={seed}",
         f"--time-limit={limit_s}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    score = json.loads(done.stdout)["score"]
    levels = {level["id"]: (level["value"], level["bound"]) for level in score["levels"]}
    return Made(time.monotonic() - began, levels, score["gap"], score["lost_gpu_hours"])


def row(gpus: int, folder: Path, seed: int) -> tuple[list[str], list[str]]:
    """The row of one size, and what holds."""
    subprocess.run([PROGRAM, "example", "estate", f"--gpus={gpus}", f"--seed={seed}", "-o", folder], capture_output=True, check=True)
    limit_s = LIMITS_S.get(gpus, 60.0)
    # Reading, placing, the proof of what binds and the checker come on top of the search.
    made = make(folder, limit_s=limit_s * 0.6, seed=seed)
    estate, policy = read_both(folder / "estate.yaml", folder / "policy.yaml")
    days, bound = made.levels["days"]
    first, stop = greedy(estate, policy), stop_and_move(estate, policy)
    cells = [f"{gpus:,}", str(len(estate.workloads)), f"{made.wall_s:.1f} s", f"{made.gap:.2%}", f"{days:.1f} d (≥ {bound:.1f})",
             f"{made.lost_gpu_hours:,.0f}", shown(first), shown(stop)]  # fmt: skip
    fast, close = made.wall_s <= limit_s, made.gap <= GAP
    return cells, [
        f"{'holds' if fast else 'DOES NOT HOLD'}: {gpus:,} GPUs are planned in {limit_s:.0f} s",
        f"{'holds' if close else 'DOES NOT HOLD'}: the gap for {gpus:,} GPUs is at most {GAP:.0%}",
    ]


def shown(one: Baseline) -> str:
    if one.days is None:
        return f"finds no plan: {one.stuck}"
    return f"{one.days:.1f} d, {one.lost_gpu_hours:,.0f} GPU-h"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--directory", type=Path, default=None)
    options.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    given = options.parse_args()
    heads = ["GPUs", "workloads", "plan make", "gap", "all over after", "lost GPU-hours", "greedy", "stop and move"]
    table, notes = Table(*heads), []
    with tempfile.TemporaryDirectory() as scratch:
        for gpus in given.gpus:
            cells, holds = row(gpus, (given.directory or Path(scratch)) / str(gpus), given.seed)
            table.add(*cells)
            notes += holds
            print(" | ".join(cells), file=sys.stderr)
    text = f"{machine()}\n\n{table}\n\n" + "\n".join(f"- {note}" for note in notes)
    print(text)
    if given.write:
        write_section("planning", "python bench/planning.py --write", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
