"""Partitions that heal: never two writers that count, whatever chance does (J05, J06).

Run: ``python bench/partitions.py [--first 0] [--seeds 10000] [--jobs 1] [--write]``; ``--write`` puts the table into docs/benchmarks.md.
Prints each seed that breaks a promise; exit code 1 when there is one, or when a planted fault is not found.

Failovers in the simulated world, by seed: a site is lost, or only cut off and computes on for 2 to 60 s; the witness, the other site or the
proxies are cut off as well, drivers die, calls come late, twice, or their answers are lost. Every third is played on to the failback. After
each event every promise is checked, first of all that never two writers count. And the protocol by which a majority decides, alone: two and
three controllers on both sides of partitions want the same epoch, while messages are late or lost and controllers freeze. The planted
faults are controllers that break the rules on purpose: the checks must find them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
from table import Table, machine, write_section

from bridgehead.app import wiring
from bridgehead.model import event as ev
from bridgehead.simulate import faults as ft
from bridgehead.testing import virtual_quorum
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.planted import asks_one, deaf, hasty
from bridgehead.testing.virtual_failover import TRAIN, lost_by, play

PLANTED = 200
"""Seeds that are played with each planted fault."""


class Played(msgspec.Struct, frozen=True):
    """What came of one seed: broken promises, and what it was about."""

    seed: int
    broken: tuple[str, ...]
    about: dict[str, int]


class Part(msgspec.Struct):
    """Sums over the seeds of one kind of play."""

    name: str
    seeds: int = 0
    took_s: float = 0.0
    broken: list[Played] = []
    about: Counter[str] = msgspec.field(default_factory=Counter)


def failover(seed: int) -> Played:
    """One failover, and sometimes its failback."""
    played = play(lost_by(seed), actions_of=wiring.actions, back=seed % 3 == 0)
    about = Counter([f"failovers {verdict_of(played.failover)}"])
    if played.failback is not None:
        about[f"failbacks {verdict_of(played.failback)}"] += 1
    about["partitions that healed"] += sum(isinstance(fault, ft.CutOff) for fault in played.lab.book.hit)
    about["sites lost"] += sum(isinstance(fault, ft.SiteLoss) for fault in played.lab.book.hit)
    about["other faults"] += sum(not isinstance(fault, ft.CutOff | ft.SiteLoss) for fault in played.lab.book.hit)
    stretches = played.lab.world.history[TRAIN]
    in_vain = any(one.uncounted_from is not None and (one.last or 0) >= one.uncounted_from for one in stretches)
    about["runs in which a writer computed on behind its fence, in vain"] += in_vain
    about["drivers"] += sum(isinstance(event, ev.DriverTook) for _, event in played.lab.happened)
    return Played(seed, tuple(f"{one.rule}: {one.text}" for one in played.violations), dict(about))


def quorum(seed: int) -> Played:
    """One partition of two or three controllers."""
    played = virtual_quorum.play(seed, controllers=2 + seed % 2)
    decided = {fence.epoch for voter in played.voters.values() for fence in voter.fences}
    return Played(seed, tuple(played.faults()), {"epochs decided": len(decided), "elections": len(played.told)})


def planted_world(seed: int) -> Played:
    """A failover that asks one voter."""
    played = play(lost_by(seed), actions_of=asks_one(wiring.actions), back=False)
    return Played(seed, tuple(one.rule for one in played.violations), {})


def planted_hasty(seed: int) -> Played:
    """Controllers for whom one voter is enough."""
    return Played(seed, tuple(virtual_quorum.play(seed, controllers=3, protocol=hasty).faults()), {})


def planted_deaf(seed: int) -> Played:
    """Controllers that do not read the others' ballots."""
    return Played(seed, tuple(virtual_quorum.play(seed, controllers=3, protocol=deaf).faults()), {})


def play_all(name: str, one: Callable[[int], Played], seeds: Iterable[int], *, jobs: int, quiet: bool = False) -> Part:
    """Play seeds on ``jobs`` processes; each that breaks a promise is printed at once, unless that is what it is for."""
    part, begun_s = Part(name), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for played in pool.imap_unordered(one, seeds, chunksize=20):
            part.seeds += 1
            part.about.update(played.about)
            if played.broken:
                part.broken.append(played)
            for text in played.broken if not quiet else ():
                print(f"{name}, seed {played.seed}: {text}", file=sys.stderr, flush=True)
    part.took_s = time.monotonic() - begun_s
    return part


def tables(parts: list[Part], planted: list[Part]) -> str:
    """Both tables."""
    made = Table("played", "seeds", "s", "seeds that broke a promise", "wanted")
    for part in parts:
        made.add(part.name, f"{part.seeds:,}", f"{part.took_s:.0f}", f"{len(part.broken)}", "0")
    about = Table("in them", "times")
    for part in parts:
        for what, count in sorted(part.about.items()):
            about.add(what, f"{count:,}")
    found = Table("planted fault", "seeds", "seeds in which it is found", "wanted")
    for part in planted:
        found.add(part.name, f"{part.seeds:,}", f"{len(part.broken):,}", "more than 0")
    return f"{made}\n\n{about}\n\n{found}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    seeds, few = range(asked.first, asked.first + asked.seeds), range(PLANTED)
    parts = [
        play_all("failovers in the simulated world", failover, seeds, jobs=asked.jobs),
        play_all("the protocol of the majority alone", quorum, seeds, jobs=asked.jobs),
    ]
    planted = [
        play_all("a failover fences at one voter", planted_world, few, jobs=asked.jobs, quiet=True),
        play_all("one voter is enough for a controller", planted_hasty, few, jobs=asked.jobs, quiet=True),
        play_all("controllers do not read each other's ballots", planted_deaf, few, jobs=asked.jobs, quiet=True),
    ]
    intro = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].strip()
    text = f"{intro}\n\n{machine()} Processes: {asked.jobs}.\n\n{tables(parts, planted)}\n"
    print(text)
    if asked.write:
        write_section("partitions", f"python bench/partitions.py --seeds {asked.seeds} --jobs {asked.jobs} --write", text)
    return 1 if any(part.broken for part in parts) or not all(part.broken for part in planted) else 0


if __name__ == "__main__":
    sys.exit(main())
