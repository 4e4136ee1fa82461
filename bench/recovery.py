"""Recovery in the lab: a planned move between two Slurm clusters, and the loss of a site, with every figure taken from logs.

Run as root: ``python bench/recovery.py [--rounds N] [--torch PYTHON] [--write]``; ``--write`` puts the tables into docs/benchmarks.md,
``--torch`` names an interpreter with torch and bridgehead for a training with FSDP2 in place of numpy's. Exit code 1 when a promise broke.

Each round sets up a lab of its own (two Slurm clusters, HAProxy, Prometheus, vaults, lines of 200 Mbps and 2 ms): a training of two ranks
that saves every 20 steps, an inference service behind HAProxy, clients whose every answer is checked, copies of site-a's vault at site-b.
A planned move is `recover move`. A loss is `lab kill site-a` (SIGKILL of everything there) followed at once by `recover failover`; later
the site returns, an old trainer with it, and gets its work back by `recover protect` and `recover failback`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from table import Table, machine, write_section

from bridgehead.app.lab import jobs
from bridgehead.app.lab.figures import TrainingFigures, read_losses, training_figures, unmoved_losses
from bridgehead.app.lab.work import requests_so_far
from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.record import SITE_A, SITE_B
from bridgehead.training import open_vault

LEAST_REQUESTS = 10_000
COMPARED = 60
FSDP = Path(__file__).parents[1] / "examples" / "lab" / "fsdp.py"


class Moved(msgspec.Struct):
    requests: int
    failed: int
    serving_s: float
    training: TrainingFigures


class Lost(msgspec.Struct):
    detection_s: float
    decision_s: float
    rto_s: float
    training_rto_s: float
    stated_steps: int
    training: TrainingFigures
    requests: int
    failed: int
    zombie_snapshots: int
    zombie_counted: int
    protect_s: float
    failback_s: float
    failback_sent_bytes: int
    vault_bytes: int
    failback_lost_steps: int
    failback_lost_compute_s: float


class Bench:
    """One round: a lab, a home, and the commands in them, all run by ``python``."""

    def __init__(self, folder: Path, python: str, script: Path | None) -> None:
        self.lab = Lab(folder / "lab")
        self.folder, self.python, self.script = folder, python, script
        root = self.lab.folder.root
        self.files = ("--recovery", root / "recovery.yaml", "--estate", root / "estate.yaml")

    def run(self, *words: object, codes: Sequence[int] = (0,)) -> Any:
        env = os.environ | {"BRIDGEHEAD_HOME": str(self.folder / "home")}
        command = [self.python, "-m", "bridgehead.cli.main", *map(str, words), "--json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout)

    def do(self, verb: str, *words: object, codes: Sequence[int] = (0,)) -> Any:
        return self.run("lab", verb, *words, "--dir", self.lab.folder.root, codes=codes)

    def losses(self, site: Any) -> list[Any]:
        return read_losses(jobs.losses_of(self.lab.folder, jobs.trainer_name(site)))

    def unmoved(self, *, until: int) -> dict[int, float]:
        return unmoved_losses(self.folder / "unmoved", until=until, script=self.script, python=self.python)

    def start(self, *, rate_per_s: float) -> None:
        script = () if self.script is None else ("--script", self.script)
        self.do("work", "--requests-per-s", rate_per_s, *script)


@contextmanager
def bench(python: str, script: Path | None) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bh-bench-", dir="/tmp") as name:
        made = Bench(Path(name), python, script)
        made.do("up")
        try:
            yield made
        finally:
            made.do("down")


def until(look: Callable[[], object], *, within_s: float = 180.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not look():
        if time.monotonic() > deadline_s:
            raise SystemExit("something did not come in time")
        time.sleep(0.1)


def move(here: Bench) -> Moved:
    here.start(rate_per_s=250)
    came = here.run("recover", "move", "site-a", *here.files)
    last = here.losses(SITE_B)[0].step + COMPARED
    until(lambda: here.losses(SITE_B)[-1].step >= last and requests_so_far(here.lab) >= LEAST_REQUESTS)
    summary = here.do("rest", codes=(0, 1))
    figures = training_figures(here.lab.folder, SITE_A, SITE_B, unmoved=here.unmoved(until=last))
    return Moved(summary["sent"], summary["failed"] + summary["wrong"] + summary["cut"], came["rto_s"], figures)


def lose(here: Bench) -> Lost:
    here.start(rate_per_s=100)
    until(lambda: (found := open_vault(here.lab.folder.site(SITE_B) / "vault").newest(jobs.TRAINING)) is not None and found.step >= 40)
    watch = ("watch", here.files[3], "--recovery", here.files[1], "--once", "--every", "1 s", "--grace", "2 s", "--observers", "1")
    here.run(*watch, "--timeout", "2 s", codes=(0, 1, 3))
    killed_s = time.time()
    here.do("kill", "site-a")
    until(lambda: silent(here.run(*watch, "--timeout", "2 s", codes=(0, 1, 3))))
    detected_s = time.time()
    last = here.losses(SITE_A)[-1].step
    came = here.run("recover", "failover", "site-a", *here.files, "--lost-for", f"{time.time() - killed_s:.3f} s")
    first = here.losses(SITE_B)[0]
    until(lambda: here.losses(SITE_B)[-1].step > last + COMPARED)
    figures = training_figures(here.lab.folder, SITE_A, SITE_B, unmoved=here.unmoved(until=last + COMPARED))
    here.do("revive", "site-a")
    zombies = zombie(here, last)
    began_s = time.time()
    here.run("recover", "protect", "site-a", *here.files)
    protect_s = time.time() - began_s
    vault = open_vault(here.lab.folder.site(SITE_B) / "vault")
    usable = {info.id for site in (SITE_A, SITE_B) for info in open_vault(here.lab.folder.site(site) / "vault").list(jobs.TRAINING)}
    held = sum(file.size_bytes for info in vault.list(jobs.TRAINING) for file in vault.snapshot(info.id).files)
    summary = here.do("rest", codes=(0, 1))
    began_s = time.time()
    back = here.run("recover", "failback", "site-a", *here.files)
    return Lost(
        detection_s=detected_s - killed_s,
        decision_s=came["rto_s"] - (detected_s - killed_s),
        rto_s=came["rto_s"],
        training_rto_s=first.at_s - killed_s,
        stated_steps=came["rpo_steps"],
        training=figures,
        requests=summary["sent"],
        failed=summary["failed"] + summary["wrong"] + summary["cut"],
        zombie_snapshots=len(zombies),
        zombie_counted=len(zombies & usable),
        protect_s=protect_s,
        failback_s=time.time() - began_s,
        failback_sent_bytes=back["moved_bytes"],
        vault_bytes=held,
        failback_lost_steps=back["rpo_steps"],
        failback_lost_compute_s=back["lost_compute_s"],
    )


def silent(report: Any) -> bool:
    """Whether the watch finds by itself that site-a has been silent for longer than it may."""
    return any(site["site"] == "site-a" and site["overdue"] for site in report["sites"])


def zombie(here: Bench, last: int) -> set[str]:
    """An old trainer of the returned site computes and saves, until it sees the fence. What it saved."""
    site, vault = here.lab.folder.site(SITE_A), open_vault(here.lab.folder.site(SITE_A) / "vault")
    env = {"BRIDGEHEAD_VAULT": str(site / "vault"), "BRIDGEHEAD_WORKLOAD": str(jobs.TRAINING), "BRIDGEHEAD_SITE": "site-a"}
    command = [*jobs.program(here.script, python=here.python), "--until", "100000", "--losses", str(here.folder / "zombie.jsonl")]
    here.lab.run(SITE_A, "zombie", command, env=env | {"BRIDGEHEAD_SAVE_EVERY_STEPS": "20"})
    until(lambda: vault.names(jobs.TRAINING)[0].step > last)
    return {name.id for name in vault.names(jobs.TRAINING) if name.epoch == 0 and name.step > last}


def table_of_moves(rows: dict[str, list[Moved]]) -> Table:
    table = Table("planned move, a to b", *rows, "wanted")

    def line(name: str, value: Callable[[Moved], object], wanted: str = "") -> None:
        table.add(name, *(", ".join(f"{value(one)}" for one in moves) for moves in rows.values()), wanted)

    line("requests sent", lambda one: f"{one.requests:,}", "10,000")
    line("failed, wrong or cut", lambda one: one.failed, "0")
    line("steps lost", lambda one: one.training.lost_steps, "0")
    line("compute lost, s", lambda one: f"{one.training.lost_compute_s:.2f}")
    line("compute lost, GPU-s (2 GPUs)", lambda one: f"{one.training.lost_gpu_s:.2f}")
    line("losses compared with an unmoved training", lambda one: f"{one.training.compared:,}")
    line("... different in any bit", lambda one: one.training.different, "0")
    line("whole move, canary and gates included, s", lambda one: f"{one.serving_s:.0f}")
    return table


def table_of_losses(losses: list[Lost]) -> Table:
    table = Table("loss of site-a", "each round", "median", "wanted")

    def line(name: str, value: Callable[[Lost], float], form: str = "{:.1f}", wanted: str = "") -> None:
        values = [value(one) for one in losses]
        table.add(name, ", ".join(form.format(one) for one in values), form.format(statistics.median(values)), wanted)

    line("found silent by the watch (grace 2 s), s after the loss", lambda one: one.detection_s)
    line("from there to serving: look, fence, promote, start, s", lambda one: one.decision_s)
    line("RTO of the service, s", lambda one: one.rto_s)
    line("first new step of the training, s after the loss", lambda one: one.training_rto_s)
    line("RPO as stated before the failover, steps", lambda one: one.stated_steps, "{}")
    line("RPO as it really was, steps", lambda one: one.training.lost_steps, "{}", "as stated")
    line("compute lost, GPU-s (2 GPUs)", lambda one: one.training.lost_gpu_s)
    line("losses that differ from an unmoved training", lambda one: one.training.different, "{}", "0")
    line("requests sent meanwhile", lambda one: one.requests, "{:,}")
    line("... failed", lambda one: one.failed, "{:,}")
    line("snapshots that the zombie saved", lambda one: one.zombie_snapshots, "{}")
    line("... that count at any site", lambda one: one.zombie_counted, "{}", "0")
    line("site closed, cleaned, protected again, s", lambda one: one.protect_s)
    line("failback, s", lambda one: one.failback_s)
    line("... bytes sent", lambda one: one.failback_sent_bytes / 1e6, "{:.1f} MB")
    line("... of bytes in snapshots at site-b", lambda one: one.vault_bytes / 1e6, "{:.1f} MB")
    line("... steps lost", lambda one: one.failback_lost_steps, "{}", "0")
    line("... compute lost, s", lambda one: one.failback_lost_compute_s, "{:.2f}")
    return table


def broken(moves: dict[str, list[Moved]], losses: list[Lost]) -> list[str]:
    """Promises that were not kept."""
    found = []
    for name, rows in moves.items():
        for one in rows:
            if one.failed or one.training.lost_steps or one.training.different or one.requests < LEAST_REQUESTS:
                found.append(f"move ({name}): {one}")
    for lost in losses:
        wrong = abs(lost.training.lost_steps - lost.stated_steps) > 1 or lost.training.different
        if wrong or lost.zombie_counted or lost.failback_lost_steps or lost.failback_sent_bytes >= lost.vault_bytes:
            found.append(f"loss: {lost}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch", default="", metavar="PYTHON")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    kinds: dict[str, tuple[str, Path | None]] = {"numpy, 2 ranks": (sys.executable, None)}
    if asked.torch:
        kinds["FSDP2 and DCP, torchrun, 2 gloo ranks"] = (asked.torch, FSDP)
    moves: dict[str, list[Moved]] = {name: [] for name in kinds}
    losses: list[Lost] = []
    for _ in range(asked.rounds):
        for name, (python, script) in kinds.items():
            with bench(python, script) as here:
                moves[name].append(move(here))
                print(name, moves[name][-1], file=sys.stderr)
        with bench(sys.executable, None) as here:
            losses.append(lose(here))
            print(losses[-1], file=sys.stderr)
    intro = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    text = f"{intro}\n\n{machine()} Rounds: {asked.rounds}.\n\n{table_of_moves(moves)}\n\n{table_of_losses(losses)}\n"
    print(text)
    if asked.write:
        torch = " --torch PYTHON" if asked.torch else ""
        write_section("recovery", f"python bench/recovery.py --rounds {asked.rounds}{torch} --write", text)
    faults = broken(moves, losses)
    print(*faults, sep="\n", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
